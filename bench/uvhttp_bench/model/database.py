"""Owns: the database of records, append-only: a record that is in it never changes. Triggers refuse, so that history cannot
be tidied up. A file of SQLite, or a PostgreSQL that a team shares."""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from uvhttp_bench import repository
from uvhttp_bench.model import chain
from uvhttp_bench.model.codec import dump
from uvhttp_bench.model.postgresql import PREFIXES, Postgresql, PostgresqlUrl
from uvhttp_bench.model.record import Record, parse
from uvhttp_bench.model.sqlite import Sqlite


class Backend(Protocol):
    """Makes its tables when it is opened. Values stand for the ? of a statement."""

    name: str

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...

    def alone(self) -> AbstractContextManager[None]:
        """A transaction in which nobody else adds anything."""

    def close(self) -> None: ...


class Database:
    def __init__(self, where: Path | PostgresqlUrl) -> None:
        self._backend: Backend = Postgresql(where) if isinstance(where, PostgresqlUrl) else Sqlite(where)

    def close(self) -> None:
        self._backend.close()

    def add(self, record: Record) -> Record:
        """Returns the record with its test_id, PERF-<date>-<number of the day>, linked to the record before it."""
        day = f"PERF-{record.timestamp[:10]}-"
        with self._backend.alone():
            ((last,),) = self._backend.execute(
                "SELECT max(CAST(substr(test_id, ?) AS INTEGER)) FROM records WHERE substr(test_id, 1, ?) = ?",
                (len(day) + 1, len(day), day),
            )
            before = self._backend.execute("SELECT json FROM records ORDER BY id DESC LIMIT 1")
            previous = str(json.loads(before[0][0]).get("chain", {}).get("hash", "")) if before else ""
            named = chain.linked(replace(record, test_id=f"{day}{(last or 0) + 1:03}"), previous)
            scenario, configuration = named.test_scenario, named.configuration
            self._backend.execute(
                "INSERT INTO records (test_id, session, kind, scenario, target, timestamp, revision, environment, status,"
                " json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    named.test_id, named.session, named.kind, scenario.name, scenario.target, named.timestamp,
                    configuration.revision, named.environment.hash, named.status, dump(named),
                ),
            )  # fmt: skip
        return named

    def records(
        self, scenario: str | None = None, target: str | None = None, session: str | None = None, kind: str | None = None
    ) -> list[Record]:
        """Oldest first; None: all."""
        asked = (("scenario", scenario), ("target", target), ("session", session), ("kind", kind))
        given = [(column, value) for column, value in asked if value is not None]
        where = " AND ".join(f"{column} = ?" for column, _ in given) or "TRUE"
        rows = self._backend.execute(
            f"SELECT test_id, json FROM records WHERE {where} ORDER BY id", [value for _, value in given]
        )
        return [parse(text, f"{self._backend.name}: {test_id}") for test_id, text in rows]

    def since(self, revision: str) -> list[Record]:
        """All records, of whatever kind, from the first of a revision on: what was measured, published or not. Before them the
        last of another revision, which shows that none was left out at the start."""
        rows = self._backend.execute("SELECT min(id) FROM records WHERE revision = ?", [revision])
        first = rows[0][0] if rows else None
        if first is None:
            return []
        ((anchor,),) = self._backend.execute(
            "SELECT max(id) FROM records WHERE id < ? AND revision <> '' AND revision <> ?", [first, revision]
        )
        rows = self._backend.execute(
            "SELECT test_id, json FROM records WHERE id >= ? ORDER BY id", [first if anchor is None else anchor]
        )
        return [parse(text, f"{self._backend.name}: {test_id}") for test_id, text in rows]

    def last_session(self, kind: str = "run") -> str | None:
        rows = self._backend.execute("SELECT session FROM records WHERE kind = ? ORDER BY id DESC LIMIT 1", (kind,))
        return str(rows[0][0]) if rows else None


@contextmanager
def opened(where: Path | PostgresqlUrl) -> Iterator[Database]:
    database = Database(where)
    try:
        yield database
    finally:
        database.close()


def location(text: str) -> Path | PostgresqlUrl:
    if text.startswith(PREFIXES):
        return PostgresqlUrl(text)
    if re.match(r"\w+:", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file, or postgresql://[USER@]HOST/NAME")
    return Path(text)


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database", type=location, default=repository.DATABASE, metavar="FILE|URL",
        help="SQLite, or postgresql://[USER@]HOST/NAME (default %(default)s)",
    )  # fmt: skip
