"""Owns: the database of records: SQLite, append-only. A record that is in it never changes: triggers refuse, so that history
can not be tidied up."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.codec import dump
from uvhttp_bench.model.record import Record, parse

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY,
    test_id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    scenario TEXT NOT NULL,
    target TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    revision TEXT NOT NULL,
    environment TEXT NOT NULL,
    status TEXT NOT NULL,
    json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS records_by_scenario ON records (scenario, target, timestamp);
CREATE INDEX IF NOT EXISTS records_by_session ON records (session);
CREATE TRIGGER IF NOT EXISTS records_no_update BEFORE UPDATE ON records
    BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER IF NOT EXISTS records_no_delete BEFORE DELETE ON records
    BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
"""


class Database:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise BenchError(f"{path}: not a database of records ({error}): name another one with --database") from error

    def close(self) -> None:
        self._connection.close()

    def add(self, record: Record) -> Record:
        """Returns the record with its test_id: PERF-<date>-<number of the day>."""
        day = f"PERF-{record.timestamp[:10]}-"
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            (last,) = connection.execute(
                "SELECT max(CAST(substr(test_id, ?) AS INTEGER)) FROM records WHERE substr(test_id, 1, ?) = ?",
                (len(day) + 1, len(day), day),
            ).fetchone()
            named = replace(record, test_id=f"{day}{(last or 0) + 1:03}")
            scenario, configuration = named.test_scenario, named.configuration
            connection.execute(
                "INSERT INTO records (test_id, session, kind, scenario, target, timestamp, revision, environment, status,"
                " json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    named.test_id, named.session, named.kind, scenario.name, scenario.target, named.timestamp,
                    configuration.revision, named.environment.hash, named.status, dump(named),
                ),
            )  # fmt: skip
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        return named

    def records(
        self, scenario: str | None = None, target: str | None = None, session: str | None = None, kind: str | None = None
    ) -> list[Record]:
        """Oldest first; None: all."""
        asked = (("scenario", scenario), ("target", target), ("session", session), ("kind", kind))
        given = [(column, value) for column, value in asked if value is not None]
        where = " AND ".join(f"{column} = ?" for column, _ in given) or "1"
        rows = self._connection.execute(
            f"SELECT test_id, json FROM records WHERE {where} ORDER BY id", [value for _, value in given]
        ).fetchall()
        return [parse(text, f"{self.path}: {test_id}") for test_id, text in rows]

    def last_session(self, kind: str = "run") -> str | None:
        row = self._connection.execute(
            "SELECT session FROM records WHERE kind = ? ORDER BY id DESC LIMIT 1", (kind,)
        ).fetchone()
        return None if row is None else str(row[0])


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    database = Database(path)
    try:
        yield database
    finally:
        database.close()
