"""Owns: hashes of sources: those that the server and the tools are built from, and those of this harness. A hash is computed of a
working tree or of a commit, so that a binary and a record can be compared with both."""

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError

# As cmake/write_build_identity.cmake, which puts the same hash into the binary.
FOLDERS = ("cmake", "examples", "include", "src", "tools")
SUFFIXES = (".c", ".cmake", ".cpp", ".h", ".hpp", ".html", ".in", ".map")
FILES = ("CMakeLists.txt", "CMakePresets.json")
# What measures: the program, the sources of the servers and loops that it builds itself, and of what slows a server down.
HARNESS = ("limits", "micro", "peers", "self_check", "uvhttp_bench")
IGNORED = ("__pycache__",)


def is_source(path: str) -> bool:
    """Of the library and its programs; `path` is relative to the root."""
    parts = PurePosixPath(path)
    if path in FILES:
        return True
    if parts.parts[0] in FOLDERS and len(parts.parts) > 1:
        return parts.suffix in SUFFIXES
    return parts.parts[0] == "bench" and len(parts.parts) == 2 and parts.suffix == ".c"


def is_harness(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return len(parts) > 2 and parts[0] == "bench" and parts[1] in HARNESS and not set(parts) & set(IGNORED)


def digest(files: Iterable[tuple[str, bytes]]) -> str:
    """Of (path, content), in any order."""
    lines = sorted((path.encode(), hashlib.sha256(content).hexdigest().encode()) for path, content in files)
    return hashlib.sha256(b"".join(content + b"  " + path + b"\n" for path, content in lines)).hexdigest()


def _below(root: Path, folders: Iterable[str]) -> Iterable[Path]:
    for folder in folders:
        yield from (path for path in (root / folder).rglob("*") if path.is_file())


def _tree(root: Path, folders: Iterable[str], wanted: Callable[[str], bool]) -> str:
    paths = [*_below(root, folders), *root.glob("bench/*.c"), *(root / name for name in FILES)]
    named = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return digest((name, path.read_bytes()) for name, path in named.items() if wanted(name))


def of_tree(root: Path) -> str:
    """Of the sources as they are in a directory; "" where there are none."""
    return _tree(root, FOLDERS, is_source) if (root / FILES[0]).is_file() else ""


def harness_of_tree(root: Path) -> str:
    return _tree(root, (f"bench/{name}" for name in HARNESS), is_harness)


def _committed(revision: str) -> list[tuple[str, bytes]]:
    command = ["git", "-C", str(repository.ROOT), "archive", "--format=tar", revision]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    except OSError as error:
        raise BenchError(f"git: {error}: the sources of revision {revision[:9]} cannot be compared") from error
    if done.returncode != 0:
        raise BenchError(f"revision {revision[:9]} is not in this repository: fetch it, or publish where it was measured")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        return [
            (member.name, file.read()) for member in archive if member.isfile() and (file := archive.extractfile(member))
        ]


def of_commit(revision: str) -> tuple[str, str]:
    """The hashes of the sources and of the harness at a revision."""
    files = _committed(revision)
    return (
        digest((name, content) for name, content in files if is_source(name)),
        digest((name, content) for name, content in files if is_harness(name)),
    )
