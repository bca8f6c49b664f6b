"""Owns: what the servers of others have in common: how they are found, compiled and configured. Each has a module
of a page here, and its source or configuration in bench/peers/."""

import contextlib
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import network, repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace

LARGE_BYTES = 100 * 1024
SOURCES = repository.ROOT / "bench" / "peers"
BUILT = repository.BUILD / "bench" / "peers"

HELLO, LARGE, STATIC, ECHO = "hello", "large", "static", "echo"
_KINDS = {"/": HELLO, "/large/100kb": LARGE, "/ws": ECHO}


def kind_of(path: str) -> str:
    return STATIC if path.startswith("/static/") else _KINDS.get(path, "")


class Peer(ABC):
    """One thread where the server can be configured so; everything off that performance_test does not do."""

    name: str
    package: str  # Debian's, named when it is missing
    kinds: frozenset[str]
    schemes = frozenset({"http"})
    pipelines = False  # it responds in order to requests that arrive together
    http2_schemes: frozenset[str] = frozenset()  # where it speaks HTTP/2
    start_seconds = 15.0
    warmup_seconds = 1.0
    large = b"a"  # what fills the body of /large/100kb
    note = ""  # what a reader of its figures has to know

    @abstractmethod
    def found(self) -> bool:
        """Whether it is installed."""

    @abstractmethod
    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        """Makes ready what one start needs, and returns what to start."""

    @abstractmethod
    def version(self) -> str: ...

    def missing(self) -> str | None:
        return None if self.found() else f"{self.name} is not installed: apt-get install {self.package}"

    def serves(self, scenario: Scenario) -> bool:
        plain = scenario.method == "GET" and scenario.sendfile and not scenario.options
        if scenario.http2:
            return plain and scenario.scheme in self.http2_schemes and kind_of(scenario.path) in self.kinds
        plain = plain and (scenario.pipeline == 1 or self.pipelines)
        return plain and scenario.scheme in self.schemes and kind_of(scenario.path) in self.kinds

    def build_info(self) -> str:
        return self.version()


def make_hello(workspace: Workspace) -> None:
    """For servers that have nothing shorter than a file."""
    (workspace.path / "hello.txt").write_bytes(b"Hello, World!")


def make_large(workspace: Workspace) -> None:
    (workspace.static / "100kb.bin").write_bytes(b"a" * LARGE_BYTES)


def program(name: str, *more: str) -> str | None:
    """On the path, where Debian puts servers, or at one of the other places."""
    found = (shutil.which(candidate) for candidate in (name, f"/usr/sbin/{name}", *more))
    return next((path for path in found if path), None)


def said(*command: str) -> str:
    """The first line that a command prints."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (run.stdout + run.stderr).strip().splitlines()
    return lines[0].strip() if lines else ""


def package_version(package: str) -> str:
    return said("dpkg-query", "-W", "-f", "${Version}", package)


def build(
    name: str, command: Sequence[str | Path], sources: Sequence[Path], result: Path, directory: Path | None = None
) -> Path:
    """Runs a compiler unless the result is newer than the sources; one line says why there is no program."""
    if result.exists() and all(result.stat().st_mtime >= source.stat().st_mtime for source in sources):
        return result
    result.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(BrokenPipeError):
        print(f"building {name}", file=sys.stderr, flush=True)
    try:
        with network.outside():  # cargo and others fetch what they need
            run = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)
    except OSError as error:
        raise BenchError(f"{name} cannot be built: {error}") from error
    if run.returncode != 0 or not result.exists():
        raise BenchError(f"{name} cannot be built: {reason(run.stderr + run.stdout)}")
    result.touch()  # a build that found nothing to do leaves an old time
    return result


def reason(output: str) -> str:
    """The line of a compiler's or a package manager's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines[-1:] or ["its compiler does not say why"])[0]


def build_c(source: Path, *libraries: str) -> Path:
    result = BUILT / source.stem
    return build(source.stem, ["cc", "-O2", "-D_GNU_SOURCE", source, "-o", result, *libraries], [source], result)


def fill(template: str, made: Path, **names: object) -> Path:
    """A file of bench/peers with its @NAMES@ replaced, written to `made`."""
    text = (SOURCES / template).read_text()
    for name, value in names.items():
        text = text.replace(f"@{name}@", str(value))
    made.write_text(text)
    return made
