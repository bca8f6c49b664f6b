"""Owns: records in a PostgreSQL, on a real server that this starts in a directory of its own."""

import getpass
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from test_model import some_record

from uvhttp_bench import cli
from uvhttp_bench.exits import MissingError
from uvhttp_bench.model import database
from uvhttp_bench.model.postgresql import PostgresqlUrl

PROGRAMS = max(
    (path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")),
    key=lambda path: int(path.parent.name),
    default=None,
)
USER = "postgres" if os.geteuid() == 0 else getpass.getuser()  # Debian's package makes it; the server refuses root


def run(*command: str | Path) -> None:
    as_user = {"user": USER, "group": pwd.getpwnam(USER).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", check=False, **as_user)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an empty database; it listens on a socket in its directory and on no port."""
    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    directory = Path(tempfile.mkdtemp(prefix="uvhttp-bench-postgresql-", dir="/tmp"))
    data, log = directory / "data", directory / "log"
    if os.geteuid() == 0:
        shutil.chown(directory, USER)
    try:
        run(PROGRAMS / "initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "bench", "-D", data)
        options = f"-c listen_addresses='' -c unix_socket_directories={directory} -c fsync=off"
        run(PROGRAMS / "pg_ctl", "start", "--wait", "-D", data, "-l", log, "-o", options)
        try:
            yield f"postgresql://bench@/postgres?host={directory}"
        finally:
            run(PROGRAMS / "pg_ctl", "stop", "--wait", "-m", "immediate", "-D", data)
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def url(server: str) -> Iterator[PostgresqlUrl]:
    """Emptied first, as only its owner could, by taking the whole table away."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS records; DROP FUNCTION IF EXISTS records_append_only")
    yield PostgresqlUrl(server)


def test_records_come_back_whole_in_the_order_in_which_they_came(url: PostgresqlUrl) -> None:
    with database.opened(url) as store:
        assert store.records() == [] and store.last_session() is None
        first, second = store.add(some_record()), store.add(replace(some_record(), session="s2"))
        other_day = store.add(replace(some_record(), timestamp="2026-01-10T00:00:00Z"))
        assert [r.test_id for r in (first, second, other_day)] == [
            "PERF-2026-01-09-001", "PERF-2026-01-09-002", "PERF-2026-01-10-001",
        ]  # fmt: skip
    with database.opened(url) as store:
        assert store.records() == [first, second, other_day]
        assert store.records(session="s2") == [second] and store.records(scenario="high") == []
        assert store.last_session() == ""


def test_history_cannot_be_changed(url: PostgresqlUrl) -> None:
    with database.opened(url) as store:
        kept = store.add(some_record())
        with psycopg.connect(url.text, autocommit=True) as connection:
            for statement in ("DELETE FROM records", "UPDATE records SET status = 'valid'", "TRUNCATE records"):
                with pytest.raises(psycopg.Error, match="append-only"):
                    connection.execute(statement)
        assert store.records() == [kept]


def test_several_at_once_get_a_number_each(url: PostgresqlUrl) -> None:
    """They also come to an empty database at once, in which each would like to make the table."""

    def add_some(_: int) -> list[str]:
        with database.opened(url) as store:
            return [store.add(some_record()).test_id for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        ids = sorted(test_id for some in pool.map(add_some, range(4)) for test_id in some)
    assert ids == [f"PERF-2026-01-09-{number:03}" for number in range(1, 21)]


def test_who_may_only_add_needs_no_right_to_make_tables(url: PostgresqlUrl) -> None:
    with database.opened(url), psycopg.connect(url.text, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS member")
        connection.execute("CREATE ROLE member LOGIN")
        connection.execute("GRANT SELECT, INSERT ON records TO member")
        try:
            with database.opened(PostgresqlUrl(url.text.replace("bench@", "member@"))) as store:
                assert store.add(some_record()).test_id == "PERF-2026-01-09-001"
        finally:
            connection.execute("DROP OWNED BY member; DROP ROLE member")


def test_a_command_reads_and_grades_what_is_there(url: PostgresqlUrl, capsys: pytest.CaptureFixture[str]) -> None:
    with database.opened(url) as store:
        store.add(replace(some_record(), session="s1"))
    assert cli.dispatch(["baseline", "grade", "--database", url.text]) in (0, 3, 4)
    assert "low" in capsys.readouterr().out


def test_a_table_of_somebody_else_is_one_line(url: PostgresqlUrl, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(url.text, autocommit=True) as connection:
        connection.execute("CREATE TABLE records (songs TEXT)")
    assert cli.dispatch(["trend", "--database", url.text]) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and 'column "test_id" does not exist' in said


def test_a_server_that_is_not_there_is_one_line_without_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.dispatch(["trend", "--database", "postgresql://me:secret@127.0.0.1:1/perf?password=secret"]) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "postgresql://127.0.0.1:1/perf" in said and "secret" not in said


def test_a_driver_that_is_not_there_is_77(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingError):
        database.Database(PostgresqlUrl("postgresql://localhost/perf"))
    assert cli.dispatch(["trend", "--database", "postgres://localhost/perf"]) == 77
    assert "pip install -e 'bench[postgresql]'" in capsys.readouterr().err


def test_another_scheme_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.dispatch(["trend", "--database", "mysql://localhost/perf"])
    assert "expected a file, or postgresql://" in capsys.readouterr().err
