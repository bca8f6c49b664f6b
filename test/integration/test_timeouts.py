"""Clients that are slow on purpose: no pace keeps a connection forever."""
import contextlib
import threading
import time

import pytest

import wire
from harness import poll
from wire import Closed, head


class Dripper:
    """Sends (or, with data None, receives) a little at a time until the connection ends."""

    def __init__(self, connection, data, every):
        self.connection, self.data, self.every = connection, data, every
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for byte in self.data:
            if self.done.wait(self.every) or not self.connection.send_anyway(bytes([byte])):
                return

    def stop(self):
        self.done.set()
        self.thread.join()


def ends_after(connection, since, seconds):
    """What came before the server closed, and that it did so many seconds after `since` or later, which is before anything
    that the server measures from. It must not take as long as the client waits at most: the defaults of the server, and
    the drippers, take longer."""
    data = connection.rest()
    took = time.monotonic() - since
    assert took >= seconds, took
    return data


def refusal(data):
    """The server may say 408 before it closes, or just close."""
    assert data == b"" or data.startswith(b"HTTP/1.1 408 "), data[:100]
    assert data == b"" or b"\r\nConnection: close\r\n" in data


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nA: "], ids=["nothing", "line", "field"])
def test_a_head_that_does_not_come_ends_the_connection(serve, start):
    server = serve(settings={"connection_timeout": 1})
    since = time.monotonic()
    with server.connect() as connection:
        connection.send(start)
        refusal(ends_after(connection, since, 0.8))
    server.wait_counter("timeouts_header", 1)
    assert server.new_stderr() == ""


def test_a_head_that_drips_does_not_extend_its_time(serve):
    server = serve(settings={"connection_timeout": 1})
    since = time.monotonic()
    with server.connect() as connection:
        dripper = Dripper(connection, head("GET", "/" + "a" * 1000), 0.05)
        refusal(ends_after(connection, since, 0.8))
        dripper.stop()
    server.wait_counter("timeouts_header", 1)


def test_the_time_for_a_head_starts_anew_with_each_request(serve):
    server = serve(settings={"connection_timeout": 1, "keepalive_timeout": 30})

    def all_come_in_time():
        """Each head does, unless the machine stands still in between."""
        with server.connect() as connection:
            start = time.monotonic()
            while time.monotonic() - start < 2.5:
                data = head("GET", "/")
                began = time.monotonic()
                connection.send(data[:10])
                server.sync()
                succeeded = connection.send_anyway(data[10:]) and connection.response().status == 200
                if not succeeded:
                    assert time.monotonic() - began > 0.9, "its time had begun before"
                    return False
                time.sleep(0.1)
        return True

    poll(all_come_in_time, seconds=60)


def test_idle_connections_are_closed_without_a_word(serve):
    server = serve(settings={"keepalive_timeout": 1})
    since = time.monotonic()
    with server.connect() as connection:
        connection.get("/")
        assert ends_after(connection, since, 0.8) == b""
    server.wait_counter("timeouts_keepalive", 1)
    assert server.counter("timeouts_header") == 0


def test_a_body_of_which_nothing_comes_ends(serve):
    server = serve(settings={"body_timeout": 1, "min_receive_rate": "never"})
    since = time.monotonic()
    with server.connect() as connection:
        connection.send(head("POST", "/body", [("Content-Length", 1000)]) + b"x" * 500)
        refusal(ends_after(connection, since, 0.8))
    server.wait_counter("timeouts_body", 1)


def test_the_time_of_a_body_begins_again_with_each_byte(serve):
    """It is three times as long as its limit, and has 30 times as many bytes a second as it needs. No byte is late, unless
    the machine stands still."""
    server = serve(settings={"body_timeout": 2, "min_receive_rate": 1, "rate_grace": 2})

    def comes_whole():
        with server.connect() as connection:
            connection.send(head("POST", "/body", [("Content-Length", 180)]))
            longest, last = 0.0, time.monotonic()
            for _ in range(60):
                connection.send_anyway(b"xxx")
                time.sleep(0.1)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            try:
                whole = connection.response().status == 200
            except Closed:
                whole = False
            assert whole or longest > 0.9, "its time was not over"
            return whole

    poll(comes_whole, seconds=60)


