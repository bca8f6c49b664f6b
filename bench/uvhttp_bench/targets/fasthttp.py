"""Owns: Go's fasthttp. It runs on the one CPU that it is pinned to."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import BUILT, HELLO, LARGE, SOURCES, STATIC, Peer, build, program, said

MODULE = "github.com/valyala/fasthttp"


class Fasthttp(Peer):
    name = "fasthttp"
    package = "golang-go"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})

    def found(self) -> bool:
        return program("go") is not None

    def version(self) -> str:
        lines = (SOURCES / "fasthttp_server" / "go.mod").read_text().splitlines()
        number = next(line.split()[-1] for line in lines if f"{MODULE} v" in line)
        return f"fasthttp {number}, {said('go', 'version')}"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        source, result = SOURCES / "fasthttp_server", BUILT / "fasthttp_server"
        sources = [source / "main.go", source / "go.mod"]
        server = build(self.name, ["go", "build", "-o", result, "."], sources, result, source)
        where = [workspace.static, workspace.certificate, workspace.key]
        return [server, str(ports.http), str(ports.https), *where]
