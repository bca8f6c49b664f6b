"""Owns: a soak with everything at once: HTTP/1, HTTP/2 and WebSocket, in clear and over TLS, each at a rate of its own and all checked;
clients that come and go, that are slow and that break off; reloads; and servers that are stopped under load. Memory, descriptors and
latency have to stay as they are."""

import contextlib
import dataclasses
import json
import random
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uvhttp_bench import processes, repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.base import pinned
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import leak
from uvhttp_bench.targets.base import HOST, Running, Workspace, serve
from uvhttp_bench.targets.uvhttp import Uvhttp

SAMPLE_SECONDS = 5.0
RELOAD_SECONDS = 30.0
DRAIN_SECONDS = 300.0  # between two servers that are stopped under load
DRAIN_LOAD_SECONDS = 3
BREAK_OFF_SECONDS = 0.1  # between two clients that break off
TOLERANCE = 0.2  # what may be more at the end than at the start, whatever the interval says
Z = 1.96


@dataclass(frozen=True)
class Part:
    """What one generator does, as uvhttp-load has it. `rate`: requests or messages per second."""

    name: str
    scheme: str
    path: str
    rate: int
    options: tuple[str, ...]


PARTS = (
    Part("HTTP/1", "http", "/", 400, ("-c", "20")),
    Part("HTTP/1, uploads", "http", "/api", 100, ("-c", "5", "--echo")),
    Part("HTTP/1, TLS", "https", "/", 200, ("-c", "10")),
    Part("HTTP/2", "http", "/", 400, ("-c", "4", "--h2", "-m", "10")),
    Part("HTTP/2, TLS", "https", "/large/10kb", 100, ("-c", "4", "--h2", "-m", "10")),
    Part("WebSocket", "ws", "/ws", 200, ("-c", "10")),
    Part("threads", "http", "/sleep200/worker", 20, ("-c", "20")),
    Part("new connections", "http", "/", 100, ("-c", "4", "--requests-per-connection", "1")),
    Part("TLS handshakes", "https", "/", 20, ("-c", "4", "--requests-per-connection", "1")),
    Part("slow readers", "http", "/large/1mb", 2, ("-c", "8", "--receive-rate", "1000000")),
)


@dataclass
class Soak:
    """What was seen. Times in seconds from the start."""

    samples: list[tuple[float, float, int]] = field(default_factory=list)  # resident MB, descriptors
    slices: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    broken_off: int = 0
    reloads: int = 0
    drains: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


# --- the load ---


def load_command(part: Part, running: Running, seconds: float) -> list[str]:
    url = f"{part.scheme}://{HOST}:{running.port(part.scheme)}{part.path}"
    rest = ["-t", "1", "-R", str(part.rate), "-d", f"{seconds:.3f}s", "-j", "-", url]
    return [str(repository.PROGRAMS / "uvhttp-load"), *part.options, *rest]


