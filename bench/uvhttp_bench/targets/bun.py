"""Owns: Bun's server. npm fetches the program that package-lock.json names; no script of the package runs."""

import json
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import BUILT, ECHO, HELLO, LARGE, SOURCES, STATIC, Peer, build, program

SOURCE = SOURCES / "bun_server"


class Bun(Peer):
    name = "bun"
    package = "npm"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC, ECHO})
    schemes = frozenset({"http", "https", "ws"})
    warmup_seconds = 3.0

    def found(self) -> bool:
        return program("npm") is not None

    def version(self) -> str:
        packages = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
        return f"bun {packages['node_modules/bun']['version']}"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        where = [workspace.static, workspace.certificate, workspace.key]
        return [self._program(), SOURCE / "server.js", str(ports.http), str(ports.https), *where]

    def _program(self) -> Path:
        folder = BUILT / "bun"
        folder.mkdir(parents=True, exist_ok=True)
        sources = [SOURCE / "package.json", SOURCE / "package-lock.json"]
        for source in sources:
            shutil.copy2(source, folder)
        machine = {"x86_64": "x64", "aarch64": "aarch64"}.get(platform.machine(), platform.machine())
        result = folder / "node_modules" / "@oven" / f"bun-linux-{machine}" / "bin" / "bun"
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        return build(f"{self.name} (npm)", command, sources, result, folder)
