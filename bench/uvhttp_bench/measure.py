"""Owns: one run: a fresh server, a warm-up, the measured seconds, the checks, the record."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

from uvhttp_bench import (
    counts,
    environment,
    evidence,
    gates,
    identity,
    load_checks,
    monitor,
    network,
    open_loop,
    repository,
    sockets,
    standard,
)
from uvhttp_bench.exits import BenchError, MissingError, UsageError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import Job, Load, Outcome
from uvhttp_bench.loads.fanned import Fanned
from uvhttp_bench.loads.tcp_echo import TcpEcho
from uvhttp_bench.model.evidence import Inputs
from uvhttp_bench.model.record import Check, Configuration, Environment, Record, Resources, ScenarioRun
from uvhttp_bench.processes import Processes
from uvhttp_bench.scenarios import bodies
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import HOST, Response, Running, Target, Workspace, ask, ended, probe, serve

WARM_UP_SECONDS = 1.0
BANDWIDTH_SECONDS = 0.3
MEMORY_POINTS = 180  # of a record: ten seconds apart in half an hour


class Skip(Exception):
    """The server does not have what the scenario asks for, and need not."""


@dataclass(frozen=True)
class Cpus:
    server: tuple[int, ...]
    generator: tuple[int, ...]


def share_cpus() -> Cpus:
    """One for the server, the others for the generator; a machine with one CPU measures its scheduler, and a warning says so."""
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
    expected: identity.Expected = field(default_factory=identity.Expected)
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


def expected_body(target: Target, scenario: Scenario, made: Workspace) -> Path | None:
    return bodies.expected(scenario, made.static, made.path, getattr(target, "large", bodies.ALPHABET))


def job_of(
    target: Target, scenario: Scenario, running: Running, cpus: Cpus, seconds: float, made: Workspace, response: int | None
) -> Job:
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
        answer_bytes=response,
        message_bytes=scenario.message_bytes,
        pipeline=scenario.pipeline,
        http2=scenario.http2,
        headers=scenario.headers,
        workspace=made.path,
        expected_body=expected_body(target, scenario, made),
        echoes=bodies.is_echo(scenario),
        threads_exactly=scenario.group == "threads",
    )


def _checked(when: str, target: Target, scenario: Scenario, running: Running, made: Workspace) -> tuple[Response, Check]:
    file, response = expected_body(target, scenario, made), probe(running, scenario, target.name)
    expected = gates.Expected(scenario.status, scenario.response_bytes, None if file is None else file.read_bytes())
    return response, gates.response(when, response.status, response.body, expected)


@dataclass(frozen=True)
class First:
    """What the first response has shown. Schemes without a probe have none."""

    checks: tuple[Check, ...] = ()
    bytes_total: int | None = None  # of head and body, where every response has as many
    said: counts.Said = counts.NOTHING


def _said_of_probe(scenario: Scenario, response: Response) -> counts.Said:
    scheme = counts.scheme_of(scenario.scheme, scenario.http2)
    said = counts.of_probe(scheme, len(scenario.request_body), response.bytes_total, len(response.body))
    if scenario.headers or scenario.http2:  # fields may replace the harness's own, and HTTP/2 compresses them
        return replace(said, request_bytes=None)
    return said


def first_response(target: Target, scenario: Scenario, running: Running, made: Workspace) -> First:
    """A wrong first response ends the run before it costs time."""
    if scenario.scheme not in ("http", "https"):
        return First()
    response, check = _checked("before", target, scenario, running, made)
    if scenario.optional and response.status == 404:
        raise Skip(f"{scenario.name}: {target.name} has no {scenario.path}")
    if not check.passed:
        raise BenchError(f"{target.name}: {scenario.method} {scenario.path}: {check.detail}")
    said = _said_of_probe(scenario, response)
    return First((check,), None if scenario.response_bytes is None else response.bytes_total, said)


def _last_response(target: Target, scenario: Scenario, running: Running, made: Workspace) -> First:
    if scenario.scheme not in ("http", "https"):
        return First()
    response, check = _checked("after", target, scenario, running, made)
    return First((check,), said=_said_of_probe(scenario, response))


def requests_counted(target: Target, scenario: Scenario, running: Running) -> tuple[int | None, counts.Said]:
    """By the server itself, before this question, and what the question adds. None: it does not count, or does not say."""
    path = getattr(target, "counters", "")
    if not path:
        return None, counts.NOTHING
    scheme = "https" if scenario.scheme == "https" else "http"
    try:
        response = ask(scheme, running.port(scheme), path)
        found = json.loads(response.body) if response.status == 200 else {}
        name = "ws_messages_received" if scenario.scheme == "ws" else "requests"
        said = counts.of_probe(scheme, 0, response.bytes_total, len(response.body))
        if scenario.scheme == "ws":  # which counts messages
            said = replace(said, requests=counts.Range())
        return int(found[name]) - (0 if scenario.scheme == "ws" else 1), said
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None, counts.NOTHING


def _log_level(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.partition(b"=")[2].decode() for word in words if word.startswith(b"UVHTTP_LOG_LEVEL=")), "")


def _resources(
    usage: monitor.Usage, outcome: Outcome, inputs: Inputs, calls_per_request: float | None, cpus: Cpus
) -> Resources:
    growth = gates.memory(usage.memory_series)[1]
    return Resources(
        memory_usage_mb=usage.memory_mb,
        system_calls_per_sec=None if calls_per_request is None else calls_per_request * outcome.results.requests_per_second,
        memory_start_mb=usage.memory_start_mb,
        system_calls_per_request=calls_per_request,
        generator_cpu_percent=100 * outcome.cpu_seconds / (outcome.wall_seconds * len(cpus.generator)),
        memory_growth_mb_per_hour=growth,
        memory_series=monitor.thinned(usage.memory_series, MEMORY_POINTS) if growth is not None else (),
        **evidence.resources(inputs, outcome.results.total_requests),
    )


@contextlib.contextmanager
def blamed(name: str, running: Running) -> Iterator[None]:
    """Whatever goes wrong next to a server that has ended is the server's doing, and its last line says why."""
    try:
        yield
    except (BenchError, OSError) as error:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(0.2)
        if running.alive():
            raise
        raise ended(name, "during the run", running) from error


