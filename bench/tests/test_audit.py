"""Owns: what is published follows from what was measured: edited records, edited gates and hidden runs are refused."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_identity import GOOD
from test_report import RUNS

from uvhttp_bench import audit, cli, identity, publication, recheck, repository, sources
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import chain, collection, database
from uvhttp_bench.model.codec import to_json
from uvhttp_bench.model.evidence import Inputs
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Record, parse

pytestmark = pytest.mark.identity
TAIL = Histogram.of([(900 + value, 100) for value in range(200)])
REVISION, SOURCES = "a" * 40, ("sources", "harness")
BUILD = "build type: Release\nflags: -O2 -DNDEBUG\noptions: BUILD_WITH_MIMALLOC=ON\n"


def measured(session: str = "s1", number: int = 1, **results: float) -> Record:
    """A record in which everything follows from everything else."""
    one, total, seconds = RUNS[0], TAIL.count, 2.0
    mean, stdev = TAIL.mean_us() or 0, TAIL.stdev_us() or 0
    found = replace(
        one.results, total_requests=total, seconds=seconds, requests_per_second=total / seconds, histogram=TAIL,
        bytes_received=115 * total, transfer_rate_mbps=115 * total / seconds / 2**20, error_rate=0.0,
        latency_avg_ms=mean / 1000, latency_stdev_ms=stdev / 1000, latency_max_ms=1.099,
        latency_p50_ms=0.999, latency_p95_ms=1.089, latency_p99_ms=1.097, latency_p999_ms=1.099,
    )  # fmt: skip
    inputs = Inputs(
        wall_seconds=2.0, user_seconds=0.4, system_seconds=0.6, switches=100, processes_seconds=2.0, capacity_seconds=4.0,
        generator_cpu_seconds=0.9, generator_wall_seconds=2.0, bandwidth_mb=1000.0, answer_bytes=115,
        cpu_series=(0.05,) * 20, memory_series=((0.0, 5.0), (2.0, 5.5)),
    )  # fmt: skip
    resources = replace(
        one.resources, cpu_user_us_per_request=1e6 * 0.4 / total, cpu_system_us_per_request=1e6 * 0.6 / total,
        cpu_usage_percent=50.0, context_switches_per_sec=50.0, generator_cpu_us_per_request=1e6 * 0.9 / total,
        other_cpu_percent=2.5, steal_percent=0.0, memory_usage_mb=5.5,
    )  # fmt: skip
    run = replace(one.test_scenario, connections=10, repeat=number, tool="wrk", tool_version="wrk 4")
    configuration = replace(one.configuration, revision=REVISION, build_info=BUILD, log_level="default")
    record = replace(
        one, test_id="", session=session, results=replace(found, **results), resources=resources, inputs=inputs,
        test_scenario=run, configuration=configuration, checks=(),
        identity=replace(GOOD, sources="sources", sources_expected="sources", harness="harness"),
    )  # fmt: skip
    return replace(record, checks=tuple(recheck.expected(record)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(repository, "SELF_CHECKS", tmp_path / "self-check")
    monkeypatch.setattr(sources, "of_commit", lambda revision: SOURCES)
    monkeypatch.setattr(identity, "harness_hash", lambda: "harness")
    (tmp_path / "README.md").write_text("<!-- performance:begin -->\n<!-- performance:end -->\n")
    return tmp_path


def publish(place: Path, *records: Record, more: tuple[str, ...] = ()) -> int:
    with database.opened(place / "db") as store:
        for one in records:
            store.add(one)
    where = ["--database", str(place / "db"), "--directory", str(place / "docs"), "--page", str(place / "README.md")]
    return cli.dispatch(["publish", *where, *more])


def kept_file(place: Path) -> Path:
    path = publication.kept(place / "docs").run
    assert path
    return path


def test_what_was_measured_is_published_and_verified(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(place, measured(), measured(number=2)) == 0
    assert cli.dispatch(["verify", str(kept_file(place))]) == 0
    assert "all" in capsys.readouterr().out
    assert publish(place, more=("--again",)) == 0


@pytest.mark.parametrize(
    ("edited", "words"),
    [
        (measured(requests_per_second=19000.0), "requests_per_second is 19000, from its record follows 10000"),
        (measured(latency_p99_ms=0.2), "P99 (us) is"),
        (measured(latency_avg_ms=0.5), "latency_avg_ms is 0.5"),
        (measured(transfer_rate_mbps=99.0), "transfer_rate_mbps is 99"),
        (measured(error_rate=0.5), "error_rate is 0.5"),
        (replace(measured(), resources=replace(measured().resources, cpu_user_us_per_request=1.0)), "cpu_user_us_per_req"),
        (replace(measured(), checks=measured().checks[1:]), "the check program is missing"),
        (replace(measured(), identity=replace(measured().identity, variables={"UVHTTP_X": "1"})), "environment passed"),
        (replace(measured(), inputs=replace(measured().inputs, log_bytes=9999)), "the check log passed"),
    ],
)
def test_a_figure_or_check_that_does_not_follow_is_refused(
    edited: Record, words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edited before it came into the store, where its hash would be right."""
    assert publish(place, edited) == 1
    line = capsys.readouterr().err
    assert words in line and "measure it again" in line and len(line.splitlines()) == 1
    assert not (place / "docs").exists()


