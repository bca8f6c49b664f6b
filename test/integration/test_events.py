"""examples/events.c: server-sent events to clients that come and go, and to one that does not read."""
import shutil
import subprocess
import time

import pytest
from harness import poll
from wire import request

needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


@pytest.fixture
def server(serve):
    return serve("events")


class Stream:
    """A client of an event stream; chunked coding taken off by hand, so that what has come can be seen at once."""

    def __init__(self, server, **options):
        self.connection = server.connect(**options)
        self.connection.send(b"GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n")
        self.bytes = b""
        self.wait_for(b": welcome\n\n")

    def wait_for(self, text):
        while text not in self.bytes:
            piece = self.connection.socket.recv(65536)
            assert piece, self.bytes
            self.bytes += piece

    def close(self):
        self.connection.socket.close()


def say(server, text):
    with server.connect() as connection:
        return connection.get("/say", method="POST", body=text).status


def test_everybody_hears_what_is_said(server):
    streams = [Stream(server) for _ in range(5)]
    for stream in streams:
        assert b"Content-Type: text/event-stream\r\n" in stream.bytes and b"Cache-Control: no-store\r\n" in stream.bytes
    assert say(server, b"hello") == 204
    assert say(server, b"two\r\nlines\0") == 204
    for stream in streams:
        stream.wait_for(b"data: hello\n\n")
        stream.wait_for(b"data: two\ndata: lines\n\n")
        stream.close()


def test_those_who_leave_are_forgotten(server):
    before = server.descriptors()
    stays = Stream(server)
    for _ in range(20):
        Stream(server).close()
    assert say(server, b"still here?") == 204
    stays.wait_for(b"data: still here?\n\n")
    stays.close()
    poll(lambda: server.descriptors() <= before)
    assert say(server, b"nobody") == 204


def test_what_can_not_be_said_is_refused(server):
    assert say(server, b"") == 422
    assert say(server, b"x" * 501) == 422


def drain(connection):
    connection.socket.setblocking(False)
    try:
        while connection.socket.recv(1 << 20):
            pass
    except BlockingIOError:
        connection.socket.settimeout(20)


def test_a_client_that_does_not_read_is_cut_off_and_the_others_go_on(server):
    stays, sleeps = Stream(server), Stream(server, receive_buffer=4096)
    with server.connect() as connection:
        assert connection.get("/").status == 200  # all are accepted now
        before = server.descriptors()
        for _ in range(140):  # 7 MB: more than a queue and what the kernel takes
            connection.send(request("POST", "/say", body=b"x" * 500) * 100)
            assert [connection.response().status for _ in range(100)] == [204] * 100
            drain(stays.connection)
        poll(lambda: server.descriptors() < before, 20)  # it was told the end, and did not take that either
        drain(stays.connection)
        assert connection.get("/say", method="POST", body=b"and now?").status == 204
        stays.bytes = b""
        stays.wait_for(b"data: and now?\n\n")
    sleeps.close()
    stays.close()


@needs_curl
def test_curl_hears_events(server):
    curl = subprocess.Popen(["curl", "-sSN", "--max-time", "20", server.url("/events")], stdout=subprocess.PIPE)
    try:
        assert curl.stdout.readline() == b": welcome\n"
        assert say(server, b"to curl") == 204
        assert curl.stdout.readline() == b"\n"
        assert curl.stdout.readline() == b"data: to curl\n"
    finally:
        curl.kill()
        curl.wait()


def test_the_page_is_served(server):
    page = server.get("/")
    assert page.status == 200 and page.header("Content-Type") == "text/html; charset=utf-8"
    assert b"new EventSource('/events')" in page.body


def test_a_stop_ends_open_streams(server):
    """Without waiting for the drain's time to be over."""
    streams = [Stream(server) for _ in range(3)]
    since = time.monotonic()
    server.signal()
    for stream in streams:
        stream.wait_for(b"event: bye\ndata:\n\n")
        stream.connection.assert_closed()
        stream.close()
    assert server.wait() == 0
    assert time.monotonic() - since < 15, "the drain's time is 30 s"
    assert "cut off" not in server.new_stderr()
