"""Owns: tests of the database, summaries, floors, scenarios and tables."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from test_model import some_record

from uvhttp_bench import summary
from uvhttp_bench.exits import BenchError, UsageError
from uvhttp_bench.model import database, floors
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.output import floors_table, tables
from uvhttp_bench.scenarios import catalog


def run(rate: float, histogram: Histogram, *checks: Check) -> Record:
    record = some_record(*checks)
    return replace(record, results=replace(record.results, requests_per_second=rate, histogram=histogram))


def test_records_get_the_next_number_of_their_day_and_come_back_whole(tmp_path: Path) -> None:
    with database.opened(tmp_path / "records.sqlite") as store:
        first, second = store.add(some_record()), store.add(replace(some_record(), session="s2"))
        other_day = store.add(replace(some_record(), timestamp="2026-01-10T00:00:00Z"))
        assert [r.test_id for r in (first, second, other_day)] == [
            "PERF-2026-01-09-001", "PERF-2026-01-09-002", "PERF-2026-01-10-001",
        ]  # fmt: skip
        assert store.records() == [first, second, other_day]
        assert store.records(session="s2") == [second] and store.records(scenario="high") == []
        assert store.last_session() == ""


def test_history_cannot_be_changed(tmp_path: Path) -> None:
    with database.opened(tmp_path / "records.sqlite") as store:
        store.add(some_record())
    connection = sqlite3.connect(tmp_path / "records.sqlite")
    for statement in ("DELETE FROM records", "UPDATE records SET status = 'valid'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_what_is_not_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("this is not a database, and long enough to be read as one" * 10)
    with pytest.raises(BenchError, match="--database"):
        database.Database(tmp_path / "x")


def test_repeats_are_summarized_from_the_merged_histogram() -> None:
    """P99 of all samples is 10; the mean of the two runs' own would be 5.5."""
    runs = [run(100, Histogram((1,), (5000,))), run(104, Histogram((10,), (5000,)))]
    found = summary.summarize_records(runs)
    assert found.latency_p99_ms == 0.010 and found.latency_p50_ms == 0.001
    assert found.requests_per_second.median == 102 and found.status == "valid"


def test_repeats_that_differ_too_much_are_unstable() -> None:
    found = summary.summarize_records([run(100, Histogram()), run(150, Histogram())])
    assert found.status == "unstable" and "10 % is allowed" in found.reasons[-1]


def test_a_void_repeat_voids_the_scenario_and_its_grade() -> None:
    histogram = Histogram((100,), (5000,))
    good, void = run(40000, histogram), run(40000, histogram, Check("errors", False, "404"))
    assert summary.summarize_records([good]).grade == floors.REACHED
    found = summary.summarize_records([good, void])
    assert found.status == "void" and found.grade == "" and found.reasons == ("errors: 404",)
    assert len(summary.by_scenario([good, void])) == 1


@pytest.mark.parametrize(
    ("scenario", "figures", "grade"),
    [
        ("low", (40000, 0.2, 1.0), floors.REACHED),
        ("low", (32000, 0.2, 1.0), floors.RECOMMENDED),
        ("low", (40000, 0.2, 9.0), floors.MINIMUM),
        ("low", (9000, 0.2, 1.0), floors.BELOW),
        ("high", (14100, 20.0, 90.0), floors.REACHED),
        ("post", (14100, 20.0, 90.0), ""),
        ("low", (40000, 0.2, None), ""),
    ],
)
def test_grades_are_those_of_the_standards_table(scenario: str, figures: tuple[float, ...], grade: str) -> None:
    assert floors.grade(scenario, floors.Figures(*figures)) == grade


def test_a_slow_generator_leaves_bounds_that_are_graded() -> None:
    """40,000 requests/s over 10 connections: no faster generator would see a mean above 0.25 ms."""
    slow = Check("generator", False, "the generator used 95% of its CPUs", "throughput")
    found = summary.summarize_records([run(40000, Histogram((100,), (5000,)), slow)])
    assert found.status == "bounded" and found.rate_text() == ">= 40,000" and found.latency_p99_ms is None
    assert found.graded == floors.Figures(40000, 0.25, 0.1, bounds=True) and found.grade == floors.REACHED
    rows = floors_table.rows([found])
    assert [row[5] for row in rows] == [">= 40,000", "<= 0.250", "<= 0.100"] and {row[6] for row in rows} == {floors.REACHED}
    assert floors_table.notes([found]) == [f"low: {floors_table.BOUNDS}"]


