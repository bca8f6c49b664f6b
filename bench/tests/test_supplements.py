"""The experiment and the soak next to runs: what is refused, and that their pages follow from the committed data."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_experiment import measured
from test_model import some_record

from uvhttp_bench import cli, monitor, repository, supplements
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import database, experiment
from uvhttp_bench.model.codec import dump
from uvhttp_bench.model.experiment import Experiment
from uvhttp_bench.model.record import Check, Configuration, Environment, Record

REVISION = "a" * 40
RELEASE = Configuration(True, True, False, "-O2", version="1.2.0", revision=REVISION, build_type="Release")
MACHINE = Environment("Debian", "a CPU", 2, "4GB", "GCC", "12", hash="here")
FOUND = Experiment(
    "2026-01-09T00:00:00+00:00", 6, 100, 2, 1, (0,), (1,), {"uvhttp": "1.2.0"},
    (measured("uvhttp", "loop", 1, 1), measured("tomcat", "thread", 1, 10)), (measured("uvhttp", "worker", 1, 1, 50, 8),),
    revision=REVISION, environment=MACHINE, configuration=RELEASE,
)  # fmt: skip


def soaked(*checks: Check, minutes: float = 30, kind: str = "soak") -> Record:
    one = some_record(*checks)
    series = tuple((60.0 * n, 5.0 + 0.01 * n) for n in range(int(minutes) + 1))
    return replace(
        one, kind=kind, session=f"{kind}1", configuration=RELEASE, test_id="",
        test_scenario=replace(one.test_scenario, name="medium", duration=60 * minutes),
        results=replace(one.results, seconds=60 * minutes, latency_p99_ms=7.5),
        resources=replace(one.resources, memory_start_mb=5.0, memory_growth_mb_per_hour=0.6, memory_series=series),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (replace(FOUND, revision=""), "of which revision"),
        (replace(FOUND, environment=None), "of which revision"),
        (replace(FOUND, dirty=True), "differ from their commit"),
        (replace(FOUND, configuration=replace(RELEASE, debug=True)), "not of a release build"),
        (replace(FOUND, configuration=replace(RELEASE, build_with_mimalloc=False)), "standard's configuration"),
        (replace(FOUND, void=("uvhttp /count, round 1: 3 errors",)), "discarded runs"),
        (replace(FOUND, restless=("x",)), "noisy machine"),
    ],
)
def test_an_experiment_that_nobody_could_repeat_is_refused(spoiled: Experiment, words: str) -> None:
    supplements.refuse_experiment(FOUND, allow_unstable=False)
    supplements.refuse_experiment(replace(FOUND, restless=("x",)), allow_unstable=True)
    with pytest.raises(BenchError, match=words):
        supplements.refuse_experiment(spoiled, allow_unstable=False)


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (soaked(minutes=5), "5 minutes: 30 are the least"),
        (soaked(Check("errors", False, "3 timeout")), "discarded: errors: 3 timeout"),
        (soaked(Check("machine", False, "", "throughput", unstable=True)), "noisy machine"),
        (replace(soaked(), configuration=replace(RELEASE, dirty=True)), "differ from their commit"),
    ],
)
def test_a_soak_that_says_nothing_is_refused(spoiled: Record, words: str) -> None:
    supplements.refuse_soak(soaked(), allow_unstable=False)
    with pytest.raises(BenchError, match=words):
        supplements.refuse_soak(spoiled, allow_unstable=False)


def test_publish_keeps_both_of_the_same_revision_and_makes_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "SELF_CHECKS", tmp_path / "none")
    monkeypatch.setattr(repository, "EXPERIMENTS", tmp_path / "experiments")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "1.json").write_text(dump(FOUND))
    (tmp_path / "experiments" / "2.json").write_text(dump(replace(FOUND, revision="b" * 40)))
    (tmp_path / "README.md").write_text("<!-- performance:begin -->\n<!-- performance:end -->\n")
    grown = soaked(Check("memory", False, "5.0 MB, then 9.0 MB: it grows", ""))
    weak = replace(grown, checks=(*grown.checks, Check("generator", False, "busy", "throughput")))
    with database.opened(tmp_path / "db") as store:
        store.add(soaked(kind="run"))
        store.add(replace(soaked(), configuration=replace(RELEASE, revision="b" * 40)))
        store.add(weak)
    where = [
        "--database",
        str(tmp_path / "db"),
        "--directory",
        str(tmp_path / "docs"),
        "--page",
        str(tmp_path / "README.md"),
    ]
    assert cli.dispatch(["publish", *where]) == 0
    data, reports = (tmp_path / "docs" / name / "2026-01-09" for name in ("data", "reports"))
    assert experiment.read(data / "experiment.json") == FOUND
    text = (reports / "PERF-2026-01-09-v1.2.0-experiment.md").read_text()
    assert f"revision {REVISION}" in text and "environment here" in text and "| tomcat, thread |" in text
    assert "](../../data/2026-01-09/experiment.json)" in text and "-experiment-sleep200.svg)" in text
    soak = (reports / "PERF-2026-01-09-v1.2.0-soak.md").read_text()
    assert "| grows |" in soak and "it grows" in soak and "7.5" not in soak  # the P99 that a check took away
    pictures = {path.name: path.read_text() for path in reports.glob("*.svg")}
    assert sorted(name.rsplit("-", 1)[1] for name in pictures) == ["sleep200.svg", "soak.svg"]
    assert cli.dispatch(["publish", "--again", *where]) == 0
    assert pictures == {path.name: path.read_text() for path in reports.glob("*.svg")}
    made = dict(supplements.pages(tmp_path / "docs", pictures=False))
    assert all(path.read_text() == text for path, text in made.items()) and len(made) == 2
    assert cli.dispatch(["publish", "--soak", "none", *where]) == 77


def test_a_series_is_thinned_evenly_with_both_ends() -> None:
    series = [(float(n), float(n)) for n in range(1801)]
    kept = monitor.thinned(series, 181)
    assert len(kept) == 181 and kept[0] == series[0] and kept[-1] == series[-1] and kept[1] == series[10]
    assert monitor.thinned(series[:5], 181) == tuple(series[:5])
