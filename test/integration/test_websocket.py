"""WebSocket: the handshake, what a client of other people's makes of it, and frames that no such client would send."""
import asyncio
import contextlib
import os
import signal
import struct
import time

import pytest

import harness
import wire
import wire_h2

websockets = pytest.importorskip("websockets")
PROGRAM = harness.TEST_PROGRAMS / "websocket_test_server"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without WebSocket")

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", KEY)]


def start(directory, carrier, loops=1):
    """carrier: what the clients of the server (Raw) use below WebSocket."""
    address = (harness.HOST, harness.free_port())
    one = harness.Server([PROGRAM, "%s:%d" % address, str(loops)], address, directory / "websocket.stderr").wait_ready()
    one.carrier = carrier
    return one


@pytest.fixture(scope="module", params=harness.protocols())
def carrier(request):
    return request.param


@pytest.fixture(scope="module")
def server(tmp_path_factory, carrier):
    one = start(tmp_path_factory.mktemp("websocket"), carrier)
    yield one
    one.stop()


@pytest.fixture
def own_server(tmp_path, carrier):
    one = start(tmp_path, carrier)
    yield one
    one.stop()


@pytest.fixture
def http1_only(carrier):
    if carrier != "http1":
        pytest.skip("about the bytes of HTTP/1.1, or with a client that speaks nothing else")


def frame(opcode, payload=b"", fin=True, reserved=0, mask=b"\x12\x34\x56\x78", length=None):
    """length: bytes to write instead of the shortest form; mask None: none."""
    size = len(payload)
    if length is None:
        length = bytes([size]) if size < 126 else b"\x7e" + struct.pack("!H", size) if size < 65536 else b"\x7f" + struct.pack("!Q", size)
    head = bytes([fin << 7 | reserved << 4 | opcode, length[0] | (0x80 if mask else 0)]) + length[1:]
    if mask:
        payload = bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))
    return head + (mask or b"") + payload


class Raw:
    """A client that sends the given bytes, and reads frames strictly."""

    def __init__(self, server, target, headers=(), early=b"", **options):
        if server.carrier == "http2":
            self.open_tunnel(server, target, headers, early, options)
            return
        self.connection = server.connect(**options)
        self.connection.send(wire.head("GET", target, [*HANDSHAKE, *headers], host="test") + early)
        while b"\r\n\r\n" not in self.connection.buffer:
            self.connection._more()
        head, _, rest = bytes(self.connection.buffer).partition(b"\r\n\r\n")
        self.connection.buffer[:] = rest
        self.head = head.decode("latin-1")
        assert self.head.startswith("HTTP/1.1 101 "), self.head

    def open_tunnel(self, server, target, headers, early, options):
        fields = [("Sec-WebSocket-Version", "13"), *headers]
        self.connection = wire_h2.Tunnel(server.address, target, fields, early, **options)
        head = self.connection.response.fields
        self.head = "\r\n".join(f"{name.title().replace('Websocket', 'WebSocket')}: {value}" for name, value in head)
        assert (":status", "200") in head, head

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, data):
        self.connection.send(data)

    def read(self):
        first, second = self.connection._take(2)
        assert first & 0x70 == 0 and not second & 0x80, "reserved bits, or masked"
        size = second & 0x7F
        if size > 125:
            assert first & 8 == 0
            size = int.from_bytes(self.connection._take(2 if size == 126 else 8), "big")
        return first & 15, self.connection._take(size), bool(first & 0x80)

    def expect(self, opcode, payload):
        assert self.read() == (opcode, payload, True)

    def expect_close(self, code, reason=b""):
        self.expect(CLOSE, struct.pack("!H", code) + reason if code else b"")

    def expect_end(self):
        with pytest.raises(wire.Closed):
            self.connection._take(1)


def closes(server):
    return server.ask("/closes").text


def wait_close(server, text):
    seen = []
    harness.poll(lambda: (seen.append(closes(server)), text in "".join(seen))[1], message=f"no {text!r} in {seen}")


# --- the handshake ---


@pytest.mark.usefixtures("http1_only")
def test_the_handshake_of_the_rfc(server):
    with Raw(server, "/echo") as client:
        assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in client.head
        assert "Upgrade: websocket" in client.head and "Connection: Upgrade" in client.head
        assert "Sec-WebSocket-Protocol" not in client.head and "Content-Length" not in client.head


def without(name, value=None):
    fields = [field for field in HANDSHAKE if field[0] != name]
    return fields + ([(name, value)] if value is not None else [])


