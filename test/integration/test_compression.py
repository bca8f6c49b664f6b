"""Compressed answers as real clients see them: curl with brotli and gzip, and Python's own gzip."""
import gzip
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.neutral
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


@pytest.fixture
def server(serve):
    return serve("compression")


def ask(server, path, *fields, method="GET"):
    with server.connect() as connection:
        return connection.get(path, list(fields), method=method)


def plain(server, path="/primes"):
    response = ask(server, path)
    assert response.status == 200 and response.header("Content-Encoding") is None
    return response


def test_gzip_is_what_was_sent_plain(server):
    expected = plain(server)
    assert expected.header("Vary") == "Accept-Encoding"
    assert expected.header("ETag") == '"primes-1"'
    response = ask(server, "/primes", ("Accept-Encoding", "gzip"))
    assert response.header("Content-Encoding") == "gzip"
    assert response.header("Vary") == "Accept-Encoding"
    assert response.header("ETag") == 'W/"primes-1"'
    assert int(response.header("Content-Length")) == len(response.body) < len(expected.body) / 2
    assert gzip.decompress(response.body) == expected.body


def test_head_describes_the_same_response(server):
    whole = ask(server, "/primes", ("Accept-Encoding", "br"))
    only_head = ask(server, "/primes", ("Accept-Encoding", "br"), method="HEAD")
    for name in ("Content-Encoding", "Content-Length", "Vary", "ETag", "Content-Type"):
        assert only_head.header(name) == whole.header(name)


def test_a_type_that_is_compressed_itself_is_left_alone(server):
    response = ask(server, "/pixels", ("Accept-Encoding", "gzip, br"))
    assert response.header("Content-Encoding") is None and response.header("Vary") is None


def test_not_found_is_served_plain(server):
    assert ask(server, "/missing", ("Accept-Encoding", "gzip")).status == 404


@needs_curl
@pytest.mark.parametrize("accept", ["gzip", "br", "br;q=0.5, gzip", "gzip;q=0, *"])
def test_curl_decodes_every_coding(server, accept):
    expected = plain(server).body
    command = server.curl("--compressed", "-H", f"Accept-Encoding: {accept}", server.url("/primes"))
    assert subprocess.run(command, capture_output=True, check=True).stdout == expected


COUNT = b"".join(b"line %d of 1000\n" % n for n in range(1000))


def test_pieces_are_compressed_and_chunked(server):
    response = ask(server, "/count")
    assert response.body == COUNT and response.header("Content-Encoding") is None
    assert response.header("Vary") == "Accept-Encoding"
    response = ask(server, "/count", ("Accept-Encoding", "gzip"))
    assert response.header("Content-Encoding") == "gzip" and response.header("Vary") == "Accept-Encoding"
    assert not response.announced
    assert gzip.decompress(response.body) == COUNT
    only_head = ask(server, "/count", ("Accept-Encoding", "gzip"), method="HEAD")
    assert only_head.header("Content-Encoding") == "gzip" and only_head.header("Content-Length") is None


@pytest.mark.http1("HTTP/1.0")
def test_pieces_for_http_1_0_end_with_the_connection(server):
    with server.connect() as connection:
        response = connection.get("/count", [("Accept-Encoding", "gzip")], version="HTTP/1.0")
        assert response.header("Transfer-Encoding") is None
        assert gzip.decompress(response.body) == COUNT


@needs_curl
@pytest.mark.parametrize("accept", ["gzip", "br"])
def test_curl_decodes_pieces(server, accept):
    command = server.curl("--compressed", "-H", f"Accept-Encoding: {accept}", server.url("/count"))
    for _ in range(5):
        assert subprocess.run(command, capture_output=True, check=True).stdout == COUNT


def test_many_requests_on_one_connection_give_the_same_bytes(server):
    first = None
    with server.connect() as connection:
        for _ in range(50):
            response = connection.get("/primes", [("Accept-Encoding", "gzip")])
            first = first or response.body
            assert response.body == first
