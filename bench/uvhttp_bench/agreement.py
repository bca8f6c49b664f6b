"""Owns: uvhttp-load next to wrk and h2load, in turn against one running server: whether they say the same, and what each of
them costs. Figures are compared within a round; a bottleneck of their own is no disagreement."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from uvhttp_bench import gates
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.base import Job, Load, Outcome
from uvhttp_bench.loads.h2load import H2load
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.loads.wrk import Wrk
from uvhttp_bench.measure import Cpus, blamed, first_response, job_of
from uvhttp_bench.monitor import CpuTimes, cpu_times
from uvhttp_bench.processes import cpu_seconds
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.stats.paired import Interval, hodges_lehmann, log_ratios
from uvhttp_bench.targets.base import Running, Target, serve, workspace
from uvhttp_bench.targets.slowed import Slowed
from uvhttp_bench.targets.uvhttp import Uvhttp

OURS, WRK, H2LOAD = UvhttpLoad.name, Wrk.name, H2load.name
TOLERANCE = 0.03
ROUNDS_MIN = 6  # below, there is no interval of 95 %
ROUNDS_MOST = 12
REACH_ENOUGH = TOLERANCE / 3  # of an interval from its middle: then rounds are enough
BUSY_MAX = 0.9  # of its CPUs, by a generator whose throughput and latency are to be the server's
REQUESTS_MIN = 10_000  # below, the start of the program is a part of its CPU time per request
WARM_UP_SECONDS = 1.0
MEDIUM_SLOW, SLOW_NS = "medium-slow", 100_000

AGREES, DIFFERS, LESS, MORE, OPEN, NOT_JUDGED = "agrees", "differs", "less", "more", "open", ""


def workloads() -> list[Scenario]:
    """Those that the server decides, even with one CPU for it and one for the generator, and one that the generator does."""

    def slow(name: str, seconds: float) -> Scenario:
        """Of a server that reads 1 KB at a time."""
        (post,) = choose([name])
        return replace(post, name=f"{name}-slow", threads=2, seconds=seconds, options=("--read-buffer-size", "1024"))

    (sleep,), (medium,) = choose(["sleep200"]), choose(["medium"])
    medium = replace(medium, threads=2, seconds=2)
    return [
        replace(medium, name=MEDIUM_SLOW), slow("post-10kb", 2), slow("post-100kb", 5), replace(sleep, threads=2, seconds=10), medium,
    ]  # fmt: skip


def target_of(scenario: Scenario, engine: str) -> Target:
    """A server of medium-slow burns the same time for each response, which is most of what it does: the steadiest there is."""
    return Slowed(MEDIUM_SLOW, SLOW_NS) if scenario.name == MEDIUM_SLOW else Uvhttp(engine)


@dataclass(frozen=True)
class Measured:
    """One run of one tool."""

    scenario: str
    tool: str
    round: int
    requests: int
    requests_per_second: float
    latency_avg_ms: float
    latency_p50_ms: float
    cpu_us_per_request: float  # of the tool
    cpu_part: float  # of the CPUs that it may use
    server_part: float  # the server, of its own
    others_part: float  # other processes and the host, of all these CPUs


@dataclass(frozen=True)
class Finding:
    scenario: str
    figure: str
    other: str  # the tool that ours is compared with
    ours: float  # medians
    theirs: float
    ratio: Interval  # ours to theirs, within the rounds
    verdict: str
    why: str = ""  # why there is none, or what it was


def tools() -> list[Load]:
    return [UvhttpLoad(), Wrk(), H2load()]


def rotated(number: int, of: Sequence[Load]) -> list[Load]:
    """Each is as often first, in the middle and last, and comes as often before as behind each other one."""
    start = number % len(of)
    order = [*of[start:], *of[:start]]
    return order[::-1] if number // len(of) % 2 else order


@dataclass(frozen=True)
class Seen:
    """What has been used so far: by the server, and of the CPUs."""

    server_seconds: float
    cpus: CpuTimes

    @staticmethod
    def now(running: Running, cpus: Cpus) -> "Seen":
        return Seen(cpu_seconds(running.pid), cpu_times(cpus.server + cpus.generator))


def measured(
    scenario: Scenario, load: Load, number: int, outcome: Outcome, before: Seen, after: Seen, cpus: Cpus
) -> Measured:
    results = outcome.results
    check = gates.errors(results)
    if not check.passed:
        raise BenchError(f"{scenario.name}, {load.name}: {check.detail}")
    if results.latency_avg_ms is None or results.latency_p50_ms is None:
        raise BenchError(f"{scenario.name}, {load.name}: {results.total_requests} requests are too few: --seconds")
    server = after.server_seconds - before.server_seconds
    processes = after.cpus.processes - before.cpus.processes - server - outcome.cpu_seconds
    others = max(0.0, processes) + after.cpus.steal - before.cpus.steal
    return Measured(
        scenario=scenario.name,
        tool=load.name,
        round=number,
        requests=results.total_requests,
        requests_per_second=results.requests_per_second,
        latency_avg_ms=results.latency_avg_ms,
        latency_p50_ms=results.latency_p50_ms,
        cpu_us_per_request=1e6 * outcome.cpu_seconds / results.total_requests,
        cpu_part=outcome.cpu_seconds / (outcome.wall_seconds * len(cpus.generator)),
        server_part=server / (outcome.wall_seconds * len(cpus.server)),
        others_part=others / max(1e-9, after.cpus.total - before.cpus.total),
    )


def run(
    target: Target, scenario: Scenario, loads: Sequence[Load], rounds: int, cpus: Cpus, keep: Callable[[Measured], None]
) -> None:
    """One server for all of them; keep() gets each run when it has ended. At most so many rounds, and no more than it takes:
    when to stop is decided by how wide the intervals are, not by where they lie."""
    done: list[Measured] = []
    loads = [load for load in loads if not scenario.http2 or load.name != WRK]
    with workspace() as made, serve(target, scenario, made, cpus.server) as running, blamed(target.name, running):
        first_response(target, scenario, running, made)

        def job(seconds: float) -> Job:
            return job_of(target, scenario, running, cpus, seconds, made, None)

        loads[0].run(job(WARM_UP_SECONDS))
        for number in range(rounds):
            for load in rotated(number, loads):
                before = Seen.now(running, cpus)
                outcome = load.run(job(scenario.seconds))
                done.append(measured(scenario, load, number + 1, outcome, before, Seen.now(running, cpus), cpus))
                keep(done[-1])
            if number + 1 >= ROUNDS_MIN and precise(findings(done)):
                return


# --- what the runs say ---


@dataclass(frozen=True)
class Figure:
    name: str
    attribute: str
    judged_against: str  # h2load, where wrk does not speak the protocol


CPU_FIGURE = "CPU us/req"
FIGURES = (
    Figure("requests/s", "requests_per_second", WRK),
    Figure("mean ms", "latency_avg_ms", H2LOAD),
    Figure("P50 ms", "latency_p50_ms", H2LOAD),
    Figure(CPU_FIGURE, "cpu_us_per_request", WRK),
)


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    interval = hodges_lehmann(log_ratios(ours, theirs))
    return Interval(math.exp(interval.low), math.exp(interval.middle), math.exp(interval.high))


def _same(ratio: Interval) -> str:
    """The whole interval within the tolerance, or the whole beyond it."""
    low, high = 1 - TOLERANCE, 1 + TOLERANCE
    if low <= ratio.low and ratio.high <= high:
        return AGREES
    return DIFFERS if ratio.high < low or ratio.low > high else OPEN


def _cheaper(ratio: Interval) -> str:
    return LESS if ratio.high < 1 else MORE if ratio.low > 1 else OPEN


def _judge(
    figure: Figure, against: str, ratio: Interval, ours: Sequence[Measured], theirs: Sequence[Measured]
) -> tuple[str, str]:
    if theirs[0].tool != against:
        return NOT_JUDGED, ""
    if len(ours) < ROUNDS_MIN:
        return OPEN, f"{len(ours)} rounds: {ROUNDS_MIN} are the least that can say"
    if figure.attribute == "cpu_us_per_request":
        if min(run.requests for run in (*ours, *theirs)) < REQUESTS_MIN:
            return NOT_JUDGED, f"fewer than {REQUESTS_MIN:,} requests in a run"
        return _cheaper(ratio), ""
    if statistics.median(run.others_part for run in (*ours, *theirs)) > gates.OTHERS_MAX:
        return OPEN, "a noisy machine"
    for runs in (ours, theirs):
        busy = statistics.median(run.cpu_part for run in runs)
        if busy > BUSY_MAX:
            return NOT_JUDGED, f"{runs[0].tool} was the bottleneck: {busy:.0%} of its CPUs"
    return _same(ratio), ""


def findings(runs: Sequence[Measured]) -> list[Finding]:
    found = []
    for scenario in dict.fromkeys(run.scenario for run in runs):
        of = {tool: {r.round: r for r in runs if (r.scenario, r.tool) == (scenario, tool)} for tool in (OURS, WRK, H2LOAD)}
        for figure in FIGURES:
            for other in (WRK, H2LOAD):
                rounds = sorted(of[OURS].keys() & of[other].keys())
                if not rounds:
                    continue
                own, their = [of[OURS][n] for n in rounds], [of[other][n] for n in rounds]
                ours, theirs = ([float(getattr(run, figure.attribute)) for run in side] for side in (own, their))
                ratio = ratio_of(ours, theirs)
                against = figure.judged_against if of[figure.judged_against] else H2LOAD
                verdict, why = _judge(figure, against, ratio, own, their)
                found.append(
                    Finding(
                        scenario, figure.name, other, statistics.median(ours), statistics.median(theirs), ratio, verdict, why
                    )
                )
    return found


def precise(found: Sequence[Finding]) -> bool:
    """Whether each interval that is judged is narrow enough; what only has to be less may be less exact."""
    judged = [finding for finding in found if finding.verdict != NOT_JUDGED]
    return all(finding.ratio.reach <= (REACH_ENOUGH if finding.figure != CPU_FIGURE else TOLERANCE) for finding in judged)


def notes(runs: Sequence[Measured]) -> list[str]:
    """What else has to be known of the figures."""
    lines = []
    for scenario in dict.fromkeys(run.scenario for run in runs):
        own = [run for run in runs if run.scenario == scenario]
        parts = [
            f"{tool} {statistics.median(r.cpu_part for r in own if r.tool == tool):.0%}"
            for tool in dict.fromkeys(run.tool for run in own)
        ]
        server = statistics.median(run.server_part for run in own)
        lines.append(f"{scenario}: CPU used: {', '.join(parts)}; server {server:.0%}")
        noisy = [run for run in own if run.others_part > gates.OTHERS_MAX]
        if noisy:
            lines.append(
                f"{scenario}: in {len(noisy)} of {len(own)} runs other processes used more than {gates.OTHERS_MAX:.0%} of "
                "the CPUs: repeat on an idle machine"
            )
    return lines
