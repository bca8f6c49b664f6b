"""Owns: bench/micro/layers.c, our own server up to a layer, as the target of `attribute`."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate

PROGRAM = repository.BUILD / "bench" / "layers"


@dataclass(frozen=True)
class Layer:
    """What a step adds, and what it is added to: the difference between the two is its cost."""

    name: str
    about: str
    beneath: str
    path: str = "/"
    scheme: str = "http"


FLOOR = "kernel"
LAYERS = (
    Layer("tcp", "TCP server: buffers, watermarks, timers of a connection", FLOOR),
    Layer("parse", "request head read", "tcp"),
    Layer("server", "message, limits, timeouts, one route, response head", "parse"),
    Layer("route", "213 routes, two parameters", "server", "/users/4711/posts/42"),
    Layer("middleware", "request id, security headers, CORS", "server"),
    Layer("tls", "TLS 1.3 records", "server", scheme="https"),
    Layer("static", "a file instead of memory", "server", "/static/hello.txt"),
)


class LayerTarget:
    io_threads = 1

    def __init__(self, layer: Layer, engine: str) -> None:
        self.name = layer.name
        self.layer, self.engine = layer, engine

    def missing(self) -> str | None:
        if PROGRAM.is_file():
            return None
        return (
            f"{PROGRAM} is not there: cmake --preset standard -DUVHTTP_BUILD_TESTS=ON && cmake --build build --target layers"
        )

    def serves(self, scenario: Scenario) -> bool:
        return (scenario.path, scenario.scheme) == (self.layer.path, self.layer.scheme)

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        (workspace.static / "hello.txt").write_bytes(b"Hello, World!")
        where = [workspace.static, workspace.certificate, workspace.key]
        return [PROGRAM, self.name, str(ports.http), str(ports.https), *where, self.engine]

    def build_info(self) -> str:
        done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout
