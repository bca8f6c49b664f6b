"""Owns: the tests of uvhttp-load over HTTP/2: against the library's servers, and against stubs that send what no good server would."""
import contextlib
import itertools
import json
import ssl
import subprocess
import threading

import hpack
import pytest
from hyperframe import frame as frames

from harness import HOST
from load_program import LOAD, OK, Peer, load, read_to_the_end, tls
from wire_h2 import PREFACE

CLOSE = object()  # among the frames of a stub: the connection ends here
CANCEL, NO_ERROR, ENHANCE_YOUR_CALM = 0x8, 0x0, 0xB


class Talk:
    """A server of one connection: reads frames, and sends what `respond(talk, id, number)` gives for the n-th request of all
    connections: a list of frames, bytes and CLOSE."""

    def __init__(self, peer, respond, settings, numbers):
        self.peer, self.respond, self.numbers = peer, respond, numbers
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.heads, self.bodies, self.resets, self.acks = {}, {}, {}, 0
        self.pending = b""
        self.send([frames.SettingsFrame(0, settings=settings)])
        if self.take(len(PREFACE)) != PREFACE:
            return  # it only looked whether somebody listens
        while frame := self.next_frame():
            if not self.note(frame):
                return

    def take(self, size):
        while len(self.pending) < size:
            piece = self.peer.recv(1 << 16)
            if not piece:
                return None
            self.pending += piece
        data, self.pending = self.pending[:size], self.pending[size:]
        return data

    def next_frame(self):
        head = self.take(9)
        if not head:
            return None
        frame, size = frames.Frame.parse_frame_header(memoryview(head))
        payload = self.take(size)
        if payload is None:
            return None
        frame.parse_body(memoryview(payload))
        return frame

    def note(self, frame):
        number = frame.stream_id
        if isinstance(frame, frames.HeadersFrame):
            assert "END_HEADERS" in frame.flags
            self.heads[number] = self.decoder.decode(frame.data)
            self.bodies[number] = b""
        elif isinstance(frame, frames.DataFrame):
            self.bodies[number] += frame.data
        elif isinstance(frame, frames.RstStreamFrame):
            self.resets[number] = frame.error_code
        elif isinstance(frame, frames.SettingsFrame) and "ACK" in frame.flags:
            self.acks += 1
        if "END_STREAM" in getattr(frame, "flags", ()):
            return self.send(self.respond(self, number, next(self.numbers)))
        return True

    def send(self, what):
        data = b""
        for one in what:
            if one is CLOSE:
                self.peer.sendall(data)
                return False
            data += one if isinstance(one, bytes) else one.serialize()
        self.peer.sendall(data)
        return True

    # --- what responses consist of ---

    def head(self, number, *fields, status="200", flags=("END_HEADERS",)):
        return frames.HeadersFrame(number, data=self.encoder.encode([(":status", status), *fields]), flags=list(flags))

    def ok(self, number, body=b"ok"):
        return [self.head(number, ("content-length", str(len(body)))), data(number, body)]


def data(number, body, end=True, pad=None):
    flags = ["END_STREAM"] if end else []
    if pad is not None:
        return frames.DataFrame(number, body, pad_length=pad, flags=[*flags, "PADDED"])
    return frames.DataFrame(number, body, flags=flags)


class Server(Peer):
    """A stub of HTTP/2, of `kind`; each connection has a thread."""

    def __init__(self, respond, settings=None, kind=Talk):
        self.talks, numbers = [], itertools.count()

        def serve(peer):
            with peer, contextlib.suppress(OSError):
                talk = kind.__new__(kind)
                self.talks.append(talk)
                talk.__init__(peer, respond, settings or {}, numbers)

        super().__init__(lambda peer: threading.Thread(target=serve, args=(peer.dup(),), daemon=True).start())
        self.url = f"http://{self.address}"


def h2(*args, code=0):
    return load("--h2", *args, code=code)


def always(talk, number, count):
    return talk.ok(number)


def nth(wrong, which=3, of=10):
    """Responses of which one in ten is `wrong(talk, id)`."""
    return lambda talk, number, count: wrong(talk, number) if count % of == which else talk.ok(number)


@pytest.fixture
def server():
    with_ends = []

    def start(respond=always, settings=None, kind=Talk):
        with_ends.append(Server(respond, settings, kind))
        return with_ends[-1]

    yield start
    for one in with_ends:
        one.__exit__()


# --- against the library's servers ---


