"""Owns: servers against each other: the same scenario in turn, a fresh process each, every record kept; what its rounds say
together."""

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uvhttp_bench import measure, network, session, slices, standard
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import Load
from uvhttp_bench.loads.wrk import Wrk
from uvhttp_bench.measure import Cpus, Plan, Run, Skip
from uvhttp_bench.model import record as records
from uvhttp_bench.model.codec import write_text
from uvhttp_bench.model.database import Database
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import VOID, Configuration, Record, Resources, worst
from uvhttp_bench.processes import Processes
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import ratio as ratios
from uvhttp_bench.stats.paired import Interval, log_ratios
from uvhttp_bench.targets.base import Target, Workspace, serve, workspace
from uvhttp_bench.targets.uvhttp import Uvhttp

KIND = "peers"
NO_CAPACITY = "its capacity is not known, because the load generator was the bottleneck of every round"
# These are about our own build, which the server of others does not have.
OUR_CHECKS = ("build", "log", standard.CONFIGURATION)


@dataclass(frozen=True)
class Options:
    rounds: int  # at most; fewer where every ratio is known well enough
    seconds: float
    cpus: Cpus
    bandwidth_mb: float
    session: str
    results: Path
    rates_percent: tuple[float, ...] = ()  # of the capacity found before
    deadline: float = math.inf  # time.monotonic(): no round starts later


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
    cpu_ratio: Interval | None  # to the first server, computed within the rounds
    requests_per_second: float | None
    throughput_holds: bool  # false: the load generator was the bottleneck, or the machine was noisy
    latency_avg_ms: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    memory_idle_mb: float | None
    memory_busy_mb: float | None
    records: tuple[str, ...]
    reasons: tuple[str, ...]
    rate_percent: float = 0.0  # of the capacity; 0: closed loop
    note: str = ""
    cpu_finding: str = ""  # of the ratio: less, tie, more; empty: there is none
    both_ratio: Interval | None = None  # as cpu_ratio, of the CPU time of server and load generator together


