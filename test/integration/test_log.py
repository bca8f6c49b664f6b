"""What an operator sees of the server at the levels INFO and DEBUG, that nothing of it comes at WARN, and that a standard
error that accepts nothing holds up nobody."""
import contextlib
import datetime
import json
import os
import re
import signal
import socket
import struct
import time

import pytest

from harness import HOST, START_SECONDS, build_option, free_port, poll
from pki import Pki
from wire import request

needs_tls = pytest.mark.skipif(build_option("UVHTTP_TLS") == "off", reason="built without TLS")


def start(serve, level, *arguments, **settings):
    return serve("http_test_server", "--log-rate", 0, *arguments, env={"UVHTTP_LOG_LEVEL": level}, settings=settings or None)


@pytest.mark.threads
def test_info_logs_start_and_end_and_not_connections(serve):
    server = start(serve, "info", io_threads=2, drain_timeout=20)
    address = f"{server.address[0]}:{server.address[1]}"
    begun = server.stderr()
    assert f" INFO  http: opened a listener: {address} (port {server.address[1]}), backlog " in begun
    assert " INFO  http: started: uvhttp " in begun and ", 2 loops on " in begun and f"listening on {address}" in begun
    assert "\nuvhttp " not in begun, "the line of INFO stands in place of the plain one"
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
    assert ended.count(f" INFO  http: closed the listeners: {address}\n") == 1
    assert ended.count(" INFO  http: loop ") == 4 and ended.count("has drained") == 2
    assert "connections of all loops are open, for at most 20 s" in ended
    assert " INFO  http: drain: 0 connections left" in ended
    assert " INFO  http: stopped: " in ended and " 0 connections cut off while being served" in ended
    assert "DEBUG" not in begun + ended


def test_the_line_of_the_start_needs_no_thread(serve, sanitizer):
    """In a process with one thread, the C library need not prepare each system call for the cancellation of a thread."""
    server = serve("performance_test", "--io-threads", 1, "--engine", "epoll")
    assert server.stderr().startswith("uvhttp ") and server.get("/").status == 200
    if sanitizer != "thread":  # it has a thread of its own
        assert len(os.listdir(f"/proc/{server.pid()}/task")) == 1


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
    assert re.search(rf"DEBUG conn: loop 0: fd \d+, {name}, closed: UVHTTP_OK, HTTP/1.1, 1 request, [1-9]\d* bytes received, [1-9]", text)
    assert f"{name}, speaks HTTP/1.1 (its first bytes)" in text
    assert "reset by its client while it was idle" in text
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


@needs_tls
def test_info_reports_how_long_a_certificate_is_valid(serve, tmp_path):
    pki = Pki(tmp_path)
    pki.issue("a", "/CN=a.test", ["a.test"], days=30)
    server = start(serve, "info", "--tls-listen", f"{HOST}:{free_port()}", *pki.use("a"))
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=30)
    line = re.search(r" INFO  tls: loaded the certificate of \S+a\.pem, valid until (\S+)Z\n", server.stderr())
    assert "WARN" not in server.stderr(), "it is new, however short its time is"
    assert abs(datetime.datetime.fromisoformat(line[1] + "+00:00") - until) < datetime.timedelta(hours=1)


@needs_tls
@pytest.mark.parametrize(
    ("hours", "said"), [(3, "the certificate expires in 0 days, on "), (-1, "the certificate expired on "), (24, None)], ids=["soon", "past", "later"]
)
def test_a_certificate_that_is_about_to_expire_is_a_warning(serve, tmp_path, hours, said):
    """It was issued a day ago: of 27 hours 3 are left, of 48 there are 24."""
    pki = Pki(tmp_path)
    pki.issue_until("a", time.time() + hours * 3600)
    server = start(serve, "warn", "--tls-listen", f"{HOST}:{free_port()}", *pki.use("a"))
    warnings = [line for line in server.stderr().splitlines() if " WARN " in line]
    assert len(warnings) == (said is not None)
    assert said is None or f"tls: {tmp_path}/a.pem: {said}" in warnings[0] and "renew it, then reload" in warnings[0]


