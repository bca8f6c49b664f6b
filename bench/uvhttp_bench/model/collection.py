"""Owns: data that is kept: the records of a session in docs/performance/data/<date>/{baseline,regression,peers}.json, a line for
each, so that a figure can be linked to its own."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.codec import to_json, write_text
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import SCHEMA_VERSION, Record, parse

KINDS = ("baseline", "regression")
FIRST_LINE = 2  # of the first record, in a file


def _slim(record: Record) -> Record:
    """A repository keeps files for ever: without the corrected histogram, which follows from the other one, and that one with
    a resolution of 0.8 %. The database has them whole, and the record's percentiles are those of the whole ones. Where the
    repository lay is nobody's concern."""
    coarse = replace(record.results, histogram=record.results.histogram.coarse(), histogram_corrected=Histogram())
    run = record.test_scenario
    command = run.command.replace(f"{repository.ROOT}/", "")
    return replace(record, results=coarse, test_scenario=replace(run, command=command))


def write(path: Path, kind: str, records: Sequence[Record], more: dict[str, Any] | None = None) -> None:
    """`more`: what else the file says, before the records."""
    first = records[0]
    head: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "session": first.session,
        "revision": first.configuration.revision,
        **(more or {}),
    }
    lines = [
        json.dumps(to_json(_slim(r)), ensure_ascii=False, allow_nan=False, separators=(",", ":")) for r in gathered(records)
    ]
    write_text(path, json.dumps(head)[:-1] + ', "records": [\n' + ",\n".join(lines) + "\n]}\n")


def gathered(records: Sequence[Record]) -> list[Record]:
    """Those of one scenario, server and load one after another; the order is otherwise that in which they were made."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        run = record.test_scenario
        groups.setdefault((run.name, run.target, run.loop), []).append(record)
    return [record for group in groups.values() for record in group]


def fragment(records: Sequence[Record], chosen: Sequence[Record]) -> str:
    """Where they stand in the file that holds `records`, as the end of a link."""
    ids = [record.test_id for record in records]
    places = sorted(FIRST_LINE + ids.index(record.test_id) for record in chosen)
    return f"#L{places[0]}" + (f"-L{places[-1]}" if len(places) > 1 else "")


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
    """By the date that is its folder's name."""
    found = sorted(directory.glob(f"*/{kind}.json"))
    return found[-1] if found else None