class Versus:
    def __init__(
        self, options: Options, load_for: Callable[[Scenario], Load], store: Database, say: Callable[[str], None]
    ) -> None:
        self.options, self._load_for, self._store, self._say = options, load_for, store, say
        self.kept: list[Record] = []
        self.left_out: list[str] = []
        self._idle_mb: dict[str, float] = {}
        self._failed: set[tuple[str, str]] = set()
        self._said_over = False

    def run(self, scenarios: Sequence[Scenario], targets: Sequence[Target]) -> None:
        """What is kept when this is interrupted stays kept. A round of every scenario comes before the next round of any: a
        budget that ends leaves all of them equally well known."""
        able = {scenario.name: [t for t in targets if t.serves(scenario)] for scenario in scenarios}
        least = min(ratios.ROUNDS_MIN, self.options.rounds)
        with workspace() as made:
            for number in range(1, self.options.rounds + 1):
                for scenario in scenarios:
                    wanted = able[scenario.name] if number <= least else self._imprecise(scenario, able[scenario.name])
                    if wanted and not self._time_is_up():
                        self._round(scenario, wanted, made, number)
                if number == least:
                    for scenario in scenarios:
                        for percent in self.options.rates_percent:
                            self._at_rate(scenario, able[scenario.name], made, percent)

    def _time_is_up(self) -> bool:
        over = time.monotonic() >= self.options.deadline
        if over and not self._said_over:
            self._say("the time budget has ended: no further round")
            self._said_over = True
        return over

    def _imprecise(self, scenario: Scenario, able: Sequence[Target]) -> list[Target]:
        """The first server and those whose ratio to it needs more rounds; empty when none does, or it has failed."""
        if not able or (scenario.name, able[0].name) in self._failed:
            return []
        first = self._of(scenario, able[0])
        wanted = [
            target
            for target in able[1:]
            if (scenario.name, target.name) not in self._failed
            and not ratios.narrow(ratio(self._of(scenario, target), first))
        ]
        return [able[0], *wanted] if wanted else []

    def _round(self, scenario: Scenario, able: Sequence[Target], made: Workspace, number: int) -> None:
        """Fresh processes, all alive, loaded in turn for a slice at a time; every other time in the opposite order."""
        self._conditions(scenario)
        load = self._load_for(scenario)
        count = slices.count(self.options.seconds, scenario.scheme, load.name != Wrk.name)
        found: dict[str, list[tuple[Record, str]]] = {}
        with contextlib.ExitStack() as stack:
            alive: list[tuple[Target, Run]] = []
            chosen = [target for target in able if (scenario.name, target.name) not in self._failed]
            for place, target in enumerate(chosen if number % 2 else chosen[::-1]):
                with self._leaving_out(scenario, target, f"{number}/{self.options.rounds}"):
                    alive.append((target, self._start(scenario, target, load, made, place, stack)))
            for order in range(count):
                for target, run in alive if order % 2 == 0 else alive[::-1]:
                    if (scenario.name, target.name) in self._failed:
                        continue
                    with self._leaving_out(scenario, target, f"{number}/{self.options.rounds}"):
                        loaded = run.load(self.options.seconds / count)
                        record = run.record(loaded, number, self.options.rounds)
                        found.setdefault(target.name, []).append((record, loaded.outcome.raw))
        for target in chosen:
            if (scenario.name, target.name) not in self._failed:
                record = slices.combined([record for record, _ in found[target.name]])
                raw = "\n".join(text for _, text in found[target.name])
                self._keep(record, raw, scenario, target, f"{number}/{self.options.rounds}", f"{number}")

    def _start(
        self, scenario: Scenario, target: Target, load: Load, made: Workspace, place: int, stack: contextlib.ExitStack
    ) -> Run:
        plan = self._plan(target, load)
        running = stack.enter_context(serve(target, scenario, made, plan.cpus.server))
        with measure.blamed(target.name, running):
            self._idle_mb.setdefault(target.name, Processes(running.pid).memory_mb())
        run = stack.enter_context(Run(plan, scenario, running, made.for_load(place)))
        run.warm_up()
        return run

    @contextlib.contextmanager
    def _leaving_out(self, scenario: Scenario, target: Target, what: str) -> Iterator[None]:
        """A server that fails is not measured again in this scenario, and the others continue without it."""
        try:
            yield
        except (BenchError, Skip) as error:
            self._say(f"{scenario.name} {target.name} {what}: left out: {error}")
            self.left_out.append(f"{scenario.name}: {target.name}: {error}")
            self._failed.add((scenario.name, target.name))

    @staticmethod
    def _conditions(scenario: Scenario) -> None:
        if scenario.congestion_control:
            network.use(scenario.congestion_control)

    def _at_rate(self, scenario: Scenario, able: Sequence[Target], made: Workspace, percent: float) -> None:
        self._conditions(scenario)
        for target in able:
            if self._time_is_up():
                return
            found = [r for r in self._of(scenario, target) if r.test_scenario.loop == "closed"]
            if scenario.scheme in ("http", "https") and found and (scenario.name, target.name) not in self._failed:
                most = capacity(found)
                if most is None:
                    self._leave_out(f"{scenario.name}: {target.name} at {percent:g} % of its capacity", NO_CAPACITY)
                    continue
                load = AtRate(most * percent / 100)
                if load.speaks(scenario.scheme):
                    what = f"at {load.per_second:,.0f}/s"
                    with self._leaving_out(scenario, target, what):
                        plan = self._plan(target, load)
                        record, raw = measure.run_once(plan, scenario, made, self.options.seconds, 1, 1)
                        self._keep(record, raw, scenario, target, what, f"rate{load.per_second:.0f}_1")

    def _leave_out(self, what: str, why: str) -> None:
        self._say(f"{what}: left out: {why}")
        self.left_out.append(f"{what}: {why}")

    def _of(self, scenario: Scenario, target: Target) -> list[Record]:
        runs = [(r, r.test_scenario) for r in self.kept]
        return [r for r, run in runs if run.name == scenario.name and run.target == target.name]

    def _plan(self, target: Target, load: Load) -> Plan:
        options, warm_up = self.options, getattr(target, "warmup_seconds", measure.WARM_UP_SECONDS)
        return measure.plan_for(target, load, options.cpus, options.bandwidth_mb, KIND, options.session, warm_up)

    def _keep(self, record: Record, raw: str, scenario: Scenario, target: Target, what: str, ending: str) -> None:
        record = self._store.add(adapted(record, target, self._idle_mb[target.name]))
        name = f"{scenario.name}_{target.name}_{ending}"
        write_text(self.options.results / "peers" / f"{name}.txt", raw)
        records.write(self.options.results / "peers" / f"{name}.json", record)
        self.kept.append(record)
        self._say(f"{scenario.name} {target.name} {what}: {session.line(record)}")

    def standings(self, targets: Sequence[Target]) -> list[Standing]:
        """By scenario, closed loop before the rates, in the order of the list of servers."""
        found: list[Standing] = []
        groups: dict[tuple[str, float], list[Record]] = {}
        for record in self.kept:
            percent = percent_of_capacity(record, self.kept)
            if percent is not None:
                groups.setdefault((record.test_scenario.name, percent), []).append(record)
        for (_, percent), kept in groups.items():
            first = [r for r in kept if r.test_scenario.target == targets[0].name]
            for target in targets:
                own = [r for r in kept if r.test_scenario.target == target.name]
                if own:
                    found.append(standing(own, first, target.name, percent))
        return found


