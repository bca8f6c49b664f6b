"""Owns: what a load tool is asked and what it answers; running it pinned, with its CPU time."""

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
from uvhttp_bench.model.record import Results

GRACE_SECONDS = 45  # beyond what was asked for; wrk waits for an answer up to 30 s


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
    answer_bytes: int | None = None  # head and body, where every answer has the same length
    message_bytes: int = 0
    pipeline: int = 1
    headers: tuple[tuple[str, str], ...] = ()
    response_body: bytes | None = None
    workspace: Path = Path("/tmp")


@dataclass(frozen=True)
class Outcome:
    results: Results
    raw: str  # what the tool printed
    command: str
    cpu_seconds: float  # of the tool
    wall_seconds: float
    answer_bytes_checked: bool = False  # the tool itself has compared every answer's length or content


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
