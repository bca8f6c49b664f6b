"""permessage-deflate and messages in parts: what is agreed on, what goes over the wire, bombs, and slow readers."""
import asyncio
import os
import shutil
import socket
import subprocess
import time
import zlib

import pytest

import harness
from test_websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Raw, frame, ws_connect, ws_url
from test_websocket import carrier, http1_only, own_server, server  # noqa: F401 (fixtures)
from test_websocket import pytestmark  # noqa: F401

RSV1 = 4
OFFER = [("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")]


def deflate(data, compressor=None):
    compressor = compressor or zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert packed.endswith(b"\0\0\xff\xff")
    return packed[:-4]


def packed_frame(opcode, payload, fin=True):
    return frame(opcode, payload, fin=fin, reserved=RSV1)


class Packed(Raw):
    """Reads frames that may be compressed; remembers which were."""

    def __init__(self, server, target, headers=OFFER, **options):
        super().__init__(server, target, headers, **options)
        self.inflater = zlib.decompressobj(-15)

    def read_message(self):
        first, second = self.connection._take(2)
        assert first & 0x30 == 0 and not second & 0x80
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(self.connection._take(2 if size == 126 else 8), "big")
        payload = self.connection._take(size)
        packed = bool(first & 0x40)
        if packed:
            assert first & 8 == 0
            if "server_no_context_takeover" in self.head:
                self.inflater = zlib.decompressobj(-15)
            payload = self.inflater.decompress(payload + b"\0\0\xff\xff")
        return first & 15, payload, packed


# --- what is agreed on ---


@pytest.mark.parametrize(
    "target,offers,response",
    [
        ("/deflate", ["permessage-deflate"], "permessage-deflate; server_no_context_takeover; client_no_context_takeover"),
        ("/takeover", ["permessage-deflate; client_max_window_bits"], "permessage-deflate"),
        ("/takeover", ["x-other", "permessage-deflate; server_max_window_bits=10"], "permessage-deflate; server_max_window_bits=10"),
        ("/takeover", ["permessage-deflate; nonsense, permessage-deflate"], "permessage-deflate"),
        ("/takeover", ["permessage-deflate; server_max_window_bits=8"], None),
        ("/takeover", ["permessage-deflate; \"", ";;;"], None),
        ("/takeover", [], None),
        ("/default", ["permessage-deflate"], None),
    ],
)
def test_offers_are_accepted_or_declined(server, target, offers, response):
    with Raw(server, target, [("Sec-WebSocket-Extensions", offer) for offer in offers]) as client:
        lines = [line for line in client.head.split("\r\n") if line.startswith("Sec-WebSocket-Extensions")]
        assert lines == ([f"Sec-WebSocket-Extensions: {response}"] if response else [])
        client.send(frame(TEXT, b"plain"))
        if not response:
            client.expect(TEXT, b"plain")


def test_reserved_bits_without_the_extension_or_in_the_wrong_place_are_refused(server):
    for target, headers, data in (
        ("/deflate", [], packed_frame(TEXT, deflate(b"a"))),
        ("/deflate", OFFER, frame(TEXT, b"a", reserved=2)),
        ("/deflate", OFFER, packed_frame(PING, b"a")),
        ("/deflate", OFFER, packed_frame(TEXT, deflate(b"a"), fin=False) + packed_frame(CONTINUATION, b"")),
    ):
        before = server.counter("rejected_ws_reserved")
        with Raw(server, target, headers) as client:
            client.send(data)
            client.expect_close(1002)
        assert server.counter("rejected_ws_reserved") == before + 1


# --- messages ---


@pytest.mark.parametrize("target", ["/deflate", "/takeover", "/narrow"])
def test_compressed_messages_come_back(server, target):
    with Packed(server, target) as client:
        bits = 10 if target == "/narrow" else 15
        compressor = zlib.compressobj(9, zlib.DEFLATED, -bits)
        for message in (b"Hello", b"Hello" * 20000, os.urandom(20000), b"", b"ab" * 70, b"Hello" * 20000):
            if target != "/takeover":
                compressor = zlib.compressobj(9, zlib.DEFLATED, -bits)
            if target == "/narrow" and len(message) == 100000:
                client.inflater = zlib.decompressobj(-9)
            packed = deflate(message, compressor)
            client.send(packed_frame(BINARY, packed))
            opcode, payload, was_packed = client.read_message()
            assert (opcode, payload) == (BINARY, message)
            assert was_packed == (len(set(message)) < 10 and len(message) > 100)


