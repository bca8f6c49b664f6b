"""Owns: a loop around picohttpparser, compiled from the source that the crate picohttpparser-sys carries."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets import crates
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import BUILT, HELLO, SOURCES, Peer, build

CRATE = "picohttpparser-sys"


class Picohttpparser(Peer):
    name = "picohttpparser"
    package = "cargo"
    pipelines = True
    kinds = frozenset({HELLO})
    note = "no server: a parser in an epoll loop, without limits, timeouts or request bodies"

    def found(self) -> bool:
        return crates.has_cargo()

    def version(self) -> str:
        return f"of {crates.versions(crates.CARRIED, CRATE)}"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        return [self._server(), str(ports.http)]

    def _server(self) -> Path:
        parser = crates.crate_folder(CRATE) / "deps" / "picohttpparser"
        source, result = SOURCES / "pico_server.c", BUILT / "pico_server"
        command: list[str | Path] = ["cc", "-O3", "-march=native", "-D_GNU_SOURCE", f"-I{parser}", source]
        command += [parser / "picohttpparser.c", "-o", result]
        return build(self.name, command, [source, crates.CARRIED / "Cargo.lock"], result)
