"""Owns: tests of compare's rounds, baseline and check, without a server."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from test_model import some_record

from uvhttp_bench import cli, processes, repository, revisions, rounds, session, together
from uvhttp_bench.commands import check, compare
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.output import floors_table
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Round


def record(cpu: float, *checks: Check) -> Record:
    made = some_record(*checks)
    resources = replace(made.resources, cpu_user_us_per_request=cpu / 2, cpu_system_us_per_request=cpu / 2)
    return replace(
        made, resources=resources, results=replace(made.results, latency_p99_ms=cpu, requests_per_second=1e6 / cpu)
    )


def measure(ratio: float, count: int, *checks: Check) -> list[rounds.Measured]:
    def build(cost: float) -> rounds.Measured:
        return rounds.measure_round(0, lambda which: record(cost if which == "a" else cost * ratio, *checks))

    return [build(10 + i / 10) for i in range(count)]


@pytest.mark.parametrize("error", [BenchError("the server ended"), KeyboardInterrupt(), OSError("no space")])
def test_a_comparison_that_ends_early_keeps_the_scenarios_before(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure_until(one: object, judge: object, most: int) -> list[together.Measured]:
        measured.append(1)
        if len(measured) == 2:
            raise error
        return [together.Measured(Round(10, 12, 12, 10), False, some_record().configuration) for _ in range(8)]

    measured: list[int] = []
    built = revisions.Built("abc", "abc", False, Path("/bin/true"))
    monkeypatch.setattr(revisions, "program_of", lambda revision: built)
    monkeypatch.setattr(together, "measure_until_precise", measure_until)
    monkeypatch.setattr(repository, "BUILD", tmp_path)
    words = ["--cpu-only", "--scenario", "low", "--scenario", "medium", "--database", str(tmp_path / "runs.db")]
    code = cli.dispatch(["compare", "a", "b", *words])
    shown = capsys.readouterr()
    (kept,) = (tmp_path / "bench" / "compare").iterdir()
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert "1.2000" in shown.out and "1 of 2 scenarios" in shown.err and '"regressed"' in kept.read_text()


def test_rounds_alternate_which_build_runs_first() -> None:
    order: list[str] = []

    def one(which: str) -> Record:
        order.append(which)
        return record(1)

    for number in range(2):
        rounds.measure_round(number, one)
    assert "".join(order) == "abbabaab"


def test_a_slower_build_is_regressed_in_all_its_figures_and_ends_with_3() -> None:
    judged, left = rounds.judge("low", measure(1.3, 8), verdict.METRICS, None)
    judged = verdict.correct(judged)
    assert [(v.metric, v.verdict, v.grade) for v in judged] == [(m.name, "regressed", "fail") for m in verdict.METRICS]
    assert left == [] and compare.exit_code(judged, "fail") == 3
    warned = verdict.correct(rounds.judge("low", measure(1.15, 8), (verdict.CPU,), None)[0])
    assert compare.exit_code(warned, "fail") == 0 and compare.exit_code(warned, "warn") == 3


def test_a_difference_is_reported_also_where_it_does_not_matter() -> None:
    judged = rounds.judge("low", measure(1.02, 8), (verdict.CPU, verdict.THROUGHPUT), None)[0]
    assert [(verdict.difference(v), v.verdict) for v in judged] == [("worse", "equivalent")] * 2
    (same,) = rounds.judge("low", measure(1.0, 8), (verdict.CPU,), None)[0]
    assert (verdict.difference(same), same.verdict) == ("tie", "equivalent")


def test_figures_that_a_check_has_removed_are_not_judged() -> None:
    judged, left = rounds.judge(
        "low", measure(1.3, 8, Check("generator", False, "saturated", "throughput")), verdict.METRICS, None
    )
    assert [v.metric for v in judged] == ["cpu_us_per_request"]
    assert [x.why for x in left] == ["0 of 8 rounds: generator: saturated"] * 2
    judged, left = rounds.judge("low", measure(1.3, 8, Check("errors", False, "404")), verdict.METRICS, None)
    assert judged == [] and len(left) == 3 and compare.exit_code([], "fail") == 4


def test_a_restless_machine_does_not_take_figures_from_rounds() -> None:
    restless = Check("machine", False, "busy", "throughput", unstable=True)
    assert len(rounds.judge("low", measure(1.0, 8, restless), verdict.METRICS, None)[0]) == 3


def test_an_unknown_revision_is_named_and_a_missing_build_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="'no-such-revision' is not known"):
        revisions.program_of("no-such-revision")
    monkeypatch.setattr("uvhttp_bench.repository.PROGRAMS", tmp_path)
    with pytest.raises(MissingError, match="dev build"):
        revisions.program_of(".")


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", ".", "--rounds", "0"],
        ["compare", ".", "--threshold", "100"],
        ["check", "x"],
        ["soak", "--minutes", "0.1"],
        ["soak", "basic"],
    ],
)
def test_bad_numbers_and_names_are_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.dispatch(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


# --- baseline ---


def kept(tmp_path: Path, *records: Record) -> list[str]:
    with database.opened(tmp_path / "db") as store:
        for one in records:
            store.add(replace(one, session="s"))
    return ["--database", str(tmp_path / "db"), "--data", str(tmp_path / "data")]


def good() -> Record:
    made = record(10)
    results = replace(made.results, requests_per_second=36000.0, histogram=Histogram((100,), (5000,)))
    return replace(made, results=results)


def test_set_keeps_the_last_runs_records_and_show_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = kept(tmp_path, good(), good())
    assert cli.dispatch(["baseline", "set", *where]) == 0
    path = tmp_path / "data" / "2026-01-09" / "baseline.json"
    assert [r.test_id for r in collection.read(path)] == ["PERF-2026-01-09-001", "PERF-2026-01-09-002"]
    assert collection.newest(tmp_path / "data") == path
    assert cli.dispatch(["baseline", "show", *where]) == 0
    assert "36,000" in capsys.readouterr().out
    assert cli.dispatch(["baseline", "grade", *where]) == 0
    assert "standard's own" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (record(10, Check("errors", False, "404")), "discarded runs are not kept"),
        (record(10, Check("machine", False, "", unstable=True)), "--allow-unstable"),
        (replace(record(10), configuration=replace(record(10).configuration, dirty=True)), "differ from their commit"),
    ],
)
def test_set_refuses_what_nobody_should_compare_with(
    spoiled: Record, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.dispatch(["baseline", "set", *kept(tmp_path, good(), spoiled)]) == 1
    assert words in capsys.readouterr().err and not (tmp_path / "data").exists()


def test_a_figure_below_the_minimum_ends_with_3_and_nothing_to_grade_with_77(tmp_path: Path) -> None:
    slow = replace(good(), results=replace(good().results, requests_per_second=9000.0))
    assert cli.dispatch(["baseline", "grade", *kept(tmp_path, slow)]) == 3
    assert cli.dispatch(["baseline", "grade", *kept(tmp_path / "empty")]) == 77
    assert cli.dispatch(["baseline", "show", *kept(tmp_path / "empty")]) == 77
    (tmp_path / "x.json").write_text('{"records": []}')
    assert cli.dispatch(["baseline", "show", str(tmp_path / "x.json")]) == 1
    assert floors_table.rows([]) == []


# --- check ---

GATE = """test/gates/syscalls.py
ok      io_uring, c=1, 1 per write: io_uring_enter per request: 0.994 (at most 1.05)
BROKEN  epoll, c=1: recvfrom per batch: 2.000 (at most 1)  seen twice
"""


def test_counts_are_read_from_the_gates_own_lines() -> None:
    counts = check.parse("syscalls", 1, GATE)
    assert [(c.state, c.value, c.bound, c.note) for c in counts] == [
        ("ok", 0.994, 1.05, ""),
        ("broken", 2.0, 1.0, "seen twice"),
    ]
    assert check.exit_code(counts) == 3 and check.exit_code(counts[:1]) == 0


def test_a_gate_that_cannot_count_is_skipped_and_one_that_crashed_has_failed() -> None:
    skipped = check.parse("syscalls", 77, "skipped: strace cannot attach\n")
    assert skipped == [check.Count("syscalls", "skipped", "strace cannot attach")] and check.exit_code(skipped) == 77
    failed = check.parse("syscalls", 1, "Traceback (most recent call last):\nValueError: x\n")
    assert failed[0].state == "failed" and check.exit_code(failed) == 1
    assert check.exit_code(check.parse("x", 1, "")) == 1


@pytest.mark.parametrize("how", ["time", "interrupt"])
def test_nothing_that_a_gate_has_started_outlives_it(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, note = tmp_path / "gate.py", tmp_path / "pid"
    gate.write_text(
        "import os, pathlib, subprocess, sys, time\n"
        "one = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        f"pathlib.Path({str(note)!r} + '.new').write_text(str(one.pid))\n"
        f"os.rename({str(note)!r} + '.new', {str(note)!r})\n"
        "time.sleep(1000)\n"
    )

    def until_noted(process: "subprocess.Popen[str]", timeout: float | None = None) -> tuple[str, str]:
        while not note.exists():
            time.sleep(0.01)
        if how == "interrupt":
            raise KeyboardInterrupt
        raise subprocess.TimeoutExpired(process.args, timeout or 0)

    monkeypatch.setattr(subprocess.Popen, "communicate", until_noted)
    if how == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            check._one(gate, tmp_path)
    else:
        assert [count.state for count in check._one(gate, tmp_path)] == ["failed"]
    left = int(note.read_text())
    line = Path(f"/proc/{left}/cmdline")  # empty of one that has ended and that nobody has waited for
    if line.exists() and line.read_bytes():
        os.kill(left, signal.SIGKILL)
        pytest.fail("it was left behind")


def test_a_process_that_was_killed_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel ends it some time after the signal; here each of the first signals is lost."""
    kill, lost = os.kill, 10

    def later(pid: int, number: int) -> None:
        nonlocal lost
        lost -= 1
        if lost < 0:
            kill(pid, number)

    with subprocess.Popen(["sleep", "1000"], env={**os.environ, processes.MARK: "the mark of a test"}) as one:
        try:
            with monkeypatch.context() as patch:
                patch.setattr(os, "kill", later)
                processes.kill_marked("the mark of a test")
            gone = one.poll()
        finally:
            one.kill()
        assert gone == -signal.SIGKILL


