"""Owns: where things are in the repository that this package is part of."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PROGRAMS = BUILD / "dist" / "bin"
RESULTS = ROOT / "test" / "performance_results"  # raw output and records of runs
DATA = ROOT / "docs" / "performance" / "data"  # what is committed
REPORTS = ROOT / "docs" / "performance" / "reports"
SOURCES = ("bench", "src", "include", "examples", "tools", "cmake", "CMakeLists.txt", "CMakePresets.json")
DATABASE = BUILD / "bench" / "records.sqlite"
SELF_CHECKS = BUILD / "bench" / "self-check"
EXPERIMENTS = BUILD / "bench" / "experiment"


def git(*arguments: str) -> str:
    """Output of git, or nothing where git or the repository is missing (an unpacked archive)."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def revision() -> str:
    return git("rev-parse", "HEAD")


def dirty() -> bool:
    """Whether what is built and what measures differ from the commit, files unknown to git included; results do not count."""
    return bool(git("status", "--porcelain", "--untracked-files=all", "--", *SOURCES))
