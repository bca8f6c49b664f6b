"""WebSocket over HTTP/2 (RFC 8441): what is refused, windows both ways, ends, and other streams next to it. The tests of
messages themselves are those of test_websocket*.py, which run over HTTP/2 as well."""
import os
import signal
import struct

import h2.errors
import h2.settings
import pytest
from hyperframe import frame as frames

import wire
from test_websocket import BINARY, CLOSE, PING, PONG, TEXT, Raw, closes, frame, start, wait_close
from test_websocket import pytestmark  # noqa: F401
from wire_h2 import Client, Raw as RawHttp2, Tunnel

Codes = h2.errors.ErrorCodes
FIELDS = [("sec-websocket-version", "13")]
INITIAL_WINDOW_SIZE = 4
ENABLE_CONNECT_PROTOCOL = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    one = start(tmp_path_factory.mktemp("websocket"), "http2")
    yield one
    one.stop()


@pytest.fixture
def own_server(tmp_path):
    one = start(tmp_path, "http2")
    yield one
    one.stop()


def connect_block(client, protocol="websocket", path="/echo", scheme="http", method="CONNECT", authority="test", fields=FIELDS):
    head = [(":method", method), (":protocol", protocol), (":scheme", scheme), (":path", path), (":authority", authority)]
    return client.encoder.encode([field for field in head if field[1] is not None] + fields)


def connect(client, number, end=False, **options):
    flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
    client.send(frames.HeadersFrame(number, data=connect_block(client, **options), flags=flags))


# --- what is refused ---


def test_the_setting_is_announced_by_a_server_that_has_websockets(server, serve):
    for address, announced in ((server.address, 1), (serve("hello").address, None)):
        with RawHttp2(address) as client:
            settings = next(one for one in client.seen if isinstance(one, frames.SettingsFrame))
            assert settings.settings.get(ENABLE_CONNECT_PROTOCOL) == announced


def test_without_the_setting_it_is_malformed(serve):
    with RawHttp2(serve("hello").address) as client:
        connect(client, 1)
        client.expect_reset(1, Codes.PROTOCOL_ERROR)
        client.request(3)
        assert client.status(3) == 200


@pytest.mark.parametrize(
    "options",
    [{"scheme": None}, {"path": None}, {"authority": None}, {"path": "echo"}, {"path": ""}, {"method": "GET"}, {"protocol": "web socket"}],
    ids=lambda options: "-".join(options),
)
def test_what_is_malformed_is_reset(server, options):
    with RawHttp2(server.address) as client:
        connect(client, 1, **options)
        client.expect_reset(1, Codes.PROTOCOL_ERROR)
        client.request(3, path="/closes")
        assert client.status(3) == 200


@pytest.mark.parametrize("protocol", ["connect-udp", "websockets", "h2c"])
def test_another_protocol_is_not_implemented(server, protocol):
    with RawHttp2(server.address) as client:
        connect(client, 1, protocol=protocol)
        assert client.status(1) == 501


def test_plain_connect_stays_refused(server):
    with RawHttp2(server.address) as client:
        block = client.encoder.encode([(":method", "CONNECT"), (":authority", "example.com:443")])
        client.send(frames.HeadersFrame(1, data=block, flags=["END_HEADERS"]))
        assert client.status(1) == 501


@pytest.mark.parametrize(
    "path,fields,status",
    [
        ("/nothing", FIELDS, 404),
        ("/closes", FIELDS, 501),  # a route, but none of WebSocket: 200 would say that it was opened
        ("/echo", [], 426),
        ("/echo", [("sec-websocket-version", "8")], 426),
        ("/default", [*FIELDS, ("origin", "http://elsewhere.example")], 403),
        ("/name/evil", FIELDS, 401),
    ],
)
def test_the_handshake_is_checked(server, path, fields, status):
    with RawHttp2(server.address) as client:
        connect(client, 1, path=path, fields=fields)
        assert client.status(1) == status
        connect(client, 3)
        assert client.status(3) == 200


def test_the_response_has_no_field_of_a_connection(server):
    tunnel = Tunnel(server.address, "/talk", [*FIELDS, ("Sec-WebSocket-Protocol", "chat.v1")])
    names = {name for name, _ in tunnel.response.fields}
    assert dict(tunnel.response.fields)["sec-websocket-protocol"] == "chat.v1"
    assert not names & {"connection", "upgrade", "content-length", "sec-websocket-accept"}
    tunnel.close()


# --- windows ---


def test_a_message_larger_than_all_windows_goes_both_ways(server):
    payload = os.urandom(900_000)
    with Raw(server, "/echo") as client:
        for _ in range(3):
            client.send(frame(BINARY, payload))
            client.expect(BINARY, payload)


