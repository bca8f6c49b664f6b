"""Owns: a database of records in a PostgreSQL that a team shares, through psycopg, which is needed for nothing else."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from uvhttp_bench import network
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.model.columns import COLUMNS

PREFIXES = ("postgresql://", "postgres://")
CONNECT_SECONDS = 10
LOCK = 0x75766874  # of who adds, or makes the table: it takes no right to change anything
HAS_RECORDS = "SELECT count(*) > 0 FROM pg_tables WHERE tablename = 'records' AND schemaname = ANY (current_schemas(false))"

SCHEMA = f"""
CREATE TABLE records (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    {COLUMNS}
);
CREATE INDEX records_by_scenario ON records (scenario, target, timestamp);
CREATE INDEX records_by_session ON records (session);
CREATE FUNCTION records_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'records are append-only'; END $$;
CREATE TRIGGER records_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON records
    FOR EACH STATEMENT EXECUTE FUNCTION records_append_only();
"""


@dataclass(frozen=True)
class PostgresqlUrl:
    text: str

    def exists(self) -> bool:
        """As of a file; whether it is there, its server will say."""
        return True

    def __str__(self) -> str:
        """Without what nobody shall read in a log: a password, and the query, in which there may be one."""
        parts = urlsplit(self.text)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class Postgresql:
    def __init__(self, url: PostgresqlUrl) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MissingError(
                "psycopg is not installed: build/bench/venv/bin/pip install -e 'bench[postgresql]'"
            ) from error
        self.name, self._error = str(url), psycopg.Error
        try:
            with network.outside():
                self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(
                    url.text, autocommit=True, connect_timeout=CONNECT_SECONDS
                )
        except psycopg.Error as error:
            raise BenchError(f"--database {url}: {_first_line(error)}") from error
        try:
            self._make_tables()
        except BaseException:
            self.close()
            raise

    def _make_tables(self) -> None:
        """Only where there are none: who may add records need not be who may make tables."""
        if self.execute(HAS_RECORDS) == [(True,)]:
            return
        with self.alone():
            if self.execute(HAS_RECORDS) == [(False,)]:  # two may come to an empty database at once
                self.execute(SCHEMA)

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise BenchError(f"--database {self.name}: {_first_line(error)}") from error

    def close(self) -> None:
        self._connection.close()

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._said():
            cursor = self._connection.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._said(), self._connection.transaction():
            self.execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
            yield
