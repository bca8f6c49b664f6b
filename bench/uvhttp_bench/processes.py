"""Owns: which processes a server consists of, what they use together, and ending those that are left behind. Linux.

A server may fork: workers at its start, or a process for each connection. They are found by their session, which starts with
the server's first process, and as children of processes that belong to the server already."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError

TICK = os.sysconf("SC_CLK_TCK")
MARK = "BENCH_SERVER"  # a variable in the environment of a server's processes, wherever they go
THREADS_MAX = 64  # of a process whose children are looked for while it is measured: each thread has a list of its own
KILL_SECONDS = 5  # a process may have to finish what the kernel does for it


def cpu_seconds(pid: int) -> float:
    """User and system time so far, in nanoseconds' resolution: the kernel's CPU clock of the process."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_mb(pid: int) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else 0.0


def context_switches(pid: int) -> int:
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            total += sum(int(number) for number in re.findall(r"ctxt_switches:\s+(\d+)", status.read_text()))
    return total


@dataclass(frozen=True)
class _Stat:
    """What /proc/PID/stat says. Times in seconds, in steps of 10 ms."""

    parent: int
    session: int
    user: float
    system: float
    reaped: float  # of children that have ended and been waited for, and of theirs
    threads: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    user, system, user_reaped, system_reaped = (int(fields[i]) / TICK for i in (11, 12, 13, 14))
    return _Stat(int(fields[1]), int(fields[3]), user, system, user_reaped + system_reaped, int(fields[17]), int(fields[19]))


def _all() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in path.read_text().split()]
    return found


@dataclass
class _Member:
    started: int
    cpu_seconds: float = 0.0  # when it was last seen


class Processes:
    """All processes of a server. Those that end between two looks keep the CPU time of the last look, or what their parent got from wait(2), whichever is more."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self._members: dict[int, _Member] = {}
        self.find()
        self._reaped = self._reaped_so_far()  # before they were looked at

    def find(self) -> None:
        """Looks at every process of the machine, which takes milliseconds: not while something is measured."""
        stats = {pid: stat for pid in _all() if (stat := _stat(pid))}
        found = {pid for pid, stat in stats.items() if pid == self.leader or stat.session == self.leader}
        found |= {pid for pid, member in self._members.items() if pid in stats and stats[pid].started == member.started}
        grown = True
        while grown:
            more = {pid for pid, stat in stats.items() if stat.parent in found and pid not in found}
            found |= more
            grown = bool(more)
        for pid in found:
            self._note(pid, stats[pid])

    def find_children(self) -> None:
        """Cheaper: only children of known processes."""
        todo = list(self._members)
        while todo:
            pid = todo.pop()
            stat = self._alive(pid)
            if not stat or stat.threads > THREADS_MAX:
                continue
            for child in _children(pid):
                if child not in self._members and (found := _stat(child)):
                    self._note(child, found)
                    todo.append(child)

    def _note(self, pid: int, stat: _Stat) -> None:
        if pid not in self._members:
            self._members[pid] = _Member(stat.started)

    def _alive(self, pid: int) -> _Stat | None:
        stat = _stat(pid)
        return stat if stat and stat.started == self._members[pid].started else None

    @property
    def pids(self) -> Sequence[int]:
        return [pid for pid in self._members if self._alive(pid)]

    def cpu_seconds(self) -> float:
        """Since the start of the server. Raises OSError when its first process is gone."""
        living = reaped = gone = 0.0
        for pid, member in self._members.items():
            stat = self._alive(pid)
            if not stat:
                if pid == self.leader:
                    raise ProcessLookupError(pid)
                gone += member.cpu_seconds
                continue
            try:
                member.cpu_seconds = cpu_seconds(pid)
            except OSError:
                if pid == self.leader:
                    raise
                member.cpu_seconds = stat.user + stat.system
            living += member.cpu_seconds
            reaped += stat.reaped
        return living + max(reaped - self._reaped, gone)

    def _reaped_so_far(self) -> float:
        return sum(stat.reaped for pid in self._members if (stat := self._alive(pid)))

    def split(self) -> tuple[float, float]:
        """User and system time so far of those that are alive, in steps of 10 ms."""
        stats = [stat for pid in self._members if (stat := self._alive(pid))]
        return sum(stat.user for stat in stats), sum(stat.system for stat in stats)

    def switches(self) -> dict[int, int]:
        return {pid: context_switches(pid) for pid in self.pids}

    def memory_mb(self) -> float:
        """Resident; a page that several of them share counts once for each."""
        total = 0.0
        for pid in self.pids:
            with contextlib.suppress(OSError):
                total += memory_mb(pid)
        return total


def kill_marked(mark: str) -> None:
    """Processes that have left the session and the process group of their server still have its environment. They are gone
    when this returns: one that has been killed may run for some time. BenchError when one is not gone in KILL_SECONDS."""
    wanted = f"{MARK}={mark}".encode()
    deadline = time.monotonic() + KILL_SECONDS
    clear = 0
    while clear < 2:  # twice: in execve a process has no environment for a moment
        left = []
        for pid in _all():  # in each round: one may have forked meanwhile
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    left.append(pid)
                    os.kill(pid, signal.SIGKILL)
        clear = 0 if left else clear + 1
        if left and time.monotonic() > deadline:
            raise BenchError(f"processes {', '.join(map(str, left))} were killed and do not end; see /proc/PID/stack")
        time.sleep(0.002)
