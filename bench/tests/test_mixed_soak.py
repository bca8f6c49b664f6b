"""A soak with everything at once: what it sees, and what it makes of it."""

import itertools
import json
import random
from pathlib import Path
from typing import cast

import pytest

from uvhttp_bench import cli, measure, mixed_soak
from uvhttp_bench.exits import BenchError
from uvhttp_bench.mixed_soak import Soak
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Running, workspace
from uvhttp_bench.targets.uvhttp import Uvhttp


def steady(points: int = 100) -> Soak:
    rng = random.Random(1)
    soak = Soak(samples=[(5.0 * i, 20 + rng.random(), 90 + rng.randrange(3)) for i in range(points)])
    for name in ("one", "other"):
        soak.slices[name] = [
            {"at": 10.0 * i, "requests": 100, "errors": {}, "p50": 0.5, "p99": 2 + rng.random(), "max": 9.0}
            for i in range(points // 2)
        ]
    return soak


def test_a_trend_is_found_and_noise_is_none() -> None:
    rng = random.Random(2)
    noise = [(float(i), 10 + rng.gauss(0, 1)) for i in range(150)]
    assert not mixed_soak.trend(noise).rises
    rising = mixed_soak.trend([(at, value + at / 20) for at, value in noise])
    assert (
        rising.rises
        and rising.low <= rising.change <= rising.high
        and rising.change == pytest.approx(150 * 0.75 / 20, rel=0.2)
    )
    # Certain, and too small to matter.
    assert not mixed_soak.trend([(float(i), 10 + i / 200) for i in range(150)]).rises
    # Others have left the machine.
    assert not mixed_soak.trend([(at, value - at / 20) for at, value in noise]).rises


def test_the_interval_holds_no_change_in_95_of_100_runs_that_do_not_change() -> None:
    outside = 0
    for seed in range(300):
        rng = random.Random(seed)
        seen = mixed_soak.trend([(float(i), rng.gauss(100, 10)) for i in range(60)])
        outside += not seen.low <= 0 <= seen.high
    assert 3 <= outside <= 30


@pytest.mark.parametrize("count", [6, 8, 12, 61])
def test_a_fall_is_judged_as_a_rise_is(count: int) -> None:
    """At the ranks that Sen gives: as far from the one end as from the other, and outside of the interval of few points."""
    rng = random.Random(count)
    points = [(float(i), rng.gauss(100, 10)) for i in range(count)]
    up, down = mixed_soak.trend(points), mixed_soak.trend([(at, -value) for at, value in points])
    assert (up.low, up.change, up.high) == pytest.approx((-down.high, -down.change, -down.low))


def test_of_all_orders_of_six_values_no_more_than_25_in_1000_rise_for_certain() -> None:
    orders = list(itertools.permutations(range(6)))
    rising = 0
    for order in orders:
        settling = [(0.0, 0.0), (1.0, 0.0)]
        seen = mixed_soak.trend([*settling, *((2.0 + at, float(value)) for at, value in enumerate(order))])
        rising += seen.low > 0
    assert 0 < rising <= 0.025 * len(orders)


def test_whatever_goes_wrong_in_a_part_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """A part that ends early and silently would leave a soak of the others that passes."""
    soak = mixed_soak.Mixed(cast(Running, None), (), 1, 1)
    soak._guarded(lambda: None)
    assert not soak.soak.faults and not soak.stop.is_set()
    soak._guarded(lambda: json.loads('{"results": '))
    assert "JSONDecodeError" in soak.soak.faults[0] and soak.stop.is_set()


def test_a_trend_of_nothing_says_so() -> None:
    with pytest.raises(BenchError, match="too few samples"):
        mixed_soak.trend([(1.0, 1.0)])


def test_a_steady_soak_has_no_fault() -> None:
    assert mixed_soak.faults(steady()) == []
    assert "- steady" in mixed_soak.page(steady(), 500, ["about it"])


@pytest.mark.parametrize("what", ["memory", "descriptors", "P99", "errors", "faults"])
def test_each_fault_is_found(what: str) -> None:
    soak = steady()
    if what == "memory":
        soak.samples = [(at, mb + at / 50, count) for at, mb, count in soak.samples]
    if what == "descriptors":
        soak.samples = [(at, mb, count + int(at / 5)) for at, mb, count in soak.samples]
    if what == "P99":
        for part in soak.slices["other"]:
            part["p99"] += part["at"] / 100
    if what == "errors":
        soak.slices["one"][3]["errors"] = {"read": 1}
    if what == "faults":
        soak.faults.append("the server has ended: it printed nothing")
    found = mixed_soak.faults(soak)
    assert len(found) == 1, found
    assert {"errors": "read", "faults": "ended"}.get(what, what) in found[0]
    assert f"- failed: {found[0]}" in mixed_soak.page(soak, 500, [])


def test_half_a_minute_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way, shortened; the machine may be too busy for a verdict on latency or memory."""
    code = cli.dispatch(["soak", "mixed", "--minutes", "0.5", "--allow-dirty", "--results", str(tmp_path)])
    text = capsys.readouterr().out
    assert code in (0, 3), text
    for part in mixed_soak.PARTS:
        assert f"| {part.name} | " in text
    assert "errors of the kinds" not in text and "has ended" not in text
    assert len(list(tmp_path.glob("soak_mixed_*.json"))) == len(list(tmp_path.glob("soak_mixed_*.md"))) == 1


def test_a_server_that_is_stopped_under_load_ends() -> None:
    cpus = measure.share_cpus()
    with workspace() as made:
        took = mixed_soak.drain_once(
            Uvhttp(), Scenario("mixed", "", "soak", scheme="https"), made, cpus.server, cpus.generator
        )
    assert 0.1 < took < 30  # requests of 200 ms are under way


def test_a_response_that_a_stopped_server_cuts_off_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UVHTTP_DRAIN_TIMEOUT", "0")  # so that the server ends at once
    cpus = measure.share_cpus()
    with workspace() as made, pytest.raises(BenchError, match=r"stopped under load: .*read"):
        mixed_soak.drain_once(Uvhttp(), Scenario("mixed", "", "soak", scheme="https"), made, cpus.server, cpus.generator)
