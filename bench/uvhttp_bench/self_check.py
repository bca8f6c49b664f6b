"""Owns: whether `compare` can be believed: a build next to itself, which must not be called slower, and next to itself slowed by
a known part, which must be found."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from uvhttp_bench import measure, together
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.measure import Cpus, Plan
from uvhttp_bench.model.self_check import Comparison, SelfCheck
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import verdict
from uvhttp_bench.targets.base import Workspace
from uvhttp_bench.targets.slowed import Slowed
from uvhttp_bench.together import Measured

KIND = "self-check"
CALIBRATION_ROUNDS = 3


@dataclass(frozen=True)
class Options:
    scenario: Scenario
    program: Path | None
    same: int  # comparisons of a build with itself
    slowed: int
    rounds: int  # of a comparison, at most
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

    def _round(self, number: int, b: Plan) -> Measured:
        o = self._options
        return together.measure_round(number, {"a": self._plain, "b": b}, o.scenario, self._made, o.seconds)

    def _slow_ns(self, cpu_us: float) -> int:
        return round(10 * cpu_us * self._options.slower_percent)  # per cent of microseconds, in nanoseconds

    def begin(self) -> SelfCheck:
        """Without a comparison yet: what a request costs, and so what the known part of it is."""
        done = [self._round(number, self._plain) for number in range(CALIBRATION_ROUNDS)]
        cpu = statistics.median(measured.median for measured in done)
        o, slow_ns = self._options, self._slow_ns(cpu)
        self._say(f"a request costs {cpu:.2f} us of CPU time; {o.slower_percent:g} % are {slow_ns} ns")
        return SelfCheck(
            timestamp=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            session=self._plain.session,
            environment=self._plain.environment,
            configuration=done[0].configuration,
            scenario=o.scenario.name,
            tool=self._plain.load.name,
            seconds=o.seconds,
            rounds=o.rounds,
            threshold_percent=o.threshold_percent,
            slower_percent=o.slower_percent,
            cpu_us=cpu,
            slow_ns=slow_ns,
            comparisons=(),
            together=True,
        )

    def compare(self, check: SelfCheck, slowed: bool) -> Comparison:
        """A build next to itself, or next to itself slowed: by a part of what it has cost in the comparison before."""
        last = [r for c in check.comparisons[-1:] for r in c.rounds]
        cpu = statistics.median(a for r in last for a in (r.a1, r.a2)) if last else check.cpu_us
        slow_ns = self._slow_ns(cpu) if slowed else 0
        b = replace(self._plain, target=Slowed("slowed", slow_ns, self._options.program))
        threshold = self._options.threshold_percent / 100
        done = together.measure_until_precise(
            lambda number: self._round(number, b),
            lambda found: verdict.judge(check.scenario, verdict.CPU, found, threshold),
            self._options.rounds,
        )
        restless = sum(measured.restless for measured in done)
        return Comparison(slowed, tuple(measured.round for measured in done), restless, slow_ns)


def schedule(same: int, slowed: int) -> list[bool]:
    """Whether each comparison is a slowed one: spread evenly, so that both kinds see the same hours."""
    total = same + slowed
    return [(i + 1) * slowed // total > i * slowed // total for i in range(total)]