@pytest.mark.threads
def test_every_request_asked_for_is_served_and_counted(target):
    for options in ([], ["-m", 16], ["-t", 1, "-c", 1], ["-c", 40, "-m", 100]):
        run = h2("-n", 2000, *options, target.url("/"))
        assert (run.requests, run.answers, run.count()) == (2000, 2000, 2000)
        assert run.statuses == {"200": 2000}
        assert run.errors["total"] == run.unanswered == 0
        assert run.json["options"]["http2"] is True
        assert 0 < run.seconds("min") <= run.seconds("p50") <= run.seconds("p99") <= run.seconds("max")
    assert h2("-n", 1, "-t", 4, "-m", 8, target.url("/")).requests == 1
    assert load("-n", 1, target.url("/")).json["options"]["http2"] is False


def test_the_server_counts_the_same_requests_over_http2(target):
    """performance_test speaks HTTP/2 on its port in clear: what it has counted are the requests and one connection each."""
    before = json.loads(target.get("/counters").text)
    run = h2("-d", "200ms", "-c", 3, "-m", 10, target.url("/"))
    after = json.loads(target.get("/counters").text)
    requests = after["requests"] - before["requests"] - 1  # the one that asks
    assert run.answers_total <= requests <= run.answers_total + run.unanswered + 1
    assert after["http2_connections"] - before["http2_connections"] == 3


@tls
@pytest.mark.threads
def test_over_tls_it_is_served_and_checked_like_in_clear(secure, tmp_path):
    """performance_test chooses h2 by ALPN."""
    for options in (["-c", 4], ["-c", 2, "-m", 8], ["-c", 4, "--requests-per-connection", 10]):
        run = h2("-n", 300, *options, f"{secure}/")
        assert (run.requests, run.statuses) == (300, {"200": 300})
    run = h2("-n", 40, "-c", 2, "-m", 4, "--expect-length", 102400, f"{secure}/large/100kb")
    assert run.bytes == pytest.approx(40 * 102400, rel=0.01)
    assert h2("-n", 20, "-c", 2, "-s", "404", f"{secure}/", code=1).errors["status"] == 20
    assert h2("-R", 400, "-d", "250ms", "-m", 2, f"{secure}/").requests == 100


def test_methods_headers_and_bodies_are_sent(target, server, tmp_path):
    body = tmp_path / "body.json"
    body.write_text('{"test":"data"}')
    run = h2("-n", 100, "-m", 8, "-B", body, "--expect-body", body, target.url("/api"))
    assert run.json["options"]["method"] == "POST"
    h2("-n", 100, "-m", 8, "-X", "HEAD", target.url("/"))
    one = server()
    words = ["-X", "PATCH", "-H", "X-Test:  Yes ", "-H", "Connection: close", "-H", "Host: other", "-b", "text"]
    h2("-n", 3, "-c", 1, "-t", 1, *words, f"{one.url}/a?b")
    expected = [(":method", "PATCH"), (":scheme", "http"), (":authority", "other"), (":path", "/a?b"), ("x-test", "Yes"),
                ("content-length", "4")]  # fmt: skip
    assert [[*map(tuple, head)] for head in one.talks[-1].heads.values()] == [expected] * 3
    assert set(one.talks[-1].bodies.values()) == {b"text"}


def test_random_bodies_come_back(target, server):
    """Of a few bytes, of many frames, and of more than the windows hold."""
    for size, streams in ((100, 16), (20000, 8), (300000, 1)):
        assert h2("-n", 64, "-c", 2, "-m", streams, "--echo", "--payload-size", size, target.url("/api")).requests == 64
    assert h2("-n", 64, "-m", 8, "--echo", "-b", '{"a":"%"}', target.url("/api")).requests == 64
    sent = server(lambda talk, number, count: talk.ok(number, talk.bodies[number]))
    h2("-n", 20, "-c", 1, "-t", 1, "-m", 4, "--echo", "--payload-size", 1000, sent.url)
    bodies = [*sent.talks[-1].bodies.values()]
    assert len(set(bodies)) == 20 and {len(body) for body in bodies} == {1000}


def test_an_old_body_does_not_pass_for_a_new_one(server):
    one = server(lambda talk, number, count: talk.ok(number, talk.bodies[1]))
    run = h2("-n", 5, "-c", 1, "-t", 1, "--echo", one.url, code=1)
    assert run.errors["body"] == run.errors["total"] == 4


