"""Owns: Go's net/http. It runs on the one CPU that it is pinned to."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import BUILT, HELLO, LARGE, SOURCES, STATIC, Peer, build, program, said


class Go(Peer):
    name = "go"
    package = "golang-go"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})
    http2_schemes = schemes

    def found(self) -> bool:
        return program("go") is not None

    def version(self) -> str:
        return said("go", "version")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        source = SOURCES / "go_server.go"
        server = build(self.name, ["go", "build", "-o", BUILT / "go_server", source], [source], BUILT / "go_server")
        where = [workspace.static, workspace.certificate, workspace.key]
        return [server, str(ports.http), str(ports.https), *where, "h2" if scenario.http2 else "http1"]
