"""Change points, and history out of the database."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from test_peers import record

from uvhttp_bench import cli, history
from uvhttp_bench.history import series_of
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.stats.change_points import best_split, change_points
from uvhttp_bench.stats.verdict import CPU, THROUGHPUT


def noisy(levels: list[tuple[float, int]], noise: float, seed: int = 7) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(level, noise) for level, count in levels for _ in range(count)]


def brute_energy(values: list[float], place: int) -> float:
    left, right = values[:place], values[place:]

    def mean(pairs: list[float]) -> float:
        return sum(pairs) / len(pairs)

    between = mean([abs(a - b) for a in left for b in right])
    inside = [mean([abs(a - b) for i, a in enumerate(part) for b in part[i + 1 :]]) for part in (left, right)]
    return (2 * between - sum(inside)) * len(left) * len(right) / len(values)


def test_best_split_is_that_of_the_definition() -> None:
    values = noisy([(1, 7), (1.3, 9)], 0.2)
    energy, place = best_split(values)
    energies = {p: brute_energy(values, p) for p in range(4, 13)}
    assert energy == pytest.approx(energies[place])
    assert energy == pytest.approx(max(energies.values()))


def test_levels_are_found_where_they_change() -> None:
    assert change_points(noisy([(1.0, 15), (1.1, 12), (0.9, 20)], 0.01)) == [15, 27]


def test_noise_alone_is_no_change() -> None:
    alarms = sum(bool(change_points(noisy([(1, 20)], 0.1, seed))) for seed in range(50))
    assert alarms <= 3


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 40, [1.0, 2.0] * 3])
def test_too_little_or_a_constant_is_no_change(values: list[float]) -> None:
    assert change_points(values) == []


def sessions(figures: list[float]) -> list[Record]:
    made = []
    for number, cpu in enumerate(figures):
        one = record("uvhttp", cpu, number + 1)
        configuration = replace(one.configuration, revision=f"{number:09d}")
        made.append(replace(one, session=f"s{number}", configuration=configuration, kind="run"))
    return made


def test_a_series_names_the_revisions_between_which_it_changed() -> None:
    (series,) = series_of(sessions(noisy([(10, 8), (12, 8)], 0.1)), [CPU])
    (change,) = series.changes
    assert (change.index, change.worse) == (8, True)
    assert (change.revision_before, change.revision) == ("000000007", "000000008")
    assert change.ratio == pytest.approx(1.2, abs=0.02)
    (higher,) = series_of(
        [replace(r, results=replace(r.results, requests_per_second=100.0)) for r in sessions([1])], [THROUGHPUT]
    )
    assert higher.changes == ()


def test_void_runs_are_no_points_and_another_machine_is_another_series() -> None:
    runs = sessions([10, 11, 12])
    void = replace(runs[0], checks=(Check("errors", False, "404"),))
    other = replace(runs[2], environment=replace(runs[2].environment, hash="other"))
    assert [len(s.points) for s in series_of([void, runs[1], other], [CPU])] == [1, 1]


def test_command_reads_the_database_and_can_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--database", str(tmp_path / "db.sqlite"), "--data", str(tmp_path / "data")]
    assert cli.dispatch(["trend", *where]) == 77 and not (tmp_path / "db.sqlite").exists()
    with database.opened(tmp_path / "db.sqlite") as store:
        for one in sessions(noisy([(10, 8), (12, 8)], 0.1)):
            store.add(one)
    assert cli.dispatch(["trend", "--figure", "cpu_us_per_request", *where]) == 0
    out = capsys.readouterr().out
    assert "worse" in out
    assert "000000007..000000008" in out
    assert cli.dispatch(["trend", "--fail", *where]) == 3
    assert cli.dispatch(["trend", "nothing", *where]) == 77


def dated(figures: list[float]) -> list[Record]:
    days = [f"2026-01-{number + 1:02}" for number in range(len(figures))]
    return [replace(r, timestamp=f"{day}T00:00:00Z") for r, day in zip(sessions(figures), days, strict=True)]


def test_a_clone_finds_the_change_in_what_is_committed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = dated(noisy([(10, 8), (12, 8)], 0.1))
    for one in reversed(made):
        name = "regression" if one.session == "s3" else "baseline"
        collection.write(tmp_path / one.timestamp[:10] / f"{name}.json", name, [one])
    where = ["--database", str(tmp_path / "none"), "--data", str(tmp_path), "--figure", "cpu_us_per_request"]
    assert cli.dispatch(["trend", "medium", "--fail", "--picture", str(tmp_path / "p.svg"), *where]) == 3
    out = capsys.readouterr().out
    assert "000000007..000000008" in out and "2026-01-01..2026-01-16" in out and "2026-01-09T" in out
    picture = (tmp_path / "p.svg").read_text()
    assert picture.startswith("<svg") and picture.index("2026-01-01") < picture.index("2026-01-13")
    assert cli.dispatch(["trend", "--picture", "x", "--data", str(tmp_path)]) == 2


def test_a_session_that_is_committed_and_in_the_database_is_one_point_and_dates_are_in_order(tmp_path: Path) -> None:
    made = dated([10, 11, 12])
    collection.write(tmp_path / "2026-01-02" / "baseline.json", "baseline", [made[1]])
    found = history.gathered(tmp_path, "run", [made[2], made[1], made[0]])
    assert [r.session for r in found] == ["s0", "s1", "s2"]
    (series,) = series_of([made[2], made[0], made[1]], [CPU])
    assert [point.session for point in series.points] == ["s0", "s1", "s2"]
