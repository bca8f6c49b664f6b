"""Owns: libevent's evhttp, one thread."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, LARGE, SOURCES, STATIC, Peer, build_c, package_version


class Libevent(Peer):
    name = "libevent"
    package = "libevent-dev"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})

    def found(self) -> bool:
        return Path("/usr/include/event2/http.h").exists()

    def version(self) -> str:
        return package_version(self.package)

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        server = build_c(SOURCES / "libevent_server.c", "-levent", "-levent_openssl", "-lssl", "-lcrypto")
        if scenario.scheme == "http":
            return [server, str(ports.http), workspace.static]
        make_certificate(workspace)
        return [server, str(ports.https), workspace.static, workspace.certificate, workspace.key]
