"""examples/events.c: server-sent events to clients that come and go, and to one that does not read."""
import shutil
import subprocess
import time

import pytest
from harness import poll

pytestmark = pytest.mark.neutral
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


@pytest.fixture
def server(serve):
    return serve("events")


class Stream:
    """A client of an event stream."""

    def __init__(self, server, **options):
        self.connection = server.connect(**options)
        self.request = self.connection.start("/events", [("Accept", "text/event-stream")])
        self.wait_for = self.request.wait_body
        self.wait_for(b":\n\n")

    def close(self):
        self.connection.close()


def say(server, text):
    with server.connect() as connection:
        return connection.get("/say", method="POST", body=text).status


def test_everybody_hears_what_is_said(server):
    streams = [Stream(server) for _ in range(5)]
    for stream in streams:
        head = stream.request.wait_head()
        assert head.header("Content-Type") == "text/event-stream" and head.header("Cache-Control") == "no-store"
    assert say(server, b"hello") == 204
    assert say(server, b"two\r\nlines\n") == 204
    for stream in streams:
        stream.wait_for(b"data: hello\n\n")
        stream.wait_for(b"data: two\ndata: lines\ndata: \n\n")
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


def test_what_cannot_be_said_is_refused(server):
    assert say(server, b"") == 422
    assert say(server, b"x" * 501) == 422


def test_a_client_that_does_not_read_is_cut_off_and_the_others_continue(server, protocol):
    stays, sleeps = Stream(server), Stream(server, receive_buffer=4096)
    with server.connect() as connection:
        assert connection.get("/").status == 200  # all are accepted now
        before = server.descriptors()
        # 7 MB: more than a queue and what the kernel takes; over HTTP/2 it takes no more than a window.
        for number in range(140 if protocol == "http1" else 30):
            asked = [connection.start("/say", method="POST", body=b"x" * 500) for _ in range(100)]
            assert [one.response().status for one in asked] == [204] * 100
            assert connection.get("/say", method="POST", body=b"%d" % number).status == 204
            stays.wait_for(b"data: %d\n\n" % number)
        if protocol == "http1":
            poll(lambda: server.descriptors() < before, 60)
        else:  # the stream alone: the connection may have others
            sleeps.connection.until(lambda: sleeps.request.seen.reset is not None)
        assert connection.get("/say", method="POST", body=b"and now?").status == 204
        stays.wait_for(b"data: and now?\n\n")
    sleeps.close()
    stays.close()


@needs_curl
def test_curl_hears_events(server):
    curl = subprocess.Popen(server.curl("-N", server.url("/events")), stdout=subprocess.PIPE)
    try:
        assert curl.stdout.readline() == b":\n"
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
        assert stream.request.response().body == b""
        stream.connection.assert_closed()
        stream.close()
    assert server.wait() == 0
    assert time.monotonic() - since < 15, "the drain's time is 30 s"
    assert "cut off" not in server.new_stderr()