def test_a_body_keeps_to_the_windows_of_the_server(server):
    """They open by three bytes at a time."""

    bodies = []

    class Windows(Talk):
        def note(self, frame):
            if isinstance(frame, frames.DataFrame) and frame.data:
                assert len(frame.data) <= 7
                self.send([frames.WindowUpdateFrame(frame.stream_id, window_increment=3)])
            return super().note(frame)

    def respond(talk, number, count):
        bodies.append(talk.bodies[number])
        return talk.ok(number)

    h2("-n", 4, "-c", 1, "-t", 1, "-m", 2, "-b", "x" * 100, server(respond, {0x4: 7}, Windows).url)
    assert bodies == [b"x" * 100] * 4


def test_a_body_keeps_to_the_window_of_the_connection(server):
    """65535 bytes, of which the server gives back none but what lets the body end."""
    bodies = []

    class Windows(Talk):
        def note(self, frame):
            if isinstance(frame, frames.DataFrame):
                self.got = getattr(self, "got", 0) + len(frame.data)
                assert self.got <= 100000
                if self.got == 65535:
                    self.send([frames.WindowUpdateFrame(0, window_increment=100000 - 65535)])
            return super().note(frame)

    def respond(talk, number, count):
        bodies.append(talk.bodies[number])
        return talk.ok(number)

    h2("-n", 2, "-c", 1, "-t", 1, "-m", 2, "-b", "x" * 50000, server(respond, {0x4: 1 << 20}, Windows).url)
    assert bodies == [b"x" * 50000] * 2


@pytest.mark.threads
def test_an_open_loop_sends_what_is_due_and_leaves_nothing_out(target):
    for arrivals in ("constant", "poisson"):
        run = h2("-R", 1000, "--arrivals", arrivals, "-d", "500ms", "-w", "100ms", "-c", 4, "-m", 4, target.url("/"))
        assert run.count() == run.count("latency_uncorrected") == run.requests
        assert run.requests == 500 if arrivals == "constant" else 350 < run.requests < 650
        assert run.seconds("p50") >= run.seconds("p50", "latency_uncorrected")


def test_connections_churn(server):
    one = server()
    run = h2("-n", 30, "-c", 2, "-t", 1, "--requests-per-connection", 5, "-m", 2, one.url)
    assert run.requests == 30
    assert 6 <= run.connections_opened <= 8


# --- what a server may do ---


def test_targets_of_a_list_share_the_table(server, tmp_path):
    urls = tmp_path / "urls"
    urls.write_text("/a\nPOST /b\nHEAD /c\n/\n")
    one = server(lambda talk, number, count: [talk.head(number, flags=("END_HEADERS", "END_STREAM"))])
    h2("-n", 400, "-c", 2, "-t", 1, "-m", 3, "-u", urls, "-H", "X-One: 1", "-H", "X-Two: 2", one.url)
    heads = [tuple(map(tuple, head)) for talk in one.talks for head in getattr(talk, "heads", {}).values()]
    fields = ((":authority", one.address), ("x-one", "1"), ("x-two", "2"))
    assert {tuple(sorted(head)) for head in heads} == {
        tuple(sorted([(":method", method), (":scheme", "http"), (":path", path), *fields]))
        for method, path in (("GET", "/a"), ("POST", "/b"), ("HEAD", "/c"), ("GET", "/"))
    }


@pytest.mark.parametrize("size", [0, 100, 4096, 65536])
def test_the_servers_table_has_the_size_that_it_says(server, size):
    def check(talk, number, count):
        assert talk.decoder.header_table.maxsize <= max(size, 4096)
        assert len(talk.decoder.header_table.dynamic_entries) == (0 if size < 4096 else 2)
        return talk.ok(number)

    one = server(check, {0x1: size})
    run = h2("-n", 20, "-c", 1, "-t", 1, "-H", "X-Long: " + "x" * 200, one.url)
    assert run.requests == 20
    assert dict(one.talks[-1].heads[39])["x-long"] == "x" * 200


def test_more_fields_than_the_table_holds_are_sent_as_they_are(server):
    fields = [word for i in range(40) for word in ("-H", f"X-{i}: {'%d' % i * 100}")]
    one = server()
    h2("-n", 20, "-c", 1, "-t", 1, *fields, one.url)
    assert all(dict(head)["x-39"] == "39" * 100 for head in one.talks[-1].heads.values())
    assert "16384" in h2("-n", 1, *[word for i in range(60) for word in ("-H", f"X-{i}: {'x' * 300}")], one.url, code=2).err


