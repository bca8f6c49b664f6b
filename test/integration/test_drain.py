"""SIGTERM loses nothing that was asked for before it."""
import contextlib
import http.client
import json
import pathlib
import re
import signal
import socket
import threading
import time

import pytest

import wire
from harness import HOST, free_port, poll
from pki import Pki, TlsConnection
from wire import Closed, head, request

pytestmark = pytest.mark.threads


class Visitor(threading.Thread):
    """Sends requests, `depth` at a time, until the server closes; notes when what was lost had been sent."""

    def __init__(self, server, number, depth):
        super().__init__()
        self.server, self.number, self.depth = server, number, depth
        self.responses, self.lost_at, self.fault = 0, None, None
        self.running = threading.Event()

    def run(self):
        try:
            with self.server.connect() as connection:
                self.visit(connection)
        except Exception as error:  # for the test's own thread to raise
            self.fault = error
        self.running.set()

    def visit(self, connection):
        n = 0
        while True:
            batch = b"".join(request("GET", f"/n/{self.number * 1000 + n + i}") for i in range(self.depth))
            sent = connection.send_anyway(batch)
            sent_at = time.monotonic()  # after: what is lost with an earlier time was with the server's kernel by then
            if not sent:
                self.lost_at = sent_at
                return
            for i in range(self.depth):
                try:
                    response = connection.response()
                except Closed as partial:
                    assert partial.args[0] == b"", "a response was cut off"
                    self.lost_at = sent_at
                    return
                assert response.status == 200 and response.body == b"%d" % (self.number * 1000 + n + i)
                self.responses += 1
                self.running.set()
                if response.header("Connection") == "close":
                    self.lost_at = sent_at if i + 1 < self.depth else None
                    connection.assert_closed()
                    return
            n += self.depth


