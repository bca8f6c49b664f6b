"""Owns: the attacks on WebSocket: frames, messages, compression, and clients that do not read."""
import zlib

from attack import ROUNDS, Attack, drip, flood

TEXT, BINARY, CLOSE, PING, COMPRESSED = 1, 2, 8, 9, 0x40


def opening(target, fields=b""):
    return (b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + fields + b"\r\n")  # fmt: skip


def frame(first, payload=b"", final=True, size=None, masked=True):
    """With a mask of zeros; `size`: announced, whatever follows."""
    size = len(payload) if size is None else size
    bit = 0x80 if masked else 0
    short = bytes([bit | size]) if size < 126 else bytes([bit | 126]) + size.to_bytes(2, "big") if size < 65536 else bytes([bit | 127]) + size.to_bytes(8, "big")
    return bytes([first | (0x80 if final else 0)]) + short + bytes(4 if masked else 0) + payload


def deflated(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
PLAIN, NARROW = opening(b"/tls/ws"), opening(b"/costly/ws")
PACKED, CONTEXT = opening(b"/costly/ws", DEFLATE), opening(b"/costly/context", DEFLATE)
BOMB = frame(BINARY | COMPRESSED, deflated(bytes(64 << 20)))
OPEN = frame(BINARY, b"x", final=False)
TINY = frame(BINARY | COMPRESSED, deflated(b"tea")[:-4])
GROWING = frame(BINARY | COMPRESSED, deflated(bytes(65536))[:-4])
# RFC 7692 takes 44 KB to inflate a message and, with the takeover of contexts, 300 KB a connection for good (websocket.h).
ATTACKS = [
    Attack("messages as fast as they go", "iteration_requests_max", PLAIN, flood(frame(TEXT, b"tea")), ("ws_messages_received",)),
    Attack("pings", "iteration_requests_max", PLAIN, flood(frame(PING, b"x" * 125)), ()),
    Attack("pings, pongs not read", "write_timeout, idle_timeout", NARROW, flood(frame(PING, b"x" * 125)), (), reads=False, hold=True, each_kib=1024),
    Attack("echoes that nobody reads", "send_queue_max", NARROW, flood(frame(BINARY, b"x" * 60000)), (), reads=False, hold=True, each_kib=1024),
    Attack("fragments", "fragments_max", NARROW, [OPEN] + [frame(0, b"x", final=False) * 5000] * 10, ("close 1009", "rejected_ws_fragments")),
    Attack("empty fragments", "fragments_max", NARROW, [OPEN] + [frame(0, final=False) * 5000] * 10, ("close 1009", "rejected_ws_fragments")),
    Attack("slow messages", "message_timeout", NARROW, [frame(TEXT, b"", size=100)] + [b"x"] * 100, ("close 1008",), pause=0.2, width=20),
    Attack("slow fragments", "message_timeout", NARROW, [OPEN] + [frame(0, b"x", final=False)] * 100, ("close 1008",), pause=0.2, width=20),
    Attack("slow frames of control", "", NARROW, drip(frame(PING, b"x" * 100)), (), pause=0.05, width=20, each_kib=64),
    Attack("a message too large, announced", "message_size_max", NARROW + frame(BINARY, size=1 << 40), [], ("close 1009", "rejected_ws_too_large")),
    Attack("messages that grow", "message_size_max", NARROW, [OPEN] + [frame(0, b"x" * 8000, final=False)] * 100, ("close 1009", "rejected_ws_too_large")),
    Attack("deflate bomb", "message_size_max", PACKED + BOMB, [], ("close 1009", "rejected_ws_inflated")),
    Attack("deflate: messages without an end", "message_timeout", PACKED + frame(BINARY | COMPRESSED, deflated(b"x" * 30000), final=False), [],
           ("close 1008",), hold=True, width=20, each_kib=160),
    Attack("deflate: contexts", "max_connections", CONTEXT + TINY, [], ("ws_messages_received",), hold=True, width=20, each_kib=384),
    Attack("deflate: tiny messages", "iteration_requests_max", PACKED, flood(TINY, size=16384), ("ws_messages_received",)),
    Attack("deflate: messages that grow", "iteration_requests_max", PACKED, flood(GROWING), ("ws_messages_received", "budget_exhausted")),
    Attack("deflate: malformed", "", PACKED + frame(BINARY | COMPRESSED, b"\xff" * 100), [], ("rejected_ws_deflate",)),
    Attack("connections that come and go", "", PLAIN, [], ("upgrades",), leaves="reset", heard=True),
    Attack("connections that are silent", "ping_interval, idle_timeout", NARROW, [], ("upgrades",), hold=True, width=50, each_kib=16),
    Attack("no handshake", "", opening(b"/tls/ws").replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"a"), [], ("400", "rejected_ws_handshake"), each_kib=16),
    Attack("frames without a mask", "", PLAIN + frame(TEXT, b"tea", masked=False) * 1000, [], ("close 1002", "rejected_ws_unmasked")),
    Attack("text that is not UTF-8", "", PLAIN + frame(TEXT, b"\xff"), [], ("close 1007", "rejected_ws_utf8")),
    Attack("closes", "close_timeout", NARROW, [frame(CLOSE, b"\x03\xe8") * 1000] * 10, ("close 1000",)),
]  # fmt: skip
assert len(BOMB) < 1 << 17 and ROUNDS
