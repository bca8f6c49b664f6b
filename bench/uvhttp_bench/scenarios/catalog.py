"""Owns: the scenarios of the contract, as data. A scenario says what is asked of a server and what the response must be; how
it is asked is the load tool's (loads/)."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uvhttp_bench import network
from uvhttp_bench.exits import UsageError

KB, MB = 1 << 10, 1 << 20
# The standard's repeats: basic, extended, regression.
BASIC, EXTENDED, REGRESSION = 5, 3, 10
OWN = "commands"  # the group of what servers of the reader's own are asked
TEST_DATA = b'{"test":"data"}'


def filler(size: int) -> bytes:
    """A JSON body of exactly so many bytes."""
    return b'{"data":"' + b"x" * (size - 11) + b'"}'


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    group: str
    path: str = "/"
    scheme: str = "http"  # http, https, ws, tcp
    method: str = "GET"
    threads: int = 4  # of the load generator
    connections: int = 50
    seconds: float = 10
    repeats: int = EXTENDED
    status: int = 200
    response_bytes: int | None = 13  # of the body; None: varies
    request_body: bytes = b""
    message_bytes: int = 0  # ws, tcp
    pipeline: int = 1  # requests under way on a connection: in one write, or streams of HTTP/2
    http2: bool = False  # in clear by prior knowledge, over TLS by ALPN
    sendfile: bool = True
    raw_name: str = ""  # of the raw results, where it is not the name
    seconds_quick: float = 1  # with --quick; 0: left out
    optional: bool = False  # a server that responds with 404 does not have it, and the scenario is left out
    options: tuple[str, ...] = ()  # more of the server's options
    congestion_control: str = ""  # of TCP; empty: the command's
    headers: tuple[tuple[str, str], ...] = ()  # of the request, besides those that its body needs
    response_body: bytes | None = None  # what every body has to be; None: as the first one

    @property
    def results_name(self) -> str:
        return self.raw_name or self.name


def _basic() -> list[Scenario]:
    return [
        Scenario("low", "10 connections", "basic", threads=2, connections=10, repeats=BASIC, raw_name="low_concurrent"),
        Scenario("medium", "50 connections", "basic", repeats=BASIC, raw_name="medium_concurrent"),
        Scenario("high", "200 connections", "basic", threads=8, connections=200, repeats=BASIC, raw_name="high_concurrent"),
    ]


def _threads() -> list[Scenario]:
    return [
        Scenario(f"threads-{n}", f"{n} threads of the load generator", "threads", threads=n, seconds_quick=0)
        for n in (1, 2, 4, 8, 16)
    ]


def _methods() -> list[Scenario]:
    def echo(name: str, method: str, body: bytes) -> Scenario:
        return Scenario(
            name, f"{method} /api, {len(body)} bytes echoed", "methods", "/api", method=method, request_body=body,
            response_bytes=len(body),
        )  # fmt: skip

    return [
        Scenario("get-api", "GET /api, JSON", "methods", "/api", response_bytes=41),
        echo("post", "POST", TEST_DATA),
        echo("put", "PUT", TEST_DATA),
        Scenario("delete", "DELETE /api", "methods", "/api", method="DELETE", response_bytes=16),
        replace(echo("post-1kb", "POST", filler(KB)), seconds_quick=0),
        replace(echo("post-10kb", "POST", filler(10 * KB)), seconds_quick=0),
        replace(echo("post-100kb", "POST", filler(100 * KB)), seconds_quick=0),
    ]


def _bodies() -> list[Scenario]:
    sizes = (("1kb", KB), ("10kb", 10 * KB), ("100kb", 100 * KB), ("1mb", MB))
    zero_copy = [
        Scenario(f"body-{name}", f"GET of {name} that was made once", "bodies", f"/large/{name}", response_bytes=size)
        for name, size in sizes
    ]
    copied = [
        replace(
            scenario, name=f"{scenario.name}-copy", about=f"{scenario.about}, zero-copy off", sendfile=False, seconds_quick=0
        )
        for scenario in zero_copy[2:]
    ]
    return zero_copy + copied


def _tls() -> list[Scenario]:
    return [
        Scenario("https", "keep-alive over TLS", "https", scheme="https"),
        Scenario("https-100kb", "100 KB over TLS", "https", "/large/100kb", scheme="https", response_bytes=100 * KB),
    ]


STATIC_SIZES = (
    ("1kb", KB, 50), ("10kb", 10 * KB, 50), ("100kb", 100 * KB, 50), ("1mb", MB, 50), ("10mb", 10 * MB, 8),
    ("100mb", 100 * MB, 2),
)  # fmt: skip


def _static() -> list[Scenario]:
    """A file of 100 MB has to be finished within a run: fewer connections."""
    made = []
    for name, size, connections in STATIC_SIZES:
        for sendfile in (True, False):
            made.append(
                Scenario(
                    f"static-{name}" + ("" if sendfile else "-copy"),
                    f"file of {name}, " + ("zero-copy where it pays" if sendfile else "zero-copy off"),
                    "static",
                    f"/static/{name}.bin",
                    threads=min(4, connections),
                    connections=connections,
                    response_bytes=size,
                    sendfile=sendfile,
                    seconds_quick=1 if sendfile and size in (10 * KB, MB) else 0,
                )
            )
    return made


def _ladder() -> list[Scenario]:
    return [
        Scenario(f"ladder-{n}", f"{n} connections, error rate", "ladder", connections=n, seconds_quick=n in (100, 2000))
        for n in (10, 50, 100, 500, 1000, 2000)
    ]


def _sustained() -> list[Scenario]:
    shape = Scenario("", "", "sustained", connections=100, repeats=1, seconds_quick=0)
    return [replace(shape, name=f"sustained-{n}", about=f"{n} s, 100 connections", seconds=n) for n in (10, 30, 60, 300)]


def _workloads() -> list[Scenario]:
    """The framework document's two, as it ran them: wrk -t6 -c100 -d2s."""
    shape = Scenario("", "", "workloads", threads=6, connections=100, seconds=2, response_bytes=None, optional=True)
    return [
        replace(shape, name="count", about="CPU-bound: counts visits", path="/count"),
        replace(shape, name="sleep200", about="I/O-bound: waits 200 ms; 500 req/s is ideal", path="/sleep200"),
    ]


