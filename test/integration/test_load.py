"""Owns: the tests of uvhttp-load: against the library's servers, and against a stub that sends what no good server would."""
import json
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import ENGINE, EXAMPLES, HOST, free_port, poll
from load_program import LOAD, OK, Outcome, Peer, command, load, tls

XXH64_OF_OK = "fc6d24b916145cf9"  # printf ok | xxh64sum

websocket = pytest.mark.skipif(not (EXAMPLES / "websocket_echo").exists(), reason="built without WebSocket")


# --- closed loop ---


@pytest.mark.threads
def test_every_request_asked_for_is_served_and_counted(target):
    for options in ([], ["-p", 16], ["-t", 1, "-c", 1], ["-c", 40, "-p", 3]):
        run = load("-n", 2000, *options, target.url("/"))
        assert (run.requests, run.answers, run.count()) == (2000, 2000, 2000)
        assert run.statuses == {"200": 2000}
        assert run.errors["total"] == 0
        assert run.unanswered == 0
        assert 0 < run.seconds("min") <= run.seconds("p50") <= run.seconds("p99") <= run.seconds("max")
    assert load("-n", 1, "-t", 4, target.url("/")).requests == 1


def test_a_run_of_time_ends_in_time_without_its_warm_up(target):
    def busy():
        run = load("-d", "300ms", "-w", "200ms", "-c", 4, target.url("/api"))
        assert abs(run.elapsed_s - 0.3) < 0.001
        assert run.requests == run.count()
        assert run.requests_per_second == pytest.approx(run.requests / 0.3, rel=0.01)
        assert run.unanswered <= 4
        # The first responses of the window were asked for before it: by one latency at most. 2 %: those of a histogram.
        assert run.json["generator"]["waiting_share"] < 1.02 + run.seconds("max") / 0.3
        assert run.requests == 0 or run.json["generator"]["cpu_us_per_request"] > 0
        return run.requests > 10  # but for a machine that stands still in the window

    poll(busy, seconds=60)


@pytest.mark.serial
@pytest.mark.threads
@pytest.mark.parametrize("rate", [[], ["-R", 100]])  # a quarter of what the server can do: a slow machine keeps it, too
def test_a_warm_up_ends_when_the_server_is_steady(stub, rate):
    """For half a second it is slow; ten slices of 100 ms have to be alike after that, or nearly."""

    def is_steady_in_time():
        start = time.monotonic()

        def response(path, number):
            time.sleep(0.01 if time.monotonic() - start > 0.5 else 0.04)
            return OK

        run = load("-w", "auto:10s", "-d", "200ms", "-c", 4, "-t", 2, *rate, stub(response).url)
        warmup = run.json["warmup"]
        assert warmup["slices"] >= 10
        assert abs(run.elapsed_s - 0.2) < 0.001
        assert run.requests == run.count() > 0
        if not warmup["steady"]:  # the machine is not
            assert warmup["apart"] > 0.05 and warmup["elapsed_s"] >= 10
            return False
        assert warmup["apart"] <= 0.05
        assert 1 <= warmup["elapsed_s"] < 10
        return True

    poll(is_steady_in_time, seconds=60)


def test_a_warm_up_on_a_server_that_is_never_steady_ends_all_the_same(stub):
    start = time.monotonic()

    def slower_and_slower(path, number):
        time.sleep(min(0.002 * 4 ** ((time.monotonic() - start) / 0.5), 0.1))  # no more, should the machine stand still
        return OK

    run = load("-w", "auto:1100ms", "-d", "100ms", "-c", 2, stub(slower_and_slower).url)
    warmup = run.json["warmup"]
    assert not warmup["steady"] and warmup["apart"] > 0.05
    assert warmup["elapsed_s"] >= 1.1  # and some time later it has ended
    assert abs(run.elapsed_s - 0.1) < 0.001