@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("io_threads", [1, 2])
def test_a_drain_under_load_loses_nothing(serve, depth, io_threads):
    server = serve(settings={"io_threads": io_threads})
    visitors = [Visitor(server, number, depth) for number in range(12)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        assert visitor.running.wait(60)
    signalled_at = time.monotonic()
    server.signal()
    for visitor in visitors:
        visitor.join(20)
        assert not visitor.is_alive()
    assert server.wait() == 0
    for visitor in visitors:
        if visitor.fault:
            raise visitor.fault
        assert visitor.lost_at is None or visitor.lost_at >= signalled_at, "a request sent before SIGTERM was lost"
        assert visitor.responses > 0


class Regular(threading.Thread):
    """Asks again and again on a connection that it keeps until it gets `Connection: close`, then on the next one. What
    it has sent and gets no response to is an error."""

    def __init__(self, connect, depth):
        super().__init__()
        self.connect, self.depth = connect, depth
        self.responses, self.lost, self.fault = 0, [], None
        self.enough = threading.Event()

    def run(self):
        try:
            while not self.enough.is_set():
                with self.connect() as connection:
                    self.visit(connection)
        except Exception as error:  # for the test's own thread to raise
            self.fault = error

    def visit(self, connection):
        batch = b"".join(request("GET", f"/n/{i}") for i in range(self.depth))
        while not self.enough.is_set():
            connection.send_anyway(batch)
            for i in range(self.depth):
                try:
                    response = connection.response()
                except Closed as error:
                    self.lost.append(f"{self.depth - i} of {self.depth} after {self.responses}: {error}")
                    return
                assert response.status == 200 and response.body == b"%d" % i
                self.responses += 1
            if response.header("Connection") == "close":
                return


@pytest.mark.parametrize("io_threads", [1, 3])
@pytest.mark.parametrize("depth", [1, 8], ids=["one", "pipelined"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_the_old_one_of_two_servers_on_a_socket_loses_nothing(serve, tmp_path, tls, depth, io_threads):
    """As at a deployment: the next server has the listening socket, too, before this one is asked to stop."""
    pki = Pki(tmp_path) if tls else None
    if tls:
        pki.issue("a", "/CN=a.test", ["a.test"])
    with socket.create_server((HOST, 0), backlog=1000) as listener:
        number, address = listener.fileno(), listener.getsockname()[:2]
        arguments = ["--tls-listen", f"fd:{number}", *pki.use("a")] if tls else ["--listen", f"fd:{number}"]

        def start():
            # More than the default, which is for machines that have nothing else to do.
            settings = {"io_threads": io_threads, "drain_idle_ms": 10000}
            return serve("http_test_server", *arguments, pass_fds=[number], settings=settings)

        def connect():
            return TlsConnection(address, context, "a.test") if tls else wire.Connection(address)

        context = pki.context() if tls else None
        old = start()
        regulars = [Regular(connect, depth) for _ in range(20)]
        for regular in regulars:
            regular.start()
        poll(lambda: all(regular.responses > 2 * depth or regular.fault for regular in regulars), 60)
        new = start()
        old.signal()
        assert old.wait() == 0
        before = [regular.responses for regular in regulars]
        poll(lambda: all(now.responses > then or now.fault for now, then in zip(regulars, before)), 60)
        for regular in regulars:
            regular.enough.set()
        for regular in regulars:
            regular.join(20)
            assert not regular.is_alive()
        for regular in regulars:
            if regular.fault:
                raise regular.fault
        assert [lost for regular in regulars for lost in regular.lost] == []
        assert new.counter("requests") > 0


def test_a_request_that_comes_to_an_idle_connection_in_a_drain_is_served(serve):
    """Its client could not know."""
    server = serve(settings={"drain_idle_ms": 10000})
    with server.connect() as kept, server.connect() as fresh:
        kept.get("/n/1")
        server.sync()
        server.close_control()
        server.signal()
        poll(lambda: stopped_listening(server))
        for connection in (kept, fresh):
            response = connection.get("/n/2")
            assert response.body == b"2" and response.header("Connection") == "close"
            connection.assert_closed()
    assert server.wait() == 0


def blocked(server, tmp_path):
    """Stops the loop inside a handler; the function that lets it continue."""
    connection = server.connect()
    connection.send(request("GET", f"/block?entered={tmp_path}/entered&go={tmp_path}/go"))
    poll((tmp_path / "entered").exists)

    def go():
        (tmp_path / "go").touch()
        assert connection.response().body == b"went on"
        connection.close()

    return go


@pytest.mark.parametrize("depth", [1, 8, 1000])
def test_requests_that_arrived_just_before_the_signal_are_served(serve, tmp_path, depth):
    """They are in the sockets, nobody has read them, when the loop learns of the signal."""
    server = serve()
    connections = [server.connect() for _ in range(50 if depth < 100 else 3)]
    for connection in connections:
        connection.get("/n/1")
    go = blocked(server, tmp_path)
    for i, connection in enumerate(connections):
        connection.send(b"".join(request("GET", f"/n/{i * 1000 + n}") for n in range(depth)))
    server.signal()
    go()
    for i, connection in enumerate(connections):
        responses = [connection.response() for _ in range(depth)]
        assert [response.body for response in responses] == [b"%d" % (i * 1000 + n) for n in range(depth)]
        connection.assert_closed()
        connection.close()
    assert server.wait() == 0


def test_clients_that_connected_just_before_the_signal_are_served(serve, tmp_path):
    """They are in the backlog, nobody has accepted them, when the loop learns of the signal."""
    server = serve()
    go = blocked(server, tmp_path)
    connections = [server.connect() for _ in range(50)]
    for i, connection in enumerate(connections):
        connection.send(request("GET", f"/n/{i}"))
    server.signal()
    go()
    for i, connection in enumerate(connections):
        assert connection.response().body == b"%d" % i
        connection.close()
    assert server.wait() == 0


def test_a_running_request_is_finished(serve):
    """Idle connections and new ones do not wait for it. What lets it continue is itself a request that has begun: one more
    would be refused."""
    server = serve()
    with server.connect() as connection, server.connect() as release, server.connect() as idle:
        assert idle.get("/n/1").body == b"1"
        connection.send(request("GET", "/later?key=k"))
        release.send(head("GET", "/release?key=k", [("Content-Length", 1)]))
        server.wait_counter("test_held", 1)
        server.signal()
        idle.assert_closed()
        poll(lambda: stopped_listening(server))
        assert connection.quiet()
        release.send(b"x")
        assert release.response().body == b"1"
        response = connection.response()
        assert response.body == b"later" and response.header("Connection") == "close"
        connection.assert_closed()
    assert server.wait() == 0


def test_a_large_response_in_progress_ends_whole(serve):
    server = serve()
    with server.connect(receive_buffer=4096) as connection:
        connection.send(request("GET", "/static?size=30000000"))
        connection.response_head()
        server.signal()
        size = len(connection.buffer)
        connection.buffer.clear()
        while size < 30_000_000:
            data = connection.socket.recv(1 << 20)
            assert data, f"cut off at {size}"
            size += len(data)
        connection.assert_closed()
    assert server.wait() == 0


def test_pipelined_responses_are_flushed(serve):
    server = serve()
    with server.connect() as connection:
        connection.send(b"".join(request("GET", f"/n/{i}") for i in range(500)) + request("GET", "/later?ms=300"))
        server.wait_counter("deferred", 1)
        server.signal()
        assert [connection.response().body for _ in range(500)] == [b"%d" % i for i in range(500)]
        assert connection.response().body == b"later"
    assert server.wait() == 0


def test_a_request_whose_body_is_under_way_is_finished(serve):
    server = serve()
    with server.connect() as connection:
        connection.send(head("POST", "/body", [("Content-Length", 10)]) + b"hello")
        server.sync()
        server.signal()
        poll(lambda: stopped_listening(server))
        connection.send(b"world")
        response = connection.response()
        assert response.body == b"helloworld" and response.header("Connection") == "close"
    assert server.wait() == 0


def stopped_listening(server):
    try:
        with server.connect():
            return False
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it came just before the end of the listener
        return True


def test_what_runs_too_long_is_cut_off_and_reported(serve):
    server = serve(settings={"drain_timeout": 1})
    with server.connect() as connection:
        connection.send(request("GET", "/later?key=never"))
        server.wait_counter("test_held", 1)
        start = time.monotonic()
        server.signal()
        connection.assert_closed()  # it waits for less than the default drain_timeout
        assert time.monotonic() - start > 0.8
    assert server.wait() == 0
    assert "1" in server.new_stderr() and "cut off" in server.new_stderr()


def test_a_second_signal_ends_at_once(serve):
    server = serve(settings={"drain_timeout": 60})
    with server.connect() as connection:
        connection.send(request("GET", "/later?key=never"))
        server.wait_counter("test_held", 1)
        server.signal()
        poll(lambda: stopped_listening(server))
        server.signal()
        server.wait(20)


def loops_of_connections(admin):
    """By local port of the client."""
    with contextlib.closing(http.client.HTTPConnection(admin, timeout=20)) as connection:
        connection.request("GET", "/connections")
        return {int(one["peer"].rpartition(":")[2]): one["loop"] for one in json.load(connection.getresponse())["connections"]}


def test_a_second_signal_ends_at_once_though_the_first_loop_has_drained(serve):
    """Signals come to the thread of the first loop."""
    admin = f"{HOST}:{free_port()}"
    server = serve(settings={"io_threads": 2, "admin": admin, "drain_timeout": 60, "drain_idle_ms": 0})
    with contextlib.ExitStack() as stack:
        ports = {}
        for _ in range(40):
            connection = stack.enter_context(wire.Connection(server.address))
            ports[connection.socket.getsockname()[1]] = connection
            assert connection.get("/ready").status == 200
        loops = loops_of_connections(admin)
        second = next(connection for port, connection in ports.items() if loops[port] == 1)
        second.send(request("GET", "/later?key=never"))
        server.wait_counter("test_held", 1)
        server.signal()
        for connection in ports.values():
            if connection is not second:
                connection.assert_closed()
        time.sleep(0.3)
        server.signal()
        server.wait(20)


def test_the_first_signal_after_a_stop_cuts_nothing_off(serve):
    """A hook of the manager has asked for the drain; its signal comes behind that."""
    server = serve()
    with server.connect() as connection:
        connection.send(request("GET", "/later?ms=1500"))
        server.get("/stop", method="POST", body=b"")
        poll(lambda: stopped_listening(server))
        server.signal()
        assert connection.response().status == 200
    assert server.wait() == 0


def test_stop_is_possible_from_a_handler(serve):
    server = serve(settings={"io_threads": 2})
    assert server.get("/stop", method="POST", body=b"").body == b"stopping"
    assert server.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_signals_drain(serve, number):
    server = serve()
    server.get("/")
    server.signal(number)
    assert server.wait() == 0


def test_signals_come_to_the_thread_that_runs_the_server(serve):
    """A program of one thread of its own has no other that could be handed one."""
    server = serve("performance_test", "--io-threads", 4)
    server.get("/")

    def taking():
        found = []
        for task in pathlib.Path(f"/proc/{server.pid()}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
                mask = re.search(r"^SigBlk:\s*(\w+)", (task / "status").read_text(), re.MULTILINE)
                if not int(mask[1], 16) >> (signal.SIGTERM - 1) & 1:
                    found.append(int(task.name))
        return found

    poll(lambda: taking() == [server.pid()])  # libuv blocks them for moments


def test_an_idle_server_ends_at_once(serve):
    server = serve(settings={"io_threads": 4})
    idle = [server.connect() for _ in range(50)]
    server.signal()
    assert server.wait(20) == 0, "the default drain_timeout is longer"
    for connection in idle:
        connection.assert_closed()
        connection.close()


def test_a_client_that_does_not_leave_does_not_hold_up_the_end(serve):
    """It got `Connection: close`, but keeps its side open and sends on."""
    server = serve(settings={"drain_timeout": 30})
    with server.connect() as connection, server.connect() as release:
        connection.send(request("GET", "/later?key=k"))
        release.send(head("GET", "/release?key=k", [("Content-Length", 1)]))
        server.wait_counter("test_held", 1)
        server.signal()
        poll(lambda: stopped_listening(server))
        release.send(b"x")
        start = time.monotonic()
        response = connection.response()
        assert response.body == b"later" and response.header("Connection") == "close"
        while server.process.poll() is None and time.monotonic() - start < 10:
            connection.send_anyway(b"x")
            time.sleep(0.01)
        assert server.wait() == 0
