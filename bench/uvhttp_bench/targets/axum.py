"""Owns: Rust's axum on tokio's single-threaded runtime."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets import crates
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import ECHO, HELLO, LARGE, STATIC


class Axum(crates.RustPeer):
    name = "axum"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC, ECHO})
    schemes = frozenset({"http", "https", "ws"})
    note = "TLS is rustls, not OpenSSL"

    def version(self) -> str:
        return crates.rust_versions("axum", "hyper", "tokio", "rustls")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        server = crates.rust_server(self.name, "axum_server")
        return [server, str(ports.http), str(ports.https), workspace.static, workspace.certificate, workspace.key]