@needs_tls
def test_debug_reports_what_tls_and_alpn_have_agreed_on(serve, tmp_path):
    pki = Pki(tmp_path)
    pki.issue("a", "/CN=a.test", ["a.test"])
    port = free_port()
    server = start(serve, "debug", "--tls-listen", f"{HOST}:{port}", *pki.use("a"), io_threads=1)
    names = {}
    for alpn in ("h2", "http/1.1"):
        context = pki.context(alpn=[alpn])
        with socket.create_connection((HOST, port)) as plain, context.wrap_socket(plain, server_hostname="a.test") as tls:
            names[alpn] = "{}:{}".format(*tls.getsockname()[:2])
            assert tls.selected_alpn_protocol() == alpn
            tls.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):  # what it leaves unread becomes a reset, and then the system does not know the peer
                while tls.recv(4096):
                    pass
    with contextlib.closing(socket.create_connection((HOST, port))) as early:
        names["none"] = "{}:{}".format(*early.getsockname()[:2])
    poll(lambda: all(f"{name}, closed: " in server.stderr() for name in names.values()))
    text = server.stderr()
    for alpn, speaks in (("h2", "HTTP/2 (ALPN)"), ("http/1.1", "HTTP/1.1 (ALPN has not chosen h2)")):
        assert re.search(rf"DEBUG tls: loop 0: fd \d+, {names[alpn]}, handshake done: TLSv1\.3, \S+, new session, [1-9]", text), text
        assert f"{names[alpn]}, speaks {speaks}\n" in text
        protocol = speaks.split()[0]
        assert re.search(rf"{names[alpn]}, closed: UVHTTP_\w+, {protocol}, 0 requests, ", text)
    assert re.search(rf"{names['none']}, closed: UVHTTP_\w+, during the TLS handshake, ", text)


# --- JSON ---


def test_every_line_is_an_object_in_json(serve, tmp_path):
    server = start(serve, "debug", log_format="json", io_threads=1)
    evil = 'a"b\\c\x01\x7f\u2028\n'.encode() + b"\xff\xc3("
    for target in (b"/", b"/interim/refused", b"/" + evil, evil):
        with contextlib.suppress(OSError), socket.create_connection(server.address) as client:
            client.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: " + evil + b"\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            client.recv(4096)
    server.stop()
    lines = [json.loads(line) for line in server.stderr().splitlines()]
    assert len(lines) > 10 and all({"time", "level", "message"} <= line.keys() <= {"time", "level", "area", "message"} for line in lines)
    assert {"INFO", "DEBUG"} <= {line["level"] for line in lines}
    assert any(line.get("area") == "http" and line["message"].startswith("started: uvhttp ") for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)


def test_start_and_end_are_objects_too_when_info_is_not_logged(serve):
    server = start(serve, "warn", log_format="json")
    server.stop()
    messages = [json.loads(line)["message"] for line in server.stderr().splitlines()]
    assert messages[0].startswith("uvhttp ") and "listening on" in messages[0] and messages[-1] == "stopped, drained", messages


def test_the_environment_selects_the_format_of_the_first_line(serve):
    server = serve("http_test_server", env={"UVHTTP_LOG_FORMAT": "JSON", "UVHTTP_LOG_LEVEL": "info"})
    assert "opened a listener" in json.loads(server.stderr().splitlines()[0])["message"]


# --- a standard error that accepts nothing ---


@contextlib.contextmanager
def full_fifo(path):
    """What is read and written by its descriptor; without a reader it holds 64 KiB."""
    os.mkfifo(path)
    ends = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield ends
    finally:
        os.close(ends)