def _others() -> list[Scenario]:
    def echo(name: str, about: str, scheme: str, size: int, connections: int) -> Scenario:
        return Scenario(
            name, about, {"ws": "websocket", "tcp": "tcp"}[scheme], "/ws", scheme=scheme, threads=4 if scheme == "ws" else connections,
            connections=connections, message_bytes=size, response_bytes=size,
        )  # fmt: skip

    return [
        Scenario("pipeline", "16 GETs in each write", "pipeline", pipeline=16),
        echo("websocket", "WebSocket echo of 64 bytes", "ws", 64, 50),
        echo("websocket-1kb", "WebSocket echo of 1 KB", "ws", KB, 50),
        echo("tcp-echo-64", "TCP core, echo of 64 bytes", "tcp", 64, 8),
        echo("tcp-echo-1024", "TCP core, echo of 1 KB", "tcp", KB, 8),
    ]


def _http2() -> list[Scenario]:
    """Connections and streams: one request at a time, what a proxy does, and what a busy one does."""

    def shape(name: str, connections: int, streams: int, path: str = "/", size: int = 13) -> Scenario:
        about = f"HTTP/2, {connections} connections of {streams} streams" if streams > 1 else "HTTP/2, one request at a time"
        return Scenario(
            name, about, "http2", path, threads=2, connections=connections, pipeline=streams, http2=True, response_bytes=size,
        )  # fmt: skip

    low, medium = shape("h2-low", 10, 32), shape("h2-medium", 50, 100)
    tls = [replace(one, name=f"{one.name}-tls", about=f"{one.about}, TLS", scheme="https") for one in (low, medium)]
    static = replace(shape("h2-static-10kb", 10, 32, "/static/10kb.bin", 10 * KB), about="HTTP/2, file of 10 KB")
    return [shape("h2-one", 1, 1), low, medium, *tls, static]


def everything() -> list[Scenario]:
    groups = (_basic, _methods, _bodies, _tls, _http2, _static, _others, _workloads, _threads, _ladder, _sustained)
    return [scenario for group in groups for scenario in group()]


def at_rate(scenario: Scenario, per_second: float) -> Scenario:
    """The same as an open loop: another scenario, so that nobody compares the one with the other."""
    ending = f"-rate-{per_second:.0f}"
    return replace(scenario, name=scenario.name + ending, raw_name=scenario.results_name + ending)


def under(scenario: Scenario, congestion_control: str) -> Scenario:
    """The same with this congestion control of TCP: another scenario, unless it is what every scenario has."""
    if congestion_control == network.DEFAULT:
        return replace(scenario, congestion_control=congestion_control)
    name, raw_name = (f"{text}-{congestion_control}" for text in (scenario.name, scenario.results_name))
    return replace(scenario, name=name, raw_name=raw_name, congestion_control=congestion_control)


def under_each(scenarios: Sequence[Scenario], asked: Sequence[str]) -> list[Scenario]:
    """`asked` of --congestion-control; nothing: as they are."""
    return [under(scenario, name) for scenario in scenarios for name in asked] if asked else list(scenarios)


# A body of more than a few packets is what pacing delays; a response of one or two costs the same with any (docs/internals/decisions.md).
PACED_BYTES_MIN = 64 * KB


def where_it_matters(scenarios: Sequence[Scenario], machines: str) -> list[Scenario]:
    """Each scenario, and those with large bodies once more with the congestion control that this machine's users have."""
    found: list[Scenario] = []
    for scenario in scenarios:
        found.append(under(scenario, network.DEFAULT))
        if machines != network.DEFAULT and (scenario.response_bytes or 0) >= PACED_BYTES_MIN:
            found.append(under(scenario, machines))
    return found


def choose(names: Sequence[str]) -> list[Scenario]:
    """By name, group or pattern; `all` is every one. What is both is the scenario. No name: the basic group."""
    known = everything()
    named = {s.name for s in known}
    chosen: dict[str, Scenario] = {}
    for name in names or ["basic"]:
        pattern = "*" if name == "all" else name
        group = "" if name in named else name
        found = [s for s in known if s.group == group or fnmatch.fnmatchcase(s.name, pattern)]
        if not found:
            raise UsageError(f"no scenario '{name}': `uvhttp-bench list` shows them")
        chosen.update((s.name, s) for s in found)
    return list(chosen.values())
