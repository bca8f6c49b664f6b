"""Owns: libh2o with a handler that responds from memory, one thread: the program h2o can only respond with a file."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, SOURCES, Peer, build_c, package_version


class Libh2o(Peer):
    name = "libh2o"
    package = "libh2o-evloop-dev"
    pipelines = True
    kinds = frozenset({HELLO})
    schemes = frozenset({"http", "https"})
    http2_schemes = schemes

    def found(self) -> bool:
        return Path("/usr/include/h2o.h").exists()

    def version(self) -> str:
        return package_version(self.package)

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        server = build_c(SOURCES / "libh2o_server.c", "-DH2O_USE_EPOLL=1", "-lh2o-evloop", "-lssl", "-lcrypto")
        if scenario.scheme == "http":
            return [server, str(ports.http)]
        make_certificate(workspace)
        return [server, str(ports.https), workspace.certificate, workspace.key]
