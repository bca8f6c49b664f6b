"""Owns: whether `compare` can be believed: a build beside itself, which must not be called slower, and beside itself slowed by
a known part, which must be found."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from uvhttp_bench import measure, rounds
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.measure import Cpus, Plan
from uvhttp_bench.model.record import Record
from uvhttp_bench.model.self_check import Comparison, SelfCheck
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import verdict
from uvhttp_bench.targets.base import Workspace
from uvhttp_bench.targets.slowed import Slowed

KIND = "self-check"
CALIBRATION_RUNS = 9


@dataclass(frozen=True)
class Options:
    scenario: Scenario
    program: Path | None
    same: int  # comparisons of a build with itself
    slowed: int
    rounds: int
    seconds: float
    slower_percent: float
    threshold_percent: float
    cpus: Cpus


Say = Callable[[str], None]


class Checker:
    def __init__(self, options: Options, made: Workspace, say: Say) -> None:
        self._options, self._made, self._say = options, made, say
        limit, session = measure.measure_bandwidth(), measure.session_name()
        target = Slowed("plain", 0, options.program)
        self._plain = measure.plan_for(target, UvhttpLoad(), options.cpus, limit, KIND, session, 0)

    def _once(self, plan: Plan) -> Record:
        record, _ = measure.run_once(plan, self._options.scenario, self._made, self._options.seconds, 1, 1)
        if not record.holds("cpu"):
            failed = "; ".join(c.detail for c in record.checks if not c.passed and not c.unstable)
            raise BenchError(f"self-check: a run measured nothing: {failed}")
        return record

    def begin(self) -> SelfCheck:
        """Without a comparison yet: what a request costs, and so what the known part of it is."""
        records = [self._once(self._plain) for _ in range(CALIBRATION_RUNS)]
        cpu = statistics.median(r.resources.cpu_us_per_request or 0.0 for r in records)
        o = self._options
        slow_ns = round(10 * cpu * o.slower_percent)  # per cent of microseconds, in nanoseconds
        self._say(f"a request costs {cpu:.2f} us of CPU time; {o.slower_percent:g} % are {slow_ns} ns")
        return SelfCheck(
            timestamp=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            session=self._plain.session,
            environment=self._plain.environment,
            configuration=records[0].configuration,
            scenario=o.scenario.name,
            tool=self._plain.load.name,
            seconds=o.seconds,
            rounds=o.rounds,
            threshold_percent=o.threshold_percent,
            slower_percent=o.slower_percent,
            cpu_us=cpu,
            slow_ns=slow_ns,
            comparisons=(),
        )

    def compare(self, slow_ns: int) -> Comparison:
        """A build beside itself with 0, else beside itself slowed."""
        b = replace(self._plain, target=Slowed("slowed", slow_ns, self._options.program))
        plans = {"a": self._plain, "b": b}
        done = [
            rounds.measure_round(number, lambda which: self._once(plans[which])) for number in range(self._options.rounds)
        ]
        restless = sum(record.status != "valid" for m in done for record in (*m.a, *m.b))
        return Comparison(slow_ns > 0, tuple(rounds.usable(done, verdict.CPU)), restless)


def turns(same: int, slowed: int) -> list[bool]:
    """Whether each comparison is a slowed one: spread evenly, so that both kinds see the same hours."""
    total = same + slowed
    return [(i + 1) * slowed // total > i * slowed // total for i in range(total)]
