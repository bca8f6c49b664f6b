"""The self-check: what it counts as a false alarm and as found, and the slowed server itself."""

import os
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats as scipy_stats

from uvhttp_bench import cli
from uvhttp_bench.commands import self_check as command
from uvhttp_bench.model import self_check as model
from uvhttp_bench.model.codec import dump
from uvhttp_bench.model.record import Configuration, Environment
from uvhttp_bench.model.self_check import Comparison, SelfCheck
from uvhttp_bench.output import self_check_table
from uvhttp_bench.scenarios.catalog import choose
from uvhttp_bench.self_check import schedule
from uvhttp_bench.stats.rates import rate
from uvhttp_bench.stats.verdict import Round
from uvhttp_bench.targets import slowed as slowed_target
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.slowed import Slowed


def comparison(ratio: float, slowed: bool, seed: int) -> Comparison:
    """Eight rounds on a machine that is noisy by half a per cent."""
    source = random.Random(seed)

    def cpu(factor: float) -> float:
        return 10 * factor * source.lognormvariate(0, 0.005)

    return Comparison(slowed, tuple(Round(cpu(1), cpu(ratio), cpu(ratio), cpu(1)) for _ in range(8)))


def check(same: int, slowed: int, slower: float = 1.05) -> SelfCheck:
    made = [comparison(1, False, seed) for seed in range(same)] + [comparison(slower, True, 100 + s) for s in range(slowed)]
    return SelfCheck(
        timestamp="2026-01-09T00:00:00Z", session="s", environment=Environment("Linux", "CPU", 2, "8GB", "GCC", "12"),
        configuration=Configuration(True, True, False, "-O2", build_info="x", revision="a" * 40), scenario="low",
        tool="uvhttp-load", seconds=0.5, rounds=8, threshold_percent=2, slower_percent=5, cpu_us=10, slow_ns=500,
        comparisons=tuple(made),
    )  # fmt: skip


def test_a_build_compared_with_itself_is_not_regressed_and_a_slower_one_is_found() -> None:
    found = check(20, 10)
    assert model.outcome(found, False, 2).regressed.found == 0
    slower = model.outcome(found, True, 2)
    assert (slower.regressed.found, slower.regressed.of, slower.improved.found) == (10, 10, 0)
    assert slower.median_ratio == pytest.approx(1.05, rel=0.005)
    assert command.exit_code(found) == 0


def test_a_missed_slowdown_ends_with_4_and_a_false_alarm_with_3() -> None:
    assert command.exit_code(check(3, 3, slower=1.0)) == 4
    alarm = replace(comparison(1.05, True, 1), slowed=False)
    assert command.exit_code(replace(check(0, 2), comparisons=(alarm, *check(0, 2).comparisons))) == 3


def test_rows_tell_the_rates_with_their_intervals_and_a_comparison_without_rounds_is_none() -> None:
    empty = Comparison(False, ())
    rows = self_check_table.rows(replace(check(20, 0), comparisons=(*check(20, 0).comparisons, empty)))
    assert rows[0][:7] == ("A", "2 %", "20", "0", "0", "0%", "0%..16%")
    assert rows[2][:7] == ("A, 5 % slower", "2 %", "0", "0", "0", "", "")


def test_notes_tell_how_it_was_measured_and_a_line_what_one_comparison_said() -> None:
    old, now = check(2, 1), replace(check(2, 1), together=True, rounds=40)
    assert "8 rounds of A B B A with 0.5 s of low (uvhttp-load)" in self_check_table.notes(old)[0]
    comparisons = tuple(replace(c, slow_ns=450 if c.slowed else 0) for c in now.comparisons)
    notes = self_check_table.notes(replace(now, comparisons=(*comparisons, replace(comparisons[-1], restless=2))))
    assert "8 to 8 rounds (at most 40: until it is precise enough)" in notes[0] and "at the same moment" in notes[0]
    assert notes[1:] == [
        "The slower server burns 450 to 450 ns more at each request than the other.",
        "During 2 rounds the machine was noisy.",
    ]
    assert self_check_table.line(now, now.comparisons[-1]).endswith(": regressed")


@pytest.mark.parametrize(("found", "of"), [(0, 20), (1, 20), (10, 10), (9, 10), (37, 100)])
def test_intervals_of_rates_are_scipys(found: int, of: int) -> None:
    theirs = scipy_stats.binomtest(found, of).proportion_ci(method="wilson")
    ours = rate(found, of)
    assert (ours.low, ours.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))


def test_slowed_comparisons_are_spread_among_the_others() -> None:
    assert schedule(2, 1) == [False, False, True]
    assert schedule(20, 10).count(True) == 10 and len(schedule(20, 10)) == 30
    assert schedule(3, 0) == [False] * 3 and schedule(0, 2) == [True, True]


def test_what_it_writes_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.json"
    path.write_text(dump(check(2, 1)))
    assert model.read(path) == check(2, 1)
    path.write_text('{"records": []}')
    with pytest.raises(model.BenchError, match="not what self-check writes"):
        model.read(path)


@pytest.mark.parametrize(
    "arguments", [["--seconds", "0"], ["--rounds", "0"], ["--slower", "101"], ["--scenario", "https"], ["--same", "-1"]]
)
def test_bad_numbers_are_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.dispatch(["self-check", *arguments]) == 2
    assert arguments[0].removeprefix("--") in capsys.readouterr().err


SENDER = """
import socket, time
a, b = socket.socketpair()
started = time.thread_time()
for _ in range(200):
    a.send(b"x")
    b.recv(1)
print(time.thread_time() - started)
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
def test_the_slowed_server_burns_the_requested_time_for_each_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slowed_target, "LIBRARY", tmp_path / "slow_send.so")
    made = Workspace(tmp_path)
    made.static.mkdir()

    def seconds(slow_ns: int) -> float:
        environment = Slowed("b", slow_ns).command(choose(["low"])[0], Ports(1, 2), made)[:3]
        command = [*map(str, environment), shutil.which("python3") or "python3", "-c", SENDER]
        return float(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout)

    # 200 responses of 1 ms; the loop's clock runs on while another process has the CPU, so the best of three counts.
    assert max(seconds(1_000_000) for _ in range(3)) > 0.1 > seconds(0)