def test_bounds_that_miss_the_minimum_say_nothing() -> None:
    """The server may reach it with a faster generator: the seed's floor is 10,000 requests/s."""
    slow = Check("generator", False, "", "throughput")
    found = summary.summarize_records([run(9000, Histogram((100,), (5000,)), slow)])
    assert found.graded.bounds and found.grade == ""
    assert {row[6] for row in floors_table.rows([found])} == {"lower bound"}


def test_connections_that_a_generator_left_idle_leave_no_p99() -> None:
    good = run(40000, Histogram((100,), (5000,)))
    idle = run(40000, Histogram((100,), (5000,)), Check("busy connections", False, "", "throughput"))
    found = summary.summarize_records([good, idle])
    assert found.graded == floors.Figures(40000, 0.25, None, bounds=True) and found.grade == ""


def test_pipelined_requests_under_way_bound_the_mean() -> None:
    slow = run(40000, Histogram((100,), (5000,)), Check("generator", False, "", "throughput"))
    found = summary.summarize_records([replace(slow, inputs=replace(slow.inputs, pipeline=4))])
    assert found.graded.latency_avg_ms == 1.0


@pytest.mark.parametrize("spoilt", [Check("errors", False, "404"), Check("machine", False, "", "throughput", unstable=True)])
def test_nothing_but_a_slow_generator_leaves_bounds(spoilt: Check) -> None:
    slow = Check("generator", False, "", "throughput")
    found = summary.summarize_records([run(40000, Histogram((100,), (5000,)), slow, spoilt)])
    assert found.graded == floors.Figures(None, None, None) and found.grade == ""
    assert [row[5] for row in floors_table.rows([found])] == ["", "", ""] and floors_table.notes([found]) == []


def test_scenarios_are_those_of_the_contract() -> None:
    known = {s.name: s for s in catalog.everything()}
    assert len(known) == len(catalog.everything())
    for name, shape in {"low": (2, 10, 10), "medium": (4, 50, 10), "high": (8, 200, 10), "count": (6, 100, 2)}.items():
        assert (known[name].threads, known[name].connections, known[name].seconds) == shape
    assert {f"threads-{n}" for n in (1, 2, 4, 8, 16)} | {
        f"ladder-{n}" for n in (10, 50, 100, 500, 1000, 2000)
    } <= known.keys()
    assert {f"sustained-{n}" for n in (10, 30, 60, 300)} | {"static-100mb-copy", "tcp-echo-1024", "sleep200"} <= known.keys()
    assert all(len(s.request_body) == s.response_bytes for s in known.values() if s.request_body)
    assert known["low"].repeats == 5 and known["post"].repeats == 3


def test_scenarios_are_chosen_by_name_group_and_pattern() -> None:
    assert [s.name for s in catalog.choose([])] == ["low", "medium", "high"]
    assert [s.name for s in catalog.choose(["post", "basic", "post"])] == ["post", "low", "medium", "high"]
    assert [s.name for s in catalog.choose(["https"])] == ["https"]  # a group as well
    assert len(catalog.choose(["static-1m*"])) == 2 and len(catalog.choose(["all"])) == len(catalog.everything())
    with pytest.raises(UsageError, match="'lwo'"):
        catalog.choose(["lwo"])


def test_tables_leave_a_missing_figure_blank() -> None:
    assert tables.number(None) == "" and tables.number(1234.5, 1) == "1,234.5"
    table = tables.text_table(("name", "ms"), [("low", "1.50"), ("high", "")])
    assert table.splitlines() == ["name    ms", "----  ----", "low   1.50", "high"]
    assert tables.markdown_table(("a|b",), [("c",)]) == "| a\\|b |\n| --- |\n| c |\n"
