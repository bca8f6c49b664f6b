"""Owns: libmicrohttpd, one epoll thread."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, LARGE, SOURCES, STATIC, Peer, build_c, package_version


class Microhttpd(Peer):
    name = "libmicrohttpd"
    package = "libmicrohttpd-dev"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})

    def found(self) -> bool:
        return Path("/usr/include/microhttpd.h").exists()

    def version(self) -> str:
        return package_version(self.package)

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        server = build_c(SOURCES / "mhd_server.c", "-lmicrohttpd")
        where = [workspace.static, workspace.certificate, workspace.key]
        return [server, str(ports.http), str(ports.https), *where]
