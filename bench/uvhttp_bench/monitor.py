"""Owns: what the kernel says about a server and about CPUs: time, switches, memory, system calls. Linux."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvhttp_bench.interrupt import held
from uvhttp_bench.processes import TICK, Processes

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Placement:
    """Of all processes of a session, as the kernel has them."""

    cpus: frozenset[tuple[int, ...]]  # that its threads may use
    descriptors: frozenset[int]  # that its processes may have open


def _session(leader: int) -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((process / "stat").read_text().rsplit(")", 1)[1].split()[3]) == leader:
                yield process


def cpu_list(text: str) -> tuple[int, ...]:
    """ "0,2-3" -> (0, 2, 3)."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def placement(leader: int) -> Placement:
    cpus: set[tuple[int, ...]] = set()
    descriptors: set[int] = set()
    for process in _session(leader):
        with contextlib.suppress(OSError):  # what ends meanwhile
            limit = re.search(r"^Max open files\s+(\S+)", (process / "limits").read_text(), re.M)
            if limit:
                descriptors.add(int(limit[1]) if limit[1].isdigit() else -1)
            for status in process.glob("task/*/status"):
                allowed = re.search(r"^Cpus_allowed_list:\s+(\S+)", status.read_text(), re.M)
                if allowed:
                    cpus.add(cpu_list(allowed[1]))
    return Placement(frozenset(cpus), frozenset(descriptors))


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of some CPUs together: of processes, stolen by the host, and passed."""

    processes: float
    steal: float
    total: float


def cpu_times(cpus: Sequence[int]) -> CpuTimes:
    processes = steal = total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            values = [int(number) for number in numbers[:8]]
            processes += values[0] + values[1] + values[2]
            steal += values[7]
            total += sum(values)
    return CpuTimes(processes / TICK, steal / TICK, total / TICK)


@dataclass(frozen=True)
class Usage:
    """Of the server between two moments."""

    wall_seconds: float
    user_seconds: float
    system_seconds: float
    switches: int
    memory_start_mb: float
    memory_mb: float  # largest of the samples
    cpu_series: tuple[float, ...]  # CPU seconds of the server in each tenth of a second
    memory_series: tuple[tuple[float, float], ...]  # (seconds since the start, MB)
    processes_seconds: float  # of all processes on the monitored CPUs
    steal_seconds: float
    capacity_seconds: float  # of those CPUs

    @property
    def cpu_seconds(self) -> float:
        return self.user_seconds + self.system_seconds


def thinned(series: Sequence[tuple[float, float]], most: int) -> tuple[tuple[float, float], ...]:
    """At most `most` of them, evenly, with the first and the last."""
    if len(series) <= most:
        return tuple(series)
    step = (len(series) - 1) / (most - 1)
    return tuple(series[round(number * step)] for number in range(most))


class Sampler:
    """Samples a server, with every process that belongs to it, from start() to stop()."""

    def __init__(self, server: Processes, cpus: Sequence[int]) -> None:
        self.server = server
        self.cpus = tuple(cpus)
        self._done = threading.Event()
        self._series: list[float] = []
        self._memory: list[tuple[float, float]] = []
        self._wall = time.monotonic()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        last = self._cpu
        while not self._done.wait(SAMPLE_SECONDS):
            try:
                self.server.find_children()
                now = self.server.cpu_seconds()
                self._note_memory()
            except OSError:  # it has ended; the checks will say so
                return
            self._series.append(now - last)
            last = now

    def _note_memory(self) -> None:
        self._memory.append((time.monotonic() - self._wall, self.server.memory_mb()))

    def start(self) -> "Sampler":
        self.server.find_children()
        self._note_memory()
        self._switches = self.server.switches()
        self._split = self.server.split()
        self._times = cpu_times(self.cpus)
        self._wall = time.monotonic()
        self._cpu = self.server.cpu_seconds()
        self._thread.start()
        return self

    def cancel(self) -> None:
        self._done.set()
        self._thread.join()

    def stop(self) -> Usage:
        self.cancel()
        wall = time.monotonic() - self._wall
        times = cpu_times(self.cpus)
        self.server.find_children()
        cpu = self.server.cpu_seconds() - self._cpu
        user, system = (max(0.0, b - a) for a, b in zip(self._split, self.server.split(), strict=True))
        switches = sum(now - self._switches.get(pid, 0) for pid, now in self.server.switches().items())
        self._note_memory()
        part = user / (user + system) if user + system > 0 else 0.0
        return Usage(
            wall_seconds=wall,
            user_seconds=cpu * part,
            system_seconds=cpu * (1 - part),
            switches=switches,
            memory_start_mb=self._memory[0][1],
            memory_mb=max(mb for _, mb in self._memory),
            cpu_series=tuple(self._series),
            memory_series=tuple(self._memory),
            processes_seconds=times.processes - self._times.processes,
            steal_seconds=times.steal - self._times.steal,
            capacity_seconds=times.total - self._times.total,
        )


# --- system calls ---


def _reap(process: "subprocess.Popen[Any] | None") -> None:
    if process:
        if process.poll() is None:
            process.kill()
        process.wait()


def _perf(pids: Sequence[int], work: Callable[[], None]) -> int | None:
    """Counted by the kernel's tracepoint, which costs the server next to nothing. None: not permitted here."""
    control_read, control_write = os.pipe()
    ack_read, ack_write = os.pipe()
    with tempfile.NamedTemporaryFile(prefix="uvhttp-bench-perf-") as output:
        command = ["perf", "stat", "-x", ",", "-o", output.name, "-e", "raw_syscalls:sys_enter"]
        command += ["-p", ",".join(map(str, pids)), "-D", "-1", "--control", f"fd:{control_read},{ack_write}"]
        process = None
        try:
            with held():
                process = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(control_read, ack_write)
                )
            os.close(ack_write)  # so that its end is seen when perf has ended
            ack_write = -1
            with contextlib.suppress(OSError):
                os.write(control_write, b"enable\n")
            ready, _, _ = select.select([ack_read], [], [], 5)
            if not ready or not os.read(ack_read, 64):
                return None
            work()
            process.send_signal(signal.SIGINT)
            process.wait(5)
            found = re.search(r"^(\d+),", Path(output.name).read_text(), re.M)
            return int(found[1]) if found else None
        except subprocess.TimeoutExpired:
            return None
        finally:
            _reap(process)
            for fd in (control_read, control_write, ack_read, ack_write):
                if fd >= 0:
                    os.close(fd)


