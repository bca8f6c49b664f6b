"""Owns: a server's process from start to end: pinned, ready, its CPU time and memory, and gone afterwards.

It has a session of its own, so that a server of several processes is measured and ended as one; it dies with us."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from uvhttp_bench.exits import BenchError, MissingError

_TICK = os.sysconf("SC_CLK_TCK")
_LOG_TAIL_MAX = 2000


class Ended(BenchError):
    """A server that is no more: it did not like its options, or it crashed."""


@dataclass(frozen=True)
class CpuTime:
    """Seconds so far."""

    user: float
    system: float

    def since(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(self.user - earlier.user, self.system - earlier.system)

    @property
    def total(self) -> float:
        return self.user + self.system


def pinned(cpus: Sequence[int], command: Sequence[str]) -> list[str]:
    for tool in ("taskset", "setpriv"):
        if not shutil.which(tool):
            raise MissingError(f"{tool} is not installed: apt-get install util-linux")
    return ["taskset", "-c", ",".join(map(str, cpus)), "setpriv", "--pdeathsig", "KILL", *command]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _members(session: int) -> Iterator[tuple[Path, list[str]]]:
    """Directory and the fields of stat from the state on, of each process of a session."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended meanwhile
            if int(fields[3]) == session:
                yield directory, fields


class Started:
    """Use it as a context; `ready` waits until its ports take connections."""

    def __init__(self, name: str, command: Sequence[str], cpus: Sequence[int], log: Path) -> None:
        self.name, self._log = name, log
        with log.open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    pinned(cpus, command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise BenchError(f"{name}: {error}") from error

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def ready(self, ports: Sequence[int], seconds_max: float = 60) -> None:
        deadline = time.monotonic() + seconds_max
        for port in ports:
            while True:
                self.check_alive()
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise BenchError(
                            f"{self.name}: port {port} is not open after {seconds_max:.0f} s: {self.output()}"
                        ) from None
                time.sleep(0.02)

    def output(self) -> str:
        """The end of what it has written, on one line."""
        text = self._log.read_text(errors="replace")[-_LOG_TAIL_MAX:]
        return " | ".join(line.strip() for line in text.splitlines() if line.strip())

    def check_alive(self) -> None:
        status = self._process.poll()
        if status is not None:
            raise Ended(f"{self.name} has ended with status {status}: {self.output() or 'without a word'}")

    def cpu_time(self) -> CpuTime:
        """Of its processes, with those children that have ended and been waited for."""
        user = system = 0
        for _, fields in _members(self._process.pid):
            user += int(fields[11]) + int(fields[13])
            system += int(fields[12]) + int(fields[14])
        return CpuTime(user / _TICK, system / _TICK)

    def memory_mb(self) -> float:
        """Resident, of all its processes."""
        pages = 0
        for directory, _ in _members(self._process.pid):
            try:
                pages += int((directory / "statm").read_text().split()[1])
            except OSError:
                continue
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            if not any(True for _ in _members(self._process.pid)):
                return