@pytest.mark.parametrize(
    "fields,status,counter",
    [
        ([], 426, "rejected_ws_version"),
        (without("Upgrade"), 426, "rejected_ws_version"),
        (without("Upgrade", "h2c"), 426, "rejected_ws_version"),
        (without("Connection"), 426, "rejected_ws_version"),
        (without("Sec-WebSocket-Version"), 426, "rejected_ws_version"),
        (without("Sec-WebSocket-Version", "8"), 426, "rejected_ws_version"),
        ([*HANDSHAKE, ("Sec-WebSocket-Version", "13")], 426, "rejected_ws_version"),
        (without("Sec-WebSocket-Key"), 400, "rejected_ws_handshake"),
        (without("Sec-WebSocket-Key", "short"), 400, "rejected_ws_handshake"),
        (without("Sec-WebSocket-Key", KEY[:-1] + "A"), 400, "rejected_ws_handshake"),
        ([*HANDSHAKE, ("Sec-WebSocket-Key", KEY)], 400, "rejected_ws_handshake"),
        ([*HANDSHAKE, ("Origin", "http://elsewhere.example")], 403, "rejected_ws_origin"),
        ([*HANDSHAKE, ("Origin", "null")], 403, "rejected_ws_origin"),
        ([*HANDSHAKE, ("Origin", "http://test"), ("Origin", "http://test")], 403, "rejected_ws_origin"),
    ],
)
@pytest.mark.usefixtures("http1_only")
def test_what_is_no_handshake_is_refused_and_counted(server, fields, status, counter):
    before = server.counter(counter)
    with server.connect() as connection:
        response = connection.get("/default", headers=fields)
        assert response.status == status
        if status == 426:
            assert response.header("Sec-WebSocket-Version") == "13"
            assert response.header("Upgrade") == "websocket"
        assert connection.get("/closes").status == 200  # the connection still speaks HTTP
    assert server.counter(counter) == before + 1


@pytest.mark.usefixtures("http1_only")
def test_other_methods_are_refused(server):
    with server.connect() as connection:
        connection.send(wire.request("POST", "/echo", HANDSHAKE, b""))
        assert connection.response().status == 405


def test_the_pages_of_the_host_and_clients_without_origin_are_let_in(server):
    for origin in ("http://test", "https://TEST", "http://test:80"):
        Raw(server, "/default", [("Origin", origin)]).connection.close()
    Raw(server, "/default").connection.close()


def test_a_list_of_origins_replaces_the_own_host(server):
    Raw(server, "/strict", [("Origin", "https://good.example")]).connection.close()
    with server.connect() as connection:
        assert connection.get("/strict", headers=[*HANDSHAKE, ("Origin", "http://test")]).status == 403
    Raw(server, "/talk", [("Origin", "null")]).connection.close()


@pytest.mark.parametrize(
    "offered,chosen",
    [(["chat.v1"], "chat.v1"), (["x, chat.v1, chat.v2"], "chat.v1"), (["x", "chat.v2"], "chat.v2"), (["Chat.v1"], None), ([], None)],
)
def test_the_first_subprotocol_that_both_speak_is_chosen(server, offered, chosen):
    with Raw(server, "/talk", [("Sec-WebSocket-Protocol", value) for value in offered]) as client:
        assert (f"Sec-WebSocket-Protocol: {chosen}" if chosen else "Sec-WebSocket-Protocol") in client.head or not chosen
        client.send(frame(TEXT, b"?"))
        client.expect(TEXT, (chosen or "-").encode())


def test_the_application_decides_and_gives_data_along(server):
    with server.connect() as connection:
        response = connection.get("/name/evil", headers=HANDSHAKE)
        assert (response.status, response.text) == (401, "who are you?")
    with Raw(server, "/name/ann") as client:
        assert "X-Hello: ann" in client.head
        client.expect(TEXT, b"hello ann")


def test_the_response_to_a_handshake_cannot_be_split(server):
    with Raw(server, "/name/ann%0d%0aX-Evil:%201") as client:
        assert "X-Hello" not in client.head and "X-Evil" not in client.head
        client.expect(TEXT, b"hello ann\r\nX-Evil: 1")


def test_groups_have_websockets_too(server):
    with Raw(server, "/group/echo", early=frame(TEXT, b"early")) as client:
        client.expect(TEXT, b"early")


# --- messages ---


