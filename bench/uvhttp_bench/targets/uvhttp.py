"""Owns: performance_test, the server that the standard measures."""

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace

CONGESTION_CONTROL = "--tcp-congestion-control"


@functools.cache
def _knows(program: Path, option: str) -> bool:
    """An older revision does not: it has reno on loopback, and a check says where that is not what was asked for."""
    try:
        done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option in done.stdout


class Uvhttp:
    counters = "/counters"  # where it says what it has counted

    def __init__(
        self,
        engine: str = "auto",
        io_threads: int = 1,
        program: Path | None = None,
        name: str = "uvhttp",
        address: str = "",
        sendfile: bool = True,
    ) -> None:
        self.name = name
        self.sendfile = sendfile  # else it copies files, whatever the scenario says
        self.address = address  # it listens on; empty: 127.0.0.1
        self.engine = engine
        self.io_threads = io_threads
        self.program = program or Path(os.environ.get("UVHTTP_BENCH_SERVER", repository.PROGRAMS / "performance_test"))

    def missing(self) -> str | None:
        return None if self.program.is_file() else f"{self.program} is not there: ./dev build"

    def serves(self, scenario: Scenario) -> bool:
        return scenario.scheme in ("http", "https", "ws") and (self.sendfile or scenario.group in ("static", "bodies"))

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        command: list[str | Path] = [self.program, "--port", str(ports.http), "--io-threads", str(self.io_threads)]
        command += ["--engine", self.engine, "--static", workspace.static]
        if scenario.scheme == "https":
            command += ["--https-port", str(ports.https), "--certificate", workspace.certificate, "--key", workspace.key]
        if not (scenario.sendfile and self.sendfile):
            command += ["--sendfile", "off"]
        if self.address:
            command += ["--address", self.address]
        if _knows(self.program, CONGESTION_CONTROL):  # else it would choose reno, whatever the others have
            command += [CONGESTION_CONTROL, "system"]
        return [*command, *scenario.options]

    def build_info(self) -> str:
        """As the program gives it: a configure line can be mistyped and swallowed, the binary cannot."""
        try:
            done = subprocess.run([self.program, "--version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout if done.returncode == 0 else ""
