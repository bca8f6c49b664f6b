"""HTTP/2, frame by frame: what a client must not do, what it may do slowly, and what it costs."""
import time

import pytest
from hyperframe import frame as frames

from harness import poll
from wire_h2 import PREFACE, Closed, Raw

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT = 0, 1, 2, 3, 4
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11
INITIAL_WINDOW_SIZE = 4


@pytest.fixture
def raw(server):
    with Raw(server.address) as one:
        yield one


def lives(client, number):
    """The connection serves another request."""
    client.request(number)
    assert client.status(number) == 200


# --- malformed requests: an error of the stream ---


@pytest.mark.parametrize(
    "fields",
    [
        [(":method", "GET"), (":scheme", "http"), (":path", "/")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("X-Upper", "1")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("connection", "close")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("te", "gzip")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("host", "b")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("x", "a\r\nb: c")],
        [(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "a")],
        [(":method", "GET"), (":scheme", "http"), (":path", "x"), (":authority", "a")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("transfer-encoding", "chunked")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("content-length", "1"), ("content-length", "2")],
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), (":unknown", "1")],
        [("x", "1"), (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
    ],
)
def test_a_malformed_request_resets_its_stream_alone(raw, fields):
    raw.send(frames.HeadersFrame(1, data=raw.encoder.encode(fields), flags=["END_HEADERS", "END_STREAM"]))
    raw.expect_reset(1, PROTOCOL_ERROR)
    lives(raw, 3)


def test_too_large_a_head_is_431_and_the_table_stays_right(raw):
    raw.request(1, fields=[(f"x-{i}", "v" * 100) for i in range(120)])
    assert raw.status(1) == 431
    raw.request(3, fields=[("x-1", "v" * 100), ("x-new", "1")])
    assert raw.status(3) == 200
    lives(raw, 5)


def test_too_long_a_target_is_414(raw):
    raw.request(1, path="/" + "a" * 9000)
    assert raw.status(1) == 414
    lives(raw, 3)


@pytest.mark.parametrize("announced, sent", [(5, 4), (5, 6), (0, 1), (3, 0)])
def test_a_body_of_another_length_than_announced_resets_the_stream(raw, announced, sent):
    raw.send(raw.headers(1, flags=["END_HEADERS"], method="POST", path="/body", fields=[("content-length", str(announced))]))
    raw.send(frames.DataFrame(1, data=b"x" * sent, flags=["END_STREAM"]))
    raw.expect_reset(1, PROTOCOL_ERROR)
    lives(raw, 3)


