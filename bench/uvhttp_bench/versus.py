"""Owns: servers against each other: the same scenario in turn, a fresh process each, every record kept; what its rounds say
together."""

import contextlib
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uvhttp_bench import measure
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import Load
from uvhttp_bench.measure import Cpus, Plan, Skip
from uvhttp_bench.model import record as records
from uvhttp_bench.model.codec import write_text
from uvhttp_bench.model.database import Database
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import VALID, VOID, Configuration, Record, worst
from uvhttp_bench.processes import Processes
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats.paired import Interval, bootstrap_median, log_ratios
from uvhttp_bench.targets.base import Target, Workspace, serve, workspace
from uvhttp_bench.targets.uvhttp import Uvhttp

KIND = "peers"
# These are about our own build, which the server of others does not have.
OUR_CHECKS = ("build", "log")


@dataclass(frozen=True)
class Options:
    rounds: int
    seconds: float
    cpus: Cpus
    bandwidth_mb: float
    session: str
    results: Path
    rates_percent: tuple[float, ...] = ()  # of the capacity found before


@dataclass(frozen=True)
class Standing:
    """What the rounds of one server say about one scenario. None: not measured, or it does not hold."""

    scenario: str
    target: str
    version: str
    rounds: int
    status: str
    cpu_us: float | None
    cpu_user_us: float | None
    cpu_system_us: float | None
    cpu_ratio: Interval | None  # to the first server, taken within the rounds
    requests_per_second: float | None
    throughput_holds: bool  # false: the load generator was the bottleneck, or the machine was restless
    latency_avg_ms: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    memory_idle_mb: float | None
    memory_busy_mb: float | None
    records: tuple[str, ...]
    reasons: tuple[str, ...]
    rate_percent: float = 0.0  # of the capacity; 0: closed loop
    note: str = ""


class Versus:
    def __init__(
        self, options: Options, load_for: Callable[[Scenario], Load], store: Database, say: Callable[[str], None]
    ) -> None:
        self.options, self._load_for, self._store, self._say = options, load_for, store, say
        self.kept: list[Record] = []
        self.left_out: list[str] = []
        self._idle_mb: dict[str, float] = {}
        self._failed: set[tuple[str, str]] = set()

    def run(self, scenarios: Sequence[Scenario], targets: Sequence[Target]) -> None:
        """What is kept when this is interrupted stays kept."""
        with workspace() as made:
            for scenario in scenarios:
                able = [target for target in targets if target.serves(scenario)]
                self._rounds(scenario, able, made)
                for percent in self.options.rates_percent:
                    self._at_rate(scenario, able, made, percent)

    def _rounds(self, scenario: Scenario, able: Sequence[Target], made: Workspace) -> None:
        for number in range(1, self.options.rounds + 1):
            for target in able if number % 2 else able[::-1]:
                if (scenario.name, target.name) not in self._failed:
                    self._once(scenario, target, self._load_for(scenario), made, number, self.options.rounds)

    def _at_rate(self, scenario: Scenario, able: Sequence[Target], made: Workspace, percent: float) -> None:
        for target in able:
            found = [r for r in self._of(scenario, target) if r.test_scenario.loop == "closed"]
            if scenario.scheme in ("http", "https") and found and (scenario.name, target.name) not in self._failed:
                capacity = statistics.median(r.results.requests_per_second for r in found)
                load = AtRate(capacity * percent / 100)
                if capacity and load.speaks(scenario.scheme):
                    self._once(scenario, target, load, made, 1, 1)

    def _of(self, scenario: Scenario, target: Target) -> list[Record]:
        runs = [(r, r.test_scenario) for r in self.kept]
        return [r for r, run in runs if run.name == scenario.name and run.target == target.name]

    def _plan(self, target: Target, load: Load) -> Plan:
        options, warm_up = self.options, getattr(target, "warmup_seconds", measure.WARM_UP_SECONDS)
        return measure.plan_for(target, load, options.cpus, options.bandwidth_mb, KIND, options.session, warm_up)

    def _once(self, scenario: Scenario, target: Target, load: Load, made: Workspace, number: int, rounds: int) -> None:
        rate = load.per_second if isinstance(load, AtRate) else 0.0
        what = f"{scenario.name} {target.name}" + (f" at {rate:,.0f}/s" if rate else f" {number}/{rounds}")
        try:
            if target.name not in self._idle_mb:
                self._idle_mb[target.name] = self._idle(scenario, target, made)
            record, raw = measure.run_once(self._plan(target, load), scenario, made, self.options.seconds, number, rounds)
        except (BenchError, Skip) as error:
            self._say(f"{what}: left out: {error}")
            self.left_out.append(f"{scenario.name}: {target.name}: {error}")
            self._failed.add((scenario.name, target.name))
            return
        record = self._store.add(adapted(record, target, self._idle_mb[target.name]))
        name = f"{scenario.name}_{target.name}" + (f"_rate{rate:.0f}" if rate else "") + f"_{number}"
        write_text(self.options.results / "peers" / f"{name}.txt", raw)
        records.write(self.options.results / "peers" / f"{name}.json", record)
        self.kept.append(record)
        cpu = record.resources.cpu_us_per_request
        figures = f"{record.results.requests_per_second:,.0f} req/s" + (f", {cpu:.2f} us of CPU a request" if cpu else "")
        self._say(f"{what}: {figures}" + ("" if record.status == VALID else f", {record.status}"))

    def _idle(self, scenario: Scenario, target: Target, made: Workspace) -> float:
        """After its start, before anything is asked of it."""
        with serve(target, scenario, made, self.options.cpus.server) as running:
            return Processes(running.pid).memory_mb()

    def standings(self, targets: Sequence[Target]) -> list[Standing]:
        """By scenario, closed loop before the rates, in the order of the list of servers."""
        found: list[Standing] = []
        groups: dict[tuple[str, float], list[Record]] = {}
        for record in self.kept:
            groups.setdefault((record.test_scenario.name, percent_of_capacity(record, self.kept)), []).append(record)
        for (_, percent), kept in groups.items():
            first = [r for r in kept if r.test_scenario.target == targets[0].name]
            for target in targets:
                own = [r for r in kept if r.test_scenario.target == target.name]
                if own:
                    found.append(standing(own, first, target.name, percent))
        return found


