"""Owns: data that is kept: the records of a session in docs/performance/data/<date>/{baseline,regression}.json."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import SCHEMA_VERSION, Record, parse

KINDS = ("baseline", "regression")


def _slim(record: Record) -> Record:
    """A repository keeps files for ever: without the corrected histogram, which follows from the other one, and that one with
    a resolution of 0.8 %. The database has them whole, and the record's percentiles are those of the whole ones. Where the
    repository lay is nobody's concern."""
    coarse = replace(record.results, histogram=record.results.histogram.coarse(), histogram_corrected=Histogram())
    run = record.test_scenario
    command = run.command.replace(f"{repository.ROOT}/", "")
    return replace(record, results=coarse, test_scenario=replace(run, command=command))


def write(path: Path, kind: str, records: Sequence[Record]) -> None:
    first = records[0]
    value: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "session": first.session,
        "revision": first.configuration.revision,
        "records": [_slim(record) for record in records],
    }
    write_text(path, dump(value))


def read(path: Path) -> list[Record]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        records = [parse(json.dumps(item), str(path)) for item in value["records"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path}: not a collection of records: {error}") from error
    if not records:
        raise BenchError(f"{path}: holds no record")
    return records


def newest(directory: Path, kind: str = "baseline") -> Path | None:
    found = sorted(directory.glob(f"*/{kind}.json"))
    return found[-1] if found else None