def test_every_shape_of_a_response_is_read(server):
    block = b"\x88\0\x01x\x32" + b"y" * 50  # :status 200, and a field that no table gets
    trailer = b"\0\x05x-sum\x011"

    def shapes(talk, number, count):
        shape = [
            lambda: talk.ok(number),
            lambda: [talk.head(number, status="103"), talk.head(number, status="103"), *talk.ok(number)],
            lambda: [talk.head(number), data(number, b"o", end=False), data(number, b"k", pad=200)],
            lambda: [talk.head(number), data(number, b"", end=False), data(number, b"ok", end=False),
                     frames.HeadersFrame(number, data=trailer, flags=["END_HEADERS", "END_STREAM"])],
            lambda: [frames.HeadersFrame(number, data=block[:1]), frames.ContinuationFrame(number, data=block[1:20]),
                     frames.ContinuationFrame(number, data=block[20:], flags=["END_HEADERS"]), data(number, b"ok")],
            lambda: [frames.HeadersFrame(number, data=block, flags=["END_HEADERS", "PADDED", "PRIORITY"], pad_length=9),
                     data(number, b"ok")],
            lambda: [frames.PingFrame(0, opaque_data=b"12345678"), frames.PriorityFrame(number, depends_on=0),
                     b"\0\0\2\xee\0\0\0\0\0xx", *talk.ok(number)],
            lambda: [*talk.ok(number), frames.RstStreamFrame(number, error_code=NO_ERROR)],
        ]  # fmt: skip
        return shape[count % len(shape)]()

    run = h2("-n", 70, "-c", 2, "-t", 1, "-m", 3, "--expect-length", 2, server(shapes).url)
    assert run.statuses == {"200": 70}
    h2("-n", 20, "-m", 4, "-s", "204",
       server(lambda talk, number, count: [talk.head(number, status="204", flags=("END_HEADERS", "END_STREAM"))]).url)  # fmt: skip


def test_responses_come_in_any_order_and_in_any_pieces(server):
    """Each stream waits for the one behind it; and every byte is a write of its own."""
    waiting = []

    def swapped(talk, number, count):
        if count % 2 == 0:
            waiting.append(number)
            return []
        found = b"".join(frame.serialize() for frame in [*talk.ok(number, b"b" * 5), *talk.ok(waiting.pop(), b"b" * 5)])
        for at in range(len(found)):
            talk.peer.sendall(found[at : at + 1])
        return []

    assert h2("-n", 40, "-c", 1, "-t", 1, "-m", 2, server(swapped).url).requests == 40


def test_no_more_streams_than_the_server_allows(server):
    most, done = [], []

    def count(talk, number, count):
        most.append(len(talk.heads) - len(done))
        done.append(number)
        return talk.ok(number)

    h2("-n", 50, "-c", 1, "-t", 1, "-m", 10, server(count, {0x3: 2}).url)
    assert max(most) <= 2


def test_a_slow_stream_does_not_hold_up_the_others(server):
    """The first response comes behind all others, whose stream ids pass its slot."""

    def first_last(talk, number, count):
        if count == 0:
            return []
        return [*talk.ok(number), *(talk.ok(1) if count == 199 else [])]

    assert h2("-n", 200, "-c", 1, "-t", 1, "-m", 4, server(first_last).url).requests == 200


def test_goaway_without_error_ends_a_connection_and_loses_nothing(server):
    def leave(talk, number, count):
        if len(talk.heads) < 5:
            return talk.ok(number)
        return [*talk.ok(number), frames.GoAwayFrame(0, last_stream_id=number, error_code=NO_ERROR), CLOSE]

    run = h2("-n", 30, "-c", 2, "-t", 1, "-m", 1, server(leave).url)
    assert (run.requests, run.errors["total"]) == (30, 0)
    assert run.connections_opened >= 6


def test_what_goaway_refuses_is_asked_again(server):
    def refuse(talk, number, count):
        if len(talk.heads) > 4:
            return []
        if len(talk.heads) < 4:
            return talk.ok(number)
        return [*talk.ok(number), frames.GoAwayFrame(0, last_stream_id=number, error_code=NO_ERROR)]

    one = server(refuse)
    run = h2("-n", 40, "-c", 1, "-t", 1, "-m", 8, one.url)
    assert (run.requests, run.errors["total"]) == (40, 0)
    assert run.connections_opened > 2


