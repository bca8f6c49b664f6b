"""Owns: civetweb, a thread for each connection, which is the only way it knows."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import HELLO, LARGE, SOURCES, STATIC, Peer, build_c, package_version


class Civetweb(Peer):
    name = "civetweb"
    package = "libcivetweb-dev"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    note = "a thread for each connection"

    def found(self) -> bool:
        return Path("/usr/include/civetweb.h").exists()

    def version(self) -> str:
        return package_version(self.package)

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        server = build_c(SOURCES / "civetweb_server.c", "-lcivetweb")
        threads = scenario.connections + 4  # the probe has a connection too, which is kept for a while
        return [server, str(ports.http), workspace.path, str(threads)]
