"""Owns: what a client says, the kernel's bytes and the server's own count: when they agree, and what follows when not."""

import errno
import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from test_gates import good

from uvhttp_bench import counts, sockets
from uvhttp_bench.counts import Range
from uvhttp_bench.loads import uvhttp_load, wrk
from uvhttp_bench.loads.base import Job, Outcome
from uvhttp_bench.model.record import Errors
from uvhttp_bench.scenarios import bodies
from uvhttp_bench.scenarios.catalog import choose
from uvhttp_bench.sockets import Moved

REQUEST, RESPONSE, N = 41, 115, 1000
JOB = Job("http://127.0.0.1:8080/", 1, 10, 1, (), answer_bytes=RESPONSE)
PROBE = counts.of_probe("http", 0, RESPONSE, 13)


def load(job: Job = JOB, **changes: int) -> counts.Said:
    results = replace(good(), total_requests=N, bytes_received=N * RESPONSE)
    return counts.of_load(job, replace(Outcome(results, "", "", 1, 1, request_bytes=REQUEST), **changes))  # type: ignore[arg-type]


def moved(requests: int = N, responses: int = N, connections: int = 11, unread: int = 0) -> Moved:
    return Moved(connections, 100 + requests * REQUEST, unread, (1 + responses) * RESPONSE)


def test_three_counts_that_are_the_same_agree() -> None:
    check, found = counts.counts([PROBE, load()], moved(), N + 1)
    assert check.passed and "clients and kernel and server agree" in check.detail
    assert (found.generator_requests_min, found.generator_requests_max) == (N + 1, N + 11)
    assert found.server_requests == N + 1 and found.kernel_connections == 11
    assert counts.counts([PROBE, load()], moved(N + 10, N + 10), N + 11)[0].passed  # under way at the end