def test_a_context_makes_repetition_small(server):
    message = bytes(range(256)) * 2
    sizes = {}
    for target in ("/deflate", "/takeover"):
        with Packed(server, target) as client:
            for _ in range(2):
                client.send(frame(BINARY, message))
                before = server.counter("bytes_sent")
                assert client.read_message()[:2] == (BINARY, message)
            client.send(frame(BINARY, message))
            first, second = client.connection._take(2)
            sizes[target] = second & 0x7F
    assert sizes["/takeover"] < 20 < sizes["/deflate"], before


def test_every_cut_of_a_compressed_message(server):
    text = "häß€😀".encode() * 3
    packed = deflate(text)
    with Packed(server, "/deflate") as client:
        for cut in range(len(packed) + 1):
            client.send(packed_frame(TEXT, packed[:cut], fin=False) + frame(PING, b"p") + frame(CONTINUATION, packed[cut:]))
            client.expect(PONG, b"p")
            assert client.read_message()[:2] == (TEXT, text)
        whole = packed_frame(TEXT, packed)
        for cut in range(1, len(whole)):
            client.send(whole[:cut])
            server.sync()
            client.send(whole[cut:])
            assert client.read_message()[:2] == (TEXT, text)


def test_messages_of_many_connections_use_contexts_one_after_the_other(server):
    message = b"x" * 5000
    packed = deflate(message)
    clients = [Packed(server, "/deflate") for _ in range(20)]
    for client in clients:
        client.send(packed_frame(TEXT, packed[:3], fin=False))
    for client in reversed(clients):
        client.send(frame(CONTINUATION, packed[3:]))
        assert client.read_message() == (TEXT, message, True)
        client.connection.close()


@pytest.mark.parametrize(
    "payload,code,counter",
    [
        (b"\xff\xff\xff", 1007, "rejected_ws_deflate"),
        (b"", 1007, "rejected_ws_deflate"),
        (deflate(b"Hello")[:4], 1007, "rejected_ws_deflate"),
        (deflate(b"\xff"), 1007, "rejected_ws_utf8"),
        (deflate(b"good \xe2\x82"), 1007, "rejected_ws_utf8"),
    ],
)
def test_malformed_compressed_messages_are_refused(server, payload, code, counter):
    before = server.counter(counter)
    with Packed(server, "/deflate") as client:
        client.send(packed_frame(TEXT, payload))
        client.expect_close(code)
        client.expect_end()
    assert server.counter(counter) == before + 1


def test_a_bomb_stops_early(own_server):
    bomb = deflate(bytes(256 << 20))
    assert len(bomb) < 300000
    growth = own_server.memory_growth()
    with Packed(own_server, "/narrow") as client:
        client.send(packed_frame(BINARY, bomb[:20000], fin=False))
        client.expect_close(1009)
        client.expect_end()
    assert own_server.counter("rejected_ws_inflated") == 1
    with Packed(own_server, "/few") as client:  # in parts it stops as well
        client.send(packed_frame(BINARY, bomb[:5], fin=False) + frame(CONTINUATION, bomb[5:1000], fin=False))
        client.expect_close(1009)
    growth.stays_below(4 << 20)
    # Compressed bytes that become nothing are bounded, too.
    with Packed(own_server, "/narrow") as client:
        client.connection.send_anyway(packed_frame(BINARY, fin=False, payload=b"") + frame(CONTINUATION, b"\0\0\0\xff\xff" * 40000))
        client.expect_close(1009)
    assert own_server.counter("rejected_ws_too_large") == 1


