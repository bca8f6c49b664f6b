"""Owns: what an adapter of a server is: how it is found, made ready and started. Each server has a module here."""

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "bench" / "peers"


@dataclass(frozen=True)
class Place:
    """What a server is given for one start. `directory` is scratch; below it are static/, certificate.pem and key.pem;
    `built` is where programs are compiled, once for all starts."""

    directory: Path
    built: Path
    port: int
    tls_port: int
    connections: int

    @property
    def files(self) -> Path:
        return self.directory / "static"

    @property
    def certificate(self) -> Path:
        return self.directory / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.directory / "key.pem"


class Adapter(ABC):
    name: str
    package: str  # Debian's, to name when it is missing
    serves: frozenset[str]  # cases, see scenarios/peer_cases.py
    tls = False  # whether it listens on the TLS port too
    note = ""  # what a reader of its figures has to know

    @abstractmethod
    def missing(self) -> str | None:
        """Why it can not be measured here, in a line that says what to install; None: it can."""

    @abstractmethod
    def version(self) -> str:
        """As it says itself."""

    @abstractmethod
    def command(self, place: Place) -> list[str]:
        """Makes ready what one start needs and returns what to start."""

    def not_installed(self) -> str:
        return f"{self.name}: not installed: apt-get install {self.package}"


def program(name: str, *more: str) -> str | None:
    """A program on the path or where Debian puts servers, else at one of the other places."""
    for candidate in (name, f"/usr/sbin/{name}", *more):
        found = shutil.which(candidate)
        if found:
            return found
    return None


def said(command: Sequence[str]) -> str:
    """The first line that a command prints."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (run.stdout + run.stderr).strip().splitlines()
    return lines[0].strip() if lines else ""


def package_version(package: str) -> str:
    return said(["dpkg-query", "-W", "-f", "${Version}", package])


def build(name: str, command: Sequence[str], result: Path, directory: Path | None = None) -> Path:
    """Runs a compiler; one line says why there is no program."""
    result.parent.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    if run.returncode != 0 or not result.exists():
        lines = [line for line in (run.stderr + run.stdout).splitlines() if "error" in line.lower()]
        raise BenchError(f"{name}: can not be built: {(lines or ['the compiler says nothing'])[0].strip()}")
    return result


def build_c(source: Path, built: Path, *libraries: str) -> Path:
    result = built / source.stem
    return build(source.name, ["cc", "-O2", "-D_GNU_SOURCE", str(source), "-o", str(result), *libraries], result)


def filled(template: str, place: Place, **more: object) -> str:
    """A file of bench/peers with its @NAMES@ replaced."""
    text = (SOURCES / template).read_text()
    names: dict[str, object] = {"DIR": place.directory, "PORT": place.port, "TLS_PORT": place.tls_port, **more}
    for name, value in names.items():
        text = text.replace(f"@{name}@", str(value))
    return text
