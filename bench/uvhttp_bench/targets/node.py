"""Owns: Node's http and https."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, LARGE, SOURCES, Peer, program, said


class Node(Peer):
    name = "node"
    package = "nodejs"
    pipelines = True
    kinds = frozenset({HELLO, LARGE})
    schemes = frozenset({"http", "https"})
    http2_schemes = schemes
    warmup_seconds = 3.0
    note = "it has no file server of its own"

    def found(self) -> bool:
        return program("node") is not None

    def version(self) -> str:
        return said("node", "--version")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        where, protocol = [workspace.certificate, workspace.key], "h2" if scenario.http2 else "http1"
        return [program("node") or "node", SOURCES / "node_server.js", str(ports.http), str(ports.https), *where, protocol]