class Run:
    """One server that is alive: its first response, the load, its record."""

    def __init__(self, plan: Plan, scenario: Scenario, running: Running, made: Workspace) -> None:
        self._plan, self._scenario, self._running, self._made = plan, plan.scenario or scenario, running, made
        self._calls: float | None = None  # of the system, per request
        self._controls: set[str] = set()  # congestion controls of the server's sockets
        self._said: list[counts.Said] = []  # by each client that this server has had

    def __enter__(self) -> "Run":
        self._sockets = sockets.Counter(self._running.port(self._scenario.scheme))
        plan = self._plan
        try:
            with blamed(plan.target.name, self._running):
                self._identity = identity.before(plan.expected, plan.target, self._running, plan.load, self._asked)
                self._first = first_response(plan.target, self._scenario, self._running, self._made)
        except BaseException:
            self._sockets.close()
            raise
        self._said.append(self._first.said)
        self._logged = self._running.log_bytes()
        self._processes = Processes(self._running.pid)  # after the first response, when it has started its workers
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets.close()

    def _asked(self, response: Response) -> None:
        """A request of the harness at the server's plain port is one more request, and maybe a connection at the measured port."""
        said = counts.of_probe("http", 0, response.bytes_total, len(response.body))
        if self._scenario.scheme == "https":
            said = counts.Said(requests=said.requests)
        elif self._scenario.scheme == "ws":  # whose server counts messages
            said = replace(said, requests=counts.Range())
        self._said.append(said)

    def _run(self, seconds: float) -> tuple[Job, Outcome]:
        plan, size = self._plan, self._first.bytes_total
        job = job_of(plan.target, self._scenario, self._running, plan.cpus, seconds, self._made, size)
        outcome = plan.load.run(job)
        self._said.append(counts.of_load(job, outcome))
        return job, outcome

    @contextlib.contextmanager
    def _observed(self) -> Iterator[None]:
        """Under load: which congestion control the server's sockets use."""
        with network.Observer(self._running.port(self._scenario.scheme)) as seen:
            yield
        self._controls |= seen.names

    def warm_up(self) -> None:
        """System calls per request: counted here, so that the measured seconds have no counter next to them."""
        seconds = self._plan.warm_up_seconds
        with blamed(self._plan.target.name, self._running), self._observed():
            if seconds > WARM_UP_SECONDS:  # a virtual machine that compiles while it runs: no counter may slow it down
                self._run(seconds)
            if seconds > 0:
                self._count_calls(min(seconds, WARM_UP_SECONDS))
        self._logged = self._running.log_bytes()

    def _count_calls(self, seconds: float) -> None:
        requests = 0

        def load() -> None:
            nonlocal requests
            requests = self._run(seconds)[1].results.total_requests

        calls = monitor.count_system_calls(self._running.pid, load)
        self._calls = calls / requests if calls is not None and requests else None

    def load(self, seconds: float) -> "Loaded":
        plan, timestamp = self._plan, datetime.now(UTC)
        observed = contextlib.nullcontext() if self._controls else self._observed()  # already seen in a warm-up
        with blamed(plan.target.name, self._running), observed:
            sampler = monitor.Sampler(self._processes, plan.cpus.server + plan.cpus.generator).start()
            try:
                job, outcome = self._run(seconds)
                usage = sampler.stop()
                if not self._running.alive():  # its children may continue responding
                    raise ProcessLookupError(self._running.pid)
            finally:
                sampler.cancel()
        return Loaded(timestamp, job, outcome, usage)

    def _conditions(self) -> list[Check]:
        """Whether this server was measured under what all others are."""
        environment, placed = self._plan.environment, monitor.placement(self._running.pid)
        return [
            gates.congestion_control(environment.congestion_control, self._controls),
            gates.placement(self._plan.cpus.server, placed.cpus, environment.descriptors, placed.descriptors),
        ]

    def record(self, loaded: "Loaded", repeat: int, repeats: int) -> Record:
        """Without its test_id."""
        plan, scenario, running = self._plan, self._scenario, self._running
        job, outcome, usage = loaded.job, loaded.outcome, evidence.compact(loaded.usage)
        moved = self._sockets.moved(sum(said.connections for said in self._said))
        log_bytes = running.log_bytes() - self._logged
        with blamed(plan.target.name, running):
            server, question = requests_counted(plan.target, scenario, running)
            agree, counted = counts.counts(self._said, moved, server)
            last = _last_response(plan.target, scenario, running, self._made)
            self._said += [question, last.said]  # of the same server's next slice
            seen = identity.after(self._identity, running, self._asked)
        level = _log_level(running.pid)
        log = gates.log(level, log_bytes)
        configuration = gates.configuration_of(
            plan.build_info, log_level=level or "default", revision=plan.revision, dirty=plan.dirty,
            engine=getattr(plan.target, "engine", ""), io_threads=getattr(plan.target, "io_threads", 0),
        )  # fmt: skip
        test_scenario = _scenario_run(plan, scenario, job, outcome, repeat, repeats)
        inputs = evidence.inputs(job, outcome, usage, plan.bandwidth_mb * len(plan.cpus.generator), log_bytes)
        checks = [*self._conditions(), *load_checks.of_load(outcome.results, test_scenario, inputs), *outcome.checks]
        checks.append(gates.private_network(plan.environment, network.different()))
        record = Record(
            test_id="",
            timestamp=loaded.timestamp.isoformat(timespec="seconds").replace("+00:00", "Z"),
            environment=plan.environment,
            configuration=configuration,
            test_scenario=test_scenario,
            results=outcome.results,
            resources=_resources(usage, outcome, inputs, self._calls, plan.cpus),
            session=plan.session,
            kind=plan.kind,
            checks=(
                gates.build(configuration),
                log,
                *identity.checks(seen),
                *self._first.checks,
                *last.checks,
                agree,
                *checks,
                *standard_checks(plan, configuration),
            ),
            counts=counted,
            identity=seen,
            inputs=inputs,
        )
        rate = plan.load.per_second if isinstance(plan.load, AtRate | Fanned) else 0.0
        return open_loop.at_rate(record, rate) if rate else record