# --- what it must not ---


def second_head(talk, number):
    return [*talk.ok(number), talk.head(number)]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("status", lambda talk, number: [talk.head(number, status="500"), data(number, b"ok")]),
        ("body", lambda talk, number: talk.ok(number, b"no")),
        ("body", lambda talk, number: talk.ok(number, b"okay")),
        ("body", lambda talk, number: [talk.head(number, flags=("END_HEADERS", "END_STREAM"))]),
        ("read", lambda talk, number: [CLOSE]),
        ("read", lambda talk, number: [talk.head(number, ("content-length", "2")), data(number, b"ok").serialize()[:10], CLOSE]),
        ("read", lambda talk, number: [talk.head(number).serialize()[:12], CLOSE]),
        ("reset", lambda talk, number: [frames.RstStreamFrame(number, error_code=CANCEL)]),
        ("reset", lambda talk, number: [talk.head(number), frames.RstStreamFrame(number, error_code=NO_ERROR)]),
        ("reset", lambda talk, number: [frames.GoAwayFrame(0, last_stream_id=number, error_code=ENHANCE_YOUR_CALM)]),
        ("protocol", lambda talk, number: [talk.head(number, ("content-length", "3")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, ("content-length", "1")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, ("content-length", "x")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, (":status", "200")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, (":path", "/")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, ("Upper", "case")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, ("connection", "close")), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, status="20"), data(number, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number, status="101"), data(number, b"ok")]),
        ("protocol", lambda talk, number: [data(number, b"ok")]),
        ("protocol", second_head),
        ("protocol", lambda talk, number: [talk.head(number), talk.head(number)]),
        ("protocol", lambda talk, number: [talk.head(number + 2), data(number + 2, b"ok")]),
        ("protocol", lambda talk, number: [talk.head(number + 1), data(number + 1, b"ok")]),
        ("protocol", lambda talk, number: [frames.HeadersFrame(number, data=b"\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS"])]),
        ("protocol", lambda talk, number: [frames.HeadersFrame(number, data=b"\x88"), *talk.ok(number)]),
        ("protocol", lambda talk, number: [frames.ContinuationFrame(number, data=b"\x88", flags=["END_HEADERS"])]),
        ("protocol", lambda talk, number: [frames.PushPromiseFrame(number, 2, data=b"\x88", flags=["END_HEADERS"])]),
        ("protocol", lambda talk, number: [b"\0\0\5\0\x08" + number.to_bytes(4, "big") + b"\x09long"]),
        ("protocol", lambda talk, number: [b"\1\0\0\0\0" + number.to_bytes(4, "big")]),
        ("protocol", lambda talk, number: [b"\0\0\3\4\0\0\0\0\0abc"]),
        ("protocol", lambda talk, number: [b"\0\0\x06\4\0\0\0\0\0\0\2\0\0\0\1"]),
        ("protocol", lambda talk, number: [b"\0\0\x06\4\0\0\0\0\0\0\4\x80\0\0\0"]),
        ("protocol", lambda talk, number: [b"\0\0\4\x08\0\0\0\0\0\0\0\0\0"]),
        ("protocol", lambda talk, number: [b"\0\0\4\x08\0\0\0\0\0\x7f\xff\xff\xff"]),
        ("protocol", lambda talk, number: [b"\0\0\2\7\0\0\0\0\0xx"]),
        ("protocol", lambda talk, number: [b"\0\0\2\6\0\0\0\0\0xx"]),
        ("protocol", lambda talk, number: [b"\0\0\2\3\0" + number.to_bytes(4, "big") + b"xx"]),
        ("protocol", lambda talk, number: [frames.RstStreamFrame(number + 100, error_code=CANCEL)]),
        ("protocol", lambda talk, number: [b"HTTP/1.1 400 Bad Request\r\n\r\n"]),
    ],
)  # fmt: skip
def test_a_wrong_response_is_an_error_of_its_kind(server, kind, wrong):
    """One request at a time: each error is of one request, or of the connection between two."""
    run = h2("-n", 50, "-c", 1, "-t", 1, server(nth(wrong)).url, code=1)
    assert 5 == run.errors[kind] == run.errors["total"], run.json["results"]
    assert list(run.json["results"]["first_errors"]) == [kind]
    assert "5 errors" in run.err