def _strace(pids: Sequence[int], work: Callable[[], None]) -> int | None:
    """Slows the server down: the count is right, the time is not."""
    with tempfile.NamedTemporaryFile(prefix="uvhttp-bench-strace-") as output:
        command = ["strace", "-f", "-c", "-o", output.name, "-p", ",".join(map(str, pids))]
        process = None
        try:
            with held():
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            assert process.stderr
            if "attached" not in process.stderr.readline():
                return None
            work()
            process.send_signal(signal.SIGINT)
            process.wait(5)
            found = re.search(r"^100\.00\s+[\d.]+\s+\d*\s+(\d+)\s.*total$", Path(output.name).read_text(), re.M)
            return int(found[1]) if found else None
        except subprocess.TimeoutExpired:
            return None
        finally:
            _reap(process)
            if process and process.stderr:
                process.stderr.close()


def counters() -> Iterator[tuple[str, Callable[[Sequence[int], Callable[[], None]], int | None]]]:
    if shutil.which("perf"):
        yield "perf", _perf
    if shutil.which("strace"):
        yield "strace", _strace


def count_system_calls(pid: int, work: Callable[[], None]) -> int | None:
    """Calls of the server's processes while `work` runs. None where this machine cannot count, and work has then run all the same."""
    ran = False

    def once() -> None:
        nonlocal ran
        ran = True
        work()

    pids = Processes(pid).pids
    for _, counter in counters():
        counted = counter(pids, once)
        if ran:
            return counted
    work()
    return None
