"""Owns: tests of records, histograms and files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import chain, codec, record, schema
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Configuration, Environment, Record, Resources, Results, ScenarioRun

# The record of the standard's section 6.2, word for word.
STANDARD = """{
  "test_id": "PERF-2026-01-09-001",
  "timestamp": "2026-01-09T22:30:00Z",
  "environment": {"os": "Linux 6.14.11-2-pve", "cpu": "AMD Ryzen 7 5800H", "cores": 16, "memory": "12GB",
    "compiler": "GCC", "compiler_version": "11.4.0"},
  "configuration": {"build_with_mimalloc": true, "build_with_websocket": true, "debug": false, "optimization": "-O2"},
  "test_scenario": {"name": "中等并发测试", "threads": 4, "connections": 50, "duration": 10, "method": "GET",
    "url": "http://127.0.0.1:8080/"},
  "results": {"total_requests": 165440, "requests_per_second": 16544.0, "latency_avg_ms": 2.94, "latency_p50_ms": 2.8,
    "latency_p95_ms": 5.5, "latency_p99_ms": 8.2, "latency_p999_ms": 15.3, "transfer_rate_mbps": 5.33},
  "resources": {"cpu_usage_percent": 85.5, "memory_usage_mb": 128.5, "context_switches_per_sec": 12500,
    "system_calls_per_sec": 45000}
}"""


def some_record(*checks: Check) -> Record:
    return Record(
        "PERF-2026-01-09-001",
        "2026-01-09T22:30:00Z",
        Environment("Linux", "a CPU", 2, "4GB", "GNU", "12.2.0"),
        Configuration(True, True, False, "-O2"),
        ScenarioRun("low", 2, 10, 10.0, "GET", "http://127.0.0.1:8080/", server_cpus=(0,)),
        Results(20, 2.0, 1.0, 1.0, None, None, None, 0.5, histogram=Histogram((5, 7), (1, 19))),
        Resources(50.0, 10.0, None, None),
        checks=checks,
    )


def test_the_standards_own_record_is_read_and_its_fields_keep_their_names_and_order() -> None:
    parsed = record.parse(STANDARD, "standard")
    assert parsed.test_scenario.connections == 50
    wanted, got = json.loads(STANDARD), codec.to_json(parsed)
    for group, fields in wanted.items():
        if isinstance(fields, dict):
            assert list(got[group])[: len(fields)] == list(fields)
            assert {name: got[group][name] for name in fields} == fields
        else:
            assert got[group] == fields


def test_a_record_written_is_the_record_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "low_1.json"
    record.write(path, some_record(Check("errors", True, "none")))
    assert record.read(path) == some_record(Check("errors", True, "none"))
    assert [p.name for p in path.parent.iterdir()] == ["low_1.json"]
    assert '"values_us": [5,7]' in path.read_text()


def test_text_that_looks_like_a_list_of_numbers_is_kept_as_it_is(tmp_path: Path) -> None:
    """Else the record in the database is not the one that was hashed, and every later publish of the revision is refused."""
    path = tmp_path / "a.json"
    text = 'command: ./mine --cpus "[0, 1]" [ 2, 3 ] \\[4, 5] {port}'
    kept = chain.linked(replace(some_record(Check("errors", True, "[1, 2]")), notes=(text, "[1,\n 2]")), "")
    record.write(path, kept)
    assert record.read(path) == kept
    assert not chain.changed(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "not a record"),
        ("[]", "expected an object"),
        (STANDARD.replace('"cores": 16', '"cores": "16"'), "environment.cores"),
        (STANDARD.replace('"debug": false, ', ""), "configuration.debug: missing"),
        (STANDARD.replace('"test_id"', '"schema_version": 99, "test_id"'), "schema version 99"),
    ],
)
def test_what_is_not_a_record_is_refused_by_the_name_of_its_field(text: str, word: str) -> None:
    with pytest.raises(BenchError, match=word):
        record.parse(text, "x.json")


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    codec.write_text(path, "old")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        codec.write_text(path, "new")
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_published_schema_is_that_of_the_dataclasses() -> None:
    """Else: python -m uvhttp_bench.model.schema > docs/performance/record.schema.json"""
    assert (repository.ROOT / "docs" / "performance" / "record.schema.json").read_text() == schema.text()
    made = json.loads(schema.text())
    standard = json.loads(STANDARD)
    assert set(made["required"]) == set(standard)
    for group, fields in standard.items():
        if isinstance(fields, dict):
            assert set(made["properties"][group]["required"]) == set(fields)
    assert made["properties"]["results"]["properties"]["latency_p999_ms"] == {"type": ["number", "null"]}


def test_status_is_that_of_the_worst_check() -> None:
    restless = Check("interference", False, "", "throughput", unstable=True)
    assert some_record(Check("a", True, "")).status == record.VALID
    assert some_record(Check("a", False, "", takes="")).status == record.VALID
    assert some_record(restless).status == record.UNSTABLE
    assert some_record(restless, Check("a", False, "", "throughput")).status == record.VOID
    saturated = some_record(Check("generator", False, "", "throughput"))
    assert saturated.status == record.BOUNDED
    assert some_record(Check("busy connections", False, "", "throughput")).status == record.BOUNDED
    assert some_record(Check("Little's law", False, "", "throughput")).status == record.VOID
    assert some_record(restless, Check("generator", False, "", "throughput")).status == record.UNSTABLE
    assert saturated.holds("cpu") and not saturated.holds("throughput") and not saturated.holds("latency")


def test_percentiles_are_blank_where_samples_are_too_few() -> None:
    assert Histogram().percentile_us(50) is None
    few = Histogram.of((value, 1) for value in range(1, 1000))
    assert few.percentile_us(99) is None and few.percentile_us(95) == 950
    enough = Histogram.of((value, 1) for value in range(1, 1001))
    assert enough.percentile_us(99) == 990 and enough.percentile_us(99.9) is None
    assert Histogram.of([(3, 10000)]).percentile_us(99.9) == 3


def test_histograms_merge_into_what_one_histogram_would_have_been() -> None:
    merged = Histogram.merge([Histogram((1, 5), (2, 2)), Histogram((3, 5), (4, 1)), Histogram()])
    assert merged == Histogram((1, 3, 5), (2, 4, 3)) and merged.count == 9
    assert merged.mean_us() == pytest.approx(29 / 9) and merged.max_us() == 5