def test_trailers_reach_the_request(raw):
    raw.send(raw.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
    raw.send(frames.DataFrame(1, data=b"body"))
    raw.send(frames.HeadersFrame(1, data=raw.encoder.encode([("x-sum", "6")]), flags=["END_HEADERS", "END_STREAM"]))
    assert raw.status(1) == 200
    assert raw.until(frames.DataFrame, 1).data == b"body"


def test_a_pseudo_field_in_trailers_resets_the_stream(raw):
    raw.send(raw.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
    raw.send(frames.HeadersFrame(1, data=raw.encoder.encode([(":path", "/")]), flags=["END_HEADERS", "END_STREAM"]))
    raw.expect_reset(1, PROTOCOL_ERROR)
    lives(raw, 3)


def test_connect_is_not_served(raw):
    raw.send(frames.HeadersFrame(1, data=raw.encoder.encode([(":method", "CONNECT"), (":authority", "a:1")]), flags=["END_HEADERS"]))
    assert raw.status(1) == 501
    lives(raw, 3)


# --- errors of the connection ---


def test_a_header_block_that_cannot_be_decoded_ends_the_connection(raw):
    raw.send(frames.HeadersFrame(1, data=b"\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS", "END_STREAM"]))
    raw.expect_goaway(COMPRESSION_ERROR)
    assert not [frame for frame in raw.seen if isinstance(frame, frames.RstStreamFrame)]


def test_the_block_of_a_refused_stream_is_decoded(serve):
    server = serve(settings={"http2_concurrent_streams_max": 1})
    with Raw(server.address) as client:
        client.request(1, path="/later?key=a")
        client.sync()
        client.request(3, path="/n/7", fields=[("x-into-the-table", "1")])
        client.expect_reset(3, REFUSED_STREAM)
        assert server.ask("/release?key=a").text == "1"
        assert client.status(1) == 200
        client.request(5, path="/n/7", fields=[("x-into-the-table", "1")])  # by the index that the refused one has made
        assert client.status(5) == 200
    assert server.counter("http2_streams_refused") == 1


def test_more_body_than_the_window_ends_the_connection_or_stream(serve):
    server = serve(settings={"http2_stream_window": 16384})
    with Raw(server.address) as client:
        client.send(client.headers(1, flags=["END_HEADERS"], method="POST", path="/later?key=x"))
        for _ in range(100):
            client.send(frames.DataFrame(1, data=b"x" * 16384))
            try:
                client.sync()
            except Closed:
                break
        assert server.counter("http2_windows_exceeded") <= 1  # a body that is collected returns its credit


# --- time ---


def test_settings_that_are_not_acknowledged_end_the_connection(serve):
    server = serve(settings={"connection_timeout": 1})
    with Raw(server.address, quiet=True) as client:
        client.send(PREFACE, frames.SettingsFrame(0))
        client.expect_goaway(SETTINGS_TIMEOUT)
    assert server.counter("timeouts_header") == 1


def test_a_preface_that_does_not_come_ends_the_connection(serve):
    server = serve(settings={"connection_timeout": 1})
    with Raw(server.address, quiet=True) as client:
        client.send(PREFACE[:10])
        assert client.rest() == []
    assert server.counter("timeouts_header") == 1


def test_a_header_block_that_does_not_become_whole_ends_the_connection(serve):
    server = serve(settings={"connection_timeout": 2})
    with Raw(server.address) as client:
        time.sleep(0.3)  # the connection is older than its block, so that its own time ends before that of the block
        block = client.block()
        client.send(frames.HeadersFrame(1, data=block[:3], flags=["END_STREAM"]))
        client.expect_goaway(ENHANCE_YOUR_CALM)
    assert server.counter("timeouts_header") == 1


def test_a_client_whose_writes_always_end_inside_a_frame_is_served(serve):
    server = serve(settings={"connection_timeout": 1})

    def is_served():
        """Each frame becomes whole in time, unless the machine stands still in between."""
        before, begun, rest, number = server.counter("timeouts_header"), [time.monotonic()], b"", 1
        with Raw(server.address) as client:
            try:
                while begun[-1] < begun[0] + 2:
                    request = client.headers(number, path="/empty/204").serialize()
                    begun.append(time.monotonic())
                    client.send(rest + request[:12])
                    rest = request[12:]
                    if number > 1:
                        assert client.status(number - 2) == 204
                    number += 2
                client.send(rest)
                assert client.status(number - 2) == 204
            except (Closed, OSError):
                assert time.monotonic() - begun[-2] > 0.9, "the time of no frame was over"
                return False
        return server.counter("timeouts_header") == before

    poll(is_served, seconds=60)


def test_a_response_whose_window_stays_closed_is_reset(serve):
    server = serve(settings={"write_timeout": 1, "min_send_rate": "never"})
    with Raw(server.address, settings={INITIAL_WINDOW_SIZE: 0}) as client:
        client.request(1, path="/static?size=10")
        assert client.status(1) == 200
        client.expect_reset(1, CANCEL)
        client.request(3, path="/empty/204")  # the connection continues
        assert client.status(3) == 204
    assert server.counter("timeouts_write") == 1


def test_a_response_that_is_received_too_slowly_is_reset(serve):
    server = serve(settings={"min_send_rate": 1000, "rate_grace": 1})
    with Raw(server.address, settings={INITIAL_WINDOW_SIZE: 0}) as client:
        client.request(1, path="/static?size=100000")
        assert client.status(1) == 200
        deadline = time.monotonic() + 15
        while not any(isinstance(frame, frames.RstStreamFrame) for frame in client.seen):
            assert time.monotonic() < deadline
            client.send(frames.WindowUpdateFrame(1, window_increment=1))
            client.sync()
            time.sleep(0.05)
    assert server.counter("slow_write") == 1


def test_a_body_that_does_not_come_is_408(serve):
    server = serve(settings={"body_timeout": 1, "min_receive_rate": "never"})
    with Raw(server.address) as client:
        client.send(client.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
        assert client.status(1) == 408
        client.expect_reset(1, NO_ERROR)
        lives(client, 3)
    assert server.counter("timeouts_body") == 1


# --- floods ---


def test_a_reset_storm_ends_the_connection(serve):
    server = serve(settings={"http2_resets_max": 50})
    with Raw(server.address) as client:
        try:
            for number in range(1, 4000, 2):
                client.send(client.headers(number, path="/later?key=never"), frames.RstStreamFrame(number, error_code=CANCEL))
        except OSError:
            pass  # the server has closed
        client.expect_goaway(ENHANCE_YOUR_CALM)
    assert server.counter("http2_reset_floods") == 1
    poll(lambda: server.counter("test_on_abort") > 0)
    server.ask("/release?key=never")


@pytest.mark.parametrize("what", ["ping", "settings", "empty data", "priority"])
def test_floods_of_what_brings_nothing_end_the_connection(serve, what):
    server = serve()
    flood = {
        "ping": frames.PingFrame(0, opaque_data=b"12345678"),
        "settings": frames.SettingsFrame(0),
        "empty data": frames.DataFrame(1),
        "priority": frames.PriorityFrame(1, depends_on=0, stream_weight=1),
    }[what].serialize()
    with Raw(server.address) as client:
        client.send(client.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
        try:
            for _ in range(2000):
                client.send(flood * 500)
        except OSError:
            pass
        client.expect_goaway(ENHANCE_YOUR_CALM)
    assert server.counter("http2_control_floods") + server.counter("http2_control_overflows") == 1


def test_many_continuations_end_the_connection(serve):
    server = serve()
    with Raw(server.address) as client:
        client.send(frames.HeadersFrame(1, data=client.block()[:2]))
        try:
            for _ in range(10000):
                client.send(frames.ContinuationFrame(1, data=b""))
        except OSError:
            pass
        client.expect_goaway(ENHANCE_YOUR_CALM)
    assert server.counter("http2_continuation_floods") == 1


def test_what_zero_windows_hold_is_bounded(serve):
    server = serve()
    growth = server.memory_growth()
    clients = []
    for _ in range(10):
        client = Raw(server.address, settings={INITIAL_WINDOW_SIZE: 0})
        clients.append(client)
        client.send(*[client.headers(number, path=f"/n/{number}", fields=[("x", "v" * 4000)]) for number in range(1, 201, 2)])
        client.sync()
    growth.stays_below(10 * (2 << 20))
    for client in clients:
        client.socket.close()


def test_reading_continues_while_another_client_reads_nothing(serve):
    server = serve()
    with Raw(server.address, settings={INITIAL_WINDOW_SIZE: 2**31 - 1}, receive_buffer=4096) as greedy, Raw(server.address) as other:
        greedy.send(frames.WindowUpdateFrame(0, window_increment=2**30))
        for number in range(1, 101, 2):
            greedy.request(number, path="/static?size=1000000")
        for number in range(1, 41, 2):
            lives(other, number)


# --- header tables of the client ---


def sizes(*values):
    return b"".join(b"\x00\x01" + value.to_bytes(4, "big") for value in values)


def settings_of(*values):
    payload = sizes(*values)
    return len(payload).to_bytes(3, "big") + b"\x04\x00\x00\x00\x00\x00" + payload


@pytest.mark.parametrize(
    "values, updates",
    [([0, 4096], b"\x20\x3f\xe1\x1f"), ([100, 0, 200], b"\x20\x3f\xa9\x01"), ([200, 100], b"\x3f\x45"), ([4096, 65536], b"")],
)
def test_the_smallest_table_of_one_settings_frame_is_signalled(raw, values, updates):
    """RFC 7541 section 4.2: both the smallest and the last size that hold since the block before."""
    raw.request(1)
    assert raw.status(1) == 200
    raw.send(settings_of(*values))
    raw.request(3)
    block = raw.until(frames.HeadersFrame, 3).data
    assert block.startswith(updates) and (block[len(updates)] & 0xE0) != 0x20, block
    assert dict(raw.decoder.decode(block))[":status"] == "200"


# --- the end ---


@pytest.mark.parametrize("served", [0, 1])
def test_a_client_that_says_goaway_receives_one(raw, served):
    """RFC 9113 section 6.8: it names what was served."""
    if served:
        raw.request(1)
        assert raw.status(1) == 200
    raw.send(frames.GoAwayFrame(0, last_stream_id=0, error_code=NO_ERROR))
    assert raw.expect_goaway(NO_ERROR).last_stream_id == served


# --- large heads ---


def large_head(client, number, count, size):
    """`count` fields with values of `size` bytes, in as few frames as possible."""
    head = [(":method", "GET"), (":scheme", "http"), (":authority", "test"), (":path", "/")]
    block = client.encoder.encode(head + [(f"x-{i}", "~" * size) for i in range(count)], huffman=False)
    parts = [block[at : at + 16384] for at in range(0, len(block), 16384)]
    found = [frames.HeadersFrame(number, data=parts[0], flags=["END_STREAM"])]
    found += [frames.ContinuationFrame(number, data=part) for part in parts[1:]]
    found[-1].flags.add("END_HEADERS")
    return found


def test_a_head_above_the_maximum_is_431_even_if_its_block_is_large(raw):
    raw.send(*large_head(raw, 1, 12, 4000))
    assert raw.status(1) == 431
    lives(raw, 3)


@pytest.mark.parametrize("size, count", [(65536, 15), (262144, 60), (1 << 20, 80)])
def test_a_head_within_a_configured_maximum_is_served(serve, size, count):
    server = serve(settings={"http2_header_list_size_max": size, "http2_connection_memory_max": 8 << 20})
    with Raw(server.address) as client:
        client.send(*large_head(client, 1, count, size // count - 200))
        assert client.status(1) == 200
        lives(client, 3)