def test_a_burst_does_not_pay_for_the_silence_behind_it(serve):
    server = serve(settings={"min_receive_rate": 10, "rate_grace": 1, "body_timeout": 3600})
    with server.connect() as connection:
        connection.send(head("POST", "/body", [("Content-Length", 600000)]) + b"x" * 500000)
        refusal(connection.rest())  # 50,000 s of credit, if it counted
    server.wait_counter("slow_read", 1)


def test_a_body_has_a_minimum_rate(serve):
    server = serve(settings={"min_receive_rate": 1000, "rate_grace": 1})
    since = time.monotonic()
    with server.connect() as connection:
        connection.send(head("POST", "/body", [("Transfer-Encoding", "chunked")]))
        dripper = Dripper(connection, b"1\r\nx\r\n" * 1000, 0.02)
        refusal(ends_after(connection, since, 0.8))
        dripper.stop()
    server.wait_counter("slow_read", 1)


def test_a_body_at_the_minimum_rate_is_accepted(serve):
    server = serve(settings={"min_receive_rate": 1000, "rate_grace": 1})
    with server.connect() as connection:
        # More at first: the machine may stand still for some seconds.
        connection.send(head("POST", "/body", [("Content-Length", 20000)]) + b"x" * 10000)
        for _ in range(20):
            connection.send(b"x" * 500)
            time.sleep(0.1)
        assert len(connection.response().body) == 20000
    assert server.counter("slow_read") == 0


@pytest.mark.parametrize("route", ["/static?size=30000000", "/copy?size=12000000"])
def test_a_client_that_does_not_read_is_cut_off(serve, route):
    server = serve(settings={"write_timeout": 1, "min_send_rate": "never"})
    with server.connect(receive_buffer=4096) as connection:
        connection.send(head("GET", route))
        server.wait_counter("timeouts_write", 1)
        assert len(connection.rest()) < 12_000_000
    poll(lambda: server.counter("connections_closed") >= 2)  # this one and the one that looked whether the server is ready


def test_a_client_that_reads_slowly_is_cut_off(serve):
    server = serve(settings={"min_send_rate": 50_000_000, "rate_grace": 1})
    with server.connect(receive_buffer=4096) as connection:
        connection.send(head("GET", "/static?size=30000000"))
        deadline = time.monotonic() + 10
        while server.counter("slow_write") == 0 and time.monotonic() < deadline:
            connection.socket.recv(256)
            time.sleep(0.05)
    server.wait_counter("slow_write", 1)


def silent(server, data, count=3, address=None):
    """Clients that read nothing of what they ask for."""
    clients = [wire.Connection(address or server.address, receive_buffer=2048) for _ in range(count)]
    for client in clients:
        client.socket.settimeout(1)
        with contextlib.suppress(TimeoutError):  # the server reads no more of its requests
            client.send_anyway(data)
    return clients


@pytest.mark.parametrize(
    "data",
    [
        head("GET", "/copy?size=1000000") * 12,
        head("GET", "/static?size=30000000"),
        head("GET", "/static?size=300000"),
        head("GET", "/static?size=300000", [("Connection", "close")]),
        head("GET", "/n/1") * 100000,
    ],
    ids=["pipelined", "large", "in the kernel", "in the kernel, finished", "small"],
)
@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_what_the_kernel_takes_does_not_pay_for_a_client_that_reads_nothing(serve, tmp_path, family, data):
    """It takes hundreds of kilobytes: at 10 bytes a second hours."""
    path = str(tmp_path / "s")
    settings = {"min_send_rate": 10, "rate_grace": 1, "write_timeout": 3600, "keepalive_timeout": 3600}
    server = serve("http_test_server", "--listen", f"unix:{path}", settings=settings)
    clients = silent(server, data, address=path if family == "unix" else None)
    server.wait_counter("slow_write", len(clients), seconds=20)
    for client in clients:
        client.close()


