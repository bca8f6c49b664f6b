"""Owns: the job of a load tool and its outcome; running it pinned, with its CPU time."""

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.interrupt import held
from uvhttp_bench.model.record import Check, Results

GRACE_SECONDS = 45  # beyond what was asked for; wrk waits for a response up to 30 s


@dataclass(frozen=True)
class Job:
    """One run of a load tool. `url` names host and port."""

    url: str
    threads: int
    connections: int
    seconds: float
    cpus: tuple[int, ...]
    method: str = "GET"
    request_body: bytes = b""
    status: int = 200
    response_bytes: int | None = None
    answer_bytes: int | None = None  # head and body, where every response has the same length
    message_bytes: int = 0
    pipeline: int = 1
    http2: bool = False  # `pipeline` is streams then
    headers: tuple[tuple[str, str], ...] = ()
    workspace: Path = Path("/tmp")
    rate_per_second: float = 0.0  # of an open loop; 0: a closed one
    seed: int = 1  # of its arrivals
    expected_body: Path | None = None  # a file that every body must equal; None: bodies differ
    echoes: bool = False  # every response is to be the body of its request
    threads_exactly: bool = False  # as many threads as asked for, though there are fewer CPUs


@dataclass(frozen=True)
class Outcome:
    results: Results
    raw: str  # what the tool printed
    command: str
    cpu_seconds: float  # of the tool
    wall_seconds: float
    answer_bytes_checked: bool = False  # the tool itself has compared every response's length or content
    request_bytes: int | None = None  # of one request as the tool sends it; None: it does not say
    response_bytes: int | None = None  # of one response, where the tool knows it better than a probe
    connections: int = 0  # opened in the whole run; 0: as many as asked for
    responses: int = 0  # of the whole run, where the tool's results are of a part of it; 0: as many as in the results
    batch: int = 1  # requests that share one latency
    waited: int = 0  # latencies of requests that had no response yet when the time was up
    checks: tuple[Check, ...] = ()  # what the load knows about itself, of several generators for example


class Load(Protocol):
    name: str

    def missing(self) -> str | None:
        """How to get the tool, or None when it is there."""

    def version(self) -> str: ...

    def speaks(self, scheme: str) -> bool: ...

    def run(self, job: Job) -> Outcome: ...


@dataclass(frozen=True)
class Finished:
    stdout: str
    stderr: str
    code: int
    cpu_seconds: float
    wall_seconds: float


def allow_many_files() -> None:
    """Connections are descriptors: everything started from here may have as many as the machine permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pinned(cpus: Sequence[int], command: Sequence[str | Path]) -> list[str]:
    words = [str(word) for word in command]
    return ["taskset", "-c", ",".join(map(str, cpus)), *words] if cpus else words


def shown(command: Sequence[str]) -> str:
    """For a record: without where the repository is on this machine."""
    return " ".join(command).replace(f"{repository.ROOT}/", "")


def find(program: str, package: str) -> str:
    path = shutil.which(program)
    if not path:
        raise MissingError(f"{program} is not installed: apt-get install {package}")
    return path


def execute(command: Sequence[str | Path], cpus: Sequence[int], seconds: float) -> Finished:
    """Runs a tool to its end. It never outlives this function."""
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = None
    try:
        with held():
            process = subprocess.Popen(
                pinned(cpus, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        stdout, stderr = process.communicate(timeout=seconds + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[0]} did not end {GRACE_SECONDS} s after its time") from None
    finally:
        if process and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(stdout, stderr, process.returncode, cpu, time.monotonic() - started)
