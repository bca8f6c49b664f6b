"""Owns: `compare --cmd` and `peers --cmd` with servers as readers bring them: which processes count, that all of them end,
what is refused and why, and the verdict in words."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from uvhttp_bench import cli, own_servers
from uvhttp_bench.commands import peers as peers_verb
from uvhttp_bench.exits import UsageError
from uvhttp_bench.loads import uvhttp_load
from uvhttp_bench.loads.base import Job
from uvhttp_bench.model import database
from uvhttp_bench.monitor import Sampler
from uvhttp_bench.processes import MARK, Processes
from uvhttp_bench.scenarios.catalog import choose
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import CPU, LATENCY, THROUGHPUT, Metric, Round
from uvhttp_bench.targets.base import Ports, Running, ask, serve, workspace
from uvhttp_bench.targets.command import Command, name_of, without_machine_paths

SERVER = Path(__file__).with_name("own_server.py")
needs_load = pytest.mark.skipif(
    not uvhttp_load.program() or len(os.sched_getaffinity(0)) < 2, reason="needs uvhttp-load and two CPUs: ./dev build"
)


def command(mode: str, microseconds: int = 0) -> str:
    return f"{sys.executable} {SERVER} {{port}} {mode} {microseconds}"


@contextmanager
def served(mode: str, microseconds: int = 0) -> Iterator[Running]:
    with workspace() as made, serve(Command("mine", command(mode, microseconds)), choose(["low"])[0], made, ()) as running:
        yield running


# Inherited by the servers: tests of this file that run at the same time in another process have servers of their own.
os.environ["OWN_SERVER_TESTS"] = str(os.getpid())


def marked() -> list[int]:
    """Processes of servers that this process has started: it has no such variable itself."""
    ours = f"OWN_SERVER_TESTS={os.getpid()}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
            line = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        marks = any(one.startswith(f"{MARK}=".encode()) for one in variables)
        if marks and ours in variables and str(SERVER).encode() in line:
            found.append(int(path.parent.name))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert marked() == []


# --- processes ---


@pytest.mark.parametrize("mode", ["plain", "workers", "forks"])
def test_the_cpu_time_of_every_process_of_a_server_counts(mode: str) -> None:
    """Twenty responses of 10 ms each. Each connection is still open when the last sample is recorded."""
    with served(mode, 10_000) as running:
        sampler = Sampler(Processes(running.pid), (0,)).start()
        connections = [HTTPConnection("127.0.0.1", running.ports.http) for _ in range(4)]
        for connection in connections * 5:
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"Hello, World!"
        usage = sampler.stop()
        for connection in connections:
            connection.close()
    assert 0.2 <= usage.cpu_seconds < 2
    assert usage.memory_mb > (20 if mode != "plain" else 5)  # of an interpreter each


def child(code: str) -> "subprocess.Popen[str]":
    burn = "import os, signal, sys, time\ndef burn():\n    while time.process_time() < 0.2: pass\n"
    return subprocess.Popen(
        [sys.executable, "-c", burn + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.parametrize("waits", [True, False])
def test_the_cpu_time_of_a_process_that_has_ended_counts(waits: bool) -> None:
    ignore = "" if waits else "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    wait = "os.wait()" if waits else "\n    while True:\n        os.kill(pid, 0); time.sleep(0.001)\n"
    process = child(
        f"{ignore}pid = os.fork()\nif pid == 0:\n    burn(); print('burnt', flush=True); sys.stdin.readline(); os._exit(0)\n"
        f"try: {wait}\nexcept OSError: pass\nprint('ended', flush=True); sys.stdin.readline()"
    )
    assert process.stdin and process.stdout
    try:
        server = Processes(process.pid)
        before = server.cpu_seconds()
        assert process.stdout.readline() == "burnt\n"
        server.find_children()
        assert server.cpu_seconds() >= 0.2
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        assert 0.2 <= server.cpu_seconds() < 1 and len(server.pids) == 1 and before < 0.2
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_has_ended_unseen_counts_when_its_parent_has_waited_for_it() -> None:
    process = child(
        "sys.stdin.readline()\nif os.fork() == 0:\n    burn(); os._exit(0)\nos.wait(); print('ended', flush=True); sys.stdin.readline()"
    )
    assert process.stdin and process.stdout
    try:
        server = Processes(process.pid)
        process.stdin.write("start\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        assert server.cpu_seconds() >= 0.19  # counted in steps of 10 ms
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_is_gone_has_no_cpu_time() -> None:
    process = child("sys.stdin.readline()")
    server = Processes(process.pid)
    process.kill()
    process.communicate()
    with pytest.raises(OSError):
        server.cpu_seconds()


def test_a_child_that_has_left_the_session_ends_with_its_server() -> None:
    with served("leaves"):
        assert len(marked()) >= 2
    assert marked() == []


@pytest.mark.parametrize("mode", ["plain", "blanks", "closes"])
def test_a_response_is_as_long_as_it_came(mode: str) -> None:
    """The kernel's bytes are compared with it."""
    with served(mode) as running:
        with socket.create_connection(("127.0.0.1", running.ports.http)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            came = b"".join(iter(lambda: client.recv(4096), b""))
        assert ask("http", running.ports.http, "/").bytes_total == len(came) > len(b"Hello, World!")


# --- the command ---


def test_the_port_is_in_the_command_line_and_in_the_environment() -> None:
    with workspace() as made:
        text = f"test $PORT = {{port}} && exec {command('plain')}"
        with serve(Command("mine", text), choose(["low"])[0], made, ()) as running:
            assert running.alive()


def test_a_simple_command_takes_the_place_of_the_shell() -> None:
    with served("plain") as running:
        assert Path(f"/proc/{running.pid}/exe").samefile(sys.executable)
    for text in ("A=1 ./a {port}", "cd x && ./a {port}", "exec ./a {port}"):
        with workspace() as made:
            assert Command("mine", text).command(choose(["low"])[0], Ports(1, 2), made)[-1] == text.replace("{port}", "1")


def test_a_record_has_no_path_of_this_machine() -> None:
    assert without_machine_paths("/opt/x/bin/a --root /srv/www {port}") == "a --root www {port}"
    assert without_machine_paths("~/a/b '/x/y z' ./c/d http://h/i/j a/b") == "b 'y z' ./c/d http://h/i/j a/b"
    assert without_machine_paths("PORT={port} /x/node /x/y.js") == "PORT={port} node y.js"
    assert [name_of(text) for text in ("./x/hello {port}", "A=1 env B=2 exec /y/z", "'")] == ["hello", "z", "'"]


def test_a_command_without_port_is_usage() -> None:
    with pytest.raises(UsageError, match=r"no \{port\} in it.*PORT=\{port\} node x"):
        Command("mine", "node x.js")


# --- compare --cmd ---


def compare(tmp_path: Path, *arguments: str) -> int:
    return cli.dispatch(
        ["compare", "--database", str(tmp_path / "db"), "--rounds", "1", "--cpu-only", "--warm-up", "0", *arguments]
    )


def two(first: str, second: str) -> list[str]:
    return ["--cmd", first, "--cmd", second]


@needs_load
@pytest.mark.parametrize("swapped", [False, True])
def test_two_commands_are_compared_in_both_orders(swapped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that forks workers and burns 3 ms a request, and one that burns 0.5 ms."""
    servers = [command("workers", 3000), command("plain", 500)]
    names = ["--name", "slow", "--name", "quick"]
    if swapped:
        servers, names = servers[::-1], ["--name", "quick", "--name", "slow"]
    code = compare(tmp_path, *two(*servers), *names, "--url", "/x?y=1", "--connections", "4", "--format", "json")
    captured = capsys.readouterr()
    assert code == 4, captured.err  # one round decides nothing
    data = json.loads(captured.out)
    assert (data["a"], data["b"]) == (names[1], names[3])
    (found,) = data["verdicts"]
    slow, quick = (found["median_b"], found["median_a"]) if swapped else (found["median_a"], found["median_b"])
    assert slow >= 3000 and 500 <= quick < slow and (found["ratio"] > 1) == swapped
    assert "CPU time per request: a tie" in data["sentences"][0]
    assert f"{names[1]}: GET /x?y=1: 200 OK, 13 bytes, no Content-Type: Hello, World!" in captured.err
    assert str(SERVER.parent) not in captured.out and "own_server.py {port} workers 3000" in "".join(data["commands"])


@needs_load
def test_runs_alone_are_kept_with_their_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", "--database", str(tmp_path / "db"), "--rounds", "1", "--warm-up", "0", "--connections", "2"]
    assert cli.dispatch([*arguments, *two(command("plain", 200), command("varies", 200)), "--vary", "--format", "md"]) == 4
    captured = capsys.readouterr().out
    assert captured.startswith("- CPU time per request: a tie") and "| GET / |" in captured
    with database.opened(tmp_path / "db") as store:
        kept = store.records()
    assert [(r.kind, r.test_scenario.target) for r in kept] == [("compare", name) for name in "ABBA"]
    assert "own_server.py {port} plain 200" in kept[0].notes[0] and str(SERVER.parent) not in kept[0].notes[0]
    assert all(r.holds("cpu") and r.configuration.revision == "" for r in kept)


@needs_load
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("never", 1, ("does not listen on 127.0.0.1:", "its last line: own_server: waiting for the database")),
        ("ends", 1, ("mine ended while starting (exit 1): own_server: no configuration",)),
        ("background", 1, ("keep it in the foreground",)),
        ("closes", 1, ("closes the connection after a response (Connection: close)", "--protocol HTTP/1.1")),
        ("varies", 1, ("the second response differs from the first", "--vary")),
        ("random", 1, ("mine: GET /: a body of ", " that is not the expected one")),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_reason(
    mode: str, code: int, words: tuple[str, ...], swapped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Command, "start_seconds", 5.0 if mode == "never" else 15.0, raising=False)
    servers = [command(mode), command("plain")]
    names = ["--name", "mine", "--name", "other"]
    if swapped:
        servers, names = servers[::-1], ["--name", "other", "--name", "mine"]
    assert compare(tmp_path, *two(*servers), *names, "--connections", "2") == code
    last = capsys.readouterr().err.splitlines()[-1]
    for word in words:
        assert word in last, last


@needs_load
def test_an_error_page_is_not_compared_unless_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = [*two(command("plain"), command("plain")), "--url", "/gone", "--connections", "2"]
    assert compare(tmp_path, *servers) == 1
    assert (
        "A: GET /gone: status 404: name a path that it serves with --url, or --expect-status 404" in capsys.readouterr().err
    )
    assert compare(tmp_path, *servers, "--expect-status", "404") == 4
    assert compare(tmp_path, *servers, "--expect-status", "200") == 1
    assert "status 404 instead of 200" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "two revisions, or --cmd"),
        (["--url", "/x", "."], "--url is for servers that --cmd starts"),
        (["--cmd", "./a {port}"], "--cmd is given twice"),
        (two("./a {port}", "./b"), "there is no {port} in it"),
        ([*two("a {port}", "b {port}"), "."], "takes the place of revisions"),
        ([*two("a {port}", "b {port}"), "--engine", "uring"], "of performance_test"),
        ([*two("a {port}", "b {port}"), "--tool", "h2load"], "is measured by uvhttp-load"),
        ([*two("a {port}", "b {port}"), "--tool", "wrk"], "is measured by uvhttp-load"),
        ([*two("a {port}", "b {port}"), "--url", "http://x/"], "expected a path"),
        ([*two("a {port}", "b {port}"), "--header", "x"], "expected 'Name: value'"),
        ([*two("a {port}", "b {port}"), "--connections", "0"], "allowed is 1.."),
        (two("mine=./mine {port}", "b {port}"), "there is no program in it"),
        (two("b {port}", "mine=./mine --port {port}"), "there is no program in it"),
        ([*two("a {port}", "b {port}"), "--name", "x"], "--name is given twice"),
        ([*two("a {port}", "b {port}"), "--expect-status", "99"], "allowed is 200..599"),
    ],
)
def test_bad_command_lines_are_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.dispatch(["compare", *arguments]) == 2
    line = capsys.readouterr().err
    assert words in line and len(line.splitlines()) == 1, line


def test_headers_body_and_expected_body_reach_the_generator(tmp_path: Path) -> None:
    (tmp_path / "expected").write_bytes(b"ok")
    job = Job(
        "http://127.0.0.1:1/", 1, 1, 1, (), method="POST", request_body=b"x", response_bytes=2, expected_body=tmp_path / "expected",
        headers=(("Content-Type", "text/plain"), ("X-A", "b")), workspace=tmp_path,
    )  # fmt: skip
    words = uvhttp_load.UvhttpLoad().command(job)
    assert [words[at + 1] for at, word in enumerate(words) if word == "-H"] == ["Content-Type: text/plain", "X-A: b"]
    assert Path(words[words.index("--expect-body") + 1]).read_bytes() == b"ok" and "--expect-length" not in words


# --- the verdict in words ---


def judged(metric: Metric, ratio: float, count: int = 10) -> verdict.Verdict:
    noise = [1 + 0.001 * (place % 3) for place in range(count)]
    return verdict.judge("GET /", metric, [Round(10 * n, 10 * ratio, 10 * ratio * n, 10) for n in noise])


def test_a_finding_is_a_sentence_in_either_order() -> None:
    assert own_servers.sentence(judged(CPU, 1.5), "a", "b").startswith(
        "b uses 1.50 times the CPU time of a per request (95 % interval 1.50 to 1.50), which is worse: a 10.0"
    )
    assert "b uses 0.667 times" in own_servers.sentence(judged(CPU, 1 / 1.5), "a", "b")
    assert "which is better" in own_servers.sentence(judged(CPU, 1 / 1.5), "a", "b")
    assert "which is better" in own_servers.sentence(judged(THROUGHPUT, 1.5), "a", "b")
    assert "b has 1.50 times the P99 latency of a" in own_servers.sentence(judged(LATENCY, 1.5), "a", "b")


def test_an_interval_that_includes_1_is_a_tie() -> None:
    assert own_servers.sentence(judged(CPU, 1.0), "a", "b").startswith("CPU time per request: a tie; b / a is 1.000 (95 %")
    assert "a tie" in own_servers.sentence(judged(CPU, 1.5, 3), "a", "b")  # three rounds tell nothing apart


def test_the_sentence_and_the_table_call_the_same_thing_a_tie() -> None:
    near = replace(judged(CPU, 0.98), ratio=0.986, ratio_low=0.959, ratio_high=0.997, noise=0.012)
    assert near.differs and near.verdict not in (verdict.REGRESSED, verdict.IMPROVED)
    assert verdict.difference(near) == "tie"
    assert own_servers.sentence(near, "a", "b").startswith("CPU time per request: a tie; b / a is 0.986")


def test_a_ratio_within_the_noise_of_the_machine_is_a_tie() -> None:
    """Every round says 1.2 exactly, and that the same server differs from itself by more."""
    noisy = replace(judged(CPU, 1.2), noise=0.3)
    assert noisy.differs
    said = own_servers.sentence(noisy, "a", "b")
    assert said.startswith("CPU time per request: a tie; b / a is 1.20") and "alone made a difference of 30 %" in said
    assert "a tie" not in own_servers.sentence(replace(noisy, noise=0.1), "a", "b")


def test_ratios_have_three_digits_and_near_1_four() -> None:
    assert [own_servers.number(r) for r in (0.0123, 0.5, 0.95, 1.0004, 12.345, 123.4)] == [
        "0.0123", "0.500", "0.950", "1.000", "12.3", "123"
    ]  # fmt: skip


# --- peers --cmd ---


def test_a_server_of_the_readers_own_serves_the_paths_that_he_names() -> None:
    (mine,) = peers_verb.own_of(["mine=./mine {port}"], [])
    assert mine.name == "mine" and mine.serves(choose(["medium"])[0])
    for name in ("body-100kb", "https", "pipeline", "websocket", "static-10kb"):
        assert not mine.serves(choose([name])[0])
    (more,) = peers_verb.own_of(["mine=./mine {port}"], ["/large/100kb"])
    assert more.serves(choose(["body-100kb"])[0]) and more.serves(choose(["medium"])[0])


@needs_load
@pytest.mark.skipif(not shutil.which("wrk"), reason="needs wrk: apt-get install wrk")
def test_a_server_of_the_readers_own_is_in_the_table_of_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in = SERVER.with_name("stub_server.py")
    once = ["--rounds", "1", "--seconds", "1", "--rates", "", "--database", str(tmp_path / "db"), "--results", str(tmp_path)]
    own = ["--cmd", f"mine={command('workers', 100)}", "--cmd", f"other={command('random')}"]
    code = cli.dispatch(
        ["peers", "medium", "--servers", "uvhttp-uring", "--server", str(stand_in), *once, *own, "--format", "json"]
    )
    captured = capsys.readouterr()
    assert code in (1, 4), captured.err  # the stand-in does not say how it was built
    data = json.loads(captured.out)
    (mine,) = [standing for standing in data["standings"] if standing["target"] == "mine"]
    assert mine["cpu_us"] >= 100 and mine["note"].startswith("command: ")
    assert [line for line in data["left_out"] if line.startswith("medium: other: ")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("./mine {port}", "expected NAME=COMMAND"),
        ("mine=./mine", "there is no {port} in it"),
        ("nginx=x {port}", "there is a server nginx already"),
    ],
)
def test_a_bad_server_of_the_readers_own_is_usage(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.dispatch(["peers", "medium", "--cmd", text]) == 2
    assert words in capsys.readouterr().err
