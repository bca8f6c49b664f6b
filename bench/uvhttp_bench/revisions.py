"""Owns: performance_test of a revision: built with the release preset from a clean checkout, once for each commit."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench import network, repository
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.interrupt import held
from uvhttp_bench.loads.base import execute

BUILT = repository.BUILD / "bench" / "revisions"
BUILD_SECONDS = 1800
WORKING_COPY = "."


@dataclass(frozen=True)
class Built:
    label: str  # as it was asked for
    revision: str
    dirty: bool
    program: Path


def resolve(name: str) -> str:
    commit = repository.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if not commit:
        raise BenchError(f"revision '{name}' is not known here: git log --oneline; or '.' for what ./dev build has built")
    return commit


def program_of(name: str) -> Built:
    """What is asked for, built. "." is the working copy, as ./dev build left it."""
    if name == WORKING_COPY:
        program = repository.PROGRAMS / "performance_test"
        if not program.is_file():
            raise MissingError(f"{program} is not there: ./dev build")
        return Built(name, repository.revision(), repository.dirty(), program)
    commit = resolve(name)
    program = BUILT / commit / "performance_test"
    if not program.is_file():
        _build(name, commit, program)
    return Built(name, commit, False, program)


def _run(what: str, command: list[str], directory: Path) -> None:
    with network.outside():
        done = execute(["env", "-C", str(directory), *command], (), BUILD_SECONDS)
    if done.code != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        wrong = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
        raise BenchError(f"{what}: {command[0]} failed: {wrong}")


def _build(name: str, commit: str, program: Path) -> None:
    jobs = str(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="uvhttp-bench-build-") as directory:
        tree = Path(directory) / "tree"
        try:
            _run(
                name,
                ["git", "-C", str(repository.ROOT), "worktree", "add", "--quiet", "--detach", str(tree), commit],
                tree.parent,
            )
            _run(name, ["cmake", "--preset", "standard"], tree)
            _run(name, ["cmake", "--build", "build", "-j", jobs, "--target", "performance_test"], tree)
            program.parent.mkdir(parents=True, exist_ok=True)
            whole = program.with_suffix(".part")
            shutil.copy2(tree / "build" / "dist" / "bin" / "performance_test", whole)
            whole.rename(program)
        finally:
            with held():
                subprocess.run(
                    ["git", "-C", str(repository.ROOT), "worktree", "remove", "--force", str(tree)],
                    capture_output=True, check=False,
                )  # fmt: skip