def test_an_end_in_the_middle_leaves_nothing(own_server):
    packed = packed_frame(TEXT, deflate(b"abc" * 1000))
    for target in ("/deflate", "/takeover", "/pieces"):
        for cut in range(len(packed)):
            client = Raw(own_server, target, OFFER, early=packed[:cut])
            client.connection.reset() if cut % 2 else client.connection.close()
    own_server.sync()


# --- a client of other people's ---


@pytest.mark.parametrize("target", ["/deflate", "/takeover", "/narrow", "/default"])
@pytest.mark.parametrize("options", ["{}", "{'server_max_window_bits': 10, 'client_max_window_bits': 11}", "{'server_no_context_takeover': True, 'client_no_context_takeover': True}", None])
@pytest.mark.usefixtures("http1_only")
def test_the_websockets_client_compresses(server, target, options):
    from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

    extensions = None if options is None else [ClientPerMessageDeflateFactory(**{"client_max_window_bits": True, **eval(options)})]

    async def talk():
        async with ws_connect(server, target, compression=None, extensions=extensions, max_size=None) as client:
            for message in ("", "hello", "häß€😀" * 5000, b"", os.urandom(50000), "again " * 10000, "again " * 10000):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["frag", "men", "ted"])
            assert await client.recv() == "fragmented"

    asyncio.run(talk())


NODE = r"""
const [url, big] = [process.argv[2], "h\u00e4\u20ac\u{1f600} again ".repeat(20000)], socket = new WebSocket(url);
let count = 0;
socket.onopen = () => { socket.send("small"); socket.send(big); socket.send(new Uint8Array(100000)); };
socket.binaryType = "arraybuffer";
socket.onmessage = event => {
    console.log(event.data === "small" || event.data === big || event.data.byteLength);
    if (++count === 3) { console.log(socket.extensions.split(";")[0]); socket.close(3000, "bye"); }
};
socket.onclose = event => console.log(event.code, event.wasClean);
"""