def test_a_stream_that_comes_little_by_little_does_not_pay_for_a_client_that_reads_nothing(serve):
    """Each piece fits into the kernel, and nothing is ever queued: for minutes."""
    server = serve(settings={"min_send_rate": 240, "rate_grace": 1, "write_timeout": 3600, "keepalive_timeout": 3600})
    clients = silent(server, head("GET", "/trickle?bytes=1000&ms=20"))
    server.wait_counter("slow_write", len(clients), seconds=20)
    for client in clients:
        client.close()


def test_a_client_that_takes_all_of_a_slow_stream_is_not_too_slow(serve):
    """The server brings less than min_send_rate, and something is on its way whenever it looks."""
    server = serve(settings={"min_send_rate": 50_000_000, "rate_grace": 1, "write_timeout": 3600})

    def is_served():
        slow = server.counter("slow_write")
        with server.connect(receive_buffer=4096) as connection:
            connection.send(head("GET", "/trickle?bytes=4000&ms=50"))
            reads, size, data = [time.monotonic()], 0, b"x"
            while data and reads[-1] < reads[0] + 6:
                with contextlib.suppress(ConnectionResetError):
                    data = b""
                    data = connection.socket.recv(65536)
                size += len(data)
                time.sleep(0.01)
                reads.append(time.monotonic())
        served = server.counter("slow_write") == slow
        # Its window is so narrow that it needs 30 reads a second or more.
        assert served or any(later - first > 1 for first, later in zip(reads, reads[40:])) or len(reads) < 40, "it took all there was"
        return served and size > 100_000  # but for a machine that stands still

    poll(is_served, seconds=60)


def test_a_client_that_reads_slowly_but_steadily_is_served(serve):
    """Three times as long as any limit of time."""
    server = serve(settings={"write_timeout": 2, "min_send_rate": 1000, "rate_grace": 2})

    def comes_whole():
        with server.connect(receive_buffer=65536, segment=1400) as connection:
            connection.send(head("GET", "/static?size=12000000", [("Connection", "close")]))
            size, longest, last = 0, 0.0, time.monotonic()
            while data := connection.socket.recv(200000):
                size += len(data)
                time.sleep(len(data) / 2000000)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            assert size > 12_000_000 or longest > 0.9
            return size > 12_000_000

    poll(comes_whole, seconds=60)


def test_a_client_that_pipelines_and_does_not_read_is_bounded(serve):
    """Its requests wait with it: the memory that its responses may take is bounded."""
    server = serve(settings={"write_timeout": 30, "min_send_rate": "never"})
    for _ in range(100):
        server.ask("/copy?size=100000")
    growth = server.memory_growth()
    with server.connect(receive_buffer=4096) as connection:
        connection.socket.settimeout(0.5)
        data = head("GET", "/copy?size=100000") * 5000  # 500 MB of responses
        try:
            connection.socket.sendall(data)
        except TimeoutError:
            pass
        server.sync()
        assert server.ask("/n/1").body == b"1"
        growth.stays_below(8_000_000)


def test_a_deferred_response_may_take_longer_than_the_idle_time(serve):
    server = serve(settings={"keepalive_timeout": 1, "connection_timeout": 1, "body_timeout": 1, "write_timeout": 1})
    with server.connect() as connection:
        # At once: between the first response and a second request only the idle time would be allowed.
        connection.send(head("GET", "/later?ms=2500") + head("GET", "/n/1"))
        assert connection.response().body == b"later"
        assert connection.response().body == b"1"


def test_a_large_response_to_a_client_that_reads_may_take_longer_than_idle_times(serve):
    server = serve(settings={"keepalive_timeout": 1, "connection_timeout": 1})
    with server.connect(receive_buffer=65536) as connection:
        connection.send(head("GET", "/static?size=30000000"))
        received = 0
        start = time.monotonic()
        while time.monotonic() - start < 2:
            received += len(connection.socket.recv(65536))
            time.sleep(0.01)
        connection.socket.settimeout(20)
        while received < 30_000_000:
            data = connection.socket.recv(1 << 20)
            assert data, received
            received += len(data)