def capacity(closed: Sequence[Record]) -> float | None:
    """The rate that a server can do, of its closed loops; None where the load generator has set it, or it is not known."""
    rates = [r.results.requests_per_second for r in closed if r.holds("throughput")]
    return (statistics.median(rates) if rates else 0.0) or None


def percent_of_capacity(record: Record, session: Sequence[Record]) -> float | None:
    """Which of the rates an open loop was made at, found again from the capacity in the same session; 0: a closed loop. None:
    the session has found no capacity. The rates are made after the first rounds, so later ones do not count."""
    run = record.test_scenario
    if run.loop == "closed":
        return 0.0
    same = [r for r in session if (r.test_scenario.name, r.test_scenario.target) == (run.name, run.target)]
    early = [r for r in same if r.test_scenario.loop == "closed" and r.test_scenario.repeat <= ratios.ROUNDS_MIN]
    most = capacity(early)
    return None if most is None else float(round(100 * run.rate_per_second / most))


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


def _of_server(resources: Resources) -> float | None:
    return resources.cpu_us_per_request


def _of_both(resources: Resources) -> float | None:
    """Of server and load generator. The kernel sends a part of a large body when the client's acknowledgements come, in the
    client's time: how large a part is depends on the server, and the sum does not."""
    server, generator = resources.cpu_us_per_request, resources.generator_cpu_us_per_request
    return None if server is None or generator is None else server + generator


def ratio(
    own: Sequence[Record], first: Sequence[Record], cpu: Callable[[Resources], float | None] = _of_server
) -> Interval | None:
    """Of the CPU time per request, within each round. None of the yardstick itself, and of a single round."""
    if not own or not first or own[0].test_scenario.target == first[0].test_scenario.target:
        return None
    yardstick = {r.test_scenario.repeat: cpu(r.resources) for r in first if r.holds("cpu")}
    pairs = [
        (cpu(r.resources), yardstick[r.test_scenario.repeat])
        for r in own
        if r.holds("cpu") and yardstick.get(r.test_scenario.repeat)
    ]
    known = [(a, b) for a, b in pairs if a and b]
    return ratios.interval_of(log_ratios([a for a, _ in known], [b for _, b in known]))


def standing(own: Sequence[Record], first: Sequence[Record], target: str, percent: float = 0.0) -> Standing:
    cpu_good = [r.resources for r in own if r.holds("cpu")]
    good = [r for r in own if r.holds("throughput")]
    # A generator that is the bottleneck gives a rate that the server could have gone beyond: still worth saying.
    responded = [r for r in own if r.holds("cpu")]
    histogram = Histogram.merge(r.results.histogram for r in good)
    mean_us = histogram.mean_us()
    cpu_ratio = ratio(own, first)
    return Standing(
        scenario=own[0].test_scenario.name,
        target=target,
        version=own[0].configuration.version,
        rounds=len(own),
        status=worst(own),
        cpu_us=_median([r.cpu_us_per_request for r in cpu_good]),
        cpu_user_us=_median([r.cpu_user_us_per_request for r in cpu_good]),
        cpu_system_us=_median([r.cpu_system_us_per_request for r in cpu_good]),
        cpu_ratio=cpu_ratio,
        requests_per_second=_median([r.results.requests_per_second for r in responded]),
        throughput_holds=len(good) == len(own) and worst(own) != VOID,
        latency_avg_ms=None if mean_us is None else mean_us / 1000,
        latency_p50_ms=histogram.percentile_ms(50),
        latency_p99_ms=histogram.percentile_ms(99),
        memory_idle_mb=_median([r.memory_start_mb for r in cpu_good]),
        memory_busy_mb=max((r.memory_usage_mb for r in cpu_good if r.memory_usage_mb), default=None),
        records=tuple(r.test_id for r in own),
        reasons=tuple(dict.fromkeys(f"{c.name}: {c.detail}" for r in own for c in r.checks if not c.passed and c.takes)),
        rate_percent=percent,
        note="; ".join(own[0].notes),
        cpu_finding=ratios.finding(cpu_ratio) if cpu_ratio else "",
        both_ratio=ratio(own, first, _of_both),
    )


def available(targets: Sequence[Target], say: Callable[[str], None]) -> tuple[list[Target], list[str]]:
    """Those that are installed, and a line for each of the others."""
    lines = [line for line in (target.missing() for target in targets) if line]
    for line in lines:
        with contextlib.suppress(BrokenPipeError):
            say(line)
    return [target for target in targets if not target.missing()], lines
