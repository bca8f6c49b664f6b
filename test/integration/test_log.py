"""What an operator sees of the server at the levels INFO and DEBUG, and that nothing of it comes at WARN."""
import datetime
import re
import socket
import struct

import pytest

from harness import HOST, free_port, poll
from pki import Pki
from wire import request


def start(serve, level, *arguments, **settings):
    return serve("http_test_server", *arguments, env={"UVHTTP_LOG_LEVEL": level}, settings=settings or None)


@pytest.mark.threads
def test_info_logs_start_and_end_and_not_connections(serve):
    server = start(serve, "info", io_threads=2, drain_timeout=20)
    address = f"{server.address[0]}:{server.address[1]}"
    begun = server.stderr()
    assert f" INFO  http: opened a listener: {address} (port {server.address[1]}), backlog " in begun
    assert " INFO  http: started: uvhttp " in begun and ", 2 loops on " in begun and f"listening on {address}" in begun
    connections = [server.connect() for _ in range(4)]
    for connection in connections:
        assert connection.get("/").status in (200, 404)
    assert server.new_stderr() == ""
    with server.connect() as slow:
        slow.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
        server.get("/")
        server.signal()
        poll(lambda: "drains: " in server.stderr())
        slow.send(b"bc")
        slow.response()
    for connection in connections:
        connection.close()
    assert server.wait() == 0
    ended = server.new_stderr()
    assert ended.count(" INFO  http: loop ") == 4 and ended.count("has drained") == 2
    assert "connections of all loops are open, for at most 20 s" in ended
    assert " INFO  http: drain: 0 connections left" in ended
    assert " INFO  http: stopped: " in ended and " 0 connections cut off while being served" in ended
    assert "DEBUG" not in begun + ended


def test_debug_reports_how_each_connection_began_and_ended(serve):
    server = start(serve, "debug", io_threads=1, max_connections=3)
    with server.connect() as closing, server.connect() as resetting:
        name, other = (f"{one.socket.getsockname()[0]}:{one.socket.getsockname()[1]}" for one in (closing, resetting))
        closing.get("/")
        resetting.get("/")
        resetting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    poll(lambda: "closed: UVHTTP_E_ABORTED" in server.stderr() and f"{name}, closed: " in server.stderr())
    text = server.stderr()
    assert f"{name}, accepted" in text and f"{other}, accepted" in text
    assert f"{name}, closed: UVHTTP_OK" in text
    with server.connect() as first, server.connect() as second, server.connect() as last:
        first.get("/")
        second.get("/")
        last.get("/")
        with server.connect() as third:
            third.send(request())
            poll(lambda: "connections of max_connections are open" in server.stderr())


def test_warn_is_silent_about_what_is_as_it_should_be(serve):
    server = start(serve, "warn")
    with server.connect() as connection:
        connection.get("/")
    server.stop()
    assert "INFO" not in server.stderr() and "DEBUG" not in server.stderr()


def test_info_reports_how_long_a_certificate_is_valid(serve, tmp_path):
    pki = Pki(tmp_path)
    pki.issue("a", "/CN=a.test", ["a.test"], days=30)
    server = start(serve, "info", "--tls-listen", f"{HOST}:{free_port()}", *pki.use("a"))
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=30)
    told = re.search(r" INFO  tls: loaded the certificate of \S+a\.pem, valid until (\S+)Z\n", server.stderr())
    assert abs(datetime.datetime.fromisoformat(told[1] + "+00:00") - until) < datetime.timedelta(hours=1)
