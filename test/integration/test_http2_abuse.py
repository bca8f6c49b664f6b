"""HTTP/2 under attack: what a client cannot make the server do, or keep.

Other attacks are in test_http2_frames.py: malformed and smuggled requests, wrong lengths, floods of PING, SETTINGS, empty
DATA and PRIORITY, many CONTINUATION frames, a reset storm, header lists and targets that are too large, slow prefaces, header
blocks, bodies and acknowledgements, windows that stay closed or open byte by byte, and output that is not read."""
import pytest
from hyperframe import frame as frames

from harness import poll
from wire_h2 import Raw

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT = 0, 1, 2, 3, 4
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11
INITIAL_WINDOW_SIZE = 4


# --- rapid reset (CVE-2023-44487): work counts until it has ended ---


def reset(number):
    return frames.RstStreamFrame(number, error_code=CANCEL)


class Blocked:
    """Handlers of one kind that continue when the test says so."""

    def __init__(self, server, kind, tmp_path):
        self.server, self.kind, self.gate = server, kind, tmp_path / "go"
        self.path = f"/w/wait?go={self.gate}" if kind == "worker" else "/later?key=blocked"

    def let_go(self):
        if self.kind == "worker":
            self.gate.touch()
        else:
            self.server.ask("/release?key=blocked")


@pytest.fixture(params=["worker", "deferred"])
def blocked(request, serve, tmp_path):
    made = Blocked(serve(settings={"http2_concurrent_streams_max": 4}), request.param, tmp_path)
    yield made
    made.let_go()


def start(client, blocked, *numbers):
    """In an iteration of their own: of what was reset in the same one no thread hears."""
    client.send(*[client.headers(number, path=blocked.path) for number in numbers])
    client.sync()


def is_admitted(client, number):
    client.request(number, path="/empty/204")
    while True:
        frame = client.until((frames.HeadersFrame, frames.RstStreamFrame), number)
        if isinstance(frame, frames.HeadersFrame):
            client.decoder.decode(frame.data)
            return True
        assert frame.error_code == REFUSED_STREAM
        return False


@pytest.mark.threads
def test_work_of_reset_streams_counts_until_it_has_ended(blocked):
    with Raw(blocked.server.address) as client:
        start(client, blocked, 1, 3, 5, 7)
        client.send(reset(1), reset(3), reset(5), reset(7))
        assert not is_admitted(client, 9)
        assert not is_admitted(client, 11)
        assert blocked.server.counter("http2_streams_refused") == 2
        blocked.let_go()
        numbers = iter(range(13, 20000, 2))
        poll(lambda: is_admitted(client, next(numbers)))
        start(client, blocked, next(numbers))


@pytest.mark.threads
def test_work_of_reset_streams_counts_in_addition_to_streams(blocked):
    with Raw(blocked.server.address) as client:
        start(client, blocked, 1, 3)
        client.send(reset(1), reset(3))
        start(client, blocked, 5, 7)
        assert not is_admitted(client, 9)
        client.send(reset(5))
        assert not is_admitted(client, 11)


@pytest.mark.threads
def test_work_may_outlive_the_connection_that_has_reset_it(blocked):
    for _ in range(3):
        with Raw(blocked.server.address) as client:
            start(client, blocked, 1, 3, 5, 7)
            client.send(reset(1), reset(3))
            client.sync()
    poll(lambda: blocked.server.counter("aborted") == 12)
    blocked.let_go()
    with Raw(blocked.server.address) as client:
        assert is_admitted(client, 1)


# --- memory ---


def resets_until_sync(client):
    """Codes by stream."""
    client.sync()
    return {frame.stream_id: frame.error_code for frame in client.seen if isinstance(frame, frames.RstStreamFrame)}