def percent_of_capacity(record: Record, session: Sequence[Record]) -> float:
    """Which of the rates an open loop was made at, found again from the capacity in the same session; 0: a closed loop."""
    run = record.test_scenario
    if run.loop == "closed":
        return 0.0
    same = [(r.test_scenario, r.results.requests_per_second) for r in session]
    closed = [rate for other, rate in same if (other.name, other.target, other.loop) == (run.name, run.target, "closed")]
    return float(round(100 * run.rate_per_second / statistics.median(closed))) if closed else 0.0


def adapted(record: Record, target: Target, idle_mb: float) -> Record:
    """What a record of another server does not say. Its memory at the start is from before the first
    request, so that what a server keeps for later shows."""
    return of_target(replace(record, resources=replace(record.resources, memory_start_mb=idle_mb)), target)


def of_target(record: Record, target: Target) -> Record:
    """Of the server of others: without the checks of our own build, with what a reader has to know about it."""
    if not isinstance(target, Uvhttp):
        version = target.build_info()
        checks = tuple(check for check in record.checks if check.name not in OUR_CHECKS)
        other = Configuration(False, False, False, "", version=version, build_info=version)
        record = replace(record, checks=checks, configuration=other, notes=(*record.notes, getattr(target, "note", "")))
    return replace(record, notes=tuple(note for note in record.notes if note))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(own: Sequence[Record], first: Sequence[Record]) -> Interval | None:
    """Of the CPU time per request, within each round."""
    yardstick = {r.test_scenario.repeat: r.resources.cpu_us_per_request for r in first if r.holds("cpu")}
    pairs = [
        (r.resources.cpu_us_per_request, yardstick[r.test_scenario.repeat])
        for r in own
        if r.holds("cpu") and yardstick.get(r.test_scenario.repeat)
    ]
    known = [(a, b) for a, b in pairs if a and b]
    if not known:
        return None
    interval = bootstrap_median(log_ratios([a for a, _ in known], [b for _, b in known]))
    return Interval(math.exp(interval.low), math.exp(interval.middle), math.exp(interval.high))


def standing(own: Sequence[Record], first: Sequence[Record], target: str, percent: float = 0.0) -> Standing:
    cpu_good = [r.resources for r in own if r.holds("cpu")]
    good = [r for r in own if r.holds("throughput")]
    # A generator that is the bottleneck gives a rate that the server could have gone beyond: still worth saying.
    answered = [r for r in own if r.holds("cpu")]
    histogram = Histogram.merge(r.results.histogram for r in good)
    mean_us = histogram.mean_us()
    return Standing(
        scenario=own[0].test_scenario.name,
        target=target,
        version=own[0].configuration.version,
        rounds=len(own),
        status=worst(own),
        cpu_us=_median([r.cpu_us_per_request for r in cpu_good]),
        cpu_user_us=_median([r.cpu_user_us_per_request for r in cpu_good]),
        cpu_system_us=_median([r.cpu_system_us_per_request for r in cpu_good]),
        cpu_ratio=ratio(own, first),
        requests_per_second=_median([r.results.requests_per_second for r in answered]),
        throughput_holds=len(good) == len(own) and worst(own) != VOID,
        latency_avg_ms=None if mean_us is None else mean_us / 1000,
        latency_p50_ms=histogram.percentile_ms(50),
        latency_p99_ms=histogram.percentile_ms(99),
        memory_idle_mb=_median([r.memory_start_mb for r in cpu_good]),
        memory_busy_mb=max((r.memory_usage_mb for r in cpu_good if r.memory_usage_mb), default=None),
        records=tuple(r.test_id for r in own),
        reasons=tuple(dict.fromkeys(f"{c.name}: {c.detail}" for r in own for c in r.checks if not c.passed)),
        rate_percent=percent,
        note="; ".join(own[0].notes),
    )


def available(targets: Sequence[Target], say: Callable[[str], None]) -> tuple[list[Target], list[str]]:
    """Those that are installed, and a line for each of the others."""
    lines = [line for line in (target.missing() for target in targets) if line]
    for line in lines:
        with contextlib.suppress(BrokenPipeError):
            say(line)
    return [target for target in targets if not target.missing()], lines
