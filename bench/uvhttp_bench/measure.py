"""Owns: one run: a fresh server, a warm-up, the measured seconds, the checks, the record."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from uvhttp_bench import environment, gates, monitor, open_loop, repository
from uvhttp_bench.exits import BenchError, MissingError, UsageError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import Job, Load, Outcome
from uvhttp_bench.loads.tcp_echo import TcpEcho
from uvhttp_bench.model.record import Check, Environment, Record, Resources, ScenarioRun
from uvhttp_bench.processes import Processes
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import HOST, Running, Target, Workspace, ended, probe, serve

WARM_UP_SECONDS = 1.0
BANDWIDTH_SECONDS = 0.3


class Skip(Exception):
    """The server does not have what the scenario asks for, and need not."""


@dataclass(frozen=True)
class Cpus:
    server: tuple[int, ...]
    generator: tuple[int, ...]


def share_cpus() -> Cpus:
    """One for the server, the others for the generator; a machine with one CPU measures its scheduler, and is told so."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise MissingError("server and load generator need a CPU each, and this process may use one: see taskset(1)")
    return Cpus((allowed[0],), tuple(allowed[1:]))


@dataclass(frozen=True)
class Plan:
    """What is the same for all runs of a command."""

    target: Target
    load: Load
    cpus: Cpus
    bandwidth_mb: float  # of a CPU of the generator
    build_info: str
    environment: Environment
    session: str
    kind: str = "run"
    revision: str = ""
    dirty: bool = False
    warm_up_seconds: float = WARM_UP_SECONDS
    scenario: Scenario | None = None  # instead of the one asked for: with what this target's responses have to be


