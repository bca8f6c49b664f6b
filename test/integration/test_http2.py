"""HTTP/2: the handlers and what is around them behave as over HTTP/1, in clear and over TLS."""
import os
import ssl
import threading
import time

import h2.errors
import h2.settings
import hpack
import pytest
from hyperframe import frame as frames

import wire
from harness import HOST, free_port, poll
from pki import ByHand, records
from site_h2 import Site
from wire_h2 import PREFACE, Client, Closed, Raw

Codes = h2.errors.ErrorCodes
Settings = h2.settings.SettingCodes


@pytest.fixture
def client(site):
    with site.client() as one:
        yield one


# --- requests and responses ---


def test_a_request_is_served(client):
    response = client.get("/")
    assert (response.status, response.text) == (200, "Hello, World!")
    assert response.header("content-type").startswith("text/plain")
    assert response.header("content-length") == "13"
    assert response.header("date")
    assert response.header("connection") is None


def test_both_protocols_share_the_ports(site, pki):
    assert site.server.get("/").text == "Hello, World!"
    with site.client() as client:
        assert client.get("/n/7").text == "7"
    assert site.server.get("/n/8").text == "8"


def test_the_preface_may_come_byte_by_byte(serve):
    server = serve()
    with wire.Connection(server.address) as connection:
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0":
            connection.send(bytes([byte]))
            server.sync()
        data = b""
        while len(data) < 9:
            data += connection.socket.recv(100)
        assert data[3] == 4  # SETTINGS