def test_a_narrow_window_is_kept_to(server):
    with RawHttp2(server.address, settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 10}) as client:
        connect(client, 1)
        assert client.status(1) == 200
        client.send(frames.DataFrame(1, data=frame(BINARY, bytes(range(100)))))
        found = b""
        while len(found) < 102:
            data = client.until(frames.DataFrame, 1)
            assert len(data.data) <= 10
            found += data.data
            client.send(frames.WindowUpdateFrame(1, window_increment=len(data.data)))
        assert found == bytes([0x80 | BINARY, 100]) + bytes(range(100))


def test_bytes_before_the_response_are_kept(server):
    with Raw(server, "/group/echo", early=frame(TEXT, b"early") + frame(PING, b"x")) as client:
        client.expect(TEXT, b"early")
        client.expect(PONG, b"x")


def test_streams_of_one_connection_do_not_wait_for_each_other(server):
    with Client(server.address) as client:
        tunnels = [client.connect("/echo", FIELDS) for _ in range(20)]
        for message in range(5):
            for number in tunnels:
                client.send(number, frame(TEXT, b"%d.%d" % (number, message)))
            assert client.get("/closes").status == 200
        for number in tunnels:
            expected = b"".join(bytes([0x81, len(b"%d.%d" % (number, i))]) + b"%d.%d" % (number, i) for i in range(5))
            client.until(lambda: len(client.responses[number].body) >= len(expected))
            assert client.responses[number].body == expected


# --- ends ---


def test_an_end_of_the_stream_is_an_end_without_close(server):
    closes(server)
    with Raw(server, "/default") as client:
        client.connection.end()
        client.expect_end()
    wait_close(server, "1006 \n")


def test_a_reset_ends_only_its_stream(server):
    closes(server)
    with RawHttp2(server.address) as client:
        connect(client, 1, path="/default")
        connect(client, 3)
        assert (client.status(1), client.status(3)) == (200, 200)
        client.send(frames.RstStreamFrame(1, error_code=Codes.CANCEL), frames.DataFrame(3, data=frame(TEXT, b"still")))
        assert client.until(frames.DataFrame, 3).data == b"\x81\x05still"
    wait_close(server, "1006 \n")


def test_trailers_are_no_frame_of_a_tunnel(server):
    closes(server)
    with RawHttp2(server.address) as client:
        connect(client, 1, path="/default")
        assert client.status(1) == 200
        block = client.encoder.encode([("x", "y")])
        client.send(frames.HeadersFrame(1, data=block, flags=["END_HEADERS", "END_STREAM"]))
        client.expect_reset(1, Codes.PROTOCOL_ERROR)
        client.request(3, path="/closes")
        assert client.status(3) == 200


def test_after_the_close_the_stream_ends_and_the_connection_continues(server):
    with RawHttp2(server.address) as client:
        connect(client, 1)
        assert client.status(1) == 200
        client.send(frames.DataFrame(1, data=frame(CLOSE, struct.pack("!H", 1000))))
        data = b""
        while True:
            one = client.until(frames.DataFrame, 1)
            data += one.data
            if "END_STREAM" in one.flags:
                break
        assert data == b"\x88\x02" + struct.pack("!H", 1000)
        client.send(frames.DataFrame(1, data=b"", flags=["END_STREAM"]))
        client.sync()
        assert not any(isinstance(one, frames.RstStreamFrame) for one in client.seen)
        client.request(3, path="/closes")
        assert client.status(3) == 200


def test_a_server_that_stops_lets_them_end_behind_goaway(own_server):
    tunnel = Tunnel(own_server.address, "/default", FIELDS)
    own_server.close_control()
    own_server.signal(signal.SIGTERM)
    assert tunnel._take(4) == b"\x88\x02" + struct.pack("!H", 1001)
    assert tunnel.client.goaway
    tunnel.send(frame(CLOSE, struct.pack("!H", 1001)))
    with pytest.raises(wire.Closed):
        tunnel._take(1)
    assert tunnel.response.ended
    tunnel.end()
    assert tunnel.client.ended()
    assert own_server.wait() == 0


def test_an_opened_websocket_is_counted_and_a_client_that_vanishes_is_noticed(own_server):
    tunnel = Tunnel(own_server.address, "/default", FIELDS)
    assert own_server.counter("upgrades") == 1
    tunnel.close()
    wait_close(own_server, "1006 \n")


def test_messages_that_wait_for_closed_windows_count_as_memory(own_server):
    with RawHttp2(own_server.address, settings={INITIAL_WINDOW_SIZE: 0}) as client:
        message = frame(BINARY, bytes(60000))
        for number in range(1, 61, 2):
            connect(client, number, path="/default")
            assert client.status(number) == 200
            for at in range(0, len(message), 16384):
                client.send(frames.DataFrame(number, data=message[at : at + 16384]))
            client.sync()
        resets = [one for one in client.seen if isinstance(one, frames.RstStreamFrame)]
        assert {one.error_code for one in resets} == {Codes.ENHANCE_YOUR_CALM}
        assert 0 < len(resets) < 30 and own_server.counter("http2_memory_exceeded") == len(resets)
