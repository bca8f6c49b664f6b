"""Owns: the attacks on TLS: handshakes, records, and HTTP/1 inside of them."""
import ssl

from attack import Attack, drip, flood


def hello():
    """The first flight of a client of TLS 1.3."""
    context, outgoing = ssl.create_default_context(), ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def records(content, size, kind=22):
    return [bytes([kind, 3, 1]) + len(one).to_bytes(2, "big") + one for one in drip(content, size)]


HELLO = hello()
TINY = b"".join(records(HELLO[5:], 1))
GET = b"GET /n/1 HTTP/1.1\r\nHost: a\r\n"
WHOLE = GET + b"\r\n"
LARGE = b"GET /static?size=30000000 HTTP/1.1\r\nHost: a\r\n\r\n"

# What OpenSSL takes for a connection and its handshake: some 60 KiB. It is not the library's to bound.
SESSION_KIB = 128
ATTACKS = [
    Attack("handshakes that do not come", "tls_handshake_timeout", b"", [], ("timeouts_handshake",), hold=True, width=50, each_kib=SESSION_KIB),
    Attack("slow handshakes", "tls_handshake_timeout", b"", drip(HELLO), ("timeouts_handshake",), pause=0.05, width=50, each_kib=SESSION_KIB),
    Attack("handshakes that stop in the middle", "tls_handshake_timeout", HELLO, [], ("timeouts_handshake",), hold=True, width=20, each_kib=SESSION_KIB),
    Attack("slow handshakes in records of one byte", "tls_handshake_timeout", b"", drip(TINY, 6), ("timeouts_handshake",), pause=0.05, width=20, each_kib=SESSION_KIB),
    Attack("handshakes in records of one byte", "", TINY, [], (), leaves="reset", heard=True, each_kib=SESSION_KIB),
    Attack("handshake flood", "", HELLO, [], ("resets_reading",), leaves="reset", heard=True, each_kib=SESSION_KIB),
    Attack("connections for one request each", "", WHOLE, [], ("tls_handshakes",), leaves="close", heard=True, secure=True, each_kib=SESSION_KIB),
    Attack("requests in records of one byte", "", b"", flood(WHOLE, size=2048), ("budget_exhausted",), secure=True, records=1, each_kib=192 + SESSION_KIB),
    Attack("requests as fast as they go", "iteration_requests_max", b"", flood(WHOLE, size=16384), ("tls_handshakes",), secure=True, each_kib=192 + SESSION_KIB),
    Attack("slow heads", "connection_timeout", GET, [b"X-A: b\r\n"] * 100, ("timeouts_header",), secure=True, pause=0.2, width=10, each_kib=SESSION_KIB),
    Attack("large responses that nobody reads", "write_timeout", LARGE, [], ("timeouts_write|slow_write",), hold=True, reads=False, width=5,
           secure=True, each_kib=512),
    Attack("large responses read byte by byte", "min_send_rate, rate_grace", LARGE, [b""] * 100, ("slow_write|timeouts_write",), sip=10, pause=0.1,
           width=5, secure=True, each_kib=512, settings={"rate_grace": 1}),
    Attack("a message of 16 MB announced", "", b"".join(records(b"\1\xff\xff\xff" + bytes(12), 16)), [b"".join(records(bytes(16384), 16384)) * 4] * 100,
           ("rejected_tls_handshake|rejected_tls_record",), each_kib=SESSION_KIB),
    Attack("empty records", "", b"", flood(b"\x16\3\1\0\0"), ("rejected_tls_handshake|rejected_tls_record|rejected_tls_not_tls",), each_kib=SESSION_KIB),
    Attack("alerts", "", b"", flood(b"\x15\3\1\0\2\1\x5a"), ("rejected_tls_handshake|rejected_tls_alert|rejected_tls_record|rejected_tls_not_tls",), each_kib=SESSION_KIB),
    Attack("garbage behind the handshake's start", "", HELLO + bytes(range(256)) * 64, [], ("rejected_tls_version|rejected_tls_record",), each_kib=SESSION_KIB),
    Attack("plain HTTP", "", WHOLE, [], ("400", "rejected_tls_plain_http"), each_kib=16),
    Attack("bytes that are no TLS", "", bytes(range(128, 256)) * 100, [], ("rejected_tls_not_tls",), each_kib=SESSION_KIB),
]  # fmt: skip
