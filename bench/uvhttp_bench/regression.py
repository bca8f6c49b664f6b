"""Owns: one session of runs against a kept one of the same environment: which scenarios can be compared, and what the figures
say. The sessions are of different days, which no interval covers: a regression found here is confirmed by `compare`."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from uvhttp_bench import repository
from uvhttp_bench.exits import FINE, REGRESSION, MissingError
from uvhttp_bench.exits import UNSTABLE as UNDECIDED
from uvhttp_bench.model import collection
from uvhttp_bench.model.codec import to_json
from uvhttp_bench.model.record import UNSTABLE, Environment, Record
from uvhttp_bench.rounds import NotJudged, value
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.descriptive import summarize
from uvhttp_bench.stats.unpaired import welch
from uvhttp_bench.stats.verdict import METRICS, Metric, Verdict

KIND = "regression"
REPEATS_MIN = 3  # of each session; the fewest that the standard knows
MORE_REPEATS = "repeat it more often (`baseline check --run` makes 10)"


def baseline_of(directory: Path, here: Callable[[Environment], Environment]) -> Path:
    """The newest baseline that was measured in this environment. `here` is asked for what is to be compared with each."""
    kept = sorted(directory.glob("*/baseline.json"), reverse=True)
    if not kept:
        raise MissingError(f"{directory}: no baseline is kept: uvhttp-bench run, then uvhttp-bench baseline set")
    others: list[Environment] = []
    for path in kept:
        found = collection.read(path)[0].environment
        if found.hash == here(found).hash:
            return path
        others.append(found)
    environment = here(others[0])
    raise MissingError(
        f"{directory}: no baseline of this environment ({environment.hash}); the newest, {kept[0].parent.name}, has "
        f"{difference(others[0], environment)}: measure one here, and keep it with uvhttp-bench baseline set"
    )


def difference(there: Environment, here: Environment) -> str:
    names = [field.name for field in fields(Environment) if field.name not in ("hash", "tools", "swap_mb")]
    apart = [
        f"{name} {getattr(there, name)!r} instead of {getattr(here, name)!r}"
        for name in names
        if getattr(there, name) != getattr(here, name)
    ]
    return ", ".join(apart) or f"another hash ({there.hash})"


def shape(record: Record) -> dict[str, object]:
    """What has to be equal for figures of two sessions to be compared."""
    run, configuration = record.test_scenario, record.configuration
    return {
        "tool": run.tool,
        "threads": run.threads,
        "connections": run.connections,
        "duration": run.duration,
        "loop": run.loop,
        "rate": run.rate_per_second,
        "server CPUs": run.server_cpus,
        "generator CPUs": run.generator_cpus,
        "engine": configuration.engine,
        "I/O threads": configuration.io_threads,
        "mimalloc": configuration.build_with_mimalloc,
        "websocket": configuration.build_with_websocket,
    }


@dataclass(frozen=True)
class Judgement:
    verdicts: tuple[Verdict, ...]  # A is the baseline
    not_judged: tuple[NotJudged, ...]
    unstable: tuple[NotJudged, ...]  # judged as inconclusive, and why


def _groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.test_scenario.name, []).append(record)
    return found


def judge_figure(scenario: str, metric: Metric, old: Sequence[float], new: Sequence[float]) -> Verdict:
    """Before Holm's correction. The noise is what the spread of the repeats alone lets the ratio move."""
    shift = welch(old, new)
    noise = math.expm1(shift.reach)
    made = Verdict(
        scenario=scenario,
        metric=metric.name,
        verdict=verdict.INCONCLUSIVE,
        grade="",
        ratio=math.exp(shift.effect.middle),
        ratio_low=math.exp(shift.effect.low),
        ratio_high=math.exp(shift.effect.high),
        p=shift.p,
        p_holm=shift.p,
        noise=noise,
        tolerance=metric.warn,
        threshold=max(metric.warn, noise),
        rounds=len(old) + len(new),
        median_a=statistics.median(old),
        median_b=statistics.median(new),
    )
    return verdict.decide(metric, made)