def test_what_is_almost_the_preface_is_http_1(serve):
    server = serve()
    with wire.Connection(server.address) as connection:
        connection.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
        assert connection.response().status == 505
    with wire.Connection(server.address) as connection:
        connection.send(wire.request("GET", "/") + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert connection.response().status == 200
        assert connection.response().status == 505  # not as the second request


def test_another_preface_ends_the_connection(serve):
    """What h2spec sends in its case 3.5.2. RFC 9113 section 3.4 lets the GOAWAY be left out; a client of HTTP/1 may read why."""
    server = serve()
    with wire.Connection(server.address) as connection:
        connection.send(b"INVALID CONNECTION PREFACE\r\n\r\n")
        assert connection.response().status == 400
        connection.assert_closed()


def test_http2_can_be_switched_off(serve, pki):
    address = (HOST, free_port())
    server = serve("http_test_server", "--tls-listen", "%s:%d" % address, *pki.use("a"), settings={"http2": "off"})
    with wire.Connection(server.address) as connection:
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert connection.response().status == 505
    with pytest.raises(AssertionError):
        Client(address, pki.context(alpn=["h2", "http/1.1"]))


@pytest.mark.threads
def test_many_requests_at_once_are_each_served(client):
    numbers = [client.start("GET", f"/n/{i}", flush=False) for i in range(100)]
    client.flush()
    for i, number in enumerate(numbers):
        assert client.finish(number).text == str(i)


def test_more_requests_at_once_than_allowed_are_refused(make_site):
    site = make_site(settings={"http2_concurrent_streams_max": 4})
    with site.client() as client:
        client.sync()
        assert client.h2.remote_settings.max_concurrent_streams == 4
        waiting = [client.start("GET", f"/later?key=k{i}") for i in range(4)]
        client.sync()
        client.h2.remote_settings._settings[Settings.MAX_CONCURRENT_STREAMS][0] = 100
        refused = client.finish(client.start("GET", "/n/1"))
        assert refused.reset == Codes.REFUSED_STREAM
        for i in range(4):
            poll(lambda i=i: site.server.ask(f"/release?key=k{i}").text == "1")
        for number in waiting:
            assert client.finish(number).status == 200
        assert client.get("/n/2").text == "2"


def test_what_a_handler_sees_is_what_was_sent(client):
    fields = [("x-repeated", "a"), ("x-repeated", "b"), ("cookie", "a=1"), ("cookie", "b=2"), ("accept", "*/*")]
    import json

    seen = json.loads(client.get("/echo/a%20b/c?x=1&y=%41", headers=fields).body)
    assert seen["method"] == "GET" and seen["path"] == "/echo/a b/c"
    assert seen["target"] == "/echo/a%20b/c?x=1&y=%41"
    assert seen["host"] == "test"
    assert seen["query_params"] == [["x", "1"], ["y", "A"]]
    assert seen["x_all"] == ["a", "b"]
    headers = [tuple(pair) for pair in seen["headers"]]
    assert [value for name, value in headers if name.lower() == "cookie"] == ["a=1; b=2"]
    assert seen["client_scheme"] == client.scheme


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_body_is_echoed(client, method):
    for size in (0, 1, 100, 16384, 65535, 65536, 300000):
        body = os.urandom(size)
        response = client.get("/body", method=method, body=body)
        assert response.status == 200 and response.body == body, size


def test_head_has_no_body(client):
    response = client.get("/", method="HEAD")
    assert response.status == 200 and response.body == b"" and response.header("content-length") == "13"


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_ends_with_its_head(client, status):
    response = client.get(f"/empty/{status}")
    assert response.status == status and response.body == b"" and response.header("content-length") is None


def test_unknown_paths_and_methods(client):
    assert client.get("/no-such").status == 404
    response = client.get("/sum", method="DELETE")
    assert response.status == 405 and "POST" in response.header("allow")


@pytest.mark.parametrize("route", ["static", "copy", "ref", "content"])
def test_bodies_of_all_kinds_and_sizes(client, route):
    for size in (0, 1, 4096, 4097, 16384, 16385, 65535, 65536, 1000000):
        response = client.get(f"/{route}?size={size}")
        assert response.status == 200 and len(response.body) == size, size
        assert response.header("content-length") == str(size)


def test_a_reference_is_released_once(site):
    with site.client() as client:
        for size in (10, 100000):
            assert len(client.get(f"/ref?size={size}&times=3").body) == size
    counters = site.server.counters()
    assert counters["test_ref_used"] == counters["test_ref_released"] == 6


@pytest.mark.threads
def test_files(client, tmp_path):
    path = tmp_path / "file"
    content = os.urandom(700000)
    path.write_bytes(content)
    assert client.get(f"/file?path={path}").body == content
    assert client.get(f"/file?path={path}&offset=1000&size=200000").body == content[1000:201000]
    assert client.get(f"/file?path={path}-none").status == 404


@pytest.mark.threads
def test_static_files_with_ranges_and_conditions(make_site, tmp_path):
    content = os.urandom(500000)
    (tmp_path / "large.bin").write_bytes(content)
    (tmp_path / "small.txt").write_bytes(b"small")
    site = make_site("--tls-static", tmp_path)
    with site.client() as client:
        prefix = "/tls/files"
        small = client.get(f"{prefix}/small.txt")
        assert small.body == b"small"
        assert client.get(f"{prefix}/small.txt", headers=[("if-none-match", small.header("etag"))]).status == 304
        assert client.get(f"{prefix}/large.bin").body == content
        part = client.get(f"{prefix}/large.bin", headers=[("range", "bytes=1000-300999")])
        assert part.status == 206 and part.body == content[1000:301000]
        parts = client.get(f"{prefix}/large.bin", headers=[("range", "bytes=0-9,100000-199999")])
        assert parts.status == 206 and content[100000:200000] in parts.body
        assert client.get(f"{prefix}/large.bin", method="HEAD").header("content-length") == "500000"


# --- later and streamed ---


@pytest.mark.threads
@pytest.mark.parametrize("how", ["text", "json", "send", "ref", "run", "pieces", "twice", "request"])
def test_deferred_responses(client, how):
    response = client.get(f"/later?how={how}&ms=5")
    assert response.status == 200 and response.ended


@pytest.mark.threads
def test_a_deferred_response_that_nobody_makes_is_500(client):
    assert client.get("/later?how=nothing&ms=5").status == 500


@pytest.mark.threads
def test_responses_come_in_the_order_in_which_they_are_made(site):
    with site.client() as client:
        slow = client.start("GET", "/later?key=slow")
        assert client.get("/n/1").text == "1"
        assert not client.responses[slow].headers
        assert site.server.ask("/release?key=slow").text == "1"
        assert client.finish(slow).status == 200


@pytest.mark.parametrize("n, size", [(3, 5), (1, 100000), (200, 1000)])
def test_streamed_responses(client, n, size):
    response = client.get(f"/pieces?n={n}&size={size}")
    assert response.status == 200 and len(response.body) == n * size and response.header("content-length") is None
    response = client.get(f"/pieces?n={n}&size={size}&declared={n * size}")
    assert len(response.body) == n * size and response.header("content-length") == str(n * size)


def test_a_streamed_response_of_the_wrong_size_is_reset(client):
    response = client.get("/pieces?n=3&size=5&declared=20")
    assert response.reset == Codes.INTERNAL_ERROR
    assert client.get("/").status == 200  # the connection lives


@pytest.mark.threads
def test_worker_routes(client):
    assert client.get("/w/echo", method="POST", body=b"x" * 1000).status == 200
    assert client.get("/w/wait?ms=5").status == 200
    assert client.get("/w/stream").status == 200


@pytest.mark.threads
def test_an_aborted_stream_is_reported_to_the_application(site):
    with site.client() as client:
        number = client.start("GET", "/later?key=never")
        client.sync()
        client.h2.reset_stream(number, Codes.CANCEL)
        client.flush()
        client.sync()
        site.server.wait_counter("test_on_abort", 1)
        assert site.server.counter("aborted") == 1
        assert client.get("/").status == 200
        site.server.ask("/release?key=never")


@pytest.mark.threads
def test_streams_are_aborted_with_their_connection(site):
    with site.client() as client:
        for i in range(5):
            client.start("GET", f"/later?key=gone{i}")
        client.sync()
    site.server.wait_counter("test_on_abort", 5)
    for i in range(5):
        site.server.ask(f"/release?key=gone{i}")


# --- windows ---


def test_a_response_waits_for_its_window(site):
    with site.client(settings={Settings.INITIAL_WINDOW_SIZE: 1000}, manual_windows=True) as client:
        number = client.start("GET", "/static?size=50000")
        client.until(lambda: len(client.responses[number].body) == 1000)
        client.sync()
        assert len(client.responses[number].body) == 1000
        assert client.get("/empty/204").status == 204  # others are not held up
        while not client.responses[number].ended:
            client.h2.increment_flow_control_window(7777, number)
            client.h2.increment_flow_control_window(7777)
            client.flush()
            client.receive()
        assert len(client.responses[number].body) == 50000


def test_a_zero_window_lets_heads_through(site):
    with site.client(settings={Settings.INITIAL_WINDOW_SIZE: 0}, manual_windows=True) as client:
        numbers = [client.start("GET", f"/n/{i}") for i in range(20)]
        client.until(lambda: all(client.responses[number].headers for number in numbers))
        client.sync()
        assert not any(client.responses[number].body for number in numbers)
        for number in numbers:
            client.h2.increment_flow_control_window(10, number)
        client.flush()
        for i, number in enumerate(numbers):
            assert client.finish(number).text == str(i)


def test_a_later_initial_window_moves_the_windows_of_all_streams(site):
    with site.client(settings={Settings.INITIAL_WINDOW_SIZE: 0}, manual_windows=True) as client:
        numbers = [client.start("GET", f"/static?size={size}") for size in (10, 3000, 60000)]
        client.sync()
        client.h2.update_settings({Settings.INITIAL_WINDOW_SIZE: 60000})
        client.flush()
        client.h2.increment_flow_control_window(100000)
        client.flush()
        for number, size in zip(numbers, (10, 3000, 60000)):
            assert len(client.finish(number).body) == size


@pytest.mark.threads
def test_large_responses_share_the_connection(client):
    numbers = [client.start("GET", "/static?size=400000") for _ in range(8)]
    for number in numbers:
        assert len(client.finish(number).body) == 400000


@pytest.mark.threads
@pytest.mark.parametrize("window", [5000, 40001])
def test_files_come_through_windows_that_cut_their_frames(site, tmp_path, window):
    contents = [os.urandom(size) for size in (300000, 16375, 16384, 200001)]
    for i, content in enumerate(contents):
        (tmp_path / f"{i}").write_bytes(content)
    with site.client(settings={Settings.INITIAL_WINDOW_SIZE: window}) as client:
        numbers = [client.start("GET", f"/file?path={tmp_path}/{i}", [("priority", "i")]) for i in range(len(contents))]
        for number, content in zip(numbers, contents):
            assert client.finish(number).body == content


@pytest.mark.threads
@pytest.mark.parametrize("route", ["file", "ref"])
def test_each_frame_of_a_large_body_is_one_record_of_tls(serve, pki, tmp_path, route):
    size = 1_000_000
    content = os.urandom(size) if route == "file" else None
    (tmp_path / "file").write_bytes(content or b"")
    site = Site(serve, pki, "https")
    target = f"/file?path={tmp_path}/file" if route == "file" else f"/ref?size={size}"
    block = hpack.Encoder().encode([(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", target)])
    window = frames.WindowUpdateFrame(0, window_increment=1 << 30)
    settings = frames.SettingsFrame(0, settings={Settings.INITIAL_WINDOW_SIZE: 1 << 30})
    head = frames.HeadersFrame(1, data=block, flags=["END_HEADERS", "END_STREAM"])
    with ByHand(site.tls_address, pki.context(version=ssl.TLSVersion.TLSv1_2, alpn=["h2"])).handshake() as client:
        client.tls.write(PREFACE + b"".join(frame.serialize() for frame in (settings, window, head)))
        client.flush()
        sizes, cut, received, body, ended = [], b"", b"", b"", False
        while not ended:
            cut += client.pull()
            while len(cut) >= 5 and len(cut) >= 5 + int.from_bytes(cut[3:5], "big"):
                end = 5 + int.from_bytes(cut[3:5], "big")
                sizes += [length for kind, length in records(cut[:end]) if kind == 23]
                cut = cut[end:]
            received += client.read_some()
            while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                end = 9 + int.from_bytes(received[:3], "big")
                if received[3] == 0:
                    body += received[9:end]
                    ended = bool(received[4] & 1)
                received = received[end:]
    assert len(body) == size and (content is None or body == content)
    assert sizes.count(16384 + 24) == size // (16384 - 9), sizes
    assert len(sizes) <= size // (16384 - 9) + 6, sizes  # SETTINGS, their acknowledgement, the head, the last frame


@pytest.mark.threads
def test_a_body_of_more_than_all_windows_is_accepted(client):
    body = os.urandom(900000)
    assert client.get("/body", method="POST", body=body).body == body


# --- what changes with the protocol ---


@pytest.mark.threads
def test_early_responses_leave_the_connection(client):
    """The body is refused by its announced size: the response comes at once, the rest is not waited for."""
    number = client.start("POST", "/body", [("content-length", 50 << 20)], end=False)
    response = client.responses[number]
    client.until(lambda: response.ended)
    assert response.status == 413
    client.until(lambda: response.reset is not None)
    assert response.reset == Codes.NO_ERROR
    assert client.get("/").status == 200


def test_a_request_that_ends_soon_after_its_response_is_not_reset(client):
    number = client.start("POST", "/no-such-route", [("content-length", 5)], end=False)
    assert client.finish(number).status == 404
    client.h2.send_data(number, b"hello", end_stream=True)
    assert client.get("/").status == 200
    time.sleep(0.5)
    client.sync()
    assert client.responses[number].reset is None


def test_a_reset_after_the_response_is_no_abuse(make_site):
    site = make_site(settings={"http2_resets_max": 10})
    with site.client() as client:
        for _ in range(100):
            number = client.start("POST", "/no-such-route", [("content-length", 5)], end=False)
            assert client.finish(number).status == 404
            client.cancel(number)
        assert client.get("/").status == 200
    assert site.server.counter("http2_reset_floods") == 0


def test_expect_100_continue(client):
    number = client.start("POST", "/body", [("expect", "100-continue"), ("content-length", 5)], end=False)
    response = client.responses[number]
    client.until(lambda: response.interim)
    assert dict(response.interim[0])[":status"] == "100"
    client.send(number, b"hello", end=True)
    assert client.finish(number).body == b"hello"


def test_close_of_a_handler_ends_the_connection_by_goaway(client):
    number = client.start("GET", "/close")
    assert client.finish(number).text == "bye"
    client.until(lambda: client.goaway)
    assert client.goaway.error_code == Codes.NO_ERROR
    assert client.ended()


def test_keepalive_requests_end_in_goaway(make_site):
    site = make_site(settings={"keepalive_requests_max": 3})
    with site.client() as client:
        for i in range(3):
            assert client.get(f"/n/{i}").text == str(i)
        client.until(lambda: len(client.goaways) == 2)
        assert [frame.error_code for frame in client.goaways] == [Codes.NO_ERROR] * 2
        assert client.goaway.last_stream_id == 5
        assert client.ended()


def test_an_upgrade_is_refused(client):
    response = client.get("/ws", headers=[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "13")])
    assert response.status in (400, 404, 426, 501)


def test_the_access_log_shows_the_protocol(make_site, tmp_path):
    path = tmp_path / "log"
    site = make_site("--access-log", f"common:{path}")
    with site.client() as client:
        assert client.get("/n/5").status == 200
    poll(lambda: '"GET /n/5 HTTP/2.0" 200' in path.read_text())


def test_counters(site):
    with site.client() as client:
        for i in range(10):
            client.get(f"/n/{i}")
    assert site.server.counter("http2_connections") == 1


# --- the end ---


def test_an_idle_connection_is_closed_with_goaway(make_site):
    site = make_site(settings={"keepalive_timeout": 1})
    with site.client() as client:
        assert client.get("/").status == 200
        client.until(lambda: client.goaway)
        assert client.goaway.error_code == Codes.NO_ERROR
        assert client.ended()
    assert site.server.counter("timeouts_keepalive") == 1


@pytest.mark.threads
def test_a_drain_finishes_what_runs_and_says_goaway_twice(site):
    with site.client() as client:
        running = client.start("GET", "/later?ms=300")
        client.sync()
        site.server.signal()
        client.until(lambda: len(client.goaways) == 2)
        assert [frame.last_stream_id for frame in client.goaways] == [2**31 - 1, running]
        assert client.finish(running).status == 200
        assert client.ended()
    assert site.server.wait() == 0


def refuses(server):
    try:
        wire.Connection(server.address).close()
        return False
    except OSError:
        return True


def test_a_preface_that_comes_while_the_server_drains_is_served_and_ends_in_goaway(make_site):
    site = make_site(settings={"drain_idle_ms": 10000})
    with Raw(site.address, site.context, quiet=True) as client:
        site.server.sync()
        site.server.signal()
        poll(lambda: refuses(site.server))
        client.send(PREFACE, frames.SettingsFrame(0), client.headers(1, path="/n/5"))
        ping = client.until(frames.PingFrame)
        client.send(frames.SettingsFrame(0, flags=["ACK"]), frames.PingFrame(0, opaque_data=ping.opaque_data, flags=["ACK"]))
        client.rest()
        assert [frame.last_stream_id for frame in client.seen if isinstance(frame, frames.GoAwayFrame)] == [2**31 - 1, 1]
        assert [frame.data for frame in client.seen if isinstance(frame, frames.DataFrame)] == [b"5"]
    assert site.server.wait() == 0


class Visitor(threading.Thread):
    """Asks `depth` at a time; what it sent before GOAWAY named the last stream gets a response, or above that stream."""

    def __init__(self, site, depth):
        super().__init__()
        self.site, self.depth = site, depth
        self.responses, self.fault = 0, None
        self.running = threading.Event()

    def run(self):
        try:
            with self.site.client() as client:
                self.visit(client)
        except Exception as error:  # for the test's own thread to raise
            self.fault = error
        self.running.set()

    def visit(self, client):
        while client.goaway is None:
            numbers = [client.start("GET", f"/n/{i}", flush=False) for i in range(self.depth)]
            client.flush()
            for i, number in enumerate(numbers):
                response = client.responses[number]
                try:
                    client.until(lambda: response.ended or response.reset is not None)
                except (Closed, ConnectionError):
                    last = client.goaway.last_stream_id
                    assert number > last, f"{number} was lost, {last} was the last"
                    continue
                assert response.reset is None and response.text == str(i)
                self.responses += 1
                self.running.set()


@pytest.mark.threads
@pytest.mark.parametrize("depth", [1, 16])
def test_a_drain_under_load_loses_nothing(site, depth):
    visitors = [Visitor(site, depth) for _ in range(6)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        assert visitor.running.wait(10)
    site.server.signal()
    for visitor in visitors:
        visitor.join(30)
        assert not visitor.is_alive()
        if visitor.fault:
            raise visitor.fault
        assert visitor.responses > 0
    assert site.server.wait() == 0
