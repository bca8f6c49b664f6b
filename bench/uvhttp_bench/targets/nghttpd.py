"""Owns: nghttpd, libnghttp2's own server, from Debian's package: one worker. It speaks HTTP/2 only, on one port."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import HOST, Ports, Workspace
from uvhttp_bench.targets.peer import HELLO, STATIC, Peer, program, said


class Nghttpd(Peer):
    name = "nghttpd"
    package = "nghttp2-server"
    kinds = frozenset({HELLO, STATIC})
    schemes: frozenset[str] = frozenset()
    http2_schemes = frozenset({"http", "https"})
    note = "serves / from a file, which it keeps open"

    def found(self) -> bool:
        return program("nghttpd") is not None

    def version(self) -> str:
        return said(program("nghttpd") or "nghttpd", "--version")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        (workspace.path / "index.html").write_bytes(b"Hello, World!")
        command: list[str | Path] = [
            program("nghttpd") or "nghttpd",
            "--address",
            HOST,
            "--workers",
            "1",
            "--htdocs",
            workspace.path,
        ]
        if scenario.scheme == "https":
            return [*command, str(ports.https), workspace.key, workspace.certificate]
        return [*command, "--no-tls", str(ports.http)]
