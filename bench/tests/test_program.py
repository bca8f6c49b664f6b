"""Owns: the program as a user runs it, against a stand-in server with the audit's faults."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from uvhttp_bench import cli, interrupt, recheck, regression, session
from uvhttp_bench.loads import uvhttp_load
from uvhttp_bench.loads.base import Finished, pinned
from uvhttp_bench.model import collection, database, record
from uvhttp_bench.output.report_markdown import markdown
from uvhttp_bench.reporting import Material, build
from uvhttp_bench.scenarios import catalog

known_figures, known_checks = recheck.figures, recheck.checks  # not yet replaced by those of stand_in
FAKE = Path(__file__).with_name("fake_server.py")
STAND_IN = Path(__file__).with_name("stand_in.py")
needs_load = pytest.mark.skipif(
    not uvhttp_load.program() or len(os.sched_getaffinity(0)) < 2, reason="needs uvhttp-load (./dev build) and two CPUs"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """A program that starts the stand-in with this interpreter."""
    program, fake = tmp_path / "performance_test", tmp_path / FAKE.name
    fake.symlink_to(FAKE)  # a name by which those of this test are found, and no others
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')
    program.chmod(0o755)
    yield program
    left = subprocess.run(["pgrep", "-f", f"{fake} --port"], capture_output=True, text=True, check=False).stdout.split()
    assert left == [], "a server has outlived the program"


def bench(server: Path, fault: str, *arguments: str) -> Finished:
    environment = {**os.environ, "UVHTTP_BENCH_SERVER": str(server), "FAKE": fault}
    environment.pop("UVHTTP_LOG_LEVEL", None)
    if fault == "debug":
        environment["UVHTTP_LOG_LEVEL"] = "debug"
    where = ["--results", str(server.parent / "results"), "--database", str(server.parent / "records.sqlite")]
    command = [sys.executable, str(STAND_IN), *arguments, *(where if arguments[0] == "run" else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return Finished(done.stdout, done.stderr, done.returncode, 0, 0)


def run(server: Path, fault: str, *more: str) -> Finished:
    return bench(server, fault, "run", "low", "--seconds", "1", "--repeats", "1", "--allow-dirty", *more)


def test_extended_seconds_leave_basic_and_sustained_as_they_are() -> None:
    todo = session.scenario_runs(catalog.choose(["low", "https", "sustained-30"]), False, None, None, 2)
    assert [(planned.scenario.name, planned.seconds, planned.repeats) for planned in todo] == [
        ("low", 10, 5),
        ("https", 2, 3),
        ("sustained-30", 30, 1),
    ]


@needs_load
def test_a_run_leaves_a_record_the_raw_output_and_a_row(server: Path) -> None:
    done = run(server, "", "--format", "json")
    assert done.code in (0, 4), done.stderr  # 4: this machine may be noisy
    kept = record.read(server.parent / "results" / "low_concurrent_1.json")
    assert '"schema": "uvhttp-load/1"' in (server.parent / "results" / "low_concurrent_1.txt").read_text()
    with database.opened(server.parent / "records.sqlite") as store:
        assert store.records() == [kept]
    assert kept.results.total_requests > 0 and kept.results.histogram.count == kept.results.total_requests
    assert kept.resources.cpu_us_per_request and kept.resources.memory_usage_mb and kept.environment.hash
    assert kept.holds("cpu")
    assert json.loads(done.stdout)["records"] == [kept.test_id]
    assert known_figures(kept) == [] and known_checks(kept) == []  # as measured, so computed again


@needs_load
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("later-404", "status of"),
        ("coverage", "not a release build (debug, coverage"),
        ("log", "bytes of log during the run"),
        ("debug", "the server logs at level debug"),
    ],
)
def test_the_audits_mistakes_are_void(server: Path, fault: str, words: str) -> None:
    done = run(server, fault, "--warm-up", "0")
    assert done.code == 1 and words in done.stderr
    kept = record.read(server.parent / "results" / "low_concurrent_1.json")
    assert kept.status == record.VOID and not kept.holds("cpu")


@needs_load
def test_a_tool_that_says_what_cannot_be_makes_a_void_run(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terabyte a second, which no memory carries."""
    found = json.loads((FAKE.parent / "fixtures" / "uvhttp_load.json").read_text())
    found["results"]["bytes_per_second"] = float(2**40)
    (server.parent / "result.json").write_text(json.dumps(found))
    tool = server.parent / "uvhttp-load"
    tool.write_text(f"#!/bin/sh\ncat {server.parent}/result.json\n")
    tool.chmod(0o755)
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(tool))
    done = run(server, "", "--warm-up", "0", "--tool", "uvhttp-load")
    assert done.code == 1 and "the figure cannot be" in done.stderr, done.stderr
    kept = record.read(server.parent / "results" / "low_concurrent_1.json")
    assert kept.status == record.VOID and not kept.holds("cpu")


