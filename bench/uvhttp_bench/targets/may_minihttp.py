"""Owns: Rust's may_minihttp, one worker of may's coroutines."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets import crates
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import HELLO, LARGE


class MayMinihttp(crates.RustPeer):
    name = "may-minihttp"
    rust_needed = (1, 95)
    pipelines = True
    kinds = frozenset({HELLO, LARGE})
    note = "it has no file server and no TLS, and no timeouts"

    def version(self) -> str:
        return crates.rust_versions("may_minihttp", "may")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        return [crates.rust_server(self.name, "may_server"), str(ports.http)]