def test_bodies_that_are_hoarded_count_as_memory(serve):
    server = serve()
    with Raw(server.address) as client:
        client.send(*[client.headers(number, flags=["END_HEADERS"], method="POST", path="/body") for number in range(1, 201, 2)])
        for _ in range(4):
            for number in range(1, 201, 2):
                client.send(frames.DataFrame(number, data=b"x" * 15000))
        resets = resets_until_sync(client)
        assert set(resets.values()) == {ENHANCE_YOUR_CALM}
        # Of each body at most 60,000 bytes, and the buffer is no smaller: 64 KiB of it when the bytes come in other pieces.
        assert 5 < 100 - len(resets) <= 2 ** 20 // 60000
        assert server.counter("http2_memory_exceeded") == len(resets)
        client.send(*[reset(number) for number in range(1, 201, 2) if number not in resets])
        assert is_admitted(client, 201)


def test_one_body_may_be_as_large_as_it_may_over_http_1(serve):
    server = serve(settings={"http2_connection_memory_max": 65536})
    with Raw(server.address) as client:
        client.send(client.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
        for number in range(50):
            client.send(frames.DataFrame(1, data=b"x" * 10000))
            if number % 20 == 19:  # within the window, should the server not get the CPU
                client.sync()
        assert not is_admitted(client, 3)
        client.send(frames.DataFrame(1, flags=["END_STREAM"]))
        assert client.status(1) == 200
    assert server.counter("http2_memory_exceeded") == 1


def test_responses_that_wait_for_a_closed_window_count_as_memory(serve):
    server = serve()
    with Raw(server.address, settings={INITIAL_WINDOW_SIZE: 0}) as client:
        client.send(*[client.headers(number, path="/copy?size=200000") for number in range(1, 41, 2)])
        resets = resets_until_sync(client)
        assert list(resets.values()).count(ENHANCE_YOUR_CALM) == 1  # and no more is admitted
        assert list(resets.values()).count(REFUSED_STREAM) == 14
        assert server.counter("http2_memory_exceeded") == 15
        client.send(reset(1))
        client.sync()
        client.request(41, path="/copy?size=190000")
        client.until(frames.HeadersFrame, 41)
        assert len(resets_until_sync(client)) == 15


def test_a_window_that_cannot_open_any_more_holds_nothing(serve):
    server = serve()
    with Raw(server.address, settings={INITIAL_WINDOW_SIZE: 0}) as client:
        client.request(1, path="/copy?size=200000")
        client.until(frames.HeadersFrame, 1)
        client.sync()
    poll(lambda: server.counter("aborted") == 1, seconds=2)


def test_a_header_bomb_that_a_closed_window_holds_is_bounded(serve):
    server = serve()
    with Raw(server.address, settings={INITIAL_WINDOW_SIZE: 0}) as client:
        fields = [("x-bomb", "v" * 3900)] * 7  # an index of one byte each, after the first
        client.request(1, path="/n/1", fields=fields)
        blocks = [client.headers(number, path="/n/1", fields=fields) for number in range(3, 201, 2)]
        assert all(len(block.data) < 40 for block in blocks)
        client.send(*blocks)
        resets = resets_until_sync(client)
        assert set(resets.values()) == {REFUSED_STREAM}
        assert 100 - len(resets) <= 40
        assert server.counter("http2_memory_exceeded") == len(resets)


# --- floods ---


def until_calmed(client, send):
    """Sends until the server has closed."""
    try:
        for round in range(5000):
            send(round)
    except OSError:
        pass
    client.expect_goaway(ENHANCE_YOUR_CALM)


def priority_update(number):
    payload = number.to_bytes(4, "big") + b"u=1"
    return len(payload).to_bytes(3, "big") + b"\x10\0\0\0\0\0" + payload


@pytest.mark.parametrize("what", ["window update", "stream's window update", "padding", "priority update", "unknown"])
def test_more_floods_of_what_brings_nothing_end_the_connection(serve, what):
    server = serve()
    flood = {
        "window update": frames.WindowUpdateFrame(0, window_increment=1).serialize(),
        "stream's window update": frames.WindowUpdateFrame(1, window_increment=1).serialize(),
        "padding": frames.DataFrame(1, pad_length=1, flags=["PADDED"]).serialize(),
        "priority update": priority_update(1001),
        "unknown": b"\0\0\1\x42\0\0\0\0\1x",
    }[what]
    with Raw(server.address) as client:
        client.send(client.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
        until_calmed(client, lambda _: client.send(flood * 100))
    assert server.counter("http2_control_floods") == 1


def test_replies_that_nobody_reads_are_bounded(serve):
    server = serve()
    growth = server.memory_growth()
    with Raw(server.address, receive_buffer=4096) as client:
        try:
            for _ in range(100):
                client.send(frames.PingFrame(0, opaque_data=b"12345678").serialize() * 500)
        except OSError:
            pass  # the server has closed
        poll(lambda: server.counter("http2_connection_errors") == 1)
    assert server.counter("http2_control_floods") + server.counter("http2_control_overflows") == 1
    growth.stays_below(2 << 20)


def test_resets_that_the_client_provokes_end_the_connection(serve):
    """CVE-2025-8671: the server is made to reset."""
    server = serve(settings={"http2_resets_max": 50})

    def provoke(round):
        number = 3 + 2 * round
        client.send(client.headers(number, path="/later?key=never"), frames.WindowUpdateFrame(number, window_increment=0).serialize())

    with Raw(server.address) as client:
        until_calmed(client, provoke)
    assert server.counter("http2_reset_floods") == 1
    server.ask("/release?key=never")


def test_slow_continuations_do_not_buy_time(serve):
    server = serve(settings={"connection_timeout": 1})
    with Raw(server.address) as client:
        client.send(frames.HeadersFrame(1, data=client.block()[:2]))
        client.socket.settimeout(0.3)
        for _ in range(30):  # with each of which its time would begin again
            client.send(frames.ContinuationFrame(1, data=b""))
            try:
                client.until(frames.GoAwayFrame)
                break
            except TimeoutError:
                pass
        assert client.seen[-1].error_code == ENHANCE_YOUR_CALM
    assert server.counter("timeouts_header") == 1


# --- header compression ---


@pytest.mark.parametrize(
    "block",
    [
        b"\x3f\xe2\x1f",  # a table of 4097 bytes
        b"\x20\x20\x20\x82",  # three size updates
        b"\x82\x20",  # one behind a field
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # an index beyond 2^32
        b"\xbe",  # an index of no entry
        b"\x80",  # index 0
        b"\x00\x7f\xff\xff\xff\x07a",  # a name of half a gigabyte
        b"\x00\x84\xff\xff\xff\xff\x01a",  # EOS
        b"\x00\x82\x1f\xff\x01a",  # padding of more than 7 bits
    ],
)
def test_blocks_that_cannot_be_decoded_end_the_connection(server, block):
    with Raw(server.address) as client:
        client.send(frames.HeadersFrame(1, data=block, flags=["END_HEADERS", "END_STREAM"]))
        client.expect_goaway(COMPRESSION_ERROR)


# --- smuggling into the semantics of HTTP/1 ---


HEAD = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")]


@pytest.mark.parametrize(
    "fields",
    [
        [(":method", "GET / HTTP/1.1\r\nx: y"), *HEAD[1:]],
        [*HEAD[:2], (":path", "/ HTTP/1.1\r\nx: y"), HEAD[3]],
        [*HEAD[:3], (":authority", "a\r\nx: y")],
        [*HEAD, ("x\r\ny", "1")],
        [*HEAD, ("x:y", "1")],
        [*HEAD, ("", "1")],
        [*HEAD, ("x", "a\nb")],
        [*HEAD, ("x", "a\0b")],
        [*HEAD, ("x", " a")],
        [*HEAD, ("content-length", "+0")],
        [*HEAD, ("content-length", "0, 1")],
        [*HEAD, ("content-length", "0x0")],
        [*HEAD, ("upgrade", "h2c")],
        [*HEAD, ("keep-alive", "1")],
        [*HEAD, ("proxy-connection", "keep-alive")],
        [*HEAD, HEAD[2]],
    ],
)
def test_what_another_server_could_read_otherwise_resets_the_stream(server, fields):
    with Raw(server.address) as client:
        client.send(frames.HeadersFrame(1, data=client.encoder.encode(fields), flags=["END_HEADERS", "END_STREAM"]))
        client.expect_reset(1, PROTOCOL_ERROR)
        assert is_admitted(client, 3)
