"""Owns: the experiment of S3: servers in turn, a fresh process each, every route warmed up, measured and verified."""

import re
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

from uvhttp_bench import gates, network
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import wrk_table
from uvhttp_bench.loads.base import Job, Outcome
from uvhttp_bench.loads.wrk import Wrk
from uvhttp_bench.model.experiment import Measurement
from uvhttp_bench.model.record import Results
from uvhttp_bench.monitor import Sampler, placement
from uvhttp_bench.processes import Processes
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.scenarios.thesis import Workload
from uvhttp_bench.targets.base import Response, Running, Target, Workspace, ask, serve

COUNT_DIGITS_MAX = 12
SETTLE_SECONDS_MAX = 30.0
IDLE_SLACK = 20  # descriptors that a server may open for itself meanwhile


@dataclass(frozen=True)
class Plan:
    threads: int
    connections: int
    seconds: float
    server_cpus: tuple[int, ...]
    generator_cpus: tuple[int, ...]
    workspace: Workspace


@dataclass(frozen=True)
class Contender:
    """A server and which of its routes are asked."""

    name: str
    target: Target
    modes: dict[str, str]  # mode: what follows the workload's path
    warmup_seconds: float  # of each route; 0: none
    worker_threads: int | None = None


class Void(BenchError):
    """A run whose figures say nothing; the others continue."""


@dataclass
class Log:
    """What has been found so far; an interruption leaves it whole."""

    measurements: list[Measurement] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)


def verify(results: Results, workload: Workload, response: Response, connections: int) -> None:
    """A figure is only as good as the responses behind it."""
    if response.bytes_total is None:
        raise Void("its responses have no known length")
    if results.total_requests == 0:
        raise Void("no request came to an end")
    if results.errors.total:
        raise Void(f"{results.errors.total} errors, {results.errors.status} of them responses with another status")
    # The count grows by digits, which its Content-Length counts too.
    slack = COUNT_DIGITS_MAX + 1 if workload.name == "count" else 0
    low = results.total_requests * (response.bytes_total - slack)
    high = (results.total_requests + connections) * (response.bytes_total + slack)
    if not low <= results.bytes_received <= high:
        raise Void(
            f"{results.bytes_received} bytes are not {results.total_requests} responses of {response.bytes_total} bytes"
        )
    if (results.latency_avg_ms or 0) < 1000 * workload.wait_seconds * 0.99:
        raise Void(f"mean latency {results.latency_avg_ms:.1f} ms is below the wait itself")


def law(results: Results, connections: int) -> str | None:
    """Little's law: mean latency x rate is the number of requests under way; those that the end cuts off, one of each
    connection, are not among the finished."""
    seconds = (results.latency_avg_ms or 0) / 1000
    least = results.requests_per_second * seconds
    most = least + connections * seconds / results.seconds
    if 0.9 * least <= connections <= 1.1 * most:
        return None
    return f"latency x rate is {least:.0f} to {most:.0f} requests under way on {connections} connections"


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def settle(running: Running, idle: int, seconds_max: float = SETTLE_SECONDS_MAX) -> None:
    """Waits until the server has closed the connections of the previous load: its pending responses, and the connections that count against a limit, would affect the next figures."""
    deadline = time.monotonic() + seconds_max
    while running.alive() and descriptors(running.pid) > idle + IDLE_SLACK and time.monotonic() < deadline:
        time.sleep(0.05)


def _job(plan: Plan, running: Running, path: str, seconds: float) -> Job:
    url = f"http://127.0.0.1:{running.port('http')}{path}"
    return Job(url, plan.threads, plan.connections, seconds, plan.generator_cpus, workspace=plan.workspace.path)


def measure_route(
    plan: Plan, running: Running, contender: Contender, mode: str, workload: Workload, number: int, log: Log, idle: int
) -> None:
    path = workload.path + contender.modes[mode]
    settle(running, idle)
    try:
        response = ask("http", running.port("http"), path)
    except (OSError, HTTPException) as error:
        raise Void(f"{contender.name} {path}: {str(error) or type(error).__name__}") from error
    if response.status == 404:
        line = f"{contender.name} has no {path}"
        if line not in log.skipped:
            log.skipped.append(line)
        return
    if response.status != 200 or not re.fullmatch(workload.body_pattern, response.body.decode("latin-1")):
        raise Void(f"{contender.name} {path} responds {response.status} {response.body[:40]!r}")
    if contender.warmup_seconds > 0:
        Wrk().run(_job(plan, running, path, contender.warmup_seconds))
        settle(running, idle)
    sampler = Sampler(Processes(running.pid), (*plan.server_cpus, *plan.generator_cpus)).start()
    try:
        with network.Observer(running.port("http")) as seen:
            outcome: Outcome = Wrk().run(_job(plan, running, path, plan.seconds))
    except BaseException:
        sampler.cancel()
        raise
    usage = sampler.stop()
    results = outcome.results
    if not running.alive():
        raise Void(f"{contender.name} has ended: {running.log_tail()}")
    placed, (descriptors, _) = placement(running.pid), resource.getrlimit(resource.RLIMIT_NOFILE)
    alike = (
        gates.congestion_control(network.congestion_control(), seen.names),
        gates.placement(plan.server_cpus, placed.cpus, descriptors, placed.descriptors),
    )
    try:
        for check in alike:
            if not check.passed and check.takes:
                raise Void(check.detail)
        verify(results, workload, response, plan.connections)
    except Void as why:
        raise Void(f"{contender.name} {path}, round {number}: {why}") from None
    # With fewer workers than connections most requests never come to an end: there the law says nothing.
    broken = None if contender.worker_threads else law(results, plan.connections)
    if broken:
        log.restless.append(f"{contender.name} {path}, round {number}: {broken}")
    log.measurements.append(
        Measurement(
            target=contender.name,
            mode=mode,
            workload=workload.name,
            path=path,
            round=number,
            worker_threads=contender.worker_threads,
            requests=results.total_requests,
            seconds=results.seconds,
            latency_ms=wrk_table.latency_ms(outcome.raw),
            rate_per_thread=wrk_table.rate_per_thread(outcome.raw),
            latency_avg_ms=results.latency_avg_ms,
            latency_p99_ms=results.latency_p99_ms,
            cpu_user_us=1e6 * usage.user_seconds / results.total_requests,
            cpu_system_us=1e6 * usage.system_seconds / results.total_requests,
            memory_mb=usage.memory_mb,
        )
    )


def _start(workload: Workload) -> Scenario:
    return replace(choose([workload.name])[0], path=workload.path)


def measure_contender(plan: Plan, contender: Contender, workloads: Sequence[Workload], number: int, log: Log) -> None:
    with serve(contender.target, _start(workloads[0]), plan.workspace, plan.server_cpus) as running:
        idle = descriptors(running.pid)
        for workload in workloads:
            for mode in contender.modes:
                try:
                    measure_route(plan, running, contender, mode, workload, number, log, idle)
                except Void as why:
                    log.void.append(str(why))


def in_iteration(
    plan: Plan,
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    rounds: int,
    log: Log,
    progress: Callable[[str], None],
) -> None:
    """A, B, B, A, ...: what drifts meanwhile meets both."""
    for number in range(1, rounds + 1):
        for contender in contenders if number % 2 else contenders[::-1]:
            progress(f"round {number} of {rounds}: {contender.name}")
            measure_contender(plan, contender, workloads, number, log)
