"""What is wrong gets its status, `Connection: close`, a close, one count under its reason, and no line in the log."""
import pytest

from harness import poll
from wire import chunked, head, request

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = [
    # request line
    ("space in front", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_method"),
    ("tab for a space", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_method"),
    ("a character that no method has", b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_method"),
    ("no target", b"GET\r\n\r\n", 400, "http_method"),
    ("a TLS client", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "http_method"),
    ("three empty lines in front", b"\r\n\r\n\r\n" + GET + b"\r\n", 400, "http_method"),
    ("two spaces", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_target"),
    ("relative target", b"GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_target"),
    ("asterisk for GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_target"),
    ("NUL in the target", b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_target"),
    ("user information in the target", b"GET http://u@h/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_target"),
    ("HTTP/0.9", b"GET /\r\n\r\n", 400, "http_version"),
    ("HTTP/0.9, which sends one line", b"GET /\r\n", 400, "http_version"),
    ("lower-case version", b"GET / http/1.1\r\nHost: a\r\n\r\n", 400, "http_version"),
    ("space after the version", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, "http_version"),
    ("something after the version", b"GET / HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_version"),
    ("HTTP/1.10", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400, "http_version"),
    ("HTTP/2.0", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "http_version_unsupported"),
    ("HTTP/3.1", b"GET / HTTP/3.1\r\nHost: a\r\n\r\n", 505, "http_version_unsupported"),
    ("HTTP/2 with another preface", b"PRI * HTTP/2.0\r\n\r\nSMS\r\n\r\n", 505, "http_version_unsupported"),
    # line ends
    ("LF ends the request line", b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "http_bare_lf"),
    ("LF ends a field", GET + b"A: b\nC: d\r\n\r\n", 400, "http_bare_lf"),
    ("LF ends the head", GET + b"A: b\r\n\n", 400, "http_bare_lf"),
    ("CR in the request line", b"GET /\rHTTP/1.1\r\nHost: a\r\n\r\n", 400, "http_bare_cr"),
    ("CR ends each line", b"GET / HTTP/1.1\rHost: a\r\r", 400, "http_bare_cr"),
    ("CR in a value", GET + b"A: b\rc\r\n\r\n", 400, "http_bare_cr"),
    # fields
    ("space before the colon", GET + b"A : b\r\n\r\n", 400, "http_header_name"),
    ("tab before the colon", POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400, "http_header_name"),
    ("no name", GET + b": b\r\n\r\n", 400, "http_header_name"),
    ("no colon", GET + b"A\r\n\r\n", 400, "http_header_name"),
    ("underscore in a name that frames", POST + b"Content_Length: 5\r\n\r\n", 400, "http_header_name"),
    ("byte above 127 in a name", GET + b"A\xc3: b\r\n\r\n", 400, "http_header_name"),
    ("NUL in a value", GET + b"A: b\0c\r\n\r\n", 400, "http_header_value"),
    ("control character in a value", GET + b"A: b\x0b\r\n\r\n", 400, "http_header_value"),
    ("DEL in a value", GET + b"A: b\x7f\r\n\r\n", 400, "http_header_value"),
    ("folded field", GET + b"A: b\r\n c\r\n\r\n", 400, "http_obs_fold"),
    ("folded first field", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "http_obs_fold"),
    # Host
    ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400, "http_host"),
    ("two Hosts", GET + b"Host: a\r\n\r\n", 400, "http_host"),
    ("two different Hosts", GET + b"host: b\r\n\r\n", 400, "http_host"),
    ("Host with a path", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "http_host"),
    ("Host with a space", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "http_host"),
    ("Host with user information", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "http_host"),
    ("Host with a wrong port", b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400, "http_host"),
    # length
    ("two lengths", POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, "http_content_length"),
    ("the same length twice", POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, "http_content_length"),
    ("a list of lengths", POST + b"Content-Length: 5, 5\r\n\r\nhello", 400, "http_content_length"),
    ("plus", POST + b"Content-Length: +5\r\n\r\nhello", 400, "http_content_length"),
    ("minus", POST + b"Content-Length: -5\r\n\r\nhello", 400, "http_content_length"),
    ("hexadecimal", POST + b"Content-Length: 0x5\r\n\r\nhello", 400, "http_content_length"),
    ("underscore in the number", POST + b"Content-Length: 5_0\r\n\r\nhello", 400, "http_content_length"),
    ("empty length", POST + b"Content-Length:\r\n\r\nhello", 400, "http_content_length"),
    ("length of 2^64", POST + b"Content-Length: 18446744073709551616\r\n\r\n", 400, "http_content_length"),
    ("length of 2^63", POST + b"Content-Length: 9223372036854775808\r\n\r\n", 400, "http_content_length"),
    # coding
    ("length and chunked", POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "http_transfer_encoding"),
    ("chunked and length", POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "http_transfer_encoding"),
    ("chunked twice", POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400, "http_transfer_encoding"),
    ("two codings in two fields", POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400, "http_transfer_encoding"),
    ("identity", POST + b"Transfer-Encoding: identity\r\n\r\n", 400, "http_transfer_encoding"),
    ("chunked in HTTP/1.0", b"POST /body HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "http_transfer_encoding"),
    ("unknown coding", POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "http_transfer_encoding_unknown"),
    ("misspelt chunked", POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, "http_transfer_encoding_unknown"),
    ("control character and chunked", POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400, "http_header_value"),
    # chunks
    ("chunk size that is no number", CHUNKED + b"x\r\n", 400, "http_chunk_size"),
    ("empty chunk size", CHUNKED + b"\r\nhello\r\n", 400, "http_chunk_size"),
    ("chunk size with a sign", CHUNKED + b"+5\r\nhello\r\n", 400, "http_chunk_size"),
    ("chunk size with 0x", CHUNKED + b"0x5\r\nhello\r\n", 400, "http_chunk_size"),
    ("chunk size with a space", CHUNKED + b"5 \r\nhello\r\n", 400, "http_chunk_size"),
    ("chunk size ended by LF", CHUNKED + b"5\nhello\r\n", 400, "http_chunk_size"),
    ("chunk size of 17 digits", CHUNKED + b"00000000000000005\r\nhello\r\n", 400, "http_chunk_size"),
    ("chunk size that overflows", CHUNKED + b"ffffffffffffffff\r\nhello\r\n", 400, "http_chunk_size"),
    ("chunk longer than its size", CHUNKED + b"4\r\nhello\r\n0\r\n\r\n", 400, "http_chunk_data"),
    ("chunk data ended by LF", CHUNKED + b"5\r\nhello\n0\r\n\r\n", 400, "http_chunk_data"),
    ("LF in a chunk extension", CHUNKED + b"5;a\nhello\r\n0\r\n\r\n", 400, "http_chunk_extension"),
    ("open quote in a chunk extension", CHUNKED + b'5;a="b\r\nhello\r\n0\r\n\r\n', 400, "http_chunk_extension"),
    ("chunk extension without a name", CHUNKED + b"5;=x\r\nhello\r\n0\r\n\r\n", 400, "http_chunk_extension"),
    ("empty chunk extension", CHUNKED + b"5;;\r\nhello\r\n0\r\n\r\n", 400, "http_chunk_extension"),
    ("two words as a chunk extension", CHUNKED + b"5;a b\r\nhello\r\n0\r\n\r\n", 400, "http_chunk_extension"),
    ("obs-text in a chunk extension", CHUNKED + b"5;a\x80\r\nhello\r\n0\r\n\r\n", 400, "http_chunk_extension"),
    ("trailer without a colon", CHUNKED + b"0\r\nA\r\n\r\n", 400, "http_trailer"),
    ("trailer that frames", CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n", 400, "http_trailer"),
    ("trailer ended by LF", CHUNKED + b"0\r\nA: b\n\r\n", 400, "http_trailer"),
    # limits
    ("long target", head("GET", "/" + "a" * 9000, host="a"), 414, "http_line_too_long"),
    ("long field", GET + b"A: " + b"b" * 40000 + b"\r\n\r\n", 431, "http_headers_too_large"),
    ("many fields, too large", GET + b"".join(b"A%d: %s\r\n" % (i, b"b" * 1000) for i in range(40)) + b"\r\n", 431, "http_headers_too_large"),
    ("too many fields", GET + b"A: b\r\n" * 100 + b"\r\n", 431, "http_too_many_headers"),
    ("large body announced", POST + b"Content-Length: 1048577\r\n\r\n", 413, "http_body_too_large"),
    ("large body in chunks", CHUNKED + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 17, 413, "http_body_too_large"),
    ("unknown expectation", POST + b"Content-Length: 5\r\nExpect: a-miracle\r\n\r\nhello", 417, "http_expectation"),
    ("malformed Connection", GET + b"Connection: close close\r\n\r\n", 400, "http_connection"),
]


def refusals(counters):
    return {name: value for name, value in counters.items() if name.startswith("rejected_")}


@pytest.mark.parametrize(("data", "status", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_malformed_requests_are_refused(server, data, status, reason):
    before = refusals(server.counters())
    with server.connect() as connection:
        connection.send_anyway(data)
        response = connection.response()
        assert response.status == status
        assert response.header("Connection") == "close"
        assert response.header("Content-Length") is not None
        connection.assert_closed()
    server.sync()
    after = refusals(server.counters())
    changed = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert changed == {f"rejected_{reason}": 1}
    assert server.new_stderr() == ""


def test_nothing_is_served_after_an_error(server):
    for count in (0, 1, 5, 200):
        with server.connect() as connection:
            good = b"".join(b"GET /n/%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(count))
            connection.send_anyway(good + b"GET / HTTP/1.1\nHost: a\r\n\r\n" + b"GET /n/evil HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
            for i in range(count):
                assert connection.response().body == b"%d" % i, "what came before the error is answered"
            assert connection.response().status == 400
            connection.assert_closed()


def test_an_error_behind_a_deferred_response_waits_for_it(server):
    with server.connect() as connection:
        connection.send(b"GET /later?key=e1 HTTP/1.1\r\nHost: a\r\n\r\nBAD\r\n\r\n")
        server.sync()
        assert connection.quiet()
        assert server.ask("/release?key=e1").text == "1"
        assert connection.response().body == b"later"
        assert connection.response().status == 400
        connection.assert_closed()


def test_a_smuggled_request_is_never_served(server):
    """The classical pairs: whichever length an upstream believes, the second request must not be served."""
    inner = b"GET /n/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    for framing in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(inner),
        b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
    ):
        with server.connect() as connection:
            connection.send_anyway(POST + framing + inner)
            assert connection.response().status in (400, 501), framing
            connection.assert_closed()


def test_a_client_that_continues_sending_still_gets_the_refusal(server):
    """Closing while bytes are unread makes the kernel reset the connection: the response must not be lost by that."""
    for _ in range(20):
        with server.connect() as connection:
            connection.send_anyway(head("POST", "/body", [("Content-Length", 50_000_000)]) + b"x" * 300_000)
            for _ in range(20):
                connection.send_anyway(b"x" * 65536)
            assert connection.response().status == 413


def test_head_of_a_refused_request_has_a_body_that_fits_its_length(server):
    with server.connect() as connection:
        connection.send(b"HEAD / HTTP/1.1\r\n\r\n")
        response = connection.response_head()
        assert response.status == 400
        assert len(connection.rest()) in (0, int(response.header("Content-Length") or 0))


@pytest.mark.parametrize("limit", ["request_line_max", "headers_size_max", "header_count_max", "body_size_max"])
def test_limits_are_exact(serve, limit):
    server = serve(settings={limit: 100})

    def status(data):
        with server.connect() as connection:
            connection.send(data)
            return connection.response().status

    if limit == "request_line_max":
        line = "/n/" + "1" * (100 - len("GET /n/ HTTP/1.1"))
        assert status(request(target=line)) == 200
        assert status(request(target=line + "1")) == 414
    elif limit == "headers_size_max":
        fields = b"Host: a\r\nA: \r\n\r\n"
        data = b"GET / HTTP/1.1\r\nHost: a\r\nA: %b\r\n\r\n"
        assert status(data % (b"b" * (100 - len(fields)))) == 200
        assert status(data % (b"b" * (101 - len(fields)))) == 431
    elif limit == "header_count_max":
        assert status(request(headers=[("A", "b")] * 99)) == 200
        assert status(request(headers=[("A", "b")] * 100)) == 431
    else:
        coded = head("POST", "/body", [("Transfer-Encoding", "chunked")])
        assert status(request("POST", "/body", body=b"x" * 100)) == 200
        assert status(request("POST", "/body", body=b"x" * 101)) == 413
        assert status(coded + chunked(b"x" * 60, b"x" * 40)) == 200
        assert status(coded + chunked(b"x" * 60, b"x" * 41)) == 413


def test_endless_chunk_extensions_are_cut_off(serve):
    server = serve()
    for piece in (b"a" * 1000, b";a=b" * 250):
        with server.connect() as connection:
            connection.send(CHUNKED + b"5;a")
            sent = 0
            while sent < 1_000_000 and connection.send_anyway(piece):
                sent += len(piece)
                server.sync()
                server.sync()  # what got a response in the iteration of the one before has left
                if not connection.quiet():
                    break
            assert connection.response().status == 400
            assert sent <= 4096 + len(piece)
    with server.connect() as connection:  # many small ones count together
        connection.send_anyway(CHUNKED + b"1;abc\r\nx\r\n" * 2000)
        assert connection.response().status == 400
    poll(lambda: server.counter("rejected_http_chunk_extension") == 3)


def test_endless_trailers_are_cut_off(server):
    for piece in (b"A: b\r\n" * 100, b"A" * 1000):
        with server.connect() as connection:
            connection.send(CHUNKED + b"0\r\n")
            sent = 0
            while sent < 1_000_000 and connection.send_anyway(piece):
                sent += len(piece)
                server.sync()
                server.sync()  # what got a response in the iteration of the one before has left
                if not connection.quiet():
                    break
            assert connection.response().status in (400, 431)
            assert sent <= 8192 + 2 * len(piece)
