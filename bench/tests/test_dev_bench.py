"""Owns: what `./dev bench` builds: nothing for what only reads, and no more than what is measured."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from uvhttp_bench import cli, repository

READING = (["--help"], ["--version"], ["list", "low"], *([name, "--help"] for name in cli.verbs()))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """./dev with the sources of the program, and with a cmake that writes down what it is asked for and fails."""
    made = tmp_path / "tree"
    made.mkdir()
    shutil.copy2(repository.ROOT / "dev", made)
    (made / "bench").symlink_to(repository.ROOT / "bench")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (
        ("cmake", f'echo "$@" >>{tmp_path}/asked\ncase $* in *--target*) exit 1 ;; esac'),
        ("dpkg-query", "echo installed"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return made


def dev(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = f"{tree.parent / 'programs'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", tree / "dev", "bench", *arguments],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_help_list_and_version_need_only_the_standard_library(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "uvhttp_bench", *arguments], cwd=repository.ROOT / "bench", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [*READING[:3], ["compare", "--cmd", "x", "--help"]], ids=" ".join)
def test_help_list_and_version_build_nothing(tree: Path, arguments: list[str]) -> None:
    done = dev(tree, *arguments)
    assert done.returncode == 0 and done.stdout, done.stderr
    assert not (tree / "build").exists() and not (tree.parent / "asked").exists()


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        (["compare", "--cmd", "a {port}", "--cmd", "b {port}"], "uvhttp_load_program"),
        (["compare", "--cmd=a {port}", "--cmd=b {port}"], "uvhttp_load_program"),
        (["compare", "main"], "performance_test uvhttp_load_program"),
        (["run", "low"], "performance_test benchmark_tcp_echo uvhttp_load_program"),
        (["check"], "all"),
    ],
)
def test_a_verb_builds_what_it_measures(tree: Path, arguments: list[str], targets: str) -> None:
    done = dev(tree, *arguments)
    assert done.returncode == 1 and "the build has failed" in done.stderr
    asked = (tree.parent / "asked").read_text().splitlines()
    assert [line.partition(" --target ")[2] for line in asked if "--target" in line] == [targets]