@pytest.mark.usefixtures("http1_only")
def test_node_compresses(server, tmp_path):
    node = shutil.which("node")
    supported = node and subprocess.run([node, "--experimental-websocket", "-e", "new WebSocket('ws://127.0.0.1:1').onerror = () => {}"], capture_output=True).returncode == 0
    if not supported:
        pytest.skip("no node with a WebSocket")
    (tmp_path / "talk.js").write_text(NODE)
    result = subprocess.run([node, "--experimental-websocket", tmp_path / "talk.js", ws_url(server, "/deflate")], capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["true", "true", "100000", "permessage-deflate", "3000", "true"], result.stderr


# --- messages in parts ---


def test_messages_come_in_pieces(server):
    with Packed(server, "/pieces") as client:
        client.send(frame(BINARY, b"abc"))
        client.expect(TEXT, b"2 3 1 3")
        client.send(frame(TEXT, b""))
        client.expect(TEXT, b"1 0 1 0")
        big = bytes(5 << 20)
        client.send(frame(BINARY, big[: 3 << 20], fin=False))
        client.send(frame(PING, b"p") + frame(CONTINUATION, big[3 << 20 :]))
        client.expect(PONG, b"p")
        _, text, _ = client.read()
        kind, size, pieces, largest = map(int, text.split())
        assert (kind, size) == (2, 5 << 20) and pieces > 100 and largest <= 65536
        client.send(packed_frame(TEXT, deflate(b"\xe2\x82\xac" * 100000)))
        _, text, _ = client.read()
        kind, size, pieces, largest = map(int, text.split())
        assert (kind, size) == (1, 300000) and largest <= 16384
        client.send(frame(TEXT, b"\xe2", fin=False) + frame(CONTINUATION, b"\x82", fin=False))
        client.send(frame(CONTINUATION, b"a"))
        client.expect_close(1007)
    with Raw(server, "/few") as client:
        client.send(frame(BINARY, bytes(600), fin=False) + frame(CONTINUATION, bytes(401)))
        client.expect_close(1009)


def resumed(server):
    return server.ask("/resume").text


@pytest.mark.usefixtures("http1_only")
def test_a_pause_stops_the_pieces(own_server):
    with Packed(own_server, "/paused", segment=1400) as client:
        data = frame(BINARY, bytes(2 << 20))
        client.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # the message fits in no buffer
        client.connection.socket.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < len(data):
                sent += client.connection.socket.send(data[sent:])
        first = int(resumed(own_server))
        assert 0 < first <= 65536
        client.connection.socket.setblocking(False)
        deadline = time.monotonic() + 60
        while sent < len(data):
            try:
                sent += client.connection.socket.send(data[sent : sent + (1 << 20)])
            except BlockingIOError:
                resumed(own_server)
            assert time.monotonic() < deadline
        client.connection.socket.settimeout(20)
        harness.poll(lambda: resumed(own_server) == str(2 << 20), seconds=60, every=0)
        assert client.read()[1].startswith(b"2 2097152 ")


def test_a_pause_stops_what_inflates(own_server):
    with Packed(own_server, "/paused") as client:
        client.send(packed_frame(BINARY, deflate(bytes(12 << 20))))  # 12 KB, in one receive
        sizes = []
        harness.poll(lambda: (sizes.append(int(resumed(own_server))), sizes[-1] == 12 << 20)[1])
        steps = [b - a for a, b in zip(sizes, sizes[1:])]
        assert sizes[0] <= 300 << 10 and max(steps) <= 300 << 10, sizes
        assert client.read()[1].startswith(b"2 12582912 ")


def test_no_message_follows_a_pause(own_server):
    with Raw(own_server, "/paused-messages") as client:
        client.send(b"".join(frame(TEXT, b"%d" % i) for i in range(5)))
        for i in range(5):
            client.expect(TEXT, b"%d" % i)
            own_server.sync()
            assert client.connection.quiet()
            resumed(own_server)


def test_a_message_in_pieces_and_what_waits_for_it(server):
    for headers in ([], OFFER):
        with Raw(server, "/stream", headers) as client:
            client.send(frame(TEXT, b"go"))
            assert client.read() == (TEXT, b"\xe2\x82", False)
            assert client.read() == (CONTINUATION, b"\xac", False)
            assert client.read() == (CONTINUATION, b"", False)
            client.expect(CONTINUATION, b"")
            client.expect(TEXT, b"between")
            assert client.read() == (BINARY, b"tail", False)
            client.send(frame(PING, b"in between"))
            client.expect(PONG, b"in between")
            client.send(frame(TEXT, b"end"))
            assert client.read()[0] == CONTINUATION  # the write that asks whether one is open
            client.expect(CONTINUATION, b"")
            rest = sorted(client.read()[1] for _ in range(2))
            assert rest == [b"end", b"published"]
        with Raw(server, "/stream", headers, early=frame(TEXT, b"go")) as client:
            client.read()  # and leaves with everything open


def test_a_large_message_is_sent_as_the_client_reads(own_server):
    with Raw(own_server, "/pour", receive_buffer=16384) as client:
        growth = own_server.memory_growth()
        client.send(frame(TEXT, b"go"))
        own_server.sync()
        growth.stays_below(4 << 20)
        size, fin = 0, False
        while not fin:
            opcode, payload, fin = client.read()
            assert opcode == (CONTINUATION if size else BINARY)
            size += len(payload)
        assert size == 10000000


@pytest.mark.usefixtures("http1_only")
def test_a_client_that_trickles_is_given_up(own_server):
    with Raw(own_server, "/rate", receive_buffer=4096) as client:
        client.send(frame(TEXT, b"fill"))
        deadline = time.monotonic() + 20
        while own_server.counter("slow_write") == 0:  # it reads, but slowly
            client.connection.socket.recv(1000)
            time.sleep(0.05)
            assert time.monotonic() < deadline


def test_a_client_that_reads_is_not(own_server):
    with Raw(own_server, "/rate", receive_buffer=65536) as client:
        client.send(frame(TEXT, b"fill"))
        size = 0
        while size < 38 << 20:
            size += len(client.read()[1])
    assert own_server.counter("slow_write") == 0
