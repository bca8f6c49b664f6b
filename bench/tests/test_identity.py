"""Owns: which program was measured: an impostor, a program swapped between repeats, or an override by the environment voids a run."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from test_program import FAKE, needs_load

from uvhttp_bench import identity, repository, sources
from uvhttp_bench.identity import Expected
from uvhttp_bench.loads.wrk import Wrk
from uvhttp_bench.model import record
from uvhttp_bench.model.evidence import Identity
from uvhttp_bench.targets.base import Ports, Running
from uvhttp_bench.targets.limits import Limit as Epoll
from uvhttp_bench.targets.slowed import LIBRARY, Slowed
from uvhttp_bench.targets.uvhttp import Uvhttp

pytestmark = pytest.mark.identity
SERVER = repository.PROGRAMS / "performance_test"
needs_server = pytest.mark.skipif(not SERVER.is_file(), reason="needs performance_test: ./dev build")

SETTINGS = {"io_threads": "1", "I/O backend": "io_uring"}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in identity.changing(os.environ):
        monkeypatch.delenv(name)


GOOD = Identity(
    ours=True, planned="a", first="a", before="a", after="a", sources="s", sources_expected="s", settings_expected=SETTINGS,
    settings_before=SETTINGS, settings_after=SETTINGS, generator="g", generator_first="g", harness="h",
)  # fmt: skip


def failed(seen: Identity) -> str:
    return "; ".join(f"{check.name}: {check.detail}" for check in identity.checks(seen) if not check.passed)


def test_what_is_as_planned_passes_every_check() -> None:
    assert failed(GOOD) == ""
    assert {check.name for check in identity.checks(GOOD)} == {"program", "sources", "settings", "environment"}
    assert all(check.takes == "all" for check in identity.checks(GOOD))


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (replace(GOOD, before="b", after="b", first="b"), "program: the process runs b, planned was a"),
        (replace(GOOD, before="", first=""), "program: /proc/PID/exe cannot be read"),
        (replace(GOOD, first="b"), "in the session's first run it was b"),
        (replace(GOOD, after="b"), "program: the program or its library was replaced during the run"),
        (replace(GOOD, libraries_after={"libuvhttp.so.0": "x"}), "its library was replaced during the run"),
        (replace(GOOD, generator="x"), "the load generator was replaced during the session"),
        (replace(GOOD, generator_expected="x"), "UVHTTP_BENCH_LOAD names a generator that was not built here"),
        (replace(GOOD, sources=""), "sources: the server does not say its sources at /config"),
        (replace(GOOD, sources="t"), "sources: built from t, these sources are s: ./dev build"),
        (replace(GOOD, settings_before={**SETTINGS, "backlog": "1"}), "settings: the server uses backlog '1' instead of"),
        (replace(GOOD, settings_before={}), "settings: the server uses I/O backend 'default' instead of 'io_uring'"),
        (replace(GOOD, settings_after={**SETTINGS, "backlog": "1"}), "settings: changed during the run: backlog"),
        (replace(GOOD, variables={"UVHTTP_BACKLOG": "1"}), "environment: UVHTTP_BACKLOG: changes what is measured"),
        (replace(GOOD, variables={"LD_PRELOAD": "x.so"}), "environment: LD_PRELOAD"),
        (replace(GOOD, variables_of_harness={"MALLOC_ARENA_MAX": "1"}), "environment: MALLOC_ARENA_MAX"),
        (replace(GOOD, variables={"UVHTTP_LOG_LEVEL": "debug"}), "environment: UVHTTP_LOG_LEVEL"),
    ],
)
def test_what_is_not_as_planned_is_void(seen: Identity, words: str) -> None:
    assert words in failed(seen)


def test_variables_without_an_effect_are_permitted() -> None:
    harmless = {"UVHTTP_BENCH_SERVER": "x", "UVHTTP_COUNTS": "x"}
    assert failed(replace(GOOD, variables=harmless, variables_of_harness=harmless)) == ""
    same = {"UVHTTP_ENGINE": "uring"}
    assert failed(replace(GOOD, variables=same, variables_permitted=same)) == ""
    assert "UVHTTP_ENGINE" in failed(replace(GOOD, variables={"UVHTTP_ENGINE": "epoll"}, variables_permitted=same))
    assert identity.changing({"UVHTTP_X": "", "PATH": "/bin", "JAVA_HOME": "/x", "LD_AUDIT": "y"}) == {"LD_AUDIT": "y"}
    other = replace(GOOD, ours=False, variables={"UVHTTP_X": "1"})
    assert failed(other) == "" and {c.name for c in identity.checks(other)} == {"program", "environment"}


def test_the_library_that_slows_the_self_check_is_the_one_preload_that_is_permitted() -> None:
    permitted = identity.permitted(Slowed("slowed", 50), True)
    assert permitted["LD_PRELOAD"] == identity.shown(str(LIBRARY)) and permitted["UVHTTP_SLOW_NS"] == "50"
    seen = replace(GOOD, variables=permitted, variables_permitted=permitted)
    assert failed(seen) == ""
    for wrong in (
        {**permitted, "LD_PRELOAD": ""},
        {**permitted, "LD_PRELOAD": "other.so"},
        {**permitted, "UVHTTP_SLOW_NS": "0"},
    ):
        assert "environment" in failed(replace(seen, variables=wrong))


def test_settings_asked_for_are_read_off_the_command_line() -> None:
    words = ["taskset", "-c", "0", "env", "A=b", "/x/p", "--port", "1", "--io-threads", "2", "--key=/tmp/a/key.pem"]
    words += ["--kernel-tls", "--read-buffer-size", "1024"]
    found = {"io_threads": "2", "tls_key": "key.pem", "kernel_tls": "true", "read_buffer_size": "1024"}
    assert identity.asked_settings("/x/p", words) == found


# --- real processes ---


@contextmanager
def started(program: Path, *arguments: str) -> Iterator[Running]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
        try:
            yield Running(process.pid, Ports(1, 1), log, process)
        finally:
            process.kill()
            process.wait()


def replace_program(program: Path, name: str) -> None:
    """As a build does it: a new file takes the place of the old one."""
    made = program.with_suffix(".new")
    shutil.copy2(str(shutil.which(name)), made)
    made.rename(program)


def test_a_program_that_is_swapped_between_repeats_is_void(tmp_path: Path) -> None:
    """The plan is made anew for each run, as in `peers`: what the session began with counts."""
    program = tmp_path / "server"
    checked = []
    for name, argument in (("sleep", "60"), ("sleep", "60"), ("tail", "-f")):
        replace_program(program, name)
        expected = Expected(session=f"{tmp_path}")
        with started(program, argument) as running:
            seen = identity.before(expected, Epoll("epoll"), running, Wrk())
            checked.append(failed(identity.after(seen, running)))
    assert checked[:2] == ["", ""]
    assert "in the session's first run it was" in checked[2]


def test_a_program_that_is_not_the_planned_file_is_void(tmp_path: Path) -> None:
    """A script of the same name: the process is its interpreter."""
    program = tmp_path / "performance_test"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)
    target = Uvhttp(program=program)
    with started(program) as running:
        seen = identity.before(identity.expect(target, f"{tmp_path}"), target, running, Wrk())
        assert "not the program that was to be measured" in failed(identity.after(seen, running))


def test_a_file_that_is_written_to_has_another_hash(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    first = identity.file_hash(path)
    path.write_text("b")
    assert first != identity.file_hash(path) and identity.file_hash(tmp_path / "none") == ""


def bench(tmp_path: Path, **variables: str) -> tuple[str, record.Record]:
    where = ["--results", str(tmp_path / "results"), "--database", str(tmp_path / "db")]
    short = ["--seconds", "1", "--repeats", "1", "--warm-up", "0", "--allow-dirty"]
    command = [sys.executable, "-m", "uvhttp_bench", "run", "low", *short, *where]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr, record.read(tmp_path / "results" / "low_concurrent_1.json")


@needs_load
def test_an_impostor_is_void(tmp_path: Path) -> None:
    """A server that responds as performance_test does and reports a release build, but is another program."""
    program = tmp_path / "performance_test"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(0o755)
    words, kept = bench(tmp_path, UVHTTP_BENCH_SERVER=str(program))
    assert "not the program that was to be measured" in words and "does not say its sources" in words
    assert kept.status == record.VOID and not kept.holds("cpu")


@needs_load
@needs_server
def test_a_setting_from_the_environment_is_void(tmp_path: Path) -> None:
    words, kept = bench(tmp_path, UVHTTP_KEEPALIVE_TIMEOUT="7")
    assert "the server uses keepalive_timeout '7' instead of 'default'" in words
    assert "UVHTTP_KEEPALIVE_TIMEOUT: changes what is measured" in words and not kept.holds("cpu")
    assert kept.identity.variables == {"UVHTTP_KEEPALIVE_TIMEOUT": "7"}
    assert [c.passed for c in kept.checks if c.name == "program"] == [True]


# --- sources ---


def test_cmake_and_this_program_hash_the_same_sources(tmp_path: Path) -> None:
    for name in (
        "src/io/a.c",
        "src/io/a.c~",
        "include/uvhttp/b.hpp",
        "tools/x.py",
        "bench/c.c",
        "bench/limits/d.c",
        "CMakeLists.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    script = repository.ROOT / "cmake" / "write_build_identity.cmake"
    command = ["cmake", f"-DSOURCE={tmp_path}", f"-DOUTPUT={tmp_path}/identity.h", "-P", str(script)]
    subprocess.run(command, check=True, capture_output=True)
    assert f'"{sources.of_tree(tmp_path)}"' in (tmp_path / "identity.h").read_text()
    (tmp_path / "bench" / "limits" / "d.c").write_text("another")
    assert f'"{sources.of_tree(tmp_path)}"' in (tmp_path / "identity.h").read_text()


def test_a_commit_has_the_hashes_of_its_tree() -> None:
    """In a clean checkout, that is."""
    commit = sources.of_commit("HEAD")
    if not repository.dirty():
        assert commit == (sources.of_tree(repository.ROOT), sources.harness_of_tree(repository.ROOT))
    assert len(commit[0]) == 64 and commit[0] != commit[1]


def test_dirty_includes_the_harness_and_files_unknown_to_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(repository, "ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "gates.py").write_text("")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        git(*arguments)
    assert not repository.dirty()
    (tmp_path / "notes.txt").write_text("not measured")
    assert not repository.dirty()
    (tmp_path / "bench" / "gates.py").write_text("LITTLE_MAX = 9")
    assert repository.dirty()
    git("checkout", "-q", "bench/gates.py")
    (tmp_path / "bench" / "sitecustomize.py").write_text("")
    assert repository.dirty()
