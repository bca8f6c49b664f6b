"""Owns: the attacks on HTTP/1: connections, heads, bodies, and the tables that a request reaches."""
from attack import ROUNDS, Attack, drip, flood

GET = b"GET /n/1 HTTP/1.1\r\nHost: a\r\n"
WHOLE = GET + b"\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = b"GET /static?size=30000000 HTTP/1.1\r\nHost: a\r\n\r\n"
IMPATIENT = {"rate_grace": 1}


def get(target, fields=b""):
    return b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"


def post(target, body, fields=b""):
    return b"POST " + target + b" HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n" % len(body) + fields + b"\r\n" + body


def multipart(body):
    return post(b"/costly/form", body, b"Content-Type: multipart/form-data; boundary=b\r\n")


def keys():
    """A key of its own for every request."""
    return [b"".join(get(b"/costly/key", b"X-Key: %d-%d\r\n" % (part, i)) for i in range(1000)) for part in range(50)]


SLOW_FIELDS = [b"X-A: b\r\n"] * 100
SLOW = [
    Attack("slow heads", "connection_timeout", GET, SLOW_FIELDS, ("timeouts_header",), pause=0.2, width=50, each_kib=16),
    Attack("slow request lines", "connection_timeout", b"", drip(b"GET /" + b"a" * 100), ("timeouts_header",), pause=0.2, width=50, each_kib=16),
    Attack("heads that do not come", "connection_timeout", b"", [], ("timeouts_header",), hold=True, width=100, each_kib=8),
    Attack("slow bodies", "min_receive_rate, rate_grace", POST + b"Content-Length: 1000\r\n\r\n", [b"x"] * 100, ("slow_read",), pause=0.2, width=50, each_kib=16, settings=IMPATIENT),
    Attack("slow chunks", "min_receive_rate, rate_grace", CHUNKED, [b"1\r\nx\r\n"] * 100, ("slow_read",), pause=0.2, width=50, each_kib=16, settings=IMPATIENT),
    Attack("bodies that do not come", "body_timeout", POST + b"Content-Length: 1000\r\n\r\n", [], ("timeouts_body",), hold=True, width=100, each_kib=16),
    Attack("large responses that nobody reads", "write_timeout", LARGE, [], ("timeouts_write|slow_write",), hold=True, reads=False, width=10, each_kib=64),
    Attack("large responses read byte by byte", "min_send_rate, rate_grace", LARGE, [b""] * 100, ("slow_write|timeouts_write",), sip=10, pause=0.1, width=10, each_kib=64, settings=IMPATIENT),
    Attack("responses that nobody reads", "write_buffer_size, write_timeout", b"", flood(get(b"/copy?size=1000"), size=8192)[:100],
           ("write_queue_full", "timeouts_write|slow_write"), hold=True, reads=False),
]  # fmt: skip

# Sixty of each of three addresses, and those of the others: together they cannot fill the server.
GUARDED = {"max_connections": 300, "connections_per_address_max": 60}
CONNECTIONS = [
    Attack("connections that come and go", "", b"", [], (), leaves="reset", each_kib=16),
    Attack("requests that come and go", "", WHOLE, [], (), leaves="reset", each_kib=16),
    Attack("connections for one request each", "", WHOLE, [], (), leaves="close", heard=True, each_kib=16),
    Attack("half-closes in mid request", "", POST + b"Content-Length: 100\r\n\r\nx", [], ("rejected_http_body_incomplete",), leaves="half_close", each_kib=16),
    Attack("idle connections", "max_connections", b"", [], ("connections_evicted",), hold=True, width=50, each_kib=8, settings={"max_connections": 300}),
    Attack("connections of few addresses", "connections_per_address_max", GET, [], ("connections_refused_address",), hold=True, width=100,
           sources=3, each_kib=8, settings=GUARDED),
    Attack("connections of many addresses", "connection_timeout", GET, [], ("timeouts_header",), hold=True, width=50, sources=1 << 20, each_kib=16),
]  # fmt: skip

