"""Owns: the audit's tricks of servers and load generators: each ends in a discarded run or a refusal. The whole program, against
servers and a generator that lie."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from uvhttp_bench import sockets
from uvhttp_bench.loads import uvhttp_load
from uvhttp_bench.model import record
from uvhttp_bench.model.record import Record

HERE = Path(__file__).parent
LOAD = uvhttp_load.program()
two_cpus = len(os.sched_getaffinity(0)) >= 2
needs_load = pytest.mark.skipif(not LOAD or not two_cpus, reason="needs uvhttp-load (./dev build) and two CPUs")
needs_wrk = pytest.mark.skipif(not shutil.which("wrk") or not two_cpus, reason="needs wrk and two CPUs: apt-get install wrk")
needs_kernel = pytest.mark.skipif(not sockets.available(), reason="needs sock_diag of the kernel")


def script(path: Path, command: str) -> Path:
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    trick = tmp_path / "trick_server.py"
    trick.symlink_to(HERE / trick.name)  # a name by which those of this test are found, and no others
    yield script(tmp_path / "performance_test", f"{sys.executable} {trick}")
    left = subprocess.run(["pgrep", "-f", f"{trick} --port"], capture_output=True, text=True, check=False)
    assert left.stdout.split() == [], "a server has outlived the program"


class Done:
    """What a user sees of one run, and the record if there is one."""

    def __init__(self, server: Path, trick: str, scenario: str, *more: str, **environment: str) -> None:
        results = server.parent / "results"
        command = [
            sys.executable,
            str(HERE / "stand_in.py"),
            "run",
            scenario,
            "--seconds",
            "1",
            "--repeats",
            "1",
            "--allow-dirty",
        ]
        command += ["--warm-up", "0", "--results", str(results), "--database", str(server.parent / "records.sqlite"), *more]
        known = {**os.environ, "UVHTTP_BENCH_SERVER": str(server), "TRICK": trick, **environment}
        done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=120, check=False)
        self.code, self.said = done.returncode, done.stdout + done.stderr
        self.records: list[Record] = [record.read(path) for path in sorted(results.glob("*.json"))]

    def is_void(self, check: str, words: str) -> None:
        assert self.code == 1, self.said
        (kept,) = self.records
        failed = {c.name: c.detail for c in kept.checks if not c.passed and not c.unstable}
        assert check in failed and words in failed[check], (failed, self.said)
        assert kept.status == record.VOID and not kept.holds("cpu")

    def is_refused(self, words: str) -> None:
        assert self.code == 1 and words in self.said, self.said
        assert self.records == []


@needs_load
@pytest.mark.parametrize("scenario", ["low", "post"])
def test_an_honest_server_passes_all_that_the_tricks_fail(server: Path, scenario: str) -> None:
    done = Done(server, "", scenario)
    assert done.code in (0, 4), done.said  # 4: the machine may be noisy
    (kept,) = done.records
    failed = [c.name for c in kept.checks if not c.passed and not c.unstable]
    assert not set(failed) & {"counts", "errors", "answer before", "answer after", "samples"}, done.said
    assert kept.counts and kept.counts.server_requests is not None
    assert kept.counts.generator_requests_min <= kept.counts.server_requests <= kept.counts.generator_requests_max
    if sockets.available():
        assert kept.counts.kernel_connections and kept.counts.kernel_connections >= kept.test_scenario.connections


@needs_load
def test_another_body_of_the_right_length_is_refused(server: Path) -> None:
    Done(server, "wrong-body", "low").is_refused("a body of 13 bytes that is not the expected one")


@needs_load
def test_another_body_that_the_probe_does_not_see_voids(server: Path) -> None:
    Done(server, "later-wrong-body", "low").is_void("errors", "body")


@needs_wrk
def test_another_body_voids_a_run_of_a_tool_that_does_not_look(server: Path) -> None:
    Done(server, "later-wrong-body", "low", "--tool", "wrk").is_void("answer after", "not the expected one")


@needs_load
def test_redirections_are_refused_or_void(server: Path) -> None:
    Done(server, "302", "low").is_refused("status 302 instead of 200")
    Done(server, "later-302", "low").is_void("errors", "status")


@needs_load
@pytest.mark.parametrize("scenario", ["post", "websocket"])
def test_an_echo_of_garbage_is_refused_or_void(server: Path, scenario: str) -> None:
    done = Done(server, "garbage", scenario)
    if scenario == "post":
        done.is_refused("a body of 15 bytes that is not the expected one")
    else:
        done.is_void("errors", "body")


@needs_load
def test_two_responses_for_a_request_void(server: Path) -> None:
    Done(server, "twice", "low").is_void("errors", "read")


@needs_wrk
@needs_kernel
def test_two_responses_void_a_run_of_a_tool_that_counts_both(server: Path) -> None:
    Done(server, "twice", "low", "--tool", "wrk").is_void("counts", "the kernel moved")


@needs_wrk
@needs_kernel
def test_responses_without_reading_void(server: Path) -> None:
    Done(server, "unread", "low", "--tool", "wrk").is_void("counts", "the kernel moved")


@needs_load
def test_a_server_that_counts_otherwise_voids(server: Path) -> None:
    Done(server, "miscounts", "low").is_void("counts", "the server counted")


LIAR = """
import json, subprocess, sys
done = subprocess.run([{program!r}, *sys.argv[1:]], capture_output=True, text=True)
if "--json" not in sys.argv:
    print(done.stdout, end="")
    sys.exit(done.returncode)
found = json.loads(done.stdout)
results, latency = found["results"], found["latency"]
for name in ("requests", "answers", "answers_total", "requests_per_second", "bytes", "bytes_per_second"):
    results[name] = 4 * results.get(name, 0)
for name in ("mean", "stdev", "max"):  # so that Little's law holds
    latency[name] /= 4
latency["buckets"] = [[low // 4, 4 * count] for low, count in latency["buckets"]]
print(json.dumps(found))
"""


@needs_load
@needs_kernel
def test_a_generator_that_multiplies_its_counts_voids(server: Path) -> None:
    liar = server.parent / "liar.py"
    liar.write_text(LIAR.format(program=str(LOAD)))
    tool = script(server.parent / "uvhttp-load", f"{sys.executable} {liar}")
    done = Done(server, "no-counter", "low", UVHTTP_BENCH_LOAD=str(tool))
    done.is_void("counts", "the kernel moved")
    assert json.loads((server.parent / "results" / "low_concurrent_1.txt").read_text())["results"]["answers"] > 0
