"""Owns: a server of the reader's own: a command line of which nothing is known but that it listens on {port}."""

import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.exits import UsageError
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace

PORT = "{port}"
DIRECTORIES = re.compile(r"(?<![\w.:/~-])~?/(?:[^\s/'\"]+/)+(?=[^\s/'\"])")
# More than one command, or one that starts with an assignment or exec. Any other replaces its shell, so that
# signals and looks at /proc reach the server.
NOT_SIMPLE = re.compile(r"[;&|<>()`\n]|^\s*(\w+=|exec\b)")


def without_machine_paths(text: str) -> str:
    """For a record: an absolute path is its last part, one in the repository starts there."""
    return DIRECTORIES.sub("", text.replace(f"{repository.ROOT}/", "./"))


def name_of(text: str) -> str:
    """The program that a command line starts, without its directory."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    program = next((word for word in words if not re.match(r"\w+=", word) and word not in ("env", "exec")), "")
    return Path(program).name


class Command:
    stop_seconds = 2.0  # it may not know SIGTERM

    def __init__(self, name: str, text: str, paths: Collection[str] = ("/",)) -> None:
        if PORT not in text:
            raise UsageError(
                f"--cmd '{text}': there is no {PORT} in it: write it where the server takes its port, or PORT={PORT} {text}"
            )
        self.name = name
        self.text = text
        self.note = f"command: {without_machine_paths(text)}"
        self._paths = frozenset(paths)

    def missing(self) -> str | None:
        return None

    def serves(self, scenario: Scenario) -> bool:
        plain = scenario.method == "GET" and scenario.scheme == "http" and scenario.sendfile and not scenario.options
        return plain and scenario.path in self._paths and scenario.pipeline == 1 and not scenario.http2

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        port = str(ports.https if scenario.scheme == "https" else ports.http)
        text = self.text.replace(PORT, port)
        return ["env", f"PORT={port}", "sh", "-c", text if NOT_SIMPLE.search(text) else f"exec {text}"]

    def build_info(self) -> str:
        return ""
