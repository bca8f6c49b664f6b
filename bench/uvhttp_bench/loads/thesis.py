"""Owns: the experiment of S3: servers in turn, a fresh process each, every route warmed up, measured and verified."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import wrk_table
from uvhttp_bench.model.experiment import Measurement, Spread
from uvhttp_bench.scenarios.thesis import Workload
from uvhttp_bench.targets import probe
from uvhttp_bench.targets.adapter import Adapter, Place
from uvhttp_bench.targets.started import CpuTime, Started, free_ports, pinned

COUNT_DIGITS_MAX = 12
BURST_SECONDS_MIN = 1.0


@dataclass(frozen=True)
class Plan:
    threads: int
    connections: int
    seconds: float
    server_cpus: tuple[int, ...]
    generator_cpus: tuple[int, ...]
    directory: Path
    built: Path


@dataclass(frozen=True)
class Contender:
    """A server and which of its routes are asked."""

    target: str
    adapter: Adapter
    modes: dict[str, str]  # mode: what follows the workload's path
    warmup_seconds: float  # of each route
    worker_threads: int | None = None


class Void(BenchError):
    """A run whose figures say nothing; the others go on."""


@dataclass
class Outcome:
    measurements: list[Measurement] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)


def run_wrk(plan: Plan, url: str, seconds: float) -> wrk_table.Table:
    command = pinned(plan.generator_cpus, wrk_table.command(url, plan.threads, plan.connections, seconds))
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise BenchError(f"wrk {url}: {run.stderr.strip() or run.stdout.strip()}")
    return wrk_table.parse(run.stdout)


def verify(table: wrk_table.Table, workload: Workload, answer: probe.Answer, connections: int) -> None:
    """A figure is only as good as the answers behind it."""
    if table.errors:
        raise Void(f"{table.errors} errors, {table.errors_status} of them answers of another status")
    # The count grows by digits, which its Content-Length counts too.
    slack = COUNT_DIGITS_MAX + 1 if workload.name == "count" else 0
    wrong = probe.wrong_total(table.bytes_received, table.requests, answer, connections, slack)
    if wrong:
        raise Void(wrong)
    if table.latency_us.mean < 1e6 * workload.wait_seconds * 0.99:
        raise Void(f"mean latency {table.latency_us.mean / 1000:.1f} ms is below the wait itself")


def law(table: wrk_table.Table, connections: int) -> str | None:
    """Little's law: mean latency x rate is the number of requests under way. The last of each connection is not among
    the finished ones. wrk 4.1 fills in for stalls ("coordinated omission"), which makes the mean too large when there
    were any: the CPU time per request is not touched by that."""
    least = table.requests * table.latency_us.mean / 1e6 / table.seconds
    most = least + connections * table.latency_us.mean / 1e6 / table.seconds
    if 0.9 * least <= connections <= 1.1 * most:
        return None
    return f"latency x rate is {least:.0f} to {most:.0f} requests under way on {connections} connections"


def _spread(row: wrk_table.Spread, factor: float) -> Spread:
    return Spread(row.mean * factor, row.stdev * factor, row.maximum * factor, row.within_percent)


def measure_route(
    plan: Plan,
    server: Started,
    contender: Contender,
    mode: str,
    workload: Workload,
    port: int,
    number: int,
    outcome: "Outcome",
) -> None:
    path = workload.path + contender.modes[mode]
    url = f"http://127.0.0.1:{port}{path}"
    answer = probe.ask(url)
    if answer.status == 404:
        line = f"{contender.target} has no {path}"
        if line not in outcome.skipped:
            outcome.skipped.append(line)
        return
    if answer.status != 200 or not re.fullmatch(workload.body_pattern, answer.body.decode("latin-1")):
        raise Void(f"{contender.target} {path} answers {answer.status} {answer.body[:40]!r}")
    if contender.warmup_seconds > 0:
        run_wrk(plan, url, max(BURST_SECONDS_MIN, contender.warmup_seconds))
    before = server.cpu_time()
    table = run_wrk(plan, url, plan.seconds)
    used: CpuTime = server.cpu_time().since(before)
    memory = server.memory_mb()
    server.check_alive()
    try:
        verify(table, workload, answer, plan.connections)
    except Void as why:
        raise Void(f"{contender.target} {path}, round {number}: {why}") from None
    # With fewer workers than connections most requests never come to an end: there the law says nothing.
    broken = None if contender.worker_threads else law(table, plan.connections)
    if broken:
        outcome.restless.append(f"{contender.target} {path}, round {number}: {broken}")
    measured = Measurement(
        target=contender.target,
        mode=mode,
        workload=workload.name,
        path=path,
        round=number,
        worker_threads=contender.worker_threads,
        requests=table.requests,
        seconds=table.seconds,
        latency_ms=_spread(table.latency_us, 1e-3),
        rate_per_thread=_spread(table.rate, 1),
        latency_p99_ms=table.percentiles_us["99"] / 1000,
        cpu_user_us=1e6 * used.user / table.requests,
        cpu_system_us=1e6 * used.system / table.requests,
        memory_mb=memory,
    )
    outcome.measurements.append(measured)


def measure_contender(
    plan: Plan, contender: Contender, workloads: Sequence[Workload], number: int, outcome: Outcome
) -> None:
    port, tls_port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="start-", dir=plan.directory) as scratch:
        place = _place(plan, Path(scratch), port, tls_port)
        command = contender.adapter.command(place)
        with Started(contender.target, command, plan.server_cpus, place.directory / "log.txt") as server:
            server.ready([port])
            for workload in workloads:
                for mode in contender.modes:
                    try:
                        measure_route(plan, server, contender, mode, workload, port, number, outcome)
                    except Void as why:
                        outcome.void.append(str(why))


def _place(plan: Plan, scratch: Path, port: int, tls_port: int) -> Place:
    """A scratch directory that shows what was prepared for all."""
    for prepared in plan.directory.iterdir():
        if not prepared.name.startswith("start-"):
            (scratch / prepared.name).symlink_to(prepared)
    return Place(scratch, plan.built, port, tls_port, plan.connections)


def in_turn(
    plan: Plan,
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    rounds: int,
    outcome: Outcome,
    progress: Callable[[str], None],
) -> None:
    """A, B, B, A, ...: what drifts meanwhile meets both. What was measured before an interruption stays in outcome."""
    for number in range(1, rounds + 1):
        for contender in contenders if number % 2 else contenders[::-1]:
            progress(f"round {number} of {rounds}: {contender.target}")
            measure_contender(plan, contender, workloads, number, outcome)
