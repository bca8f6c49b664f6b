"""Every way to respond."""
import email.utils
import json
import os
import time

import pytest

from harness import poll
from wire import Closed

pytestmark = pytest.mark.neutral


def pattern(size, start=0):
    alphabet = b"abcdefghijklmnopqrstuvwxyz"
    return (alphabet * (size // 26 + 2))[start : start + size]


def test_a_plain_response_has_the_headers_that_belong_to_it(connection):
    began = time.time()
    response = connection.get("/")
    assert response.status == 200
    assert response.header("Content-Length") == "13" and response.body == b"Hello, World!"
    assert response.header("Content-Type") == "text/plain; charset=utf-8"
    assert began - 2 < email.utils.parsedate_to_datetime(response.header("Date")).timestamp() <= time.time()
    assert response.header("Connection") is None and response.header("Transfer-Encoding") is None


@pytest.mark.http1("the status line")
def test_a_status_line_has_version_and_reason(connection):
    response = connection.get("/")
    assert response.reason == "OK" and response.minor == 1


@pytest.mark.parametrize("route", ["static", "copy", "ref", "content"])
@pytest.mark.parametrize("size", [0, 1, 4096, 16384, 65_535, 65_536, 100_000, 8_000_000])
def test_bodies_of_any_size_arrive_whole(connection, route, size):
    response = connection.get(f"/{route}?size={size}")
    assert response.status == 200 and response.header("Content-Length") == str(size)
    assert response.body == pattern(size)


def test_references_are_released_exactly_once(server, connection):
    before = server.counters()
    connection.get("/ref?size=10")
    connection.get("/ref?size=3000000")
    connection.get("/ref?size=10&times=3")  # the last counts, but all are released
    connection.get("/ref?size=10", method="HEAD")
    with server.connect() as leaver:
        leaver.start("/ref?size=30000000").wait_head()
        leaver.reset()
    poll(lambda: server.counter("test_ref_released") - before["test_ref_released"] >= 7)
    after = server.counters()
    assert after["test_ref_used"] - before["test_ref_used"] == 7
    assert after["test_ref_released"] - before["test_ref_released"] == 7


@pytest.mark.parametrize("size", [0, 1, 5000, 3_000_000])
def test_files_arrive_whole(connection, tmp_path, size):
    path = tmp_path / "file"
    content = os.urandom(size)
    path.write_bytes(content)
    response = connection.get(f"/file?path={path}")
    assert response.status == 200 and response.body == content
    assert response.header("Content-Type") == "application/octet-stream"
    assert connection.get("/n/1").body == b"1"


def test_a_part_of_a_file(connection, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pattern(100_000))
    assert connection.get(f"/file?path={path}&offset=50000&size=1000").body == pattern(1000, 50000 % 26)
    assert connection.get(f"/file?path={path}&offset=99990").body == pattern(10, 99990 % 26)


def test_files_that_cannot_be_sent_are_an_error_of_the_call(connection, tmp_path):
    assert connection.get(f"/file?path={tmp_path}/missing").text == "UVHTTP_E_NOT_FOUND"
    assert connection.get(f"/file?path={tmp_path}").text == "UVHTTP_E_INVALID"


def test_descriptors_of_files_are_closed(server, connection, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pattern(20_000_000))
    connection.get(f"/file?path={path}")
    before = server.descriptors()
    for _ in range(5):
        connection.get(f"/file?path={path}")
        connection.get(f"/file?path={path}", method="HEAD")
    with server.connect() as leaver:
        leaver.start(f"/file?path={path}").wait_head()
        leaver.reset()
    poll(lambda: server.descriptors() <= before)


def test_a_file_that_shrinks_ends_the_connection(server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(20_000_000))
    with server.connect(receive_buffer=4096) as connection:
        asked = connection.start(f"/file?path={path}")
        asked.wait_head()
        os.truncate(path, 1000)
        with pytest.raises((Closed, ConnectionError)):
            asked.response()


@pytest.mark.parametrize("status", [200, 201, 204, 304, 404, 500])
def test_empty_responses(connection, status):
    response = connection.get(f"/empty/{status}")
    assert response.status == status and response.body == b""
    if status not in (204, 304):
        assert response.header("Content-Length") == "0"
    assert connection.get("/n/2").body == b"2"


def test_a_status_out_of_range_is_an_error_of_the_call(connection):
    assert connection.get("/empty/199").text == "UVHTTP_E_INVALID"
    assert connection.get("/empty/600").text == "UVHTTP_E_INVALID"


def test_redirects(connection):
    response = connection.get("/redirect?status=307&to=/elsewhere")
    assert response.status == 307 and response.header("Location") == "/elsewhere"
    assert connection.get("/redirect?status=200&to=/").text == "UVHTTP_E_INVALID"
    assert connection.get("/redirect?to=/a%0d%0aX:%20b").text == "UVHTTP_E_INVALID"


def test_headers_of_the_handler(connection):
    response = connection.get("/headers?X-A=1&X-A=2&X-Empty=&X-Text=a+b")
    assert response.text == "UVHTTP_OK\n" * 4
    assert response.all("X-A") == ["1", "2"] and response.header("X-Empty") == "" and response.header("X-Text") == "a b"


@pytest.mark.parametrize(
    "query",
    ["X-A=b%0d%0aX-Evil:+1", "X-A=b%0aX-Evil:+1", "X%20A=b", "X-A:=b", "X-A=%01", "=b", "Content-Length=5", "transfer-encoding=chunked", "Date=x", "Connection=keep-alive", "Upgrade=x"],
)
def test_headers_that_would_break_the_framing_are_refused(connection, query):
    response = connection.get(f"/headers?{query}")
    assert response.text == "UVHTTP_E_INVALID\n"
    assert not response.all("X-Evil")


def test_a_handler_can_close(server, protocol):
    with server.connect() as connection:
        response = connection.get("/close")
        assert response.body == b"bye" and response.header("Connection") == ("close" if protocol == "http1" else None)
        connection.assert_closed()
    with server.connect() as connection:
        assert connection.get("/headers?Connection=close").text == "UVHTTP_OK\n"
        connection.assert_closed()


def test_a_handler_that_does_not_respond_gives_500_and_is_counted(server, connection):
    before = server.counter("handler_no_response")
    assert connection.get("/nothing").status == 500
    assert connection.get("/").status == 200
    server.wait_counter("handler_no_response", before + 1)


def test_pieces_have_no_length(connection, protocol):
    response = connection.get("/pieces?n=3&size=5")
    assert not response.announced and response.header("Transfer-Encoding") == ("chunked" if protocol == "http1" else None)
    assert response.body == pattern(5) + pattern(5, 1) + pattern(5, 2)
    assert connection.get("/pieces?n=0").body == b""
    assert connection.get("/n/3").body == b"3"


@pytest.mark.http1("HTTP/1.0")
def test_pieces_for_http_1_0_end_by_closing(server):
    with server.connect() as connection:
        response = connection.get("/pieces?n=2&size=3", version="HTTP/1.0", headers=[("Connection", "keep-alive")])
        assert response.header("Transfer-Encoding") is None and response.header("Content-Length") is None
        assert response.body == pattern(3) + pattern(3, 1)


def test_pieces_of_a_declared_size_have_content_length(connection):
    response = connection.get("/pieces?n=2&size=3&declared=6")
    assert response.header("Content-Length") == "6" and response.body == pattern(3) + pattern(3, 1)
    assert connection.get("/n/4").body == b"4"


@pytest.mark.parametrize("declared", [5, 7])
@pytest.mark.http1("test_http2.py has this: the stream is reset")
def test_pieces_that_break_their_promise_close_the_connection(server, declared):
    with server.connect() as connection:
        connection.send(f"GET /pieces?n=2&size=3&declared={declared} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        connection.send_anyway(b"GET /n/5 HTTP/1.1\r\nHost: a\r\n\r\n")
        head = connection.response_head()
        assert head.status in (200, 500)
        if head.status == 200:
            assert len(connection.rest()) <= declared, "never more than was promised, and nothing after it"


def test_pieces_without_an_end_are_ended_when_the_handler_returns(connection):
    assert connection.get("/pieces?unended=1&n=2&size=3").body == pattern(3) + pattern(3, 1)
    assert connection.get("/n/6").body == b"6"


def test_counters_and_metrics_agree_with_what_was_done(serve):
    server = serve()
    with server.connect() as connection:
        for _ in range(20):
            connection.get("/")
        for _ in range(3):
            connection.get("/missing")
    counters = server.counters()
    assert counters["responses_4xx"] == 3 and counters["responses_2xx"] >= 20
    assert counters["requests"] in range(24, 26)
    metrics = json.loads(server.ask("/metrics").body)
    assert metrics["responses_4xx"] == 3 and metrics["connections_active"] == 1
    assert metrics["bytes_sent"] > 20 * 13 and metrics["bytes_received"] > 0
    assert metrics["response_time_count"] >= 23
    assert 0 < metrics["response_time_p50_ns"] <= metrics["response_time_max_ns"] < 5e9