@pytest.mark.parametrize(
    ("kernel", "server", "words"),
    [
        (moved(N + 30, N + 30), N + 1, "bytes of requests"),  # a generator that keeps quiet about some
        (moved(N // 4, N // 4), None, "bytes of requests"),  # one that multiplies by 4
        (moved(N, 2 * N), None, "bytes of responses"),  # a server with two for each
        (moved(N // 2, N), None, "bytes of requests"),  # the same, of a tool that counts both
        (moved(unread=20 * REQUEST), None, "never read"),
        (moved(), 2 * N, "the server counted"),
        (moved(), N, "the server counted"),  # the probe is missing
    ],
)
def test_a_count_that_differs_voids(kernel: Moved, server: int | None, words: str) -> None:
    check, _ = counts.counts([PROBE, load()], kernel, server)
    assert not check.passed and words in check.detail and check.takes == "all" and not check.unstable


def test_connections_that_are_not_closed_in_time_are_no_lie() -> None:
    check, _ = counts.counts([PROBE, load()], moved(N // 2, N // 2, connections=6), N + 1)
    assert not check.passed and check.unstable and "6 of 11 connections" in check.detail
    assert not counts.counts([PROBE, load()], moved(2 * N, 2 * N, connections=6), N + 1)[0].unstable


def test_where_nobody_else_counts_that_is_said() -> None:
    check, found = counts.counts([PROBE, load()], None, None)
    assert check.passed and check.detail == "neither the kernel nor the server counts here"
    assert found.kernel_connections is None and found.server_requests is None


def test_what_came_outside_of_the_window_is_counted() -> None:
    assert load(responses=N + 500).requests == Range(N + 500, N + 510)
    failed = replace(Outcome(replace(good(), total_requests=N, errors=Errors(timeout=3)), "", "", 1, 1))
    assert counts.of_load(JOB, failed).requests == Range(N, N + 13)


def test_an_encrypted_run_allows_for_records_and_not_for_a_second_response() -> None:
    said = load(replace(JOB, url="https://127.0.0.1:8443/", answer_bytes=10_000))
    assert N * (10_000 + 22) in said.response_bytes and N * 2 * 10_000 not in said.response_bytes


def test_responses_of_differing_length_are_counted_by_what_the_generator_has_read() -> None:
    said = load(replace(JOB, answer_bytes=None))
    assert N * RESPONSE in said.response_bytes and 2 * N * RESPONSE not in said.response_bytes


def test_the_size_of_a_request_is_that_of_the_bytes_on_the_wire() -> None:
    head = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
    assert uvhttp_load.sizes_of(JOB) == (len(head), None)
    post = replace(JOB, method="POST", request_body=b"{}", url="http://127.0.0.1:8080/api")
    head = b"POST /api HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    assert uvhttp_load.sizes_of(post) == (len(head), None)
    assert uvhttp_load.sizes_of(Job("ws://127.0.0.1:1/ws", 1, 1, 1, (), message_bytes=64)) == (70, 66)
    assert uvhttp_load.sizes_of(Job("ws://127.0.0.1:1/ws", 1, 1, 1, (), message_bytes=1024)) == (1032, 1028)


def test_an_echo_has_other_characters_in_each_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "uvhttp-load"
    program.write_text("#!/bin/sh\necho '      --echo'\n")
    program.chmod(0o755)
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(program))
    for name, marked, random in (("post", b'{"test":"%"}', 4), ("post-1kb", b'{"data":"%"}', 1024 - 11)):
        (scenario,) = choose([name])
        job = replace(JOB, method="POST", request_body=scenario.request_body, echoes=True, workspace=tmp_path)
        command = uvhttp_load.UvhttpLoad().command(job)
        assert command[command.index("--echo") :][:3] == ["--echo", "--payload-size", str(random)]
        assert (tmp_path / "body.json").read_bytes() == marked and len(marked) - 1 + random == len(scenario.request_body)
        assert not any(word.startswith("--expect-body") for word in command)
    assert uvhttp_load.marked_body(b"100 %") == b"" and uvhttp_load.marked_body(b"") == b""


def test_wrk_leaves_out_connections_that_its_threads_cannot_share() -> None:
    assert wrk.connections_of(replace(JOB, connections=50, threads=4)) == 48
    assert wrk.connections_of(replace(JOB, connections=2, threads=8)) == 2


# --- the kernel ---


@pytest.mark.skipif(not sockets.available(), reason="needs sock_diag of the kernel")
def test_the_kernels_count_is_exact_and_of_one_port_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        counter = sockets.Counter(one.getsockname()[1])
        for listener in (one, other, one):
            with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                client.sendall(b"q" * 1000)
                server.recv(600, socket.MSG_WAITALL)  # and leaves the rest
                server.sendall(b"r" * 5000)
                client.recv(5000, socket.MSG_WAITALL)
                server.shutdown(socket.SHUT_WR)
        found = counter.moved(2)
        counter.close()
    assert found and found.connections == 2 and found.sent == 2 * 5000
    assert 2 * 1000 <= found.received <= 2 * 1001 and 2 * 400 <= found.unread <= 2 * 401  # a FIN counts


def test_a_connection_count_leaves_no_thread_and_waits_for_no_connection_that_is_not_expected() -> None:
    before = threading.active_count()
    counter = sockets.Counter(1)
    assert counter.moved(0) == (Moved(0, 0, 0, 0) if sockets.available() else None)
    counter.close()
    assert threading.active_count() == before


class Failing(socket.socket):
    """A listener of sock_diag that always has something to say, and an error instead."""

    error: OSError

    def recv(self, *given: object) -> bytes:
        raise self.error


@pytest.mark.parametrize("code", [errno.ENOBUFS, errno.ENOMEM])
def test_a_count_of_which_something_was_lost_is_none(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Failing(socket.AF_INET, socket.SOCK_DGRAM)
    listener.error = OSError(code, "lost")
    listener.bind(("127.0.0.1", 0))
    listener.sendto(b"x", listener.getsockname())
    monkeypatch.setattr(sockets, "available", lambda: True)
    monkeypatch.setattr(sockets, "_listen", lambda: listener)
    counter = sockets.Counter(1)
    while not counter._lost:
        time.sleep(0.001)
    assert counter.moved(0) is None
    counter.close()


def test_a_broken_message_is_no_socket() -> None:
    whole = struct.pack("=IHHII", 16 + 72, 20, 0, 0, 0) + bytes(72)
    for data in (b"", b"x" * 15, struct.pack("=IHHII", 3, 20, 0, 0, 0), whole, whole[:40]):
        assert list(sockets.parse(data)) == []


# --- bodies ---


def test_the_body_of_each_scenario_is_known_by_content(tmp_path: Path) -> None:
    static = tmp_path / "static"
    for name, content in (
        ("low", b"Hello, World!"), ("post", b'{"test":"data"}'), ("delete", b'{"deleted":true}'),
        ("get-api", b'{"message":"Hello, World!","status":"ok"}'), ("sleep200", b"slept\n"),
    ):  # fmt: skip
        (scenario,) = choose([name])
        path = bodies.expected(scenario, static, tmp_path)
        assert path and path.read_bytes() == content and scenario.response_bytes in (None, len(content))
    (large,), (file,) = choose(["body-100kb"]), choose(["static-10kb"])
    path = bodies.expected(large, static, tmp_path)
    assert path and path.read_bytes()[:27] == b"abcdefghijklmnopqrstuvwxyza" and path.stat().st_size == large.response_bytes
    path = bodies.expected(large, static, tmp_path, b"a")
    assert path and set(path.read_bytes()) == {ord("a")} and path.stat().st_size == large.response_bytes
    assert bodies.expected(file, static, tmp_path) == static / "10kb.bin"
    assert bodies.expected(choose(["count"])[0], static, tmp_path) is None
    assert bodies.expected(choose(["websocket"])[0], static, tmp_path) is None
