"""Owns: the attacks on HTTP/2: the bytes of each, and what the server has to say to them. Limits that no option sets are named as in
src/http2/http2.h."""
import dataclasses

import hpack
from attack import ROUNDS, Attack
from attack import flood as flood_of
from attacks_websocket import GROWING
from hyperframe import frame as frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WHOLE = ("END_HEADERS", "END_STREAM")
CALM = "GOAWAY ENHANCE_YOUR_CALM"
MALFORMED = "RST_STREAM PROTOCOL_ERROR"
UNREAD = "http2_control_floods|http2_control_overflows"


def joined(parts):
    return b"".join(part if isinstance(part, bytes) else part.serialize() for part in parts)


def block(path="/n/1", method="GET", fields=(), encoder=None):
    head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path), *fields]
    return (encoder or hpack.Encoder()).encode([hpack.NeverIndexedHeaderTuple(*one) if one[0] == ":path" else one for one in head])


def plain(fields):
    """A block that any decoder takes at any time."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*one) for one in fields])


def settings(**values):
    """The start of a client, with the acknowledgement of what the server is about to send."""
    own = frames.SettingsFrame(0, settings={getattr(frames.SettingsFrame, name): value for name, value in values.items()})
    return PREFACE + joined([own, frames.SettingsFrame(0, flags=["ACK"])])


# LATER's handler releases its memory when its stream is reset: what the server then holds is not the handler's.
GET, LATER, POST = block(), block("/trickle?bytes=1&ms=1000"), block("/body", "POST")
START = settings()
CLOSED = settings(INITIAL_WINDOW_SIZE=0)


def head(number, data=GET, end=True):
    return frames.HeadersFrame(number, data=data, flags=list(WHOLE if end else WHOLE[:1])).serialize()


OPEN = head(1, POST, end=False)


def streams(make, per_part=500):
    """make(number) for new streams, in parts."""
    numbers = range(1, 20001, 2)
    return [joined(make(number) for number in numbers[at : at + per_part]) for at in range(0, len(numbers), per_part)]


def hundred(make):
    return joined(make(number) for number in range(1, 201, 2))


def flood(frame, before=b""):
    return flood_of(joined([frame]), before)


def bomb():
    """One byte a field, after the first of them."""
    encoder, fields = hpack.Encoder(), [("x-bomb", "v" * 3900)] * 7
    return [hundred(lambda number: head(number, block(fields=fields, encoder=encoder)))]


def priority_update(number):
    payload = number.to_bytes(4, "big") + b"u=1"
    return len(payload).to_bytes(3, "big") + b"\x10\0\0\0\0\0" + payload


def window_update(number, increment):
    return frames.WindowUpdateFrame(number, window_increment=increment).serialize()


PING = frames.PingFrame(0, opaque_data=b"12345678")
BIG_FIELDS = frames.ContinuationFrame(1, data=b"\0\1a" + b"\x7f\x80\x78" + b"v" * 16000)
UNFINISHED = frames.HeadersFrame(1, data=GET).serialize()
BASE = [(":method", "GET"), (":scheme", "http"), (":path", "/n/1"), (":authority", "a")]
SMUGGLED = [plain(fields) for fields in (
    [*BASE[:2], (":path", "/ HTTP/1.1\r\nx: y"), BASE[3]],
    [*BASE, ("x", "a\r\nhost: b")],
    [*BASE, ("x\r\ny", "1")],
    [*BASE, ("transfer-encoding", "chunked")],
    [*BASE, ("connection", "keep-alive")],
    [*BASE, ("content-length", "1"), ("content-length", "2")],
    [*BASE, ("content-length", "5")],
    [*BASE, ("host", "b")],
    [*BASE, ("X", "1")],
)]  # fmt: skip


TUNNEL = plain([(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/costly/ws"), (":authority", "a"),
                ("sec-websocket-version", "13"), ("sec-websocket-extensions", "permessage-deflate")])  # fmt: skip
GROWN = [frames.DataFrame(1, data=GROWING * (16384 // len(GROWING))).serialize()] + [b"\0\0\1\6\0\0\0\0\0x"]  # and a PING of a byte


def undecodable(data):
    return [head(1, data)]


def provoked(name, after, code):
    return Attack(f"resets that we provoke: {name}", "http2_resets_max", START, streams(lambda n: head(n, LATER) + after(n)), (code, CALM), cve="CVE-2025-8671")


# http2_connection_memory_max counts what is asked of the allocator. Buffers that double leave holes of as much behind them.
MEMORY_KIB = 2048
ATTACKS = [dataclasses.replace(attack, each_kib=MEMORY_KIB) for attack in (
    Attack("rapid reset", "http2_resets_max", START, streams(lambda n: head(n, LATER) + frames.RstStreamFrame(n, error_code=8).serialize()), (CALM,), cve="CVE-2023-44487"),
    provoked("a window of 0", lambda n: window_update(n, 0), MALFORMED),
    provoked("a window that overflows", lambda n: window_update(n, 2**31 - 1), "RST_STREAM FLOW_CONTROL_ERROR"),
    provoked("a priority of itself", lambda n: frames.PriorityFrame(n, depends_on=n).serialize(), MALFORMED),
    Attack("CONTINUATION flood", "header_block_size_max", START, [UNFINISHED] + [joined([BIG_FIELDS])] * ROUNDS, (CALM,), cve="CVE-2024-27316"),
    Attack("empty CONTINUATION flood", "continuation_frames_max", START, flood(frames.ContinuationFrame(1), UNFINISHED), (CALM,), cve="CVE-2024-27316"),
    Attack("slow CONTINUATION", "continuation_frames_max, connection_timeout", START, [UNFINISHED] + [frames.ContinuationFrame(1).serialize()] * 100, (CALM,), pause=0.2, cve="CVE-2024-27316"),
    Attack("header bomb behind a zero window", "http2_connection_memory_max", CLOSED, bomb(), ("RST_STREAM REFUSED_STREAM",), hold=True, cve="CVE-2016-6581"),
    Attack("HPACK: integer overflow", "", START, undecodable(b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: three size updates", "", START, undecodable(b"\x20\x20\x20" + GET), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: a table beyond the setting", "http2_table_size_max", START, undecodable(b"\x3f\xe2\x1f" + GET), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: padding of a byte", "", START, undecodable(GET + b"\x00\x82\x1f\xff\x01a"), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: EOS", "", START, undecodable(GET + b"\x00\x84\xff\xff\xff\xff\x01a"), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: empty names", "http2_resets_max", START, streams(lambda n: head(n, GET + b"\x10\0\0" * 50)), (MALFORMED, CALM), cve="CVE-2019-9516"),
    Attack("HPACK: alternating table sizes", "iteration_requests_max", START, streams(lambda n: head(n, b"\x20\x3f\xe1\x1f" + GET)), ()),
    Attack("SETTINGS flood", "control_frames_max", START, flood(frames.SettingsFrame(0)), (CALM,), cve="CVE-2019-9515"),
    Attack("SETTINGS flood, replies not read", "control_size_max, control_frames_max", START, flood(frames.SettingsFrame(0)), (UNREAD,), reads=False, cve="CVE-2019-9515"),
    Attack("PING flood", "control_frames_max", START, flood(PING), (CALM,), cve="CVE-2019-9512"),
    Attack("PING flood, replies not read", "control_size_max, control_frames_max", START, flood(PING), (UNREAD,), reads=False, cve="CVE-2019-9512"),
    Attack("empty DATA flood", "control_frames_max", START, flood(frames.DataFrame(1), OPEN), (CALM,), cve="CVE-2019-9518"),
    Attack("padding flood", "control_frames_max", START, flood(frames.DataFrame(1, pad_length=1, flags=["PADDED"]), OPEN), (CALM,), cve="CVE-2019-9518"),
    Attack("PRIORITY flood", "control_frames_max", START, flood(frames.PriorityFrame(3, depends_on=1)), (CALM,), cve="CVE-2019-9513"),
    Attack("PRIORITY_UPDATE flood", "control_frames_max", START, flood(priority_update(1001)), (CALM,), cve="CVE-2019-9513"),
    Attack("WINDOW_UPDATE flood", "control_frames_max", START, flood(window_update(0, 1)), (CALM,)),
    Attack("unknown frame flood", "control_frames_max", START, flood(b"\0\0\1\x42\0\0\0\0\1x"), (CALM,)),
    Attack("malformed requests", "http2_resets_max", START, streams(lambda n: head(n, block(fields=[("x y", "1")]))), (MALFORMED, CALM), cve="CVE-2019-9514"),
    Attack("smuggling into HTTP/1", "", START, [joined(head(2 * i + 1, data) for i, data in enumerate(SMUGGLED))], (MALFORMED,)),
    Attack("zero window", "write_timeout", CLOSED, [hundred(lambda n: head(n, block("/copy?size=200000")))], ("RST_STREAM CANCEL",), hold=True, cve="CVE-2019-9517"),
    Attack("window of one byte", "control_frames_max", settings(INITIAL_WINDOW_SIZE=1), [hundred(lambda n: head(n, block("/static?size=60000")))]
           + [hundred(lambda n: window_update(n, 1))] * 200, (CALM,), hold=True, cve="CVE-2019-9511"),
    Attack("large responses that nobody reads", "write_timeout", settings(INITIAL_WINDOW_SIZE=2**31 - 1),
           [window_update(0, 2**30) + hundred(lambda n: head(n, block("/static?size=10000000")))], ("timeouts_write",), hold=True, reads=False, cve="CVE-2019-9517"),
    Attack("streams that are never finished", "body_timeout", START, [hundred(lambda n: head(n, POST, end=False))], ("timeouts_body",), hold=True),
    Attack("slow preface", "connection_timeout", b"", [PREFACE[at : at + 1] for at in range(len(PREFACE))], ("timeouts_header",), pause=0.3),
    Attack("SETTINGS that are not acknowledged", "", PREFACE + frames.SettingsFrame(0).serialize(), [head(1)], ("GOAWAY SETTINGS_TIMEOUT",), hold=True),
    Attack("hoarded uploads", "http2_connection_memory_max", START, [hundred(lambda n: head(n, POST, end=False))]
           + [hundred(lambda n: frames.DataFrame(n, data=b"x" * 10000))] * 6, ("RST_STREAM ENHANCE_YOUR_CALM",), hold=True),
    Attack("requests as fast as they go", "iteration_requests_max", START, streams(lambda n: head(n)), ()),
    Attack("messages of WebSockets that grow", "iteration_requests_max", START, [head(1, TUNNEL, end=False)] + GROWN,
           ("budget_exhausted", "ws_messages_received", "GOAWAY FRAME_SIZE_ERROR"), hold=True),
)]  # fmt: skip