def test_every_size_and_cut_is_echoed(server):
    with Raw(server, "/echo") as client:
        for size in (0, 1, 125, 126, 127, 16370, 16384, 65535, 65536, 300000):
            payload = os.urandom(size)
            client.send(frame(BINARY, payload))
            client.expect(BINARY, payload)
        message = "häß€😀".encode()
        data = frame(TEXT, message[:3], fin=False) + frame(PING, b"between") + frame(CONTINUATION, message[3:])
        for cut in range(1, len(data)):
            client.send(data[:cut])
            server.sync()
            client.send(data[cut:])
            client.expect(PONG, b"between")
            client.expect(TEXT, message)


def test_many_messages_of_one_iteration_arrive_in_order(server):
    with Raw(server, "/echo") as client:
        client.send(b"".join(frame(TEXT, b"%d" % i) for i in range(1000)))
        for i in range(1000):
            client.expect(TEXT, b"%d" % i)


@pytest.mark.usefixtures("http1_only")
def test_what_is_sent_in_one_iteration_leaves_in_few_segments(server):
    with Raw(server, "/burst") as client:
        client.send(frame(BINARY, b"0123456789"))
        harness.poll(lambda: len(client.connection.socket.recv(1 << 16, wire.socket.MSG_PEEK)) >= 200 * 12)
        assert len(client.connection.socket.recv(1 << 16)) == 200 * 12


BAD_FRAMES = [
    ("reserved", frame(TEXT, b"a", reserved=4), 1002, "ws_reserved"),
    ("opcode", frame(3), 1002, "ws_reserved"),
    ("control_opcode", frame(11), 1002, "ws_reserved"),
    ("unmasked", frame(TEXT, b"a", mask=None), 1002, "ws_unmasked"),
    ("fragmented_ping", frame(PING, b"a", fin=False), 1002, "ws_control"),
    ("long_ping", frame(PING, bytes(126)), 1002, "ws_control"),
    ("continuation", frame(CONTINUATION, b"a"), 1002, "ws_continuation"),
    ("nested", frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002, "ws_continuation"),
    ("length_16", frame(BINARY, bytes(125), length=b"\x7e\x00\x7d"), 1002, "ws_length"),
    ("length_64", frame(BINARY, bytes(125), length=b"\x7f" + struct.pack("!Q", 65535)), 1002, "ws_length"),
    ("negative", frame(BINARY, length=b"\x7f" + struct.pack("!Q", 1 << 63)), 1002, "ws_length"),
    ("utf8", frame(TEXT, b"\xff"), 1007, "ws_utf8"),
    ("cut_utf8", frame(TEXT, b"\xe2\x82"), 1007, "ws_utf8"),
    ("surrogate", frame(TEXT, b"\xed", fin=False) + frame(CONTINUATION, b"\xa0", fin=False), 1007, "ws_utf8"),
    ("too_large", frame(BINARY, length=b"\x7f" + struct.pack("!Q", 1 << 40)), 1009, "ws_too_large"),
    ("close_1_byte", frame(CLOSE, b"\x03"), 1002, "ws_close"),
    ("close_1005", frame(CLOSE, struct.pack("!H", 1005)), 1002, "ws_close"),
    ("close_reason", frame(CLOSE, struct.pack("!H", 1000) + b"\xc0"), 1007, "ws_utf8"),
]


@pytest.mark.parametrize("name,data,code,counter", BAD_FRAMES, ids=[case[0] for case in BAD_FRAMES])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "byte_by_byte"])
def test_bad_frames_close_with_the_right_code(server, name, data, code, counter, cut):
    before = server.counter(f"rejected_{counter}")
    closes(server)
    with Raw(server, "/default") as client:
        for i in range(0, len(data), 1 if cut and len(data) < 64 else len(data)):
            if not client.connection.send_anyway(data[i : i + 1] if cut and len(data) < 64 else data):
                break
        client.expect_close(code)
        client.expect_end()
    wait_close(server, f"{code} \n")
    assert server.counter(f"rejected_{counter}") == before + 1
    assert server.new_stderr() == ""


def test_limits_of_size_and_fragments(server):
    with Raw(server, "/small") as client:
        client.send(frame(BINARY, bytes(100)))
        client.expect(BINARY, bytes(100))
        client.send(frame(BINARY, b"a", fin=False) + frame(CONTINUATION, b"b", fin=False) + frame(CONTINUATION, b"c"))
        client.expect(BINARY, b"abc")
        client.send(frame(BINARY, length=b"\x65"))  # the head of 101 bytes is enough
        client.expect_close(1009)
    with Raw(server, "/small") as client:
        client.send(frame(BINARY, bytes(60), fin=False) + frame(CONTINUATION, bytes(41)))
        client.expect_close(1009)
    before = server.counter("rejected_ws_fragments")
    with Raw(server, "/small") as client:
        client.send(frame(BINARY, fin=False) + 3 * frame(CONTINUATION, fin=False))
        client.expect_close(1009)
    assert server.counter("rejected_ws_fragments") == before + 1


