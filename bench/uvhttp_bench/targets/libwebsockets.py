"""Owns: libwebsockets, one thread: here for WebSocket alone."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import ECHO, SOURCES, Peer, build_c, package_version


class Libwebsockets(Peer):
    name = "libwebsockets"
    package = "libwebsockets-dev"
    kinds = frozenset({ECHO})
    schemes = frozenset({"ws"})

    def found(self) -> bool:
        return Path("/usr/include/libwebsockets.h").exists()

    def version(self) -> str:
        return package_version(self.package)

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        return [build_c(SOURCES / "lws_echo.c", "-lwebsockets"), str(ports.http)]
