"""Owns: the results of the experiment against Tomcat, as a file that its tables and pictures are made from."""

import json
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.codec import FormatError, from_json
from uvhttp_bench.model.record import Configuration, Environment

SCHEMA_VERSION = 2  # 1 had neither revision nor environment


@dataclass(frozen=True)
class Spread:
    """As in wrk's "Thread Stats"; within_percent: of the samples, nearer to the mean than one standard deviation."""

    mean: float
    stdev: float
    maximum: float
    within_percent: float


@dataclass(frozen=True)
class Measurement:
    """One run of wrk against one route of a server."""

    target: str  # uvhttp, tomcat
    mode: str  # loop, worker, coroutine, thread
    workload: str
    path: str
    round: int
    worker_threads: int | None  # None: the server's default
    requests: int
    seconds: float
    latency_ms: Spread
    rate_per_thread: Spread  # requests/s of one of wrk's threads
    latency_avg_ms: float | None  # as measured; wrk fills the table's up for stalls
    latency_p99_ms: float | None  # None: too few samples
    cpu_user_us: float  # of the server's process, per request
    cpu_system_us: float
    memory_mb: float  # resident, under load

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_user_us + self.cpu_system_us


@dataclass(frozen=True)
class Experiment:
    timestamp: str  # ISO 8601, UTC
    threads: int  # wrk's
    connections: int
    seconds: float  # of each run, asked for
    rounds: int
    server_cpus: tuple[int, ...]
    generator_cpus: tuple[int, ...]
    versions: dict[str, str]
    measurements: tuple[Measurement, ...]
    sweep: tuple[Measurement, ...] = ()
    skipped: tuple[str, ...] = ()
    void: tuple[str, ...] = ()  # runs that are not among the measurements, and why
    restless: tuple[str, ...] = ()  # runs whose latency says that the machine did other things; their CPU time holds
    schema_version: int = SCHEMA_VERSION
    revision: str = ""  # of our server; empty when it is not known
    dirty: bool = False
    environment: Environment | None = None
    configuration: Configuration | None = None  # of our server, as it says itself


def read(path: Path) -> Experiment:
    try:
        return from_json(Experiment, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, FormatError) as error:
        raise BenchError(f"{path}: not what experiment writes: {error}") from error