def measure_bandwidth() -> float:
    """MB/s that one CPU takes from loopback when it does nothing else: no generator's CPU takes more, whatever serves it. By
    the CPU time of receiving what is there already, so that neither a busy machine nor a sender that copies lowers it."""
    spent, received = 0.0, 0
    block, into = bytearray(1 << 20), bytearray(1 << 16)
    with socket.create_server((HOST, 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver:
        sender.setblocking(False)
        deadline = time.monotonic() + BANDWIDTH_SECONDS
        while time.monotonic() < deadline:
            left = sender.send(block)
            received += left
            started = time.thread_time()
            while left > 0:
                left -= receiver.recv_into(into)
            spent += time.thread_time() - started
    return received / max(spent, 1e-9) / 2**20


def job_of(scenario: Scenario, running: Running, cpus: Cpus, seconds: float, made: Workspace, answer: int | None) -> Job:
    return Job(
        url=f"{scenario.scheme}://{HOST}:{running.port(scenario.scheme)}{scenario.path}",
        threads=scenario.threads,
        connections=scenario.connections,
        seconds=seconds,
        cpus=cpus.generator,
        method=scenario.method,
        request_body=scenario.request_body,
        status=scenario.status,
        response_bytes=scenario.response_bytes,
        answer_bytes=answer,
        message_bytes=scenario.message_bytes,
        pipeline=scenario.pipeline,
        headers=scenario.headers,
        response_body=scenario.response_body,
        workspace=made.path,
    )


def first_answer(running: Running, scenario: Scenario, name: str) -> tuple[list[Check], int | None]:
    """The check of an answer, and the size of one. A wrong first answer ends the run before it costs time."""
    if scenario.scheme not in ("http", "https"):
        return [], None
    answer = probe(running, scenario, name)
    if scenario.optional and answer.status == 404:
        raise Skip(f"{scenario.name}: {name} has no {scenario.path}")
    check = gates.answer("before", answer.status, len(answer.body), gates.Expected(scenario.status, scenario.response_bytes))
    if not check.passed:
        raise BenchError(f"{name}: {scenario.method} {scenario.path}: {check.detail}")
    return [check], None if scenario.response_bytes is None else answer.bytes_total


def _last_answer(running: Running, scenario: Scenario, name: str) -> list[Check]:
    if scenario.scheme not in ("http", "https"):
        return []
    answer = probe(running, scenario, name)
    return [gates.answer("after", answer.status, len(answer.body), gates.Expected(scenario.status, scenario.response_bytes))]


def _log_level(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.partition(b"=")[2].decode() for word in words if word.startswith(b"UVHTTP_LOG_LEVEL=")), "")


def _resources(usage: monitor.Usage, outcome: Outcome, calls_per_request: float | None, cpus: Cpus) -> Resources:
    requests = max(1, outcome.results.total_requests)
    rate = outcome.results.requests_per_second
    return Resources(
        cpu_usage_percent=100 * usage.cpu_seconds / usage.wall_seconds,
        memory_usage_mb=usage.memory_mb,
        context_switches_per_sec=usage.switches / usage.wall_seconds,
        system_calls_per_sec=None if calls_per_request is None else calls_per_request * rate,
        cpu_user_us_per_request=1e6 * usage.user_seconds / requests,
        cpu_system_us_per_request=1e6 * usage.system_seconds / requests,
        memory_start_mb=usage.memory_start_mb,
        system_calls_per_request=calls_per_request,
        generator_cpu_percent=100 * outcome.cpu_seconds / (outcome.wall_seconds * len(cpus.generator)),
        generator_cpu_us_per_request=1e6 * outcome.cpu_seconds / requests,
        other_cpu_percent=100
        * max(0.0, usage.processes_seconds - usage.cpu_seconds - outcome.cpu_seconds)
        / max(1e-9, usage.capacity_seconds),
        steal_percent=100 * usage.steal_seconds / max(1e-9, usage.capacity_seconds),
        memory_growth_mb_per_hour=gates.memory(usage.memory_series)[1],
    )


def _checks(plan: Plan, scenario: Scenario, job: Job, outcome: Outcome, usage: monitor.Usage) -> list[Check]:
    results = outcome.results
    in_flight = job.connections * job.pipeline
    checks = [gates.errors(results), gates.bandwidth(results, plan.bandwidth_mb * len(plan.cpus.generator))]
    if not outcome.answer_bytes_checked:
        checks.append(gates.length(results, job.answer_bytes, in_flight))
    if scenario.pipeline == 1:  # a pipelined batch is one latency
        checks += [gates.samples(results), gates.little(results, job.connections)]
    generator = outcome.cpu_seconds / (outcome.wall_seconds * len(plan.cpus.generator))
    server = usage.cpu_seconds / (usage.wall_seconds * len(plan.cpus.server))
    others = usage.processes_seconds - usage.cpu_seconds - outcome.cpu_seconds
    machine = gates.machine(others, usage.steal_seconds, usage.capacity_seconds)
    checks += [gates.generator(generator, server), gates.steady(usage.cpu_series), machine]
    return [*checks, gates.memory(usage.memory_series)[0]]


def _warm_up(plan: Plan, scenario: Scenario, running: Running, made: Workspace, seconds: float) -> float | None:
    """System calls per request: counted here, so that the measured seconds have no counter beside them."""
    if seconds <= 0:
        return None
    requests = 0
    if seconds > WARM_UP_SECONDS:  # a virtual machine that compiles while it runs: no counter may slow it down
        plan.load.run(job_of(scenario, running, plan.cpus, seconds, made, None))
        seconds = WARM_UP_SECONDS

    def load() -> None:
        nonlocal requests
        job = job_of(scenario, running, plan.cpus, seconds, made, None)
        requests = plan.load.run(job).results.total_requests

    calls = monitor.count_system_calls(running.pid, load)
    return calls / requests if calls is not None and requests else None


@contextlib.contextmanager
def blamed(name: str, running: Running) -> Iterator[None]:
    """Whatever goes wrong beside a server that has ended is the server's doing, and its last line says why."""
    try:
        yield
    except (BenchError, OSError) as error:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(0.2)
        if running.alive():
            raise
        raise ended(name, "during the run", running) from error


class Run:
    """One server that is alive: its first answer, the load, its record."""

    def __init__(self, plan: Plan, scenario: Scenario, running: Running, made: Workspace) -> None:
        self._plan, self._scenario, self._running, self._made = plan, plan.scenario or scenario, running, made
        self._calls: float | None = None  # of the system, per request
        with blamed(plan.target.name, running):
            self._checks, self._answer_bytes = first_answer(running, self._scenario, plan.target.name)
        self._logged = running.log_bytes()
        self._processes = Processes(running.pid)  # after the first response, when it has started its workers

    def warm_up(self) -> None:
        with blamed(self._plan.target.name, self._running):
            self._calls = _warm_up(self._plan, self._scenario, self._running, self._made, self._plan.warm_up_seconds)
        self._logged = self._running.log_bytes()

    def load(self, seconds: float) -> "Loaded":
        plan, timestamp = self._plan, datetime.now(UTC)
        job = job_of(self._scenario, self._running, plan.cpus, seconds, self._made, self._answer_bytes)
        with blamed(plan.target.name, self._running):
            watch = monitor.Watch(self._processes, plan.cpus.server + plan.cpus.generator).start()
            try:
                outcome = plan.load.run(job)
                usage = watch.stop()
                if not self._running.alive():  # its children may go on responding
                    raise ProcessLookupError(self._running.pid)
            finally:
                watch.cancel()
        return Loaded(timestamp, job, outcome, usage)

    def record(self, loaded: "Loaded", repeat: int, repeats: int) -> Record:
        """Without its test_id."""
        plan, scenario, running = self._plan, self._scenario, self._running
        job, outcome, usage = loaded.job, loaded.outcome, loaded.usage
        with blamed(plan.target.name, running):
            last = _last_answer(running, scenario, plan.target.name)
        level = _log_level(running.pid)
        log = gates.log(level, running.log_bytes() - self._logged)
        configuration = gates.configuration_of(
            plan.build_info, log_level=level or "default", revision=plan.revision, dirty=plan.dirty,
            engine=getattr(plan.target, "engine", ""), io_threads=getattr(plan.target, "io_threads", 0),
        )  # fmt: skip
        checks = _checks(plan, scenario, job, outcome, usage)
        record = Record(
            test_id="",
            timestamp=loaded.timestamp.isoformat(timespec="seconds").replace("+00:00", "Z"),
            environment=plan.environment,
            configuration=configuration,
            test_scenario=_scenario_run(plan, scenario, job, outcome, repeat, repeats),
            results=outcome.results,
            resources=_resources(usage, outcome, self._calls, plan.cpus),
            session=plan.session,
            kind=plan.kind,
            checks=(gates.build(configuration), log, *self._checks, *last, *checks),
        )
        return open_loop.at_rate(record, plan.load.per_second) if isinstance(plan.load, AtRate) else record


@dataclass(frozen=True)
class Loaded:
    """What came of a server's load, and what it cost."""

    timestamp: datetime
    job: Job
    outcome: Outcome
    usage: monitor.Usage


def run_once(
    plan: Plan, scenario: Scenario, made: Workspace, seconds: float, repeat: int, repeats: int
) -> tuple[Record, str]:
    """A record without its test_id, and what the tool printed."""
    if isinstance(plan.load, TcpEcho):
        return _run_echo(plan, plan.load, scenario, made, seconds, repeat, repeats)
    with serve(plan.target, scenario, made, plan.cpus.server) as running:
        run = Run(plan, scenario, running, made)
        run.warm_up()
        loaded = run.load(seconds)
        return run.record(loaded, repeat, repeats), loaded.outcome.raw


def _scenario_run(plan: Plan, scenario: Scenario, job: Job, outcome: Outcome, repeat: int, repeats: int) -> ScenarioRun:
    return ScenarioRun(
        name=scenario.name,
        threads=job.threads,
        connections=job.connections,
        duration=job.seconds,
        method=job.method,
        url=job.url,
        target=plan.target.name,
        tool=plan.load.name,
        tool_version=plan.load.version(),
        command=outcome.command,
        repeat=repeat,
        repeats=repeats,
        request_body_bytes=len(job.request_body),
        response_body_bytes=job.response_bytes or 0,
        server_cpus=plan.cpus.server,
        generator_cpus=plan.cpus.generator,
    )


def _run_echo(
    plan: Plan, load: TcpEcho, scenario: Scenario, made: Workspace, seconds: float, repeat: int, repeats: int
) -> tuple[Record, str]:
    """Server and clients are one process: its figures are of both, and there is nobody else to probe."""
    everything = plan.cpus.server + plan.cpus.generator
    job = Job("tcp://", scenario.threads, scenario.connections, seconds, everything, message_bytes=scenario.message_bytes)
    timestamp = datetime.now(UTC)
    before = monitor.cpu_times(everything)
    outcome = load.run(replace(job, workspace=made.path))
    after = monitor.cpu_times(everything)
    machine = gates.machine(
        after.processes - before.processes - outcome.cpu_seconds, after.steal - before.steal, after.total - before.total
    )
    configuration = gates.configuration_of(plan.build_info, revision=plan.revision, dirty=plan.dirty)
    results = outcome.results
    record = Record(
        test_id="",
        timestamp=timestamp.isoformat(timespec="seconds").replace("+00:00", "Z"),
        environment=plan.environment,
        configuration=configuration,
        test_scenario=_scenario_run(plan, scenario, job, outcome, repeat, repeats),
        results=results,
        resources=Resources(100 * outcome.cpu_seconds / outcome.wall_seconds, None, None, None),
        session=plan.session,
        kind=plan.kind,
        checks=(
            gates.build(configuration),
            gates.errors(results),
            gates.bandwidth(results, plan.bandwidth_mb * len(everything)),
            machine,
        ),
        notes=("server and clients share a process: CPU is of both",),
    )
    return record, outcome.raw


def plan_for(
    target: Target, load: Load, cpus: Cpus, bandwidth_mb: float, kind: str, session: str, warm_up_seconds: float
) -> Plan:
    for thing in (target, load):
        missing = thing.missing()
        if missing:
            raise MissingError(missing)
    build_info = target.build_info()
    return Plan(
        target=target,
        load=load,
        cpus=cpus,
        bandwidth_mb=bandwidth_mb,
        build_info=build_info,
        environment=environment.capture(*gates.compiler_of(build_info)),
        session=session,
        kind=kind,
        revision=repository.revision(),
        dirty=repository.dirty(),
        warm_up_seconds=warm_up_seconds,
    )


def session_name(moment: datetime | None = None) -> str:
    return (moment or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S") + f"-{os.getpid()}"


def cpus_of(text: str, what: str) -> tuple[int, ...]:
    """ "0,2-3" -> (0, 2, 3)."""
    cpus: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    except ValueError:
        raise UsageError(f"{what} {text!r}: expected CPUs as in 0,2-3") from None
    strange = sorted(set(cpus) - os.sched_getaffinity(0))
    if strange or not cpus:
        raise UsageError(f"{what} {text!r}: CPU {strange[0] if strange else '?'} is not one that this process may use")
    return tuple(sorted(set(cpus)))


def choose_cpus(server: str | None, generator: str | None) -> Cpus:
    cpus = share_cpus()
    chosen = Cpus(
        cpus_of(server, "--server-cpus") if server else cpus.server,
        cpus_of(generator, "--generator-cpus") if generator else cpus.generator,
    )
    if set(chosen.server) & set(chosen.generator):
        raise UsageError("--server-cpus and --generator-cpus overlap: each needs its own")
    return chosen
