"""Owns: h2o from Debian's package, one thread."""

import os
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, LARGE, STATIC, Peer, fill, make_hello, make_large, program, said


class H2o(Peer):
    name = "h2o"
    package = "h2o"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})
    http2_schemes = schemes
    note = "serves / and 100 KB from files"

    def found(self) -> bool:
        return program("h2o") is not None

    def version(self) -> str:
        return said("h2o", "--version")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        make_hello(workspace)
        make_large(workspace)
        directory = workspace.path
        # As root it would change to a user who may not read the directory; another user may not name one.
        user = "user: root" if os.geteuid() == 0 else ""
        names = {"DIR": directory, "PORT": ports.http, "TLS_PORT": ports.https, "USER": user}
        return [program("h2o") or "h2o", "-m", "worker", "-c", fill("h2o.conf.in", directory / "h2o.conf", **names)]