@needs_load
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("404", "status 404 instead of 200: is this the right server?"),
        ("busy", "ended while starting (exit 1): uvhttp: listen: address in use"),
        ("exit", "out of luck"),
    ],
)
def test_a_wrong_or_dying_server_is_one_line_and_no_record(server: Path, fault: str, words: str) -> None:
    done = run(server, fault, "--warm-up", "0")
    assert done.code == 1 and words in done.stderr, done.stderr
    assert not (server.parent / "results").exists()


@needs_load
def test_ctrl_c_keeps_what_is_finished_and_leaves_nothing_running(server: Path) -> None:
    command = [sys.executable, "-m", "uvhttp_bench", "run", "low", "--seconds", "1", "--repeats", "50", "--warm-up", "0"]
    command += ["--allow-dirty", "--results", str(server.parent / "results")]
    command += ["--database", str(server.parent / "records.sqlite")]
    process = subprocess.Popen(
        command, env={**os.environ, "UVHTTP_BENCH_SERVER": str(server)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr
    assert "low 1/50" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    interrupted = re.search(r"interrupted: (\d+) finished", stderr)
    assert process.returncode == 130 and interrupted and "low" in stdout
    finished = range(1, 1 + int(interrupted[1]))  # one, unless this test was kept waiting for longer than a run takes
    assert 1 <= len(finished) < 50
    results = server.parent / "results"
    kept = {f"low_concurrent_{number}.{ending}" for number in finished for ending in ("json", "txt")}
    assert {path.name for path in results.iterdir()} == kept
    assert record.read(results / "low_concurrent_1.json").test_scenario.repeats == 50


@pytest.mark.skipif(not uvhttp_load.program(), reason="needs uvhttp-load: ./dev build")
def test_a_rate_is_an_open_loop_in_record_file_and_report(server: Path) -> None:
    done = run(server, "", "--rate", "300", "--format", "json")
    assert done.code in (0, 4), done.stderr
    kept = record.read(server.parent / "results" / "low_concurrent-rate-300_1.json")
    scenario = kept.test_scenario
    assert (scenario.name, scenario.loop, scenario.rate_per_second) == ("low-rate-300", "open", 300)
    assert "--rate 300.000" in scenario.command and scenario.tool == "uvhttp-load"
    assert 200 < kept.results.total_requests < 400 and kept.results.latency_avg_ms
    assert {"rate", "errors"} <= {check.name for check in kept.checks}
    assert not {"Little's law", "samples"} & {check.name for check in kept.checks}
    (summary,) = json.loads(done.stdout)["summaries"]
    assert (summary["scenario"], summary["grade"]) == ("low-rate-300", "")  # the standard's floors are for closed loops
    page = markdown(build(Material((kept,), "rate")), "data.json")
    assert "low-rate-300" in page and "--rate 300 GET http://.../" in page


@pytest.mark.skipif(not uvhttp_load.program(), reason="needs uvhttp-load: ./dev build")
def test_a_rate_that_is_not_served_takes_the_latency_away(server: Path) -> None:
    done = run(server, "slow", "--rate", "150", "--warm-up", "0")
    assert "of 150 requests/s were served" in done.stderr, done.stderr
    kept = record.read(server.parent / "results" / "low_concurrent-rate-150_1.json")
    assert not kept.holds("latency")


def test_an_interrupt_waits_until_a_started_process_is_noted() -> None:
    reached = False
    interrupt.install()
    with pytest.raises(KeyboardInterrupt), interrupt.held():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # the signal has been handled by now
        reached = True
    assert reached
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


# --- bad input: one line that says what to do, and the right code ---


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["lwo"], 2, "no scenario 'lwo': `uvhttp-bench list`"),
        (["low", "--seconds", "0.1"], 2, "allowed is 1..86400"),
        (["low", "--repeats", "0"], 2, "allowed is 1..1000"),
        (["low", "--warm-up", "-1"], 2, "allowed is 0..3600"),
        (["low", "--allow-dirty", "--server-cpus", "x"], 2, "expected CPUs as in 0,2-3"),
        (["low", "--allow-dirty", "--server-cpus", "4095"], 2, "CPU 4095 is not one that this process may use"),
        (["low", "--allow-dirty", "--server-cpus", "0", "--generator-cpus", "0"], 2, "overlap"),
        (["low", "--allow-dirty", "--tool", "uvhttp-load"], 77, "uvhttp-load is not there: ./dev build"),
        (["sustained", "--quick"], 2, "leaves out all"),
        (["low", "--rate", "0"], 2, "allowed is 1..100000000"),
        (["low", "--allow-dirty", "--rate", "5", "--tool", "wrk"], 2, "wrk has no --rate"),
        (["tcp-echo-64", "--allow-dirty", "--rate", "5"], 2, "benchmark_tcp_echo has no --rate"),
        (["low", "--rate", "5", "--workers", "2", "--tool", "wrk"], 2, "wrk has no --rate"),
        (["low", "--allow-dirty", "--tool", "wrk", "--database", "/dev/null/x"], 1, "name another one with --database"),
    ],
)
def test_bad_input(
    server: Path, arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", "/nowhere/uvhttp-load")
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", str(server))
    assert cli.dispatch(["run", *arguments]) == code
    line = capsys.readouterr().err
    assert words in line and len(line.splitlines()) == 1, line


def test_what_is_missing_is_77_and_says_how_to_get_it(
    server: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", str(server.with_name("gone")))
    assert cli.dispatch(["run", "low", "--allow-dirty"]) == 77
    assert "is not there: ./dev build" in capsys.readouterr().err
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", str(server))
    monkeypatch.setenv("PATH", str(server.parent))
    assert cli.dispatch(["run", "low", "--allow-dirty", "--tool", "wrk"]) == 77
    assert "wrk is not installed: apt-get install wrk" in capsys.readouterr().err


def test_a_dirty_tree_is_refused_unless_allowed(
    server: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("uvhttp_bench.repository.dirty", lambda: True)
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", str(server))
    assert cli.dispatch(["run", "low"]) == 2
    assert "--allow-dirty" in capsys.readouterr().err


@needs_load
def test_results_that_cannot_be_written_are_one_line(
    server: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", str(server))
    where = ["--results", str(server / "below-a-file"), "--database", str(server.parent / "records.sqlite")]
    short = ["--seconds", "1", "--repeats", "1", "--warm-up", "0", "--allow-dirty"]
    assert cli.dispatch(["run", "low", *short, *where]) == 1
    line = capsys.readouterr().err
    assert "below-a-file" in line and len(line.splitlines()) == 1


def test_unknown_verbs_are_usage() -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.dispatch(["measure"])
    assert stopped.value.code == 2


def test_without_cpus_nothing_is_pinned() -> None:
    assert pinned((), ["wrk", "-v"]) == ["wrk", "-v"]
    assert pinned((1, 3), ["wrk"]) == ["taskset", "-c", "1,3", "wrk"]


@needs_load
def test_a_run_is_measured_as_its_baseline_was(server: Path, tmp_path: Path) -> None:
    assert run(server, "").code in (0, 4)
    with database.opened(tmp_path / "records.sqlite") as store:
        kept = store.records()
    collection.write(tmp_path / "data" / "2026-01-01" / "baseline.json", "baseline", kept)
    where = ["--data", str(tmp_path / "data"), "--database", str(tmp_path / "records.sqlite"), "--results", str(tmp_path)]
    done = bench(server, "", "baseline", "check", "--run", "--repeats", "1", "--allow-dirty", *where)
    assert done.code == 4, done.stderr
    assert "1 and 1 runs, 3 of each are needed" in done.stdout and "nothing is written" in done.stdout
    with database.opened(tmp_path / "records.sqlite") as store:
        again = store.records()[-1]
    assert again.session != kept[0].session and regression.shape(again) == regression.shape(kept[0])
    assert "standard's thresholds" in [check.name for check in again.checks]