def test_a_wrong_stream_is_an_error_alone(server):
    """Nine others are on its connection."""
    for wrong in (
        lambda talk, number: [frames.RstStreamFrame(number, error_code=CANCEL)],
        lambda talk, number: [talk.head(number, ("content-length", "3")), data(number, b"ok")],
        lambda talk, number: [talk.head(number, ("connection", "close")), data(number, b"ok")],
    ):
        run = h2("-n", 100, "-c", 1, "-t", 1, "-m", 10, server(nth(wrong)).url, code=1)
        assert run.errors["total"] == 10
        assert run.connections_opened == 1
        assert run.statuses == {"200": 90}


def test_a_wrong_connection_loses_all_that_was_under_way(server):
    def break_it(talk, number, count):
        return [b"\0\0\2\6\0\0\0\0\0xx"] if number == 7 else []

    run = h2("-n", 4, "-c", 1, "-t", 1, "-m", 4, server(break_it).url, code=1)
    assert run.errors["protocol"] == run.errors["total"] == 4


def test_a_response_that_does_not_end_is_reset_and_the_others_continue(server):
    def never(talk, number, count):
        return [talk.head(number)] if count == 0 else talk.ok(number)

    one = server(never)
    run = h2("-n", 20, "-c", 1, "-t", 1, "-m", 2, "--timeout", "100ms", one.url, code=1)
    assert run.errors["timeout"] == run.errors["total"] == 1, run.errors
    assert run.json["latency"]["timeouts_included"] == 1
    assert run.requests == run.count() == 20
    assert run.seconds("max") >= 0.097
    assert run.connections_opened == 1


def test_a_stream_that_was_reset_may_still_send(server):
    """Its frames crossed ours: they are none of another request."""

    def respond(talk, number, count):
        return [] if count == 0 else talk.ok(number)

    class Late(Talk):
        def note(self, frame):
            if isinstance(frame, frames.RstStreamFrame):
                assert frame.error_code == CANCEL
                self.send(self.ok(1, b"no"))
            return super().note(frame)

    run = h2("-n", 5, "-c", 1, "-t", 1, "--timeout", "100ms", server(respond, kind=Late).url, code=1)
    assert run.errors["timeout"] == run.errors["total"] == 1
    assert run.statuses == {"200": 4}


def test_a_server_of_http1_is_reported_as_such(stub, server):
    run = h2("-n", 4, "-c", 1, "-t", 1, stub(lambda path, number: OK).url, code=1)
    assert run.errors["connect"] == run.errors["total"] > 0
    assert "the server speaks HTTP/1" in run.first_errors["connect"]
    run = h2("-n", 4, "-c", 1, "-t", 1, stub(lambda path, number: None).url, code=1)
    assert "does it speak HTTP/2?" in run.first_errors["connect"]
    with Peer(lambda peer: (peer.sendall(b"SSH-2.0-OpenSSH\r\n"), read_to_the_end(peer))) as peer:
        run = h2("-n", 4, "-c", 1, "-t", 1, f"http://{peer.address}", code=1)
    assert "does not begin with SETTINGS" in run.first_errors["connect"]


@tls
@pytest.mark.parametrize("offers", [["http/1.1"], []])
def test_a_server_that_refuses_alpn_is_reported_as_such(certificates, offers):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    if offers:
        context.set_alpn_protocols(offers)

    def talk(peer):
        with context.wrap_socket(peer, server_side=True) as secured:
            secured.recv(1)

    with Peer(talk) as peer:
        run = h2("-n", 4, "-c", 1, "-t", 1, f"https://{peer.address}", code=1)
    assert run.errors["connect"] == run.errors["total"] > 0
    assert "ALPN" in run.first_errors["connect"]


def test_options_that_do_not_go_together_are_refused():
    for words, why in (
        (["--h2", "-p", "4", "http://localhost/"], "--streams N"),
        (["-m", "4", "http://localhost/"], "--streams is for --h2"),
        (["--h2", "ws://localhost/"], "--h2 is for http://"),
        (["--h2", "--receive-rate", "10", "http://localhost/"], "HTTP/1"),
        (["--h2", "-m", "0", "http://localhost/"], "1 to 1024"),
    ):
        assert why in load(*words, code=2).err


def test_the_text_says_that_it_is_http2(target):
    words = [LOAD, "--h2", "-m", "8", "-n", "100", "-c", "4", target.url("/")]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "2 threads and 4 connections, HTTP/2, 8 streams each" in done.stdout