def test_a_process_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, processes.MARK: "the mark of a test"}) as one:
        try:
            with monkeypatch.context() as patch, pytest.raises(BenchError, match=f"processes {one.pid} "):
                patch.setattr(os, "kill", lambda pid, number: None)
                patch.setattr(processes, "KILL_SECONDS", 0)
                processes.kill_marked("the mark of a test")
        finally:
            one.kill()


# --- which tool ---


def test_websocket_is_spoken_by_uvhttp_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (websocket,) = catalog.choose(["websocket-1kb"])
    program = tmp_path / "uvhttp-load"
    program.write_text("#!/bin/sh\necho 'URL: http://HOST, ws://HOST'\n")
    program.chmod(0o755)
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(program))
    assert session.load_for(websocket, "auto").name == "uvhttp-load"
    assert session.load_for(websocket, "wrk").name == "uvhttp-load"


def test_our_generator_is_the_default_and_wrk_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (low,) = catalog.choose(["low"])
    program = tmp_path / "uvhttp-load"
    program.write_text("#!/bin/sh\necho 'URL: http://HOST, ws://HOST'\n")
    program.chmod(0o755)
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(program))
    assert session.load_for(low, "auto").name == session.load_for(low, "uvhttp-load").name == "uvhttp-load"
    if shutil.which("wrk"):
        assert session.load_for(low, "wrk").name == "wrk"
