"""Owns: the record of one run: the contract's JSON (standard, section 6.2), extended. The contract's names and units stay;
what this program adds follows them in each object and has a default, so that an older record still reads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.codec import FormatError, dump, from_json, write_text
from uvhttp_bench.model.evidence import Chain, Identity, Inputs
from uvhttp_bench.model.histogram import Histogram

SCHEMA_VERSION = 2

# What a run is worth, worst last. "bounded": the load generator was the bottleneck, so that CPU time holds and the rate is a
# bound. "unstable": measured properly on a machine that did other things meanwhile.
VALID, BOUNDED, UNSTABLE, VOID = STATES = ("valid", "bounded", "unstable", "void")
GENERATOR, BUSY = "generator", "busy connections"  # the checks that say so
LITTLE = "Little's law"  # the check whose place `BUSY` takes where the generator was too slow


@dataclass(frozen=True)
class Environment:
    os: str
    cpu: str
    cores: int
    memory: str
    compiler: str
    compiler_version: str
    kernel: str = ""
    virtualization: str = ""
    governor: str = ""
    swap_mb: float = 0.0
    tools: dict[str, str] = field(default_factory=dict)
    hash: str = ""  # of all that a comparison needs to be equal: everything here but tools and swap
    network: str = ""  # of server and load generator: "private", a namespace of their own, or "shared" with the machine
    congestion_control: str = ""  # TCP's, for sockets that choose none
    sysctls: dict[str, str] = field(default_factory=dict)  # of that network
    descriptors: int = 0  # that a server may have open, RLIMIT_NOFILE
    server_cpus: tuple[int, ...] = ()
    generator_cpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Configuration:
    build_with_mimalloc: bool
    build_with_websocket: bool
    debug: bool
    optimization: str
    coverage: bool = False
    sanitizers: str = ""
    build_type: str = ""
    log_level: str = ""
    version: str = ""
    revision: str = ""  # of the measured build; empty when it is not known
    dirty: bool = False
    engine: str = ""
    io_threads: int = 0
    build_info: str = ""  # as the running binary gives it


@dataclass(frozen=True)
class ScenarioRun:
    name: str
    threads: int
    connections: int
    duration: float  # seconds asked for
    method: str
    url: str
    target: str = "uvhttp"
    tool: str = "wrk"
    tool_version: str = ""
    command: str = ""
    repeat: int = 1  # 1..repeats
    repeats: int = 1
    request_body_bytes: int = 0
    response_body_bytes: int = 0
    loop: str = "closed"  # or "open", with rate_per_second
    rate_per_second: float = 0.0
    server_cpus: tuple[int, ...] = ()
    generator_cpus: tuple[int, ...] = ()
    slices: int = 1  # that `duration` was divided into; other servers had theirs in between


@dataclass(frozen=True)
class Errors:
    connect: int = 0
    read: int = 0
    write: int = 0
    timeout: int = 0
    status: int = 0  # responses with an unexpected status
    body: int = 0  # responses of another length or content

    @property
    def total(self) -> int:
        return self.connect + self.read + self.write + self.timeout + self.status + self.body

    def rate(self, requests: int, tool: str) -> float:
        """Of all that was tried: the requests that `tool` counts, and the errors that are not among these."""
        apart = {"wrk": self.connect + self.read + self.write, "h2load": 0}
        tried = requests + apart.get(tool, self.connect + self.read + self.write + self.timeout)
        return min(1.0, self.total / max(1, tried))


@dataclass(frozen=True)
class Results:
    """transfer_rate_mbps is the standard's: megabytes (2^20) a second, as wrk prints it."""

    total_requests: int
    requests_per_second: float
    latency_avg_ms: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    latency_p999_ms: float | None
    transfer_rate_mbps: float
    latency_stdev_ms: float | None = None
    latency_max_ms: float | None = None
    seconds: float = 0.0  # measured
    bytes_received: int = 0
    errors: Errors = field(default_factory=Errors)
    error_rate: float = 0.0
    rate_samples_mean: float | None = None  # per thread of the generator, as wrk's Req/Sec
    rate_samples_stdev: float | None = None
    histogram: Histogram = field(default_factory=Histogram)  # as recorded
    histogram_corrected: Histogram = field(default_factory=Histogram)  # for coordinated omission, where the tool does so


