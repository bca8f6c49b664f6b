"""Owns: uvhttp-load next to wrk and h2load: what their runs say together, and the whole command on a stand-in."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from uvhttp_bench import agreement, cli
from uvhttp_bench.agreement import AGREES, DIFFERS, H2LOAD, LESS, MORE, NOT_JUDGED, OPEN, OURS, WRK, Finding, Measured
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import h2load, uvhttp_load, wrk
from uvhttp_bench.loads.base import Job
from uvhttp_bench.model.record import Errors
from uvhttp_bench.targets.slowed import Slowed

FIXTURES = Path(__file__).with_name("fixtures")
FAKE = Path(__file__).with_name("fake_server.py")


def test_h2load_is_read_with_its_log() -> None:
    text = (FIXTURES / "h2load.txt").read_text()
    with (FIXTURES / "h2load.log").open() as log:
        histogram = h2load.histogram_of(log)
    results = h2load.parse(text, histogram)
    assert results.total_requests == results.histogram.count == 358
    assert results.requests_per_second == 358.0 and results.errors.total == 0
    # It printed of them "time for request: 45us 173.36ms 8.50ms".
    assert results.latency_avg_ms == pytest.approx(8.5, abs=0.005)
    assert results.latency_max_ms == pytest.approx(173.36, abs=0.005)
    assert results.bytes_received == 41170


def test_h2load_counts_responses_of_another_status_as_errors() -> None:
    text = (FIXTURES / "h2load.txt").read_text().replace("358 succeeded, 0 failed", "0 succeeded, 358 failed")
    assert h2load.parse(text, h2load.histogram_of([])).errors.status == 358
    text = text.replace(
        "358 failed, 0 errored, 0 timeout", "9 failed, 5 errored, 2 timeout"
    )  # h2load(1): each is a part of the one before
    found = h2load.parse(text, h2load.histogram_of([]))
    assert found.errors == Errors(read=3, timeout=2, status=4) and found.error_rate == pytest.approx(9 / 358)
    with pytest.raises(BenchError, match="no summary: Try"):
        h2load.parse("Try", h2load.histogram_of([]))


def test_h2load_refuses_a_method_that_it_does_not_send(tmp_path: Path) -> None:
    job = Job("http://127.0.0.1:1/", 1, 1, 1, (), method="PUT", request_body=b"x", workspace=tmp_path)
    with pytest.raises(BenchError, match="does not send PUT"):
        h2load.H2load().command(job)


def test_wrk_says_what_the_load_alone_has_cost() -> None:
    assert wrk.cpu_seconds("#bench cpu 1.250000\n#bench rates 1 1\n", 9.0) == 1.25
    assert wrk.cpu_seconds("#bench rates 1 1\n", 9.0) == 9.0


def test_a_bucket_of_uvhttp_load_stands_for_its_middle() -> None:
    """32 buckets to a power of two: from 1,048,576 ns on each is 32,768 ns wide."""
    assert uvhttp_load.middle_us(1 << 20) == (1048576 + 16384) // 1000
    assert uvhttp_load.middle_us(63) == 0
    assert uvhttp_load.middle_us(5000) == 5  # 5000..5119 would be 128 wide from 4992 on: never far off


def test_each_tool_is_as_often_first_and_behind_each_other() -> None:
    tools = agreement.tools()
    orders = [tuple(tool.name for tool in agreement.rotated(number, tools)) for number in range(6)]
    assert len(set(orders)) == 6


def run(tool: str, number: int, rate: float, mean: float, cpu: float, part: float = 0.5) -> Measured:
    return Measured("post-10kb-slow", tool, number, 100_000, rate, mean, mean, cpu, part, 1.0, 0.0)


def rounds(count: int = 6, **ours: float) -> list[Measured]:
    """All alike, but for a little noise, and for what `ours` says of uvhttp-load."""
    found = []
    for number in range(1, count + 1):
        noise = 1 + 0.002 * (number % 3)
        found += [
            run(OURS, number, noise * 20000 * ours.get("rate", 1), 2.5 * ours.get("mean", 1), 8 * ours.get("cpu", 1)),
            run(WRK, number, 20000 / noise, 2.6, 8.8),
            run(H2LOAD, number, 20000, 2.5 * noise, 12),
        ]
    return found


def verdicts(runs: list[Measured]) -> dict[tuple[str, str], Finding]:
    return {(finding.figure, finding.other): finding for finding in agreement.findings(runs)}


def test_tools_that_say_the_same_agree_and_the_cheaper_one_is_reported() -> None:
    found = verdicts(rounds())
    assert {key: finding.verdict for key, finding in found.items() if finding.verdict} == {
        ("requests/s", WRK): AGREES, ("mean ms", H2LOAD): AGREES, ("P50 ms", H2LOAD): AGREES, ("CPU us/req", WRK): LESS,
    }  # fmt: skip
    assert found["CPU us/req", WRK].ratio.middle == pytest.approx(8 / 8.8)


def test_a_difference_beyond_the_tolerance_is_found() -> None:
    assert verdicts(rounds(rate=1.05))["requests/s", WRK].verdict == DIFFERS
    assert verdicts(rounds(mean=0.95))["mean ms", H2LOAD].verdict == DIFFERS
    assert verdicts(rounds(cpu=1.2))["CPU us/req", WRK].verdict == MORE
    assert verdicts(rounds(rate=1.03))["requests/s", WRK].verdict == OPEN
    assert verdicts(rounds(count=5))["requests/s", WRK].verdict == OPEN


def test_a_generator_that_is_the_bottleneck_is_not_judged_by_its_throughput() -> None:
    runs = [replace(r, cpu_part=0.99) if r.tool == WRK else r for r in rounds(rate=1.4)]
    found = verdicts(runs)
    assert found["requests/s", WRK].verdict == NOT_JUDGED and "wrk was the bottleneck: 99%" in found["requests/s", WRK].why
    assert found["mean ms", H2LOAD].verdict == AGREES and found["CPU us/req", WRK].verdict == LESS


def test_only_the_steadiest_workload_is_of_a_server_that_burns_time() -> None:
    targets = {s.name: agreement.target_of(s, "auto") for s in agreement.workloads()}
    slowed = {name: target.slow_ns for name, target in targets.items() if isinstance(target, Slowed)}
    assert slowed == {"medium-slow": 100_000} and "medium" in targets


def test_rounds_are_enough_when_the_intervals_that_are_judged_are_narrow() -> None:
    assert agreement.precise(agreement.findings(rounds()))
    wide = [replace(r, latency_p50_ms=r.latency_p50_ms * (1 + 0.05 * (r.round % 2))) for r in rounds()]
    assert agreement.precise(agreement.findings(wide))  # both swing alike: the ratios are within the rounds
    wide = [
        replace(r, latency_p50_ms=r.latency_p50_ms * (1.05 if (r.tool == OURS) == bool(r.round % 2) else 1)) for r in wide
    ]
    assert not agreement.precise(agreement.findings(wide))
    assert not agreement.precise(
        agreement.findings(
            [r if r.tool != WRK else replace(r, requests_per_second=20000 * (1 + r.round / 50)) for r in rounds()]
        )
    )


def test_cpu_of_few_requests_is_that_of_a_start() -> None:
    found = verdicts([replace(r, requests=5000) for r in rounds(cpu=2)])
    assert found["CPU us/req", WRK].verdict == NOT_JUDGED and found["requests/s", WRK].verdict == AGREES


def test_a_noisy_machine_is_reported_and_decides_nothing_but_the_cpu_time() -> None:
    assert len(agreement.notes(rounds())) == 1
    runs = [replace(r, others_part=0.2) for r in rounds(rate=1.4)]
    assert "in 18 of 18 runs" in agreement.notes(runs)[1]
    found = verdicts(runs)
    assert found["requests/s", WRK].verdict == OPEN and found["requests/s", WRK].why == "a noisy machine"
    assert found["CPU us/req", WRK].verdict == LESS


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--rounds", "0"], 2, "allowed is 1..1000"),
        (["--seconds", "0"], 2, "1..86400"),
        (["websocket"], 2, "do not speak ws"),
        (["lwo"], 2, "no scenario 'lwo'"),
        ([], 77, "performance_test is not there"),
    ],
)
def test_bad_input(
    arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", "/nowhere/performance_test")
    assert cli.dispatch(["agree", *arguments]) == code
    assert words in capsys.readouterr().err


LOAD = uvhttp_load.program()


@pytest.mark.skipif(
    not (shutil.which("wrk") and shutil.which("h2load") and LOAD) or len(os.sched_getaffinity(0)) < 2,
    reason="needs two CPUs, uvhttp-load (./dev build), wrk and h2load: apt-get install wrk nghttp2-client",
)
def test_the_whole_command_on_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = tmp_path / "performance_test"
    server.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    server.chmod(0o755)
    monkeypatch.setenv("UVHTTP_BENCH_SERVER", str(server))
    monkeypatch.setenv("FAKE", "coverage")
    assert cli.dispatch(["agree", "low"]) == 1 and "not a release build" in capsys.readouterr().err
    monkeypatch.setenv("FAKE", "exit")
    assert cli.dispatch(["agree", "low", "--seconds", "1"]) == 1 and "out of luck" in capsys.readouterr().err
    monkeypatch.setenv("FAKE", "")
    kept = tmp_path / "agreement.json"
    command = ["agree", "low", "--rounds", "1", "--seconds", "1", "--output", str(kept), "--format", "json"]
    assert cli.dispatch(command) == 4  # one round says nothing
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(kept.read_text())
    assert shown["environment"]["hash"] and shown["tools"].keys() == {OURS, WRK, H2LOAD}
    assert [one["tool"] for one in shown["runs"]] == [OURS, WRK, H2LOAD]
    assert all(one["requests"] > 0 and one["cpu_us_per_request"] > 0 for one in shown["runs"])
    assert {finding["verdict"] for finding in shown["findings"]} <= {OPEN, NOT_JUDGED}