def serve_into(serve, path, ends, *arguments, **settings):
    """A server that has started: up to the line that says so, it does wait for its standard error. That line has been read from `ends`."""
    server = serve(
        "http_test_server", "--log-rate", 0, *arguments, prefix=("sh", "-c", 'exec "$@" 2>"$0"', str(path)), says_start=False,
        env={"UVHTTP_LOG_LEVEL": "debug"}, settings=settings,
    )  # fmt: skip
    said = bytearray()
    poll(lambda: b"listening on" in said or said.extend(read_all(ends)), START_SECONDS, message="no start line")
    return server


def log_stats(connection):
    return json.loads(connection.get("/log-stats").body)


def read_all(ends):
    """What is there now."""
    data = b""
    with contextlib.suppress(BlockingIOError):
        while True:
            data += os.read(ends, 65536)
    return data


def test_a_blocked_standard_error_holds_up_no_request_and_every_line_is_counted(serve, tmp_path):
    with full_fifo(tmp_path / "fifo") as ends:
        server = serve_into(serve, tmp_path / "fifo", ends, io_threads=1)
        with server.connect() as kept:
            longest, deadline = 0, time.monotonic() + 60
            while log_stats(kept)["dropped"] < 1000:
                assert time.monotonic() < deadline, log_stats(kept)
                before = time.monotonic()
                for _ in range(50):
                    assert server.get("/").status in (200, 404)  # a connection each: four lines
                longest = max(longest, time.monotonic() - before)
            assert longest < 5, "50 requests"
            stats = log_stats(kept)
            assert stats["suppressed"] == stats["failed"] == 0
        text = b""
        deadline = time.monotonic() + 20
        while b" lines were dropped here" not in text and time.monotonic() < deadline:
            text += read_all(ends)
        server.get("/")
        server.signal()
        while server.process.poll() is None and time.monotonic() < deadline:
            text += read_all(ends)
        text += read_all(ends)
    assert server.wait() == 0
    lines = text.decode().splitlines()
    assert text.endswith(b"\n") and all(re.match(r"\d{4}-\S+Z (DEBUG|INFO |WARN ) \w+: |uvhttp", line) for line in lines)
    reported = sum(int(n) for n in re.findall(r"log: (\d+) lines? w\w+ dropped here: ", text.decode()))
    assert reported >= stats["dropped"] >= 1000
    assert " INFO  http: stopped: " in lines[-1]


def test_a_server_ends_although_nobody_reads_its_standard_error(serve, tmp_path):
    with full_fifo(tmp_path / "fifo") as ends:
        server = serve_into(serve, tmp_path / "fifo", ends, io_threads=1)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(ends, b"x" * 4096)
        server.get("/")
        server.signal()
        assert server.wait(15) == 0


def test_a_closed_standard_error_ends_nothing(serve, tmp_path):
    with full_fifo(tmp_path / "fifo") as ends:
        server = serve_into(serve, tmp_path / "fifo", ends, io_threads=1)
    with server.connect() as kept:  # nobody has the fifo open for reading any more
        for _ in range(5):
            server.get("/")
        poll(lambda: log_stats(kept)["failed"] > 10)
    server.signal()
    assert server.wait() == 0


def test_a_reload_says_what_it_changed(serve, tmp_path):
    if build_option("BUILD_WITH_YAML") == "OFF":
        pytest.skip("built without YAML")
    file = tmp_path / "server.yaml"
    file.write_text("performance:\n  log_level: info\n")
    server = serve("performance_test", "--config", file, env={"UVHTTP_LOG_LEVEL": None})
    server.signal(signal.SIGHUP)
    poll(lambda: "reloaded: configuration (nothing that applies without a restart has changed), TLS files of 0 listeners, log files\n" in server.stderr())
    file.write_text("log_format: json\ntls_handshake_timeout: 7\nperformance:\n  log_level: info\n")
    server.signal(signal.SIGHUP)
    poll(lambda: server.stderr().count("reloaded: ") == 2 and server.stderr().endswith("\n"))
    last = json.loads([line for line in server.stderr().splitlines() if "reloaded: " in line][-1])
    assert "(tls_handshake_timeout: 10 -> 7; log_format: text -> json)" in last["message"] and last["area"] == "http"
