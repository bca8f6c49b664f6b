"""Owns: Rust's hyper on tokio's single-threaded runtime: HTTP/1, or HTTP/2 in clear."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets import crates
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import HELLO, LARGE


class Hyper(crates.RustPeer):
    name = "hyper"
    pipelines = True
    kinds = frozenset({HELLO, LARGE})
    http2_schemes = frozenset({"http"})
    note = "it has no file server and no TLS of its own"

    def version(self) -> str:
        return crates.rust_versions("hyper", "tokio")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        return [crates.rust_server(self.name, "hyper_server"), str(ports.http), "h2" if scenario.http2 else "http1"]
