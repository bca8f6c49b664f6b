"""Owns: data that is kept: the records of a session in docs/performance/data/<date>/{baseline,regression,peers}.json, a line for
each, so that a figure can be linked to its own."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import chain
from uvhttp_bench.model.chain import Entry
from uvhttp_bench.model.codec import from_json, to_json, write_text
from uvhttp_bench.model.record import SCHEMA_VERSION, Record, parse

KINDS = ("baseline", "regression")
FIRST_LINE = 2  # of the first record, in a file


def write(
    path: Path, kind: str, records: Sequence[Record], left: Sequence[Entry] = (), because: str = "",
    more: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """`left`: the entries of the chain from the first record of the revision on, without those of `records`. `more`: what else
    the file says, before the records."""
    first = records[0]
    head: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "session": first.session,
        "revision": first.configuration.revision,
        "because": because,
        **(more or {}),
    }
    lines = [_line(chain.slim(to_json(r))) for r in gathered(records)]
    others = [_line(to_json(one)) for one in left]
    write_text(
        path,
        json.dumps(head)[:-1]
        + ', "records": [\n'
        + ",\n".join(lines)
        + '\n], "left_out": [\n'
        + ",\n".join(others)
        + "\n]}\n",
    )


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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


@dataclass(frozen=True)
class Kept:
    """A file of records: them, and what was measured at their revision and is not among them."""

    values: tuple[dict[str, Any], ...]  # the JSON of the records
    records: tuple[Record, ...]
    left: tuple[Entry, ...]
    because: str  # why what was measured again, or not at all, is left out


def load(path: Path) -> Kept:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        values = tuple(value["records"])
        records = tuple(parse(json.dumps(item), str(path)) for item in values)
        left = tuple(from_json(Entry, item) for item in value.get("left_out", ()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path}: not a collection of records: {error}") from error
    if not records:
        raise BenchError(f"{path}: holds no record")
    return Kept(values, records, left, str(value.get("because", "")))


def read(path: Path) -> list[Record]:
    return list(load(path).records)


def newest(directory: Path, kind: str = "baseline") -> Path | None:
    """By the date that is its folder's name."""
    found = sorted(directory.glob(f"*/{kind}.json"))
    return found[-1] if found else None
