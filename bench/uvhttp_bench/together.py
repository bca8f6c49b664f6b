"""Owns: rounds of two A and two B, fresh processes under load at the same moment on the same CPU. The kernel gives it to each
of them for a few milliseconds and counts the time of each: what else the machine does, it does to all alike. So their CPU time
per request is compared far more exactly than that of runs one after another. Their rates and latencies cannot be: each has
what the others leave."""

import contextlib
import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from uvhttp_bench import gates, rounds, versus
from uvhttp_bench.exits import BenchError
from uvhttp_bench.measure import Loaded, Plan, Run
from uvhttp_bench.model.record import Configuration, Record
from uvhttp_bench.scenarios.catalog import REGRESSION, Scenario
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Round, Verdict
from uvhttp_bench.targets.base import Workspace, serve

SECONDS = 0.8
WARM_UP_SECONDS = 0.1
ROUNDS_LEAST, ROUNDS_MOST = REGRESSION, 40
STARVED_MOST = 3  # rounds one after another in which somebody did not get the CPU; they are made again
LOOK_EVERY = 5  # rounds; a look after each would stop too often where the noise happens to look small


@dataclass(frozen=True)
class Measured:
    """CPU time per request in microseconds, and how the machine was."""

    round: Round
    restless: bool
    configuration: Configuration  # of the first server

    @property
    def median(self) -> float:
        return statistics.median((self.round.a1, self.round.a2, self.round.b1, self.round.b2))


class Starved(BenchError):
    """A server or its load did not get the CPU once: there is no figure, and nothing is wrong with the server."""


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _load_all(runs: Sequence[Run], seconds: float) -> list[Loaded]:
    """An interrupt waits until the tools have ended by themselves, which is soon."""
    with ThreadPoolExecutor(len(runs)) as threads:
        return [begun.result() for begun in [threads.submit(run.load, seconds) for run in runs]]


def _cpu(record: Record) -> float:
    errors = record.results.errors.total
    if not record.results.total_requests and not errors:
        raise Starved(
            f"{record.test_scenario.name}, {record.test_scenario.target}: no response in a whole round: other load?"
        )
    found = rounds.value(record, verdict.CPU)
    if not found:
        why = "; ".join(check.detail for check in record.checks if not check.passed and check.takes == "all")
        raise BenchError(f"{record.test_scenario.name}, {record.test_scenario.target}: a run measured nothing: {why}")
    return found


def _restless(loaded: Sequence[Loaded], generators_seconds: float) -> bool:
    first = loaded[0].usage
    servers = sum(one.usage.cpu_seconds for one in loaded)
    others = first.processes_seconds - servers - generators_seconds
    return not gates.machine(others, first.steal_seconds, first.capacity_seconds).passed


def measure_round(number: int, plans: Mapping[str, Plan], scenario: Scenario, made: Workspace, seconds: float) -> Measured:
    """`plans` of "a" and "b"; `number` counts from 0, and says in which order they are started."""
    order = rounds.ORDERS[number % len(rounds.ORDERS)]
    with contextlib.ExitStack() as stack:
        runs = []
        for place, which in enumerate(order):
            plan = plans[which]
            running = stack.enter_context(serve(plan.target, scenario, made, plan.cpus.server))
            runs.append(stack.enter_context(Run(plan, scenario, running, made.for_load(place))))
        _load_all(runs, WARM_UP_SECONDS)
        before = _children_seconds()
        loaded = _load_all(runs, seconds)
        generators = _children_seconds() - before
        records = [
            versus.of_target(run.record(one, number + 1, number + 1), plans[which].target)
            for which, run, one in zip(order, runs, loaded, strict=True)
        ]
    figures: dict[str, list[float]] = {"a": [], "b": []}
    for which, record in zip(order, records, strict=True):
        figures[which].append(_cpu(record))
    (a1, a2), (b1, b2) = figures["a"], figures["b"]
    return Measured(Round(a1, b1, b2, a2), _restless(loaded, generators), records[0].configuration)


def is_look(count: int) -> bool:
    return count >= ROUNDS_LEAST and (count - ROUNDS_LEAST) % LOOK_EVERY == 0


def measure_until_precise(
    one: Callable[[int], Measured], judge: Callable[[Sequence[Round]], Verdict], most: int
) -> list[Measured]:
    """As many rounds as the question needs. When to stop is decided by the width of the interval and by the noise, which do
    not know where the effect lies; so the chance of a false alarm stays what it is."""
    done: list[Measured] = []
    starved = 0
    while len(done) < most:
        try:
            measured = one(len(done))
        except Starved:
            starved += 1
            if starved > STARVED_MOST:
                raise
            continue
        done.append(replace(measured, restless=measured.restless or starved > 0))
        starved = 0
        if is_look(len(done)) and judge([measured.round for measured in done]).precise:
            break
    return done
