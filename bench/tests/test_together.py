"""Owns: rounds of servers under load at the same moment: when they are enough, how often the verdict is then wrong, and the round
itself on a stand-in."""

import contextlib
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from uvhttp_bench import measure, together
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import uvhttp_load
from uvhttp_bench.measure import Plan
from uvhttp_bench.model.record import Configuration
from uvhttp_bench.scenarios.catalog import choose
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import CPU, Round, Verdict
from uvhttp_bench.targets.base import workspace
from uvhttp_bench.targets.uvhttp import Uvhttp
from uvhttp_bench.together import ROUNDS_LEAST, ROUNDS_MOST, Measured, Starved

FAKE = Path(__file__).with_name("fake_server.py")
THRESHOLD = 0.02
NOISE = 0.02  # of a round, on the machine of the published figures while others kept it busy (docs/guide/benchmarking.md)


def simulated(source: random.Random, ratio: float, noise: float) -> Callable[[int], Measured]:
    def cpu(cost: float) -> float:
        wild = 5 if source.random() < 0.02 else 1
        return 10 * cost * source.lognormvariate(0, noise * wild)

    def one(number: int) -> Measured:
        return Measured(Round(cpu(1), cpu(ratio), cpu(ratio), cpu(1)), False, Configuration(True, True, False, "-O2"))

    return one


def judge(rounds: Sequence[Round]) -> Verdict:
    return verdict.judge("low", CPU, rounds, THRESHOLD)


def compared(seed: int, ratio: float, noise: float = NOISE) -> Verdict:
    done = together.measure_until_precise(simulated(random.Random(seed), ratio, noise), judge, ROUNDS_MOST)
    return judge([measured.round for measured in done])


def test_a_noisy_machine_takes_more_rounds_and_ends_all_the_same() -> None:
    counts = [compared(1, 1.0, noise).rounds for noise in (0.002, 0.02, 0.2)]
    assert counts[0] == ROUNDS_LEAST < counts[1] < counts[2] == ROUNDS_MOST
    assert compared(1, 1.0, 0.2).verdict == verdict.INCONCLUSIVE
    assert len(together.measure_until_precise(simulated(random.Random(1), 1, 0.002), judge, 3)) == 3


def test_a_round_without_a_figure_is_made_again_a_few_times() -> None:
    measure_one, calls = simulated(random.Random(1), 1, 0.002), 0

    def starving(often: int) -> Callable[[int], Measured]:
        def one(number: int) -> Measured:
            nonlocal calls
            calls += 1
            if number == 2 and calls <= 2 + often:
                raise Starved("no answer")
            return measure_one(number)

        return one

    done = together.measure_until_precise(starving(3), judge, ROUNDS_MOST)
    assert [m.restless for m in done] == [number == 2 for number in range(ROUNDS_LEAST)] and calls == ROUNDS_LEAST + 3
    calls = 0
    with pytest.raises(Starved):
        together.measure_until_precise(starving(4), judge, ROUNDS_MOST)


def test_a_build_compared_with_itself_is_called_regressed_in_none_of_2000_comparisons() -> None:
    found = [compared(seed, 1.0) for seed in range(2000)]
    assert not [v for v in found if v.verdict in (verdict.REGRESSED, verdict.IMPROVED)]
    assert sum(v.verdict == verdict.EQUIVALENT for v in found) >= 0.8 * len(found)
    # Stopping by the width leaves the interval one of nearly 95 %.
    assert sum(v.differs for v in found) <= 0.075 * len(found)


@pytest.mark.parametrize("noise", [0.01, NOISE, 0.03])
def test_five_per_cent_are_found_in_nine_of_ten_at_least(noise: float) -> None:
    found = [compared(seed, 1.05, noise).verdict for seed in range(200)]
    assert found.count(verdict.REGRESSED) >= 180 and verdict.IMPROVED not in found


# --- a round ---


@pytest.fixture
def plans(tmp_path: Path) -> dict[str, Plan]:
    if not uvhttp_load.program() or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs and uvhttp-load: ./dev build")
    server = tmp_path / "performance_test"
    server.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    server.chmod(0o755)
    load = uvhttp_load.UvhttpLoad()

    def plan(name: str) -> Plan:
        return measure.plan_for(Uvhttp(program=server, name=name), load, measure.share_cpus(), 1e6, "x", "s", 0)

    return {"a": plan("A"), "b": plan("B")}


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(path.read_text(errors="replace"))
    return found


def test_a_round_is_of_four_processes_that_are_all_gone_after_it(plans: dict[str, Plan]) -> None:
    with workspace() as made:
        measured = together.measure_round(1, plans, choose(["low"])[0], made, 0.3)
        alive = [line for line in command_lines() if str(made.path) in line]
    figures = measured.round
    assert len({figures.a1, figures.a2, figures.b1, figures.b2}) == 4
    assert all(1 < cpu < 10_000 for cpu in (figures.a1, figures.a2, figures.b1, figures.b2))
    assert measured.configuration.optimization == "-O2" and 1 < measured.median < 10_000
    assert not alive


@pytest.mark.parametrize(("fault", "words"), [("later-404", "measured nothing"), ("exit", "out of luck")])
def test_a_server_that_fails_ends_the_round(
    fault: str, words: str, plans: dict[str, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", fault)
    with workspace() as made, pytest.raises(BenchError, match=words):
        together.measure_round(0, plans, choose(["low"])[0], made, 0.3)
