"""The experiment of S3: wrk's real output, the tables, and the whole command against a stand-in for performance_test."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from uvhttp_bench import cli, repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import thesis, wrk_table
from uvhttp_bench.model import codec, experiment
from uvhttp_bench.model.experiment import Experiment, Measurement, Spread
from uvhttp_bench.model.record import Errors, Results
from uvhttp_bench.output import experiment_table
from uvhttp_bench.scenarios.thesis import WORKLOADS
from uvhttp_bench.targets import tomcat
from uvhttp_bench.targets.base import Ports, Response, Running

HERE = Path(__file__).parent
LETS_GO = """
import os, sys, time
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
print(flush=True)
sys.stdin.readline()
for fd in opened: os.close(fd)
time.sleep(60)
"""
SLEPT = Response(200, b"slept", 43)


def fixture(name: str) -> str:
    return (HERE / "fixtures" / name).read_text()


def test_wrk_table_is_read_with_its_units() -> None:
    text = fixture("wrk_sleep200.txt")
    assert wrk_table.latency_ms(text) == Spread(213.24, 19.32, 274.63, 80.87)
    assert wrk_table.rate_per_thread(text) == Spread(74.86, 30.13, 141, 67.14)
    assert wrk_table.rate_per_thread(fixture("wrk_table.txt")).mean == 6450


@pytest.mark.parametrize("text", ["", "Running 1s test\n", "  Latency  -nan  -nan  -nan  -nan%", "  Latency 1x 2x 3x 4%"])
def test_what_is_not_wrks_table_is_an_error_in_words(text: str) -> None:
    with pytest.raises(BenchError, match="not the output of wrk 4"):
        wrk_table.latency_ms(text)


GOOD = Results(878, 420.7, 212.0, 202.0, 253.0, None, None, 0.1, seconds=2.087, bytes_received=878 * 43)


def test_a_run_with_errors_other_bytes_or_too_short_a_wait_is_void() -> None:
    sleep200 = WORKLOADS["sleep200"]
    thesis.verify(GOOD, sleep200, SLEPT, 100)
    for wrong, why in (
        (replace(GOOD, errors=Errors(status=3)), "3 errors"),
        (replace(GOOD, bytes_received=878 * 43 - 1), "bytes are not"),
        (replace(GOOD, bytes_received=978 * 43 + 1), "bytes are not"),
        (replace(GOOD, latency_avg_ms=21.2), "below the wait"),
        (replace(GOOD, total_requests=0), "no request"),
    ):
        with pytest.raises(thesis.Void, match=why):
            thesis.verify(wrong, sleep200, SLEPT, 100)
    thesis.verify(replace(GOOD, bytes_received=978 * 43), sleep200, SLEPT, 100)  # one cut off for each connection


def test_littles_law_allows_for_the_requests_that_the_end_cuts_off() -> None:
    assert thesis.law(GOOD, 100) is None
    assert thesis.law(GOOD, 130) is not None
    assert thesis.law(GOOD, 70) is not None


def test_a_server_is_waited_for_until_it_has_let_go_of_connections() -> None:
    process = subprocess.Popen([sys.executable, "-c", LETS_GO], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdin and process.stdout
        process.stdout.readline()
        with tempfile.TemporaryFile() as log:
            running = Running(process.pid, Ports(1, 2), log, process)
            assert thesis.descriptors(process.pid) > 100
            let_go = threading.Timer(0.3, os.write, (process.stdin.fileno(), b"\n"))
            let_go.start()
            thesis.settle(running, 5, seconds_max=30)
            let_go.join()
            assert thesis.descriptors(process.pid) <= 5 + thesis.IDLE_SLACK
            before = time.monotonic()
            thesis.settle(running, -100, seconds_max=0.1)  # one that never does is not waited for forever
            assert time.monotonic() - before < 20
    finally:
        process.kill()
        process.communicate()


def measured(target: str, mode: str, number: int, cpu: float, rate: int = 1000, workers: int | None = None) -> Measurement:
    spread = Spread(10, 2, 30, 70)
    return Measurement(target, mode, "sleep200", "/x", number, workers, rate, 1, spread, spread, 10, 20, cpu, 0, 5)


def test_ratio_is_computed_within_a_round() -> None:
    found = [measured("uvhttp", "loop", 1, 1), measured("uvhttp", "loop", 2, 4)]
    found += [measured("tomcat", "thread", 1, 10), measured("tomcat", "thread", 2, 20)]
    text = "\n".join(experiment_table.cost_table(found, 2000))
    assert "0.150 (0.100..0.200)" in text
    assert "50.0 %" in text


def test_knee_is_the_fewest_workers_that_come_near_the_best() -> None:
    sweep = [measured("uvhttp", "worker", 1, 1, rate, n) for n, rate in ((1, 5), (8, 40), (64, 320), (128, 490), (256, 500))]
    assert experiment_table.knee(sweep) == 128
    assert experiment_table.knee([]) is None


def test_experiment_survives_its_file() -> None:
    spread = (measured("uvhttp", "loop", 1, 1),)
    made = Experiment("2026-01-01T00:00:00+00:00", 6, 100, 2, 1, (0,), (1,), {"uvhttp": "1"}, spread)
    assert codec.from_json(Experiment, json.loads(codec.dump(made))) == made


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_whole_command_skips_what_is_not_there_and_writes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(repository, "EXPERIMENTS", tmp_path / "kept")
    monkeypatch.setattr(tomcat, "HOME", tmp_path)  # no Tomcat
    arguments = ["--workload", "sleep200", "--seconds", "1", "--rounds", "1", "--warmup", "0", "--connections", "16"]
    more = ["--sweep", "16", "--server", str(HERE / "stub_server.py"), "--output", str(tmp_path / "out")]
    assert cli.dispatch(["experiment", "tomcat", *arguments, *more]) in (0, 4)
    text = capsys.readouterr().out
    assert "tomcat is not installed: apt-get install tomcat10" in text
    assert "uvhttp, coroutine" in text
    stored = codec.from_json(Experiment, json.loads((tmp_path / "out" / "experiment.json").read_text()))
    assert {m.mode for m in stored.measurements} == {"loop", "worker", "coroutine"}
    assert stored.environment and stored.environment.hash and stored.revision == ""  # nobody knows what the stand-in is of
    (kept,) = (tmp_path / "kept").glob("*.json")
    assert experiment.read(kept) == stored
    assert [m.worker_threads for m in stored.sweep] == [16]
    assert (tmp_path / "out" / "sweep-sleep200.svg").read_text().startswith("<svg")


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_an_experiment_without_a_figure_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(repository, "EXPERIMENTS", tmp_path / "kept")
    monkeypatch.setattr(tomcat, "HOME", tmp_path)
    monkeypatch.setenv("FAKE", "404")
    arguments = ["--seconds", "1", "--rounds", "1", "--warmup", "0", "--sweep", "", "--server", str(HERE / "fake_server.py")]
    assert cli.dispatch(["experiment", "tomcat", *arguments]) == 1
    assert "nothing was measured: " in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("wrong", [["--seconds", "0"], ["--server-cpus", "0", "--client-cpus", "0"]])
def test_wrong_options_are_usage_errors(wrong: list[str]) -> None:
    assert cli.dispatch(["experiment", "tomcat", *wrong]) == 2