@dataclass(frozen=True)
class Resources:
    """Of the server's process during the measured seconds; None: could not be measured here."""

    cpu_usage_percent: float | None
    memory_usage_mb: float | None
    context_switches_per_sec: float | None
    system_calls_per_sec: float | None
    cpu_user_us_per_request: float | None = None
    cpu_system_us_per_request: float | None = None
    memory_start_mb: float | None = None
    system_calls_per_request: float | None = None
    generator_cpu_percent: float | None = None  # of the CPUs it is pinned to
    generator_cpu_us_per_request: float | None = None
    other_cpu_percent: float | None = None  # of those CPUs, by other processes
    steal_percent: float | None = None
    memory_growth_mb_per_hour: float | None = None  # of runs that are long enough to tell
    memory_series: tuple[tuple[float, float], ...] = ()  # of those, (seconds, MB), evenly thinned

    @property
    def cpu_us_per_request(self) -> float | None:
        if self.cpu_user_us_per_request is None or self.cpu_system_us_per_request is None:
            return None
        return self.cpu_user_us_per_request + self.cpu_system_us_per_request


@dataclass(frozen=True)
class Check:
    """One check of a run. `takes` names the figures that a failure takes away: "all", or "throughput" (with latency),
    which leaves the CPU time per request; empty: a warning."""

    name: str
    passed: bool
    detail: str
    takes: str = "all"
    unstable: bool = False  # a failure says that the machine was noisy, not that the figure is wrong


@dataclass(frozen=True)
class Counts:
    """Who counted what over the whole life of the server: probe, warm-up and load. None: could not be counted here."""

    generator_requests_min: int = 0  # responses that the harness and its load generator had
    generator_requests_max: int = 0  # and what may have been under way when the generator stopped
    server_requests: int | None = None  # by the server itself
    kernel_connections: int | None = None  # TCP connections that carried something
    kernel_request_bytes: int | None = None  # arrived at the server
    kernel_unread_bytes: int | None = None  # of those, never read by the server
    kernel_response_bytes: int | None = None  # sent by the server, each byte once


@dataclass(frozen=True)
class Record:
    test_id: str  # PERF-2026-01-09-001
    timestamp: str  # ISO 8601, UTC
    environment: Environment
    configuration: Configuration
    test_scenario: ScenarioRun
    results: Results
    resources: Resources
    schema_version: int = SCHEMA_VERSION
    session: str = ""  # the same for the runs of one command
    kind: str = "run"  # run, compare, baseline, soak, peers
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    counts: Counts | None = None
    identity: Identity = field(default_factory=Identity)
    inputs: Inputs = field(default_factory=Inputs)
    chain: Chain = field(default_factory=Chain)

    @property
    def status(self) -> str:
        failed = [check for check in self.checks if not check.passed and check.takes]
        if any(check.name not in (GENERATOR, BUSY) and not check.unstable for check in failed):
            return VOID
        if any(check.unstable for check in failed):
            return UNSTABLE
        return BOUNDED if failed else VALID

    def holds(self, figure: str) -> bool:
        """Whether a figure ("throughput", "latency", "cpu") may be used."""
        group = "throughput" if figure == "latency" else figure
        return not any(c.takes in ("all", group) and not c.unstable for c in self.checks if not c.passed)


def worst(records: Sequence[Record]) -> str:
    return max((record.status for record in records), key=STATES.index)


def read(path: Path) -> Record:
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, where: str) -> Record:
    try:
        value = json.loads(text)
        if isinstance(value, dict) and int(value.get("schema_version", 0)) > SCHEMA_VERSION:
            raise BenchError(
                f"{where}: schema version {value['schema_version']}; this program knows {SCHEMA_VERSION}: update it"
            )
        return from_json(Record, value)
    except (FormatError, ValueError) as error:
        raise BenchError(f"{where}: not a record: {error}") from error


def write(path: Path, record: Record) -> None:
    write_text(path, dump(record))