# --- the end ---


def test_a_close_is_acknowledged_with_its_code(server):
    closes(server)
    for payload, code, seen in ((b"", 0, "1005 \n"), (struct.pack("!H", 1000), 1000, "1000 \n"), (struct.pack("!H", 4999) + b"why", 4999, "4999 why\n")):
        with Raw(server, "/default") as client:
            client.send(frame(CLOSE, payload) + frame(TEXT, b"behind"))
            client.expect_close(code)
            client.expect_end()
        wait_close(server, seen)


def test_the_server_closes_and_waits_for_the_response(server):
    closes(server)
    with Raw(server, "/quick") as client:
        client.send(frame(TEXT, b"4001 enough") + frame(TEXT, b"4002 not looked at"))
        client.expect_close(4001, b"enough")
        client.send(frame(PING, b"?") + frame(CLOSE, struct.pack("!H", 4001)))
        client.expect_end()
    wait_close(server, "4001 \n")
    with Raw(server, "/quick") as client:  # no response: cut off after close_timeout
        began = time.monotonic()
        client.send(frame(TEXT, b"4003 silent"))
        client.expect_close(4003, b"silent")
        client.expect_end()
        assert time.monotonic() - began > 0.5
    wait_close(server, "1006 \n")


@pytest.mark.parametrize("arguments", [b"1005 ", b"999  ", b"0    ", b"1000 " + b"x" * 124, b"1000 \xff"])
def test_a_close_that_may_not_be_sent_is_refused(server, arguments):
    with Raw(server, "/quick") as client:
        client.send(frame(BINARY, arguments))
        client.expect(TEXT, b"invalid")


def test_an_end_without_close_is_abnormal(server):
    closes(server)
    client = Raw(server, "/default")
    client.send(frame(TEXT, b"half", fin=False))
    client.connection.close()
    wait_close(server, "1006 \n")
    client = Raw(server, "/default")
    client.connection.reset()
    wait_close(server, "1006 \n")


def test_a_stopping_server_says_goodbye(own_server):
    with Raw(own_server, "/default") as polite, Raw(own_server, "/quick") as silent:
        own_server.close_control()
        own_server.signal(signal.SIGTERM)
        polite.expect_close(1001)
        silent.expect_close(1001)
        polite.send(frame(CLOSE, struct.pack("!H", 1001)))
        polite.expect_end()
        silent.expect_end()
        assert own_server.wait() == 0


# --- time ---


def test_a_quiet_client_is_pinged_and_then_given_up(server):
    closes(server)
    before = server.counter("timeouts_keepalive")
    tries = 0

    def pongs_keep_it_alive():
        nonlocal tries
        tries += 1
        with Raw(server, "/quick") as client:
            ping_times = [time.monotonic()]
            try:
                for _ in range(3):
                    client.expect(PING, b"")
                    client.send(frame(PONG))
                    ping_times.append(time.monotonic())
                client.expect(PING, b"")
                client.expect_end()
                return True
            except (wire.Closed, OSError):  # the machine stood still for the rest of the idle time, and no response came
                ping_times.append(time.monotonic())
                assert max(b - a for a, b in zip(ping_times, ping_times[1:])) > 1.8, ping_times
                return False

    harness.poll(pongs_keep_it_alive, seconds=60)
    wait_close(server, "1006 \n")
    assert server.counter("timeouts_keepalive") == before + tries


def test_a_message_that_does_not_end_is_given_up(server):
    with Raw(server, "/slow") as client:
        data = frame(TEXT, bytes(1000))
        began = time.monotonic()
        client.connection.socket.settimeout(0.1)
        for byte in data:  # a byte now and then is a sign of life, but no message
            client.send(bytes([byte]))
            try:
                client.expect_close(1008)
                break
            except TimeoutError:
                assert time.monotonic() - began < 60  # it is 75 s without the option
        assert time.monotonic() - began > 0.9


# --- backpressure and other threads ---