EVIL = b"User-Agent: " + b"\x80\x9b\\\"" * 1500 + b"\r\n"
HEADS = [
    Attack("requests as fast as they go", "iteration_requests_max", b"", flood(WHOLE), ("budget_exhausted",)),
    Attack("a hundred fields", "header_count_max", b"", flood(get(b"/costly/fields", b"X-A: b\r\n" * 99)), ()),
    Attack("more fields than are allowed", "header_count_max", GET, [b"X-A: b\r\n" * 200], ("431", "rejected_http_too_many_headers")),
    Attack("a field without an end", "headers_size_max", GET + b"X-A: ", [b"b" * 16384] * ROUNDS, ("431", "rejected_http_headers_too_large")),
    Attack("a request line without an end", "request_line_max", b"GET /", [b"b" * 16384] * ROUNDS, ("414", "rejected_http_line_too_long")),
    Attack("cookies", "headers_size_max", b"", flood(get(b"/costly/cookies", b"Cookie: " + b"a=b; " * 6000 + b"a=b\r\n")), (), each_kib=320),
    Attack("query parameters", "request_line_max", b"", flood(get(b"/costly/query?" + b"a=b&" * 1900)), ()),
    Attack("segments of paths", "request_line_max", b"", flood(get(b"/users" + b"/a" * 3900)), ("responses_4xx",)),
    Attack("ranges", "", b"", flood(get(b"/tls/files/large", b"Range: bytes=" + b",".join(b"%d-%d" % (i, i) for i in range(0, 6000, 2)) + b"\r\n")),
           ("rejected_static_ranges_absurd",), arguments=("--tls-static", "FILES")),
    Attack("ambiguous framing", "", POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + WHOLE, [],
           ("400", "rejected_http_transfer_encoding"), each_kib=16),
    Attack("lines of the log that grow fourfold", "headers_size_max", b"", flood(get(b"/n/1", EVIL)), (), arguments=("--access-log", "json:/dev/null")),
]  # fmt: skip

# A thousand empty parts and one more; and delimiters that are none.
PARTS = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 1001 + b"--b--\r\n"
NEAR = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"\r\n--" * 50000 + b"\r\n--b--\r\n"
BODIES = [
    Attack("chunk extensions", "chunk_extension_max", CHUNKED + b"5;a", [b";a=b" * 4096] * ROUNDS, ("400", "rejected_http_chunk_extension")),
    Attack("chunks of one byte", "body_size_max", CHUNKED, flood(b"1\r\nx\r\n"), ("413", "rejected_http_body_too_large"), each_kib=2560),
    Attack("trailers", "trailer_size_max", CHUNKED + b"0\r\n", [b"A: b\r\n" * 2500] * ROUNDS, ("431", "rejected_http_trailer_too_large")),
    Attack("hoarded uploads", "body_size_max, body_timeout", POST + b"Content-Length: 1048576\r\n\r\n", [b"x" * 65536] * 15,
           ("timeouts_body",), hold=True, width=5, each_kib=2304),
    Attack("multipart: more parts than are allowed", "field_count_max", multipart(PARTS), [], ("413",), each_kib=2560),
    Attack("multipart: near delimiters", "body_size_max", b"", [multipart(NEAR)] * ROUNDS, (), each_kib=2560),
]  # fmt: skip

TABLES = [
    Attack("rate limiter: requests of one address", "per_second", b"", flood(get(b"/costly/address")), ("429", "rate_limited")),
    Attack("rate limiter: an address a request", "keys_max", get(b"/costly/address"), [], (), leaves="close", heard=True, sources=1 << 20, each_kib=16),
    Attack("rate limiter: a key a request", "keys_max", b"", keys(), ()),
    Attack("router: paths that are not there", "", b"", [b"".join(get(b"/assets%d/%d" % (part, i)) for i in range(1000)) for part in range(50)],
           ("404", "responses_4xx")),
]  # fmt: skip

ATTACKS = [*SLOW, *CONNECTIONS, *HEADS, *BODIES, *TABLES]