def _apart(old: Sequence[Record], new: Sequence[Record]) -> str:
    was, now = shape(old[0]), shape(new[0])
    return ", ".join(f"{name} {now[name]} instead of {was[name]}" for name in was if was[name] != now[name])


def _lost(records: Sequence[Record], metric: Metric) -> str:
    """Why a figure is not there."""
    group = "throughput" if metric.figure == "latency" else metric.figure
    for record in records:
        for check in record.checks:
            if not check.passed and not check.unstable and check.takes in ("all", group):
                return f"{check.name}: {check.detail}"
    return "not measured" if metric.name == verdict.CPU.name else "too few samples"


def _noisy(old: Sequence[Record], new: Sequence[Record], figures: Sequence[Sequence[float]]) -> str:
    for name, records in (("the baseline", old), ("this run", new)):
        if any(record.status == UNSTABLE for record in records):
            return f"{name} was measured on a noisy machine"
    for name, values in zip(("the baseline", "this run"), figures, strict=True):
        summary = summarize(values)
        if not summary.steady:
            return f"the repeats of {name} differ by {summary.variation or 0:.0%}"
    return ""


def judge(baseline: Sequence[Record], records: Sequence[Record], metrics: Sequence[Metric] = METRICS) -> Judgement:
    """Of all scenarios of `records`; Holm's correction is over everything that is judged."""
    verdicts: list[Verdict] = []
    left: list[NotJudged] = []
    noisy: dict[tuple[str, str], str] = {}
    kept = _groups(baseline)
    for scenario, new in _groups(records).items():
        old = kept.get(scenario, [])
        apart = _apart(old, new) if old else "the baseline does not have it"
        if apart:
            left.append(NotJudged(scenario, "", apart))
            continue
        for metric in metrics:
            figures = [[found for record in side if (found := value(record, metric))] for side in (old, new)]
            lost = [_lost(side, metric) for side, values in zip((old, new), figures, strict=True) if len(values) < len(side)]
            few = min(len(values) for values in figures) < REPEATS_MIN
            if lost or few:
                why = (
                    lost[0] if lost else f"{len(old)} and {len(new)} runs, {REPEATS_MIN} of each are needed: {MORE_REPEATS}"
                )
                left.append(NotJudged(scenario, metric.name, why))
                continue
            why = _noisy(old, new, figures)
            if why:
                noisy[scenario, metric.name] = why
            verdicts.append(judge_figure(scenario, metric, *figures))
    corrected = [
        replace(v, verdict=verdict.INCONCLUSIVE, grade="") if (v.scenario, v.metric) in noisy else v
        for v in verdict.correct(verdicts)
    ]
    return Judgement(tuple(corrected), tuple(left), tuple(NotJudged(*key, why) for key, why in noisy.items()))


def exit_code(found: Judgement, fail_on: str) -> int:
    regressed = [v for v in found.verdicts if v.verdict == verdict.REGRESSED]
    if any(v.grade == "fail" or fail_on == "warn" for v in regressed):
        return REGRESSION
    undecided = not found.verdicts or any(v.verdict == verdict.INCONCLUSIVE for v in found.verdicts)
    return UNDECIDED if undecided else FINE


def _shown(path: Path) -> str:
    return str(path.relative_to(repository.ROOT)) if path.is_relative_to(repository.ROOT) else path.name


def document(
    path: Path, baseline: Sequence[Record], records: Sequence[Record], found: Judgement, code: int
) -> dict[str, Any]:
    """What regression.json says beyond the records of the run (docs/guide/benchmarking.md)."""
    first = baseline[0]
    return {
        "timestamp": records[0].timestamp,
        "environment": records[0].environment.hash,
        "baseline": {
            "file": _shown(path),
            "session": first.session,
            "revision": first.configuration.revision,
            "timestamp": first.timestamp,
        },
        "exit_code": code,
        **to_json(found),
    }
