"""A run against the stored baseline: which of them, what is judged, and how it ends."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats
from test_model import some_record

from uvhttp_bench import cli, environment, regression, standard
from uvhttp_bench.commands import baseline as verb
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.record import Check, Environment, Record
from uvhttp_bench.stats import unpaired

NOISY = Check("machine", False, "other processes", "throughput", unstable=True)
REVISION = "a" * 40


def runs(
    session: str, count: int, cpu: float = 10.0, spread: float = 0.002, *checks: Check, name: str = "low"
) -> list[Record]:
    """Of a server whose CPU time, rate and P99 all follow from `cpu`."""
    source = random.Random(f"{session}{name}")
    made = []
    for repeat in range(1, count + 1):
        figure = cpu * (1 + source.uniform(-spread, spread))
        one = some_record(*checks)
        made.append(
            replace(
                one,
                session=session,
                environment=replace(one.environment, hash="here"),
                configuration=replace(one.configuration, revision=REVISION),
                test_scenario=replace(one.test_scenario, name=name, repeat=repeat),
                resources=replace(one.resources, cpu_user_us_per_request=figure, cpu_system_us_per_request=0.0),
                results=replace(one.results, requests_per_second=1e6 / figure, latency_p99_ms=figure),
            )
        )
    return made


def said(found: regression.Judgement) -> list[str]:
    return [f"{v.verdict} {v.grade}".strip() for v in found.verdicts]


# --- statistics ---


@pytest.mark.parametrize(("m", "n"), [(3, 3), (5, 10), (2, 7)])
def test_welch_is_that_of_scipy(m: int, n: int) -> None:
    source = random.Random(m * n)
    a, b = ([source.lognormvariate(0, 0.1) for _ in range(count)] for count in (m, n))
    found = unpaired.welch(a, b)
    reference = stats.ttest_ind([math.log(v) for v in b], [math.log(v) for v in a], equal_var=False)
    interval = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.effect.low, found.effect.high) == pytest.approx((interval.low, interval.high))


def test_the_same_is_called_slower_as_seldom_as_promised() -> None:
    source = random.Random(3)
    alarms = 0
    for _ in range(400):
        a, b = ([source.lognormvariate(0, 0.05) for _ in range(5)] for _ in range(2))
        alarms += regression.judge_figure("low", regression.METRICS[0], a, b).verdict == "regressed"
    assert alarms == 0


# --- judging ---


def test_a_slower_run_is_regressed_in_all_figures_by_the_standards_thresholds() -> None:
    old = runs("old", 5)
    for ratio, word, grade, code in ((1.3, "regressed", "fail", 3), (1.0, "equivalent", "", 0), (0.8, "improved", "", 0)):
        found = regression.judge(old, runs("new", 5, 10 * ratio))
        assert {(v.verdict, v.grade) for v in found.verdicts} == {(word, grade)}
        assert regression.exit_code(found, "fail") == code
    warned = regression.judge(old, runs("new", 5, 11.5), [regression.METRICS[0]])
    assert said(warned) == ["regressed warn"]  # between 10 and 20 % of CPU time
    assert regression.exit_code(warned, "fail") == 0 and regression.exit_code(warned, "warn") == 3


@pytest.mark.parametrize("side", ["old", "new"])
def test_a_noisy_machine_decides_nothing(side: str) -> None:
    old = runs("old", 5, 10.0, 0.002, *([NOISY] if side == "old" else []))
    new = runs("new", 5, 13.0, 0.002, *([NOISY] if side == "new" else []))
    found = regression.judge(old, new)
    assert set(said(found)) == {"inconclusive"} and regression.exit_code(found, "fail") == 4
    assert "noisy machine" in found.unstable[0].why


def test_repeats_that_differ_more_than_the_standard_permits_decide_nothing() -> None:
    found = regression.judge(runs("old", 5), runs("new", 5, 20.0, 0.3))
    assert set(said(found)) == {"inconclusive"} and "the repeats of this run differ by" in found.unstable[0].why


def test_the_correction_is_over_everything_that_is_judged() -> None:
    one = regression.judge(runs("old", 3), runs("new", 3, 11.0, 0.02))
    names = [f"s{n}" for n in range(30)]
    old, new = ([r for name in names for r in runs(s, 3, 10.0, 0.02, name=name)] for s in ("old", "new"))
    many = regression.judge([*runs("old", 3), *old], [*runs("new", 3, 11.0, 0.02), *new])
    assert many.verdicts[0].p == one.verdicts[0].p
    assert many.verdicts[0].p_holm > one.verdicts[0].p_holm


@pytest.mark.parametrize(
    ("change", "words"),
    [({"connections": 50}, "connections 50 instead of 10"), ({"tool": "uvhttp-load"}, "tool uvhttp-load instead of wrk")],
)
def test_runs_of_another_shape_are_not_compared(change: dict[str, object], words: str) -> None:
    new = [replace(r, test_scenario=replace(r.test_scenario, **change)) for r in runs("new", 5)]  # type: ignore[arg-type]
    found = regression.judge(runs("old", 5), new)
    assert not found.verdicts and words in found.not_judged[0].why
    assert regression.exit_code(found, "fail") == 4


def test_figures_that_a_check_took_away_and_too_few_runs_are_named() -> None:
    weak = Check("generator", False, "it was the bottleneck", "throughput")
    found = regression.judge(runs("old", 5), runs("new", 5, 10.0, 0.002, weak))
    assert [v.metric for v in found.verdicts] == ["cpu_us_per_request"]
    assert [x.why for x in found.not_judged] == ["generator: it was the bottleneck"] * 2
    assert "3 of each are needed" in regression.judge(runs("old", 5), runs("new", 2)).not_judged[0].why


# --- the command ---


@pytest.fixture
def place(tmp_path: Path) -> Path:
    collection.write(tmp_path / "data" / "2026-01-01" / "baseline.json", "baseline", runs("old", 5))
    return tmp_path


def check(place: Path, records: Sequence[Record], *more: str) -> int:
    with database.opened(place / "db") as store:
        for one in records:
            store.add(one)
    where = ["--database", str(place / "db"), "--data", str(place / "data")]
    return cli.dispatch(["baseline", "check", *more, *where])


def test_check_ends_with_3_says_what_to_do_and_writes_regression_json(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(place, runs("new", 5, 13.0)) == 3
    out = capsys.readouterr().out
    assert "regressed (fail)" in out and f"uvhttp-bench compare {REVISION[:12]} . --scenario low" in out
    path = place / "data" / "2026-01-09" / "regression.json"
    kept = json.loads(path.read_text())
    assert (kept["kind"], kept["exit_code"], kept["environment"]) == ("regression", 3, "here")
    assert kept["baseline"]["session"] == "old" and kept["baseline"]["revision"] == REVISION
    assert {v["verdict"] for v in kept["verdicts"]} == {"regressed"}
    assert len(collection.read(path)) == 5
    baseline = (place / "data" / "2026-01-01" / "baseline.json").read_bytes()
    assert cli.dispatch(["report", str(path), "--directory", str(place)]) == 0
    (page,) = place.glob("reports/*/PERF-2026-01-09-*-regression.md")
    assert "regressed" in page.read_text() and not (place / "data" / "2026-01-09" / "baseline.json").exists()
    assert baseline == (place / "data" / "2026-01-01" / "baseline.json").read_bytes()
    assert check(place, runs("same", 5)) == 0


def test_another_environment_is_a_refusal_that_says_what_differs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = [replace(r, environment=replace(r.environment, hash="there", kernel="Linux 7")) for r in runs("new", 5)]
    assert check(place, moved) == 77
    assert "has kernel '' instead of 'Linux 7'" in capsys.readouterr().err
    asked = str(place / "data" / "2026-01-01" / "baseline.json")
    assert check(place, [], asked) == 77
    assert not (place / "data" / "2026-01-09").exists()


def test_the_newest_baseline_of_this_environment_is_selected(tmp_path: Path) -> None:
    here = Environment("Linux", "CPU", 2, "8GB", "GCC", "12", hash="here")
    with pytest.raises(MissingError, match="no baseline is kept"):
        regression.baseline_of(tmp_path, lambda there: here)
    for day, where in (("01", "here"), ("02", "here"), ("03", "there")):
        records = [replace(r, environment=replace(r.environment, hash=where)) for r in runs("s", 1)]
        collection.write(tmp_path / f"2026-01-{day}" / "baseline.json", "baseline", records)
    assert regression.baseline_of(tmp_path, lambda there: here).parent.name == "2026-01-02"


def test_a_baseline_of_other_cpus_is_measured_again_on_those(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = environment.capture("GNU", "12", (0,), (1,))
    swapped = replace(here, server_cpus=(1,), generator_cpus=(0,))
    swapped = replace(swapped, hash=environment.digest(swapped))
    collection.write(
        place / "data" / "2026-01-03" / "baseline.json",
        "baseline",
        [replace(r, environment=swapped) for r in runs("cpus", 5)],
    )
    again = [replace(r, environment=swapped) for r in runs("again", 5)]
    monkeypatch.setattr(verb, "_environment", lambda: here)
    monkeypatch.setattr(verb, "_measured", lambda args, baseline: again if baseline[0].session == "cpus" else [])
    where = ["--data", str(place / "data"), "--database", str(place / "db")]
    assert cli.dispatch(["baseline", "check", "--run", *where]) == 0
    moved = replace(swapped, kernel="Linux 7")
    monkeypatch.setattr(verb, "_environment", lambda: replace(moved, hash=environment.digest(moved)))
    assert cli.dispatch(["baseline", "check", "--run", *where]) == 77


def test_a_void_run_the_baseline_itself_and_another_configuration_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(place, runs("void", 5, 10.0, 0.002, Check("errors", False, "404"))) == 1
    assert check(place, runs("old", 5)) == 2
    off = [replace(r, configuration=replace(r.configuration, build_with_mimalloc=False)) for r in runs("plain", 5)]
    assert check(place, off) == 1
    assert "built without mimalloc" in capsys.readouterr().err
    assert check(place, [], "--session", "none") == 77


def test_a_baseline_is_of_the_standards_configuration(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    off = replace(runs("s", 1)[0], configuration=replace(runs("s", 1)[0].configuration, build_with_websocket=False))
    with database.opened(place / "db") as store:
        store.add(off)
    assert cli.dispatch(["baseline", "set", "--database", str(place / "db"), "--data", str(place)]) == 1
    assert "built without websocket" in capsys.readouterr().err
    assert not list(place.glob("2026*"))


# --- the standard's thresholds ---


def test_what_the_standard_asks_of_the_machine_is_a_recorded_warning() -> None:
    small = Environment("Linux", "CPU", 2, "4GB", "GCC", "12", tools={"wrk": "4.1.0-3+b2"})
    found = standard.thresholds(small, "wrk", 4096)
    assert not found.passed and not found.takes
    for words in ("wrk 4.1.0", "4.2.0", "2 cores", "asks for 4;", "4GB of memory", "somaxconn 4096", "65535"):
        assert words in found.detail
    large = Environment("Linux", "CPU", 8, "16GB", "GCC", "12", tools={"wrk": "4.2.0"})
    assert standard.thresholds(large, "wrk", 65535).passed
    assert standard.thresholds(replace(large, tools={}), "uvhttp-load", 65535).passed
    warned = some_record(found)
    assert warned.status == "valid" and warned.holds("latency")


def test_a_build_without_the_standards_options_is_a_warning_and_not_published() -> None:
    record = runs("s", 1)[0]
    off = replace(record, configuration=replace(record.configuration, build_with_mimalloc=False, build_with_websocket=False))
    assert "built without mimalloc and websocket" in standard.configuration(off.configuration).detail
    standard.refuse([record, replace(off, configuration=replace(off.configuration, revision=""))])  # a server of others
    with pytest.raises(BenchError, match="standard's configuration"):
        standard.refuse([record, off])


@pytest.mark.parametrize(("text", "version"), [("4.1.0-3+b2", (4, 1, 0)), ("10", (10,)), ("?", ())])
def test_versions_are_compared_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert standard.version_of(text) == version
    assert standard.version_of("4.10.0") > standard.WRK_MIN