def standard_checks(plan: Plan, configuration: Configuration) -> tuple[Check, ...]:
    """Warnings: what the standard asks for and this build or machine does not have."""
    machine = standard.thresholds(plan.environment, plan.load.name, standard.somaxconn())
    return standard.configuration(configuration), machine


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
    with serve(plan.target, scenario, made, plan.cpus.server) as running, Run(plan, scenario, running, made) as run:
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
    with network.Observer(0) as sockets_seen:
        outcome = load.run(replace(job, workspace=made.path))
    after = monitor.cpu_times(everything)
    inputs = evidence.of_one_process(outcome, before, after, plan.bandwidth_mb * len(everything))
    configuration = gates.configuration_of(plan.build_info, revision=plan.revision, dirty=plan.dirty)
    results = outcome.results
    seen = identity.of_file(load, load.program, plan.session, load.build_info())
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
        inputs=inputs,
        checks=(
            gates.build(configuration),
            *load_checks.of_one_process(results, inputs),
            *(
                [gates.congestion_control(plan.environment.congestion_control, sockets_seen.names)]
                if network.private()
                else []
            ),
            *identity.checks(seen),
            *standard_checks(plan, configuration),
            gates.private_network(plan.environment, network.different()),
        ),
        notes=("server and clients share a process: CPU is of both",),
        identity=seen,
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
        environment=environment.capture(*gates.compiler_of(build_info), cpus.server, cpus.generator),
        session=session,
        kind=kind,
        revision=repository.revision(),
        dirty=repository.dirty(),
        warm_up_seconds=warm_up_seconds,
        expected=identity.expect(target, session),
    )


def session_name(moment: datetime | None = None) -> str:
    return (moment or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S") + f"-{os.getpid()}"


def cpus_of(text: str, what: str) -> tuple[int, ...]:
    try:
        cpus = monitor.cpu_list(text)
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