def test_a_check_that_failed_and_is_recorded_as_passed_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Edited gates: whoever made the record let it pass."""
    checks = tuple(replace(c, passed=True) for c in measured(total_requests=30000).checks)
    assert publish(place, replace(measured(total_requests=30000, requests_per_second=15000.0), checks=checks)) == 1
    assert "from its record follows" in capsys.readouterr().err


def test_edited_gates_are_another_harness_and_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited = replace(measured(), identity=replace(measured().identity, harness="edited"))
    assert publish(place, edited) == 1
    assert "not measured by the harness of its revision aaaaaaaaa: bench/ was edited" in capsys.readouterr().err
    foreign = replace(measured("s2"), identity=replace(measured().identity, sources="x", sources_expected="x"))
    assert publish(place, foreign, more=("--run", "s2")) == 1
    assert "the server was not built from its revision" in capsys.readouterr().err


def edit_database(place: Path, change: Callable[[dict[str, Any]], None], number: int = 1) -> None:
    """As somebody does it who knows how to drop a trigger."""
    connection = sqlite3.connect(place / "db")
    connection.execute("DROP TRIGGER records_no_update")
    ((text,),) = connection.execute("SELECT json FROM records WHERE id = ?", [number])
    value = json.loads(text)
    change(value)
    connection.execute("UPDATE records SET json = ? WHERE id = ?", [json.dumps(value), number])
    connection.commit()
    connection.close()


@pytest.mark.parametrize("field", ["memory_usage_mb", "cpu_usage_percent"])
def test_a_record_that_is_edited_in_the_database_is_refused(
    field: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(place, measured(), measured(number=2), more=("--run", "none")) == 77
    edit_database(place, lambda value: value["resources"].update({field: 50.0 + 1e-9}))
    assert publish(place) == 1
    assert "PERF-2026-01-01-001 (low, uvhttp): edited: it is not what was recorded" in capsys.readouterr().err


def test_full_histograms_are_hashed_too(place: Path) -> None:
    with database.opened(place / "db") as store:
        record = store.add(measured())
    whole = replace(record.results, histogram_corrected=Histogram((1,), (1,)))
    assert chain.whole_changed(replace(record, results=whole)) and not chain.whole_changed(record)
    assert not chain.changed(to_json(record)) and not chain.changed(chain.slim(chain.slim(to_json(record))))


def test_a_run_that_is_removed_from_the_database_breaks_the_chain(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(place, measured("s0"), measured("s1"), measured("s2"), more=("--run", "none"))
    connection = sqlite3.connect(place / "db")
    connection.execute("DROP TRIGGER records_no_delete")
    connection.execute("DELETE FROM records WHERE id = 2")
    connection.commit()
    connection.close()
    assert publish(place, more=("--run", "s2", "--because", "x")) == 1
    assert "the chain is broken at PERF-2026-01-01-003" in capsys.readouterr().err


def edit_kept(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def rehashed(record: dict[str, Any]) -> dict[str, Any]:
    """As somebody does it who knows how the hash is made."""
    record["chain"]["hash"] = chain.hash_of(chain.entry(record))
    return record


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["records"][1]["results"].update(requests_per_second=9e9), "edited: it is not what was recorded"),
        (lambda v: v["records"][1]["checks"].pop(), "edited: it is not what was recorded"),
        (lambda v: v["records"].pop(1), "the chain is broken"),
        (lambda v: (v["records"][1].update(notes=["x"]), rehashed(v["records"][1])), "the chain is broken"),
        (lambda v: (v["records"][2]["results"].update(requests_per_second=9e9), rehashed(v["records"][2])), "follows 10000"),
        (lambda v: v["left_out"].pop(1), "the chain is broken"),
        (lambda v: v["left_out"][1].update(status="void"), "the chain is broken"),
        (lambda v: v["left_out"].pop(0), "in the middle of a revision"),
        (lambda v: v.update(because=""), "say why with --because"),
    ],
)
def test_a_kept_file_that_is_edited_is_refused(
    change: Callable[[dict[str, Any]], None], words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = measured("old")
    older = replace(older, configuration=replace(older.configuration, revision="b" * 40))
    runs = [older, measured("s0"), *(measured("s1", number) for number in (1, 2, 3))]
    assert publish(place, *runs, more=("--run", "s1", "--because", "the first was a trial")) == 0
    path = kept_file(place)
    assert cli.dispatch(["verify", str(path)]) == 0
    capsys.readouterr()
    edit_kept(path, change)
    assert cli.dispatch(["verify", str(path)]) == 1
    assert words in capsys.readouterr().err
    assert publish(place, more=("--again",)) == 1


def test_records_of_version_1_are_read_and_not_published_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = to_json(measured())
    for name in ("identity", "inputs", "chain"):
        del value[name]
    old = parse(json.dumps({**value, "schema_version": 1}), "x")
    with pytest.raises(BenchError, match="of an older version"):
        audit.of_store([measured(), old])
    collection.write(place / "old.json", "baseline", [old])
    assert audit.verify(collection.load(place / "old.json"), "old")[0].startswith("old: schema version 1")


def test_a_failed_check_takes_its_figures_out_of_the_chain_too() -> None:
    void = replace(measured(), checks=(Check("errors", False, "5 status"),))
    entry = chain.entry(to_json(void))
    assert (entry.status, entry.failed, entry.requests_per_second, entry.cpu_us_per_request) == (
        "void",
        ("errors",),
        None,
        None,
    )