def test_a_warm_up_can_be_interrupted(stub):
    one = stub([5, OK])  # no response, so that it is not steady
    process = subprocess.Popen(command("-w", "auto", "-c", 1, "-t", 1, one.url), stdout=subprocess.PIPE, text=True)
    poll(lambda: one.requests)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    found = json.loads(out)
    assert process.returncode == 130 and found["interrupted"]
    assert not found["warmup"]["steady"] and found["results"]["requests"] == 0


def test_methods_headers_and_bodies_are_sent(target, stub, tmp_path):
    body = tmp_path / "body.json"
    body.write_text('{"test":"data"}')
    run = load("-n", 100, "-B", body, "--expect-body", body, target.url("/api"))
    assert run.json["options"]["method"] == "POST"
    load("-n", 100, "-X", "HEAD", target.url("/"))
    one = stub(OK)
    load("-n", 1, "-c", 1, "-t", 1, "-X", "PATCH", "-H", "X-Test: yes", f"{one.url}/a?b")
    assert one.requests[0].split(b"\r\n")[:3] == [b"PATCH /a?b HTTP/1.1", f"Host: {one.url[7:]}".encode(), b"X-Test: yes"]


def test_targets_of_a_list_are_used_one_after_the_other(stub, tmp_path):
    urls = tmp_path / "urls"
    urls.write_text("/a\n/b\nHEAD /c\n")
    head = OK.partition(b"ok")[0]
    one = stub(lambda path, number: {"/a": OK, "/b": OK.replace(b"ok", b"no"), "/c": head}[path])
    load("-n", 300, "-c", 3, "-t", 1, "-p", 2, "-u", urls, one.url)
    assert {path: one.paths.count(path) for path in set(one.paths)} == {"/a": 100, "/b": 100, "/c": 100}


