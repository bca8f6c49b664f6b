"""Owns: the table of `baseline check`."""

from collections.abc import Sequence

from uvhttp_bench.model.record import Record
from uvhttp_bench.output import tables
from uvhttp_bench.regression import Judgement
from uvhttp_bench.rounds import NotJudged
from uvhttp_bench.stats import verdict

NAMES_MAX = 6  # of scenarios in a line
HEADS = (
    "scenario", "figure", "baseline", "now", "now/baseline", "95 % interval", "p (Holm)", "noise %", "runs", "verdict",
)  # fmt: skip


def rows(found: Judgement) -> list[tuple[str, ...]]:
    n = tables.number
    return [
        (
            v.scenario, v.metric, n(v.median_a), n(v.median_b), n(v.ratio, 4), f"{v.ratio_low:.4f}..{v.ratio_high:.4f}",
            n(v.p_holm, 4), n(100 * v.noise, 1), str(v.rounds), f"{v.verdict} ({v.grade})" if v.grade else v.verdict,
        )
        for v in found.verdicts
    ]  # fmt: skip


def _lines(items: Sequence[NotJudged], words: str) -> list[str]:
    """One for each check that failed, as it says first, with the scenarios that it concerns."""
    said: dict[str, str] = {}
    concerned: dict[str, list[str]] = {}
    for item in items:
        key = item.why.partition(": ")[0]
        said.setdefault(key, item.why)
        names = concerned.setdefault(key, [])
        if item.scenario not in names:
            names.append(item.scenario)

    def some(names: list[str]) -> str:
        more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
        return ", ".join(names[:NAMES_MAX]) + more

    return [f"{words}: {said[key]} ({some(names)})" for key, names in concerned.items()]


def notes(found: Judgement, baseline: Record) -> list[str]:
    regressed = list(dict.fromkeys(v.scenario for v in found.verdicts if v.verdict == verdict.REGRESSED))
    lines = [*_lines(found.not_judged, "not judged"), *_lines(found.unstable, "inconclusive")]
    if regressed:
        options = " ".join(f"--scenario {name}" for name in regressed)
        revision = baseline.configuration.revision[:12] or "REVISION"
        lines.append(f"the days differ too; to be sure: uvhttp-bench compare {revision} . {options}")
        lines.append(f"to find the commit: uvhttp-bench bisect {revision} HEAD --scenario {regressed[0]}")
    return lines
