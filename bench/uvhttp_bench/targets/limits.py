"""Owns: the bare loops of bench/limits: a canned response, or a file, for each empty line. Not servers, but the floor for
one."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import HELLO, STATIC, Peer, build_c, package_version


class Limit(Peer):
    pipelines = True
    kinds = frozenset({HELLO})
    note = "no server: parses nothing, the floor for its way of waiting"

    def __init__(self, loop: str, header: str = "", library: str = "", package: str = "") -> None:
        self.name = f"bare-{loop}"
        self.package = package
        self._source = repository.ROOT / "bench" / "limits" / f"{loop}_limit.c"
        self._header = header
        self._libraries = (f"-l{library}",) if library else ()

    def found(self) -> bool:
        return not self._header or Path("/usr/include", self._header).exists()

    def version(self) -> str:
        return package_version(self.package) if self.package else "Linux"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        return [build_c(self._source, *self._libraries), str(ports.http)]


class FileLimit(Peer):
    name = "bare-file"
    kinds = frozenset({STATIC})
    package = ""
    note = "no server: parses nothing, the floor for sendfile"

    def found(self) -> bool:
        return True

    def version(self) -> str:
        return "Linux"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        source = repository.ROOT / "bench" / "limits" / "file_limit.c"
        return [build_c(source), str(ports.http), workspace.path / scenario.path.lstrip("/")]


def all_limits() -> list[Peer]:
    return [
        FileLimit(),
        Limit("epoll"),
        Limit("uring", "liburing.h", "uring", "liburing-dev"),
        Limit("libuv", "uv.h", "uv", "libuv1-dev"),
    ]