def test_every_way_to_end_a_body_is_read(stub):
    for response in (
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
        [OK[:10], 0.001, OK[10:40], 0.001, OK[40:]],
    ):
        one = stub(response)
        assert load("-n", 20, "-c", 2, one.url).connections_opened == 2
    for response in ([b"HTTP/1.1 200 OK\r\n\r\nuntil the end", None], OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")):
        assert load("-n", 20, "-c", 2, stub(response).url).connections_opened >= 20


def test_responses_outside_of_the_window_are_in_the_total(stub):
    """What a server must have counted: the warm-up too."""
    one = stub(OK)

    def busy_all_the_time():
        run = load("-d", "200ms", "-w", "200ms", "-c", 2, "-t", 1, one.url)
        assert run.answers_total >= run.answers
        return run.answers_total > run.answers > 0  # but for a machine that stands still in the window, or in front of it

    poll(busy_all_the_time, seconds=60)


def test_connections_churn_and_think(stub):
    one = stub(OK)
    run = load("-n", 30, "-c", 2, "-t", 1, "--requests-per-connection", 5, "-p", 2, one.url)
    assert run.requests == 30
    assert 6 <= run.connections_opened <= 8
    # One looked whether there is a server; and each of the two may just be opening its next when the run ends.
    assert 1 <= one.connections - run.connections_opened <= 3
    assert run.count("connect") == run.connections_opened
    run = load("-n", 5, "-c", 1, "-t", 1, "--think", "40ms", one.url)
    assert run.elapsed_s >= 4 * 0.04
    assert run.seconds("mean") * 5 < run.elapsed_s - 4 * 0.04 + 0.001  # the pause is not the server's time


@pytest.mark.parametrize("closes", ["client", "server"])
def test_a_connection_thinks_before_it_is_replaced(stub, closes):
    one = stub(OK if closes == "client" else OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
    ends = ["--requests-per-connection", 1] if closes == "client" else []
    run = load("-n", 5, "-c", 1, "-t", 1, "--think", "40ms", *ends, one.url)
    assert run.connections_opened >= 5
    assert run.elapsed_s >= 4 * 0.04
    assert run.seconds("mean") * 5 < run.elapsed_s - 4 * 0.04 + 0.001


def test_a_slow_client_sends_its_whole_body_whenever_the_response_comes():
    def talk(peer):
        kept = b""
        while True:
            while b"\r\n\r\n" not in kept:
                kept += (data := peer.recv(65536))
                if not data:
                    return
            peer.sendall(OK)  # before the body
            kept = kept.partition(b"\r\n\r\n")[2]
            while len(kept) < 500:
                kept += (data := peer.recv(65536))
                if not data:
                    return
            if kept[:500] != b"x" * 500:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                return
            kept = kept[500:]

    with Peer(talk) as peer:
        run = load("-n", 4, "-c", 1, "-t", 1, "--send-rate", 5000, "-b", "x" * 500, f"http://{peer.address}/")
        assert run.requests == 4 and run.connections_opened == 1
        assert run.elapsed_s > 3 * 500 / 5000


def test_slow_clients_send_and_take_so_many_bytes_a_second(target, tmp_path):
    run = load("-n", 1, "-c", 1, "-t", 1, "--receive-rate", 400000, "--expect-length", 102400, target.url("/large/100kb"))
    assert run.elapsed_s > 0.2
    run = load("-n", 1, "-c", 1, "-t", 1, "--send-rate", 1000, "-H", f"X-Long: {'x' * 200}", target.url("/"))
    assert run.elapsed_s > 0.2


def test_the_rate_of_a_slow_client_is_the_one_asked_for_and_no_multiple_of_100(target):
    """190 bytes a second, where whole bytes each 10 ms would be 100."""
    run = load("-n", 1, "-c", 1, "-t", 1, "--send-rate", 190, "-H", f"X-Long: {'x' * 250}", target.url("/"))
    assert 250 / 190 < run.elapsed_s < 1.6 * 330 / 190
    run = load("-n", 2, "-c", 1, "-t", 1, "--receive-rate", 190, target.url("/"))
    assert run.bytes / 190 * 0.9 < run.elapsed_s < 1.6 * run.bytes / 190
    run = load("-n", 1, "-c", 1, "-t", 1, "--send-rate", 60, target.url("/"))
    assert 40 / 60 < run.elapsed_s < 1.6 * 50 / 60


def test_a_unix_socket_is_a_target(serve, tmp_path):
    path = str(tmp_path / "socket")
    serve(listen=[f"unix:{path}"], address=path)
    run = load("-n", 100, "--unix-socket", path, "http://localhost/")
    assert run.json["target"]["address"] == f"unix:{path}"


# --- checks ---


@pytest.mark.parametrize(
    ("kind", "response"),
    [
        ("status", b"HTTP/1.1 500 Broken\r\nContent-Length: 2\r\n\r\nok"),
        ("status", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        ("read", None),
        ("read", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", None]),
        ("protocol", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok"),
        ("protocol", OK + b"more"),
        ("protocol", b"SSH-2.0-OpenSSH\r\n"),
    ],
)
def test_a_wrong_response_is_an_error_of_its_kind(stub, kind, response):
    one = stub(lambda path, number: response if number % 10 == 3 else OK)
    run = load("-n", 50, "-c", 2, "-t", 1, one.url, code=1)
    assert run.errors[kind] == run.errors["total"] == 5, run.errors
    assert list(run.json["results"]["first_errors"]) == [kind]
    assert "5 errors" in run.err


def test_a_response_that_does_not_end_is_an_error_in_time(stub):
    run = load("-n", 3, "-c", 2, "-t", 1, "--timeout", "100ms", stub([OK[:20], 60]).url, code=1)
    assert run.errors["timeout"] == run.errors["total"] == 3, run.errors
    assert run.requests == run.count() == run.json["latency"]["timeouts_included"] == 3
    assert run.answers == 0
    assert run.seconds("min") >= 0.097  # a bucket of the histogram is 3 % wide
    assert list(run.json["results"]["first_errors"]) == ["timeout"]


def test_a_body_is_compared_with_the_first_or_with_what_is_expected(stub, tmp_path):
    one = stub(lambda path, number: OK.replace(b"ok", b"no") if number == 7 else OK)
    assert load("-n", 20, "-c", 1, "-t", 1, one.url, code=1).errors["body"] == 1
    one = stub(lambda path, number: OK.replace(b"ok", b"%02d" % number))
    load("-n", 20, "--verify", "none", one.url)
    load("-n", 20, "--verify", "none", "--expect-length", 2, one.url)
    assert load("-n", 20, "--expect-length", 3, one.url, code=1).errors["body"] == 20
    one = stub(OK)
    load("-n", 20, "--expect-xxh64", XXH64_OF_OK, one.url)
    assert load("-n", 20, "--expect-xxh64", "0123456789abcdef", one.url, code=1).errors["body"] == 20
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"no")
    assert load("-n", 20, "--expect-body", wrong, one.url, code=1).errors["body"] == 20


def test_the_status_can_be_chosen(stub):
    one = stub(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    assert load("-n", 20, "-s", "4xx", one.url).statuses == {"404": 20}
    load("-n", 20, "-s", "200,404", one.url)
    load("-n", 20, "-s", "403", one.url, code=1)


def test_a_request_that_is_never_served_is_in_the_tail_of_a_closed_loop_too(stub):
    """The run ends before its time-out."""
    one = stub(lambda path, number: [60] if number == 5 else [0.001, OK])
    run = load("-d", "1500ms", "-c", 2, "-t", 1, "--timeout", "30s", one.url)
    assert run.json["latency"]["timeouts_included"] >= 1
    assert run.requests == run.count() == run.answers + run.json["latency"]["timeouts_included"]
    assert run.seconds("max") > 1


# --- open loop ---


def test_an_open_loop_sends_what_is_due_and_leaves_nothing_out(target):
    for arrivals in ("constant", "poisson"):
        run = load("-R", 1000, "--arrivals", arrivals, "-d", "500ms", "-w", "100ms", "-c", 8, target.url("/"))
        assert run.count() == run.count("latency_uncorrected") == run.requests
        assert run.requests == 500 if arrivals == "constant" else 350 < run.requests < 650
        assert run.seconds("p50") >= run.seconds("p50", "latency_uncorrected")


@pytest.mark.serial
def test_a_stall_is_seen_by_an_open_loop_and_not_by_a_closed_one(stub):
    """A server that stands still for 200 ms, once: a closed loop asks nobody then, so that hardly a request is hit."""

    def stalling():
        gate, state = threading.Lock(), {"stalled": False}

        def response(path, number):
            with gate:
                if number >= 100 and not state["stalled"]:
                    state["stalled"] = True
                    time.sleep(0.2)
            return OK

        return response

    def a_closed_one_is_hardly_hit():
        run = load("-n", 1000, "-c", 4, "-t", 1, stub(stalling()).url)
        assert run.seconds("max") > 0.15
        return run.seconds("p99") < 0.1

    def an_open_one_shows_it():
        run = load("-R", 250, "-d", "1s", "-c", 4, "-t", 1, stub(stalling()).url)
        assert run.requests == 250
        assert run.seconds("p99") > 0.15
        assert run.seconds("p90") > 0.05  # a fifth of the requests were due while it stood
        return run.seconds("p90", "latency_uncorrected") < 0.05

    # A machine that stands still as well may hit more: once without is enough.
    poll(a_closed_one_is_hardly_hit, seconds=60)
    poll(an_open_one_shows_it, seconds=60)


def test_a_rate_that_is_too_much_fails_and_says_how_much_was_missing(stub):
    one = stub([0.5, OK])  # far from the time that a response may take: what is missing was never sent, or is when all ends
    run = load("-R", 200, "-d", "300ms", "-c", 1, "-t", 1, "--timeout", "3s", one.url, code=1)
    assert run.requests == run.count() == 60  # what has no response is in the tail, with the time that it waited
    assert run.json["latency"]["timeouts_included"] == run.errors["timeout"]
    assert run.seconds("max") >= 3
    assert run.unanswered == run.errors["timeout"] > 40


# --- TCP ---


def test_tcp_messages_come_back_as_they_were(serve):
    server = serve("tcp_echo")
    url = f"tcp://{server.address[0]}:{server.address[1]}"
    for options in (["--payload-size", 64], ["--payload-size", 1], ["--payload-size", 70000, "-p", 4]):
        run = load("-n", 300, "-c", 3, *options, url)
        assert run.requests == 300
        assert run.bytes == 300 * options[1]


def test_an_old_echo_does_not_pass_for_a_new_one():
    def talk(peer):
        first = peer.recv(64)
        peer.sendall(first)
        peer.recv(64)
        peer.sendall(first)

    with Peer(talk) as peer:
        run = load("-n", 2, "-c", 1, "-t", 1, f"tcp://{peer.address}", code=1)
    assert run.errors["body"] == run.errors["total"] == 1


def test_an_echo_differs_from_every_other_in_all_of_its_bytes():
    messages = []

    def talk(peer):
        while message := peer.recv(1000, socket.MSG_WAITALL):
            messages.append(message)
            peer.sendall(message)

    for seed in (1, 2, 1):
        with Peer(talk) as peer:
            load("-n", 4, "-c", 1, "-t", 1, "--payload-size", 1000, "--seed", seed, f"tcp://{peer.address}")
        messages = [message for message in messages if len(message) == 1000]
    assert len(messages) == 12
    assert messages[:4] == messages[8:]  # a seed repeats them
    for i, one in enumerate(messages[:8]):
        for other in messages[:i]:
            assert sum(a == b for a, b in zip(one, other, strict=True)) < 40  # by chance 4, or 16 in the id


def test_a_connection_that_replaces_another_has_messages_of_its_own():
    firsts = []

    def talk(peer):
        firsts.append(peer.recv(64, socket.MSG_WAITALL))
        peer.sendall(firsts[-1])

    with Peer(talk) as peer:
        load("-n", 5, "-c", 1, "-t", 1, f"tcp://{peer.address}", "--requests-per-connection", 1)
    firsts = [first for first in firsts if first]
    assert len(set(firsts)) == len(firsts) == 5


def test_a_wrong_byte_anywhere_in_an_echo_is_an_error():
    for place in (0, 15, 16, 63, 5000, 69999):

        def talk(peer, place=place):
            message = bytearray(peer.recv(70000, socket.MSG_WAITALL))
            if message:
                message[place] ^= 1
                peer.sendall(message)
                peer.recv(1)

        with Peer(talk) as peer:
            run = load("-n", 1, "-c", 1, "-t", 1, "--payload-size", 70000, f"tcp://{peer.address}", code=1)
        assert run.errors["body"] == run.errors["total"] == 1


# --- HTTP echo ---


def test_http_bodies_come_back_as_they_were(target):
    for options in (
        ["--payload-size", 1],
        ["--payload-size", 100, "-p", 8],
        ["--payload-size", 100000, "-p", 2],
        ["-b", '{"test":"%"}', "--payload-size", 5000, "-H", "Content-Type: application/json"],
        ["-R", 500],
    ):
        run = load("-n", 100, "-c", 3, "--echo", *options, target.url("/api"))
        assert run.requests == 100 and run.errors["total"] == 0
        assert run.json["verification"] == {"status": True, "body": "echo"}
    assert load("-n", 20, "-X", "PUT", "--echo", target.url("/api")).requests == 20


def test_http_bodies_that_do_not_come_back_are_errors(target, stub):
    assert load("-n", 20, "--echo", target.url("/"), "-X", "GET", code=1).errors["body"] == 20
    bodies = []

    def old(head, body):
        bodies.append(body)
        return bodies[0]

    def cut(head, body):
        return body[:-1]

    def longer(head, body):
        return body + b"!"

    def one_byte(head, body):
        return body[:40] + bytes([body[40] ^ 1]) + body[41:]

    for response, wrong in ((old, 4), (cut, 5), (longer, 5), (one_byte, 5)):

        def talk(peer, response=response):
            head = b""
            while True:
                while b"\r\n\r\n" not in head:
                    piece = peer.recv(1)
                    if not piece:
                        return
                    head += piece
                body = response(head, peer.recv(64, socket.MSG_WAITALL))
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                head = b""

        with Peer(talk) as peer:
            run = load("-n", 5, "-c", 1, "-t", 1, "--echo", f"http://{peer.address}/", code=1)
        assert run.errors["body"] == run.errors["total"] == wrong, response.__name__


def test_the_length_that_head_announces_is_compared(stub):
    one = stub(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    load("-n", 5, "-X", "HEAD", "--expect-length", 2, one.url)
    assert load("-n", 5, "-X", "HEAD", "--expect-length", 3, one.url, code=1).errors["body"] == 5


# --- WebSocket ---


@websocket
def test_websocket_messages_come_back_as_they_were(target):
    url = target.url("/ws").replace("http", "ws")
    for options in (["--payload-size", 64], ["--payload-size", 1], ["--payload-size", 70000, "-p", 4]):
        run = load("-n", 300, "-c", 3, *options, url)
        assert run.requests == 300
        assert run.connections_opened == 3
    assert load("-R", 400, "-d", "250ms", url).requests == 100
    assert load("-n", 40, "-c", 2, "--requests-per-connection", 5, url).connections_opened >= 8


ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


def receive(peer, size):
    data = peer.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("the client has gone")
    return data


def read_message(peer):
    """The unmasked payload of a short frame, and its opcode."""
    head = receive(peer, 6)
    masked = receive(peer, head[1] & 127)
    return bytes(byte ^ head[2 + i % 4] for i, byte in enumerate(masked)), head[0] & 15


def shake_hands(peer):
    request = b""
    while not request.endswith(b"\r\n\r\n"):
        request += receive(peer, 1)
    assert b"Upgrade: websocket" in request
    peer.sendall(ACCEPTED)


def test_a_websocket_echo_may_come_in_fragments_and_pings_are_served():
    pongs = []

    def talk(peer):
        shake_hands(peer)
        while True:
            message, opcode = read_message(peer)
            assert opcode == 1 and len(message) == 20
            peer.sendall(b"\x01\x05" + message[:5] + b"\x89\x04ping" + b"\x80\x0f" + message[5:])
            pongs.append(read_message(peer))

    with Peer(talk) as peer:
        run = load("-n", 10, "-c", 1, "-t", 1, "--payload-size", 20, f"ws://{peer.address}/")
    assert run.requests == 10
    assert set(pongs[:9]) == {(b"ping", 10)}


@pytest.mark.parametrize(
    ("kind", "response"),
    [
        ("body", lambda message: b"\x81\x14" + message[:-1] + b"!"),
        ("body", lambda message: b"\x81\x13" + message[:-1]),
        ("body", lambda message: b"\x81\x15" + message + b"!"),
        ("protocol", lambda message: b"\x81\x94" + message),
        ("protocol", lambda message: b"\x81\x14" + message + b"\x81\x01!"),
        ("read", lambda message: b"\x88\x02\x03\xe8"),
    ],
)
def test_a_wrong_websocket_echo_is_an_error_of_its_kind(kind, response):
    def talk(peer):
        shake_hands(peer)
        peer.sendall(response(read_message(peer)[0]))
        peer.recv(1)

    with Peer(talk) as peer:
        run = load("-n", 2, "-c", 1, "-t", 1, "--payload-size", 20, f"ws://{peer.address}/", code=1)
    assert run.errors[kind] == run.errors["total"] > 0, run.errors


def test_what_is_no_websocket_ends_the_run(stub):
    run = load("-n", 5, "-c", 2, "-t", 1, stub(OK).url.replace("http", "ws"), code=1)
    assert run.errors["status"] == run.errors["total"] > 0
    assert "200 for the handshake" in run.first_errors["status"]
    wrong = ACCEPTED.replace(b"s3pP", b"xxxx")
    run = load("-n", 5, "-c", 2, "-t", 1, stub(wrong).url.replace("http", "ws"), code=1)
    assert run.errors["protocol"] == run.errors["total"] > 0


# --- TLS ---


@tls
@pytest.mark.threads
def test_https_is_served_and_checked_like_http(secure, tmp_path):
    for options in (["-c", 4], ["-c", 2, "-p", 8], ["-c", 4, "--requests-per-connection", 10]):
        run = load("-n", 300, *options, f"{secure}/")
        assert (run.requests, run.statuses) == (300, {"200": 300})
    run = load("-n", 40, "-c", 2, "--expect-length", 102400, f"{secure}/large/100kb")
    assert run.bytes == pytest.approx(40 * 102400, rel=0.01)
    body = tmp_path / "body"
    body.write_bytes(b'"%s"' % (b"x" * 300000))
    load("-n", 20, "-c", 2, "-B", body, "--expect-body", body, f"{secure}/api")
    assert load("-n", 20, "-c", 2, "-s", "404", f"{secure}/", code=1).errors["status"] == 20
    assert load("-R", 400, "-d", "250ms", f"{secure}/").requests == 100


@tls
@websocket
def test_websocket_runs_over_tls(secure):
    assert load("-n", 200, "-c", 2, "--payload-size", 5000, f"{secure}/ws".replace("https", "wss")).requests == 200


@tls
def test_a_certificate_is_checked_if_an_authority_is_given(secure, certificates):
    load("-n", 20, "-c", 2, "--ca-file", certificates / "server.pem", f"{secure}/")
    run = load("-n", 20, "-c", 2, "--ca-file", certificates / "other.pem", f"{secure}/", code=1)
    assert run.errors["connect"] == run.errors["total"] > 0
    assert "certificate" in run.first_errors["connect"]
    assert "--ca-file" in load("-n", 1, "--ca-file", "/nowhere", f"{secure}/", code=2).err


@tls
def test_what_is_no_tls_ends_the_run(stub, target):
    run = load("-n", 4, "-c", 2, "-t", 1, target.url("/").replace("http", "https"), code=1)
    assert run.errors["connect"] == run.errors["total"] > 0


# --- what goes wrong before and after ---


def test_a_target_that_is_not_there_or_not_ours_is_refused():
    assert "start the server" in load(f"http://{HOST}:{free_port()}/", code=77).err
    assert "--allow-remote" in load("http://192.0.2.1/", code=2).err
    assert "--help" in load("ftp://localhost/", code=2).err
    assert load("--unix-socket", "/nowhere", "http://localhost/", code=77).err


@pytest.mark.threads
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_reports_what_it_has(stub, number, tmp_path):
    path, one = tmp_path / "result.json", stub(OK)
    words = [LOAD, "--engine", ENGINE, "-d", "60s", "-c", "4", "-j", path, one.url]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    poll(lambda: len(one.requests) > 10)  # of which it has had responses: four connections ask one after the other
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    run = Outcome(130, path.read_text(), "")
    assert run.json["interrupted"] is True
    assert run.requests == run.count() > 0
    assert 0 < run.elapsed_s < 60
    assert "Interrupted" in out and "Requests/sec" in out
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.threads
def test_interrupted_after_its_window_it_counts_what_was_due(stub):
    one = stub([60, OK])
    process = subprocess.Popen(
        command("-R", 20, "-d", "500ms", "-c", 2, one.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    poll(lambda: len(one.requests) == 2)
    time.sleep(1)  # the window is over, and the responses are still waited for
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    run = Outcome(130, out, err)
    assert run.requests == run.count() == run.unanswered == 10
    assert run.json["latency"]["timeouts_included"] == 10
    assert run.seconds("min") > 0.4


def test_a_result_that_cannot_be_written_is_an_error(target, tmp_path):
    words = [LOAD, "-n", "10", "-j", tmp_path / "no" / "result.json", target.url("/")]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr


def test_the_text_says_what_wrk_says(target):
    words = [LOAD, "-d", "300ms", "-c", "4", "-t", "2", target.url("/")]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for part in ("2 threads and 4 connections", "Thread Stats   Avg      Stdev     Max   +/- Stdev", "Latency Distribution"):
        assert part in done.stdout
    for line in ("    Latency ", "    Req/Sec ", "     50% ", "     99% ", "Requests/sec: ", "Transfer/sec: "):
        assert any(text.startswith(line) for text in done.stdout.splitlines()), done.stdout