def load(part: Part, running: Running, seconds: float, cpus: Sequence[int]) -> dict[str, Any]:
    command = [str(word) for word in pinned(cpus, load_command(part, running, seconds))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise BenchError(f"{part.name}: uvhttp-load ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def errors_of(result: dict[str, Any], expected: Collection[str] = ()) -> dict[str, int]:
    """By kind, of those that there were."""
    return {
        name: count
        for name, count in result["results"]["errors"].items()
        if count and name != "total" and name not in expected
    }


def slice_of(result: dict[str, Any], at: float) -> dict[str, Any]:
    """What is kept of one run of a generator."""
    latency = {name: result["latency"][name] / 1e6 for name in ("p50", "p99", "max")}
    return {"at": round(at, 1), "requests": result["results"]["answers"], "errors": errors_of(result), **latency}


# --- clients that break off ---


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FIRST_BYTES = (
    ("http", b"GET / HT"),
    ("http", b"GET /large/1mb HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("http", b"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf of it"),
    ("http", b"GET /sleep200/worker HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("http", b"GET /sleep200/coroutine HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("http", UPGRADE + b"\x81\xfe"),
    ("http", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1\5\0\0\0\1\x82"),
    ("http", b"no request at all\r\n\r\n"),
    ("https", b"\x16\3\1\2\0\1\0\1\xfc\3\3"),
    ("https", b"GET / HTTP/1.1\r\n\r\n"),
)


def break_off(running: Running, rng: random.Random) -> None:
    scheme, data = rng.choice(FIRST_BYTES)
    with contextlib.suppress(OSError), socket.create_connection((HOST, running.port(scheme)), 5) as one:
        one.settimeout(rng.choice((0.001, 0.02, 0.3)))
        one.sendall(data)
        with contextlib.suppress(OSError):
            one.recv(rng.choice((1, 4096)))
        if rng.random() < 0.7:
            _reset(one)


# --- stops under load ---


def drain_once(target: Uvhttp, scenario: Scenario, made: Workspace, cpus: Sequence[int], load_cpus: Sequence[int]) -> float:
    """Seconds that another server takes to end when it is stopped while requests come. A response that is cut off is an error."""
    with serve(target, scenario, made, cpus) as other:
        part = Part("stop", "http", "/sleep200/worker", 50, ("-c", "20"))
        command = [str(word) for word in pinned(load_cpus, load_command(part, other, DRAIN_LOAD_SECONDS))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as generator:
            try:
                time.sleep(DRAIN_LOAD_SECONDS / 2)  # requests are under way
                start = time.monotonic()
                other.process.send_signal(signal.SIGTERM)
                code = other.process.wait(60)
                took = time.monotonic() - start
                generator.send_signal(signal.SIGINT)  # what was due after the server had ended is nobody's fault
                result, _ = generator.communicate(timeout=60)
            except subprocess.TimeoutExpired as error:
                raise BenchError("a server that was stopped under load has not ended within 60 s") from error
            finally:
                generator.kill()
        if code != 0:
            raise BenchError(f"a server that was stopped under load ended with {code}: {other.log_tail()}")
        if not result:
            raise BenchError(f"uvhttp-load ended with {generator.returncode} next to a server that was stopped under load")
        lost = errors_of(json.loads(result), {"connect"})
        if lost:
            raise BenchError(f"a server was stopped under load: responses were cut off: {lost}")
        return took


# --- all together ---


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Mixed:
    def __init__(self, running: Running, load_cpus: Sequence[int], seconds: float, slice_seconds: float) -> None:
        self.running, self.load_cpus = running, load_cpus
        self.seconds, self.slice_seconds = seconds, slice_seconds
        self.soak, self.stop, self.start = Soak(), threading.Event(), time.monotonic()

    def at(self) -> float:
        return time.monotonic() - self.start

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever it is, this part has ended
            what = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
            self.soak.faults.append(f"after {self.at():.0f} s: {what}")
            self.stop.set()

    def _load(self, part: Part) -> None:
        kept = self.soak.slices.setdefault(part.name, [])
        while not self.stop.is_set() and self.at() < self.seconds:
            began = self.at()
            result = load(part, self.running, min(self.slice_seconds, max(1.0, self.seconds - began)), self.load_cpus)
            kept.append(slice_of(result, began))

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while not self.stop.wait(seconds):
            act()

    def _sample(self) -> None:
        pid = self.running.pid
        self.soak.samples.append((round(self.at(), 1), processes.memory_mb(pid), _descriptors(pid)))

    def _reload(self) -> None:
        self.running.process.send_signal(signal.SIGHUP)
        self.soak.reloads += 1

    def _break_off(self) -> None:
        break_off(self.running, self.rng)
        self.soak.broken_off += 1

    def run(self, drain: Callable[[], float], say: Callable[[str], None], seed: int = 1) -> Soak:
        self.rng = random.Random(seed)
        jobs: list[Callable[[], None]] = [lambda part=part: self._load(part) for part in PARTS]  # type: ignore[misc]
        others: list[Callable[[], None]] = [
            lambda: self._every(SAMPLE_SECONDS, self._sample),
            lambda: self._every(RELOAD_SECONDS, self._reload),
            lambda: self._every(BREAK_OFF_SECONDS, self._break_off),
            lambda: self._every(DRAIN_SECONDS, lambda: self.soak.drains.append(drain())),
        ]
        loads = [threading.Thread(target=self._guarded, args=[job]) for job in jobs]
        rest = [threading.Thread(target=self._guarded, args=[job]) for job in others]
        for thread in [*loads, *rest]:
            thread.start()
        try:
            self._wait(loads, say)
        finally:
            self.stop.set()
            for thread in [*loads, *rest]:
                thread.join()
        if not self.running.alive():
            self.soak.faults.append(f"the server has ended: {self.running.log_tail()}")
        return self.soak

    def _wait(self, loads: Sequence[threading.Thread], say: Callable[[str], None]) -> None:
        reported_at = 0.0
        for thread in loads:
            while thread.is_alive():
                thread.join(1)
                if not self.running.alive():
                    self.stop.set()
                if self.at() >= reported_at + 60 and self.soak.samples:
                    reported_at = self.at()
                    _, memory, descriptors = self.soak.samples[-1]
                    say(f"{reported_at / 60:.0f} min: {memory:.1f} MB, {descriptors} descriptors")


# --- what it says ---


@dataclass(frozen=True)
class Trend:
    """From the start to the end, by the median slope and its interval of 95 %, in the unit of the values."""

    start: float
    change: float
    low: float
    high: float

    @property
    def rises(self) -> bool:
        return self.low > 0 and self.change > TOLERANCE * self.start


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Of the last three quarters. The interval is Sen's: slopes of all pairs, in their order, whose ranks Kendall's statistic gives."""
    kept = [point for point in points if point[0] >= points[-1][0] * leak.SETTLE_PART]
    kept = kept[:: max(1, -(-len(kept) // leak.POINTS_MAX))]
    slopes = sorted((y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(kept) for x2, y2 in kept[i + 1 :] if x2 > x1)
    if not slopes:
        raise BenchError("there are too few samples to see a trend: let it run longer")
    n, span = len(kept), kept[-1][0] - kept[0][0]
    rank = Z * (n * (n - 1) * (2 * n + 5) / 18) ** 0.5
    end = max(0, int((len(slopes) - rank) / 2) - 1)  # from both ends
    low, high = slopes[end], slopes[-1 - end]
    start = statistics.median(y for _, y in kept[: max(1, n // 10)])
    return Trend(start, statistics.median(slopes) * span, low * span, high * span)


def faults(soak: Soak) -> list[str]:
    """Why it has failed; empty: it has not."""
    found = list(soak.faults)
    for name, slices in soak.slices.items():
        errors = [kind for part in slices for kind in part["errors"]]
        if errors:
            found.append(f"{name}: errors of the kinds {', '.join(sorted(set(errors)))}")
    memory = leak.growth([(at, mb) for at, mb, _ in soak.samples])
    if memory.leaks:
        found.append(
            f"memory grows by {memory.mb_per_hour:.1f} MB an hour, from {memory.start_mb:.1f} to {memory.end_mb:.1f} MB"
        )
    descriptors = trend([(at, float(count)) for at, _, count in soak.samples])
    if descriptors.rises:
        found.append(f"descriptors rise by {descriptors.change:+.1f} from {descriptors.start:.0f}")
    for name, slices in soak.slices.items():
        if len(slices) >= 8 and (latency := trend([(part["at"], part["p99"]) for part in slices])).rises:
            found.append(f"{name}: P99 rises by {latency.change:+.2f} ms from {latency.start:.2f} ms")
    return found


def _rows(soak: Soak) -> Iterator[str]:
    for name, slices in soak.slices.items():
        total = sum(part["requests"] for part in slices)
        errors = sum(sum(part["errors"].values()) for part in slices)
        middle = statistics.median(part["p99"] for part in slices)
        cells = [
            name,
            f"{total:,}",
            f"{errors}",
            f"{statistics.median(part['p50'] for part in slices):.2f}",
            f"{middle:.2f}",
        ]
        if len(slices) >= 4:
            change = trend([(part["at"], part["p99"]) for part in slices])
            cells.append(f"{change.change:+.2f} ({change.low:+.2f}..{change.high:+.2f})")
        else:
            cells.append("")
        yield f"| {' | '.join(cells)} |"


def page(soak: Soak, seconds: float, about: Sequence[str]) -> str:
    memory = leak.growth([(at, mb) for at, mb, _ in soak.samples])
    descriptors = trend([(at, float(count)) for at, _, count in soak.samples])
    most = max(mb for _, mb, _ in soak.samples)
    found = faults(soak)
    lines = [
        f"# Soak: everything at once for {seconds / 60:.0f} minutes",
        "",
        *(f"- {line}" for line in about),
        f"- {soak.broken_off:,} clients broke off, {soak.reloads} reloads, {len(soak.drains)} servers stopped under load"
        + (f", the slowest in {max(soak.drains):.2f} s" if soak.drains else ""),
        f"- resident memory {memory.start_mb:.1f} MB after a quarter, {memory.end_mb:.1f} MB at the end, {most:.1f} MB at most;"
        f" {memory.mb_per_hour:+.2f} MB an hour",
        f"- descriptors {descriptors.start:.0f}, change {descriptors.change:+.1f} ({descriptors.low:+.1f}..{descriptors.high:+.1f})",
        "- " + ("failed: " + "; ".join(found) if found else "steady"),
        "",
        "| load | requests | errors | P50 ms | P99 ms | change of P99, ms (95 %) |",
        "|---|---|---|---|---|---|",
        *_rows(soak),
        "",
        "P50 and P99 are medians of the generator's runs; a change is that of the last three quarters of the time (Theil-Sen, Sen's interval).",
    ]
    return "\n".join(lines) + "\n"


def data(soak: Soak) -> str:
    return json.dumps(dataclasses.asdict(soak), indent=1) + "\n"
