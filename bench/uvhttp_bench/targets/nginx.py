"""Owns: nginx from Debian's package, one process."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, LARGE, STATIC, Peer, fill, make_large, program, said


class Nginx(Peer):
    name = "nginx"
    package = "nginx-light"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})
    http2_schemes = schemes
    note = "serves / with return 200, and 100 KB from a file"

    def found(self) -> bool:
        return program("nginx") is not None

    def version(self) -> str:
        return said(program("nginx") or "nginx", "-v").removeprefix("nginx version: ")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)  # its configuration names it, used or not
        make_large(workspace)
        directory = workspace.path
        http2 = " http2" if scenario.http2 else ""  # before 1.25.1 a port in clear speaks one of the two
        made = fill(
            "nginx.conf.in", directory / "nginx.conf", DIR=directory, PORT=ports.http, TLS_PORT=ports.https, HTTP2=http2
        )
        return [program("nginx") or "nginx", "-p", directory, "-c", made]