def test_a_full_queue_is_seen_and_drains(server):
    with Raw(server, "/fill", receive_buffer=4096) as client:
        client.send(frame(TEXT, b"fill"))
        server.sync()
        received = 0
        while True:
            opcode, payload, _ = client.read()
            if opcode == TEXT:
                break
            received += 1
        words = payload.decode().split()
        assert int(words[0]) == received and received > 10
        assert int(words[2]) > 0 and words[4] == "0"


def test_a_client_that_never_reads_costs_a_bounded_amount(own_server):
    with Raw(own_server, "/default", receive_buffer=4096) as client:
        client.connection.socket.settimeout(1)
        growth = own_server.memory_growth()
        piece = frame(BINARY, bytes(60000)) * 8
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 200 << 20:
                client.send(piece)
                sent += len(piece)
        assert sent < 100 << 20
        own_server.sync()  # others are served
        growth.stays_below(16 << 20)


def is_given_up_for_its_output(server):
    """Or for its silence, where a busy machine keeps the client from sending for two seconds."""
    silent = server.counter("timeouts_keepalive")
    with Raw(server, "/impatient", receive_buffer=4096) as client:
        began = time.monotonic()
        client.send(frame(TEXT, b"fill"))
        server.sync()
        while (counters := server.counters())["timeouts_write"] == 0:
            if counters["timeouts_keepalive"] > silent:
                return False
            with contextlib.suppress(ConnectionError):  # aborted since the counters were read
                client.send(frame(PONG))  # that it sends is no excuse
            time.sleep(0.1)
            assert time.monotonic() - began < 60  # it is 75 s without the option
        assert time.monotonic() - began > 1
        wait_close(server, "1006 \n")
    return True


def test_a_client_that_takes_nothing_is_given_up(own_server):
    while not is_given_up_for_its_output(own_server):
        pass


def test_pings_of_a_client_that_never_reads_do_not_pile_up(own_server):
    with Raw(own_server, "/default", receive_buffer=4096) as client:
        pings = frame(PING, bytes(125)) * 1000
        growth = own_server.memory_growth()
        for _ in range(200):
            client.send(pings)
        own_server.sync()
        growth.stays_below(8 << 20)


@pytest.mark.threads
def test_another_thread_sends_and_closes(server):
    with Raw(server, "/count") as client:
        client.send(frame(TEXT, b"go"))
        for i in range(1000):
            client.expect(TEXT, b"%d" % i)
        client.expect_close(4000, b"counted")
        client.send(frame(CLOSE, struct.pack("!H", 4000)))
        client.expect_end()


@pytest.mark.threads
def test_another_thread_survives_a_client_that_goes(server):
    for _ in range(20):
        client = Raw(server, "/count")
        client.send(frame(TEXT, b"go"))
        client.connection.reset()
    server.sync()


# --- a client of other people's ---


def ws_url(server, target):
    return server.url(target).replace("http:", "ws:")


def ws_connect(server, target, **options):
    """The client has limits on time: a hundred handshakes may take longer, and the test has a limit of its own."""
    unlimited = {"open_timeout": None, "ping_interval": None, "close_timeout": None}
    return websockets.connect(ws_url(server, target), **unlimited, **options)


def test_the_websockets_client_talks_to_the_example(serve):
    server = serve("websocket_echo")

    async def talk():
        async with ws_connect(server, "/echo", subprotocols=["echo.v1"], max_size=None) as client:
            assert client.subprotocol == "echo.v1"
            for message in ("", "hello", "häß€😀" * 10000, b"", os.urandom(5 << 20)):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["frag", "men", "ted"])
            assert await client.recv() == "fragmented"
            await (await client.ping(b"are you there?"))
            await client.close(3000, "thanks")
            assert (client.close_code, client.close_reason) == (3000, "")

    asyncio.run(talk())


@pytest.mark.usefixtures("http1_only")
def test_many_clients_at_once(server):
    async def one(number):
        async with ws_connect(server, "/echo") as client:
            for message in range(20):
                await client.send(f"{number}.{message}")
            for message in range(20):
                assert await client.recv() == f"{number}.{message}"

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(100)))

    asyncio.run(all_of_them())


def test_messages_are_counted(own_server):
    with Raw(own_server, "/echo") as client:
        client.send(frame(TEXT, b"a") + frame(PING) + frame(TEXT, b"b"))
        for expected in ((TEXT, b"a"), (PONG, b""), (TEXT, b"b")):
            client.expect(*expected)
    assert own_server.counter("ws_messages_received") == 2
    assert own_server.counter("ws_messages_sent") == 2
