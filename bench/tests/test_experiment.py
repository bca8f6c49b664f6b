"""The experiment of S3: wrk's real output, the tables, and the whole command against a stand-in for performance_test."""

import json
import shutil
from pathlib import Path

import pytest

from uvhttp_bench import cli
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import thesis, wrk_table
from uvhttp_bench.model import codec
from uvhttp_bench.model.experiment import Experiment, Measurement, Spread
from uvhttp_bench.output import experiment_table
from uvhttp_bench.scenarios.thesis import WORKLOADS
from uvhttp_bench.targets import tomcat
from uvhttp_bench.targets.probe import Answer, wrong_total

HERE = Path(__file__).parent
SLEPT = Answer(200, b"slept", 38)


def fixture(name: str) -> str:
    return (HERE / "fixtures" / name).read_text()


def test_wrk_table_is_read_with_its_units_and_exact_totals() -> None:
    table = wrk_table.parse(fixture("wrk_sleep200.txt"))
    assert table.latency_us == wrk_table.Spread(213240, 19320, 274630, 80.87)
    assert table.rate == wrk_table.Spread(74.86, 30.13, 141, 67.14)
    assert (table.requests, table.bytes_received, table.errors) == (878, 37754, 0)
    assert table.percentiles_us["99"] == 270754
    assert table.requests_per_second == pytest.approx(420.74, abs=0.01)


def test_wrk_table_reads_thousands_and_refuses_answers_of_another_status() -> None:
    table = wrk_table.parse(fixture("wrk_404.txt"))
    assert table.rate.mean == 6450
    assert table.latency_us.mean == 1800
    assert table.errors_status == 12827
    with pytest.raises(thesis.Void, match="12827 errors"):
        thesis.verify(table, WORKLOADS["count"], SLEPT, 10)


@pytest.mark.parametrize("text", ["", "Running 1s test\n", fixture("wrk_404.txt").replace("Latency  ", "Lat")])
def test_what_is_not_wrks_output_is_an_error_in_words(text: str) -> None:
    with pytest.raises(BenchError, match="wrk"):
        wrk_table.parse(text)


def test_a_run_with_too_few_bytes_or_too_short_a_wait_is_void() -> None:
    table = wrk_table.parse(fixture("wrk_sleep200.txt"))
    thesis.verify(table, WORKLOADS["sleep200"], SLEPT, 100)
    with pytest.raises(thesis.Void, match="bytes are not"):
        thesis.verify(table, WORKLOADS["sleep200"], Answer(200, b"slept", 60), 100)
    quick = wrk_table.parse(fixture("wrk_sleep200.txt").replace("213.24ms", "21.32ms"))
    with pytest.raises(thesis.Void, match="below the wait"):
        thesis.verify(quick, WORKLOADS["sleep200"], SLEPT, 100)


def test_littles_law_allows_for_the_requests_that_the_end_cuts_off() -> None:
    table = wrk_table.parse(fixture("wrk_sleep200.txt"))
    assert thesis.law(table, 100) is None
    assert thesis.law(table, 130) is not None
    assert thesis.law(table, 70) is not None


def test_total_bytes_allow_one_cut_answer_per_connection() -> None:
    assert wrong_total(43 * 100 + 42, 100, SLEPT, 1) is None
    assert wrong_total(43 * 100 - 1, 100, SLEPT, 1) is not None
    assert wrong_total(43 * 102, 100, SLEPT, 1) is not None


def measured(target: str, mode: str, number: int, cpu: float, rate: int = 1000, workers: int | None = None) -> Measurement:
    spread = Spread(10, 2, 30, 70)
    return Measurement(target, mode, "sleep200", "/x", number, workers, rate, 1, spread, spread, 20, cpu, 0, 5)


def test_ratio_is_taken_within_a_round() -> None:
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
    experiment = Experiment("2026-01-01T00:00:00+00:00", 6, 100, 2, 1, (0,), (1,), {"uvhttp": "1"}, spread)
    assert codec.from_json(Experiment, json.loads(codec.dump(experiment))) == experiment


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_whole_command_skips_what_is_not_there_and_writes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tomcat, "HOME", tmp_path)  # no Tomcat
    arguments = ["--workload", "sleep200", "--seconds", "1", "--rounds", "1", "--warmup", "0", "--connections", "16"]
    more = ["--sweep", "16", "--server", str(HERE / "stub_server.py"), "--output", str(tmp_path / "out")]
    assert cli.dispatch(["experiment", "tomcat", *arguments, *more]) in (0, 4)
    text = capsys.readouterr().out
    assert "tomcat: not installed: apt-get install tomcat10" in text
    assert "uvhttp, coroutine" in text
    stored = codec.from_json(Experiment, json.loads((tmp_path / "out" / "experiment.json").read_text()))
    assert {m.mode for m in stored.measurements} == {"loop", "worker", "coroutine"}
    assert [m.worker_threads for m in stored.sweep] == [16]
    assert (tmp_path / "out" / "sweep-sleep200.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("wrong", [["--seconds", "0"], ["--server-cpus", "0", "--client-cpus", "0"]])
def test_wrong_options_are_usage_errors(wrong: list[str]) -> None:
    assert cli.dispatch(["experiment", "tomcat", *wrong]) == 2
