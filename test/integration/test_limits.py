"""At a limit the server keeps what it has, costs nothing, and is back at once."""
import contextlib
import json
import re
import resource
import subprocess
import threading
import time

import pytest
from hyperframe import frame as frames

from harness import ENGINE, EXAMPLES, HOST, poll
from wire import Closed, request
from wire_h2 import Raw


def send_get(connection, target="/n/1"):
    connection.send(request("GET", target))
    return connection


def at_once(waiting, other):
    """A waiting client has got a response before some more requests of another client are, whatever time they take."""
    for _ in range(100):
        assert other.get("/n/2").body == b"2"
    assert not waiting.quiet(), "it was not its turn as soon as there was room"
    assert waiting.response().body == b"1"


PART = b"GET /n/1 HTTP/1.1\r\n"
REST = b"Host: test\r\n\r\n"


def send_part(connection):
    """A request that has begun: the connection is not idle, and nobody takes its place."""
    connection.send(PART)
    return connection


@pytest.mark.serial
def test_more_clients_than_max_connections_wait_and_are_served_in_order(serve):
    server = serve(settings={"max_connections": 4, "keepalive_timeout": 60})
    inside = [send_part(server.connect()) for _ in range(4)]
    poll(lambda: server.descriptors() >= 4)
    outside = [send_get(server.connect()) for _ in range(3)]
    assert all(connection.quiet(0.1) for connection in outside)
    before = server.cpu_seconds()
    assert all(connection.quiet(0.1) for connection in outside)
    assert server.cpu_seconds() - before < 0.1
    inside.pop(0).close()
    for waiting in outside:  # each is idle then, and makes space for the next
        assert waiting.response().body == b"1"
    for connection in inside:
        connection.send(REST)
        assert connection.response().body == b"1"
    for connection in inside + outside:
        connection.close()
    assert server.get("/n/3").body == b"3"


def test_max_connections_counts_all_loops_together(serve):
    server = serve(settings={"max_connections": 8, "io_threads": 2})
    connections = [send_part(server.connect()) for _ in range(40)]
    for connection in connections:
        connection.send(REST)
    for connection in connections:
        assert connection.response().body == b"1"
    assert server.counter("connections_accepted") - server.counter("connections_closed") <= 8


def is_closed(connection):
    """The server has closed it, and has sent nothing that was not accepted."""
    if connection.quiet():
        return False
    connection.assert_closed()
    return True


@pytest.mark.threads
@pytest.mark.parametrize("loops", [1, 3])
def test_the_longest_idle_connection_is_evicted_for_a_new_client(serve, loops):
    def is_evicted_alone():
        """Each time."""
        server = serve(settings={"max_connections": 8, "io_threads": loops})
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for _ in range(8)]
            order = [connections[i] for i in (2, 7, 0, 5, 3, 6, 1, 4)]
            for connection in order:  # the order in which they have become idle
                assert connection.get("/n/1").body == b"1"
                time.sleep(0.15)  # more than two grains of the clock that tells them apart
            for i in range(4):
                with server.connect() as new:
                    assert new.get("/n/2").body == b"2", "served at once"
                    poll(lambda: is_closed(order[i]))
                    if not all(connection.quiet() for connection in order[i + 1 :]):
                        return False
                    order.append(send_part(stack.enter_context(server.connect())))  # in the place that `new` leaves or takes from the next
                    new.send(PART)
                time.sleep(0.15)
            for connection in order[8:]:
                connection.send(REST)
                assert connection.response().body == b"1"
        return True

    if loops == 1:
        assert is_evicted_alone()
    else:  # a loop that does not get the CPU while it evicts one is asked again, and evicts one more
        poll(is_evicted_alone, seconds=60)


@pytest.mark.parametrize("requests", [0, 3])
def test_an_http2_connection_that_is_evicted_gets_goaway_first(make_site, requests):
    """Its client then knows that none of the requests which cross the end was processed."""
    site = make_site(settings={"max_connections": 5, "io_threads": 1})
    idle = [site.client() for _ in range(5)]
    for client in idle:
        client.sync()
        for _ in range(requests):
            assert client.get("/n/1").text == "1"
    before = time.monotonic()
    new = [send_part(site.server.connect()) for _ in range(5)]
    for client in idle:
        with pytest.raises(Closed):  # no reset
            client.until(lambda: False)
        assert {goaway.error_code for goaway in client.goaways} == {0}
        assert client.goaway.last_stream_id == max(2 * requests - 1, 0)
    for connection in new:
        connection.send(REST)
        assert connection.response().body == b"1"
    assert time.monotonic() - before < 5, "no place waits for the client that has left it"
    assert json.loads(new[0].get("/counters").body)["connections_evicted"] == 5
    for client in idle:
        client.close()


def test_an_http2_connection_keeps_its_place_from_the_first_byte_of_a_frame_on(serve):
    server = serve(settings={"max_connections": 2, "io_threads": 1})
    with Raw(server.address) as client, server.connect() as other:
        client.send(client.headers(1, flags=["END_HEADERS"], method="POST", path="/body"))
        client.send(frames.DataFrame(1, data=b"body", flags=["END_STREAM"]))
        assert client.status(1) == 200
        again = client.headers(3).serialize()
        client.send(again[:1])
        assert other.get("/n/1").body == b"1"  # what was sent before has been seen
        send_part(other)
        waiting = send_get(server.connect())
        assert waiting.quiet(0.5), "neither is idle"
        client.send(again[1:])
        assert client.status(3) == 200
        assert waiting.response().body == b"1"
        client.expect_goaway(0)


def test_a_connection_on_which_nothing_was_ever_sent_is_idle(serve):
    server = serve(settings={"max_connections": 4})
    silent = [server.connect() for _ in range(4)]
    later = []
    for _ in range(4):
        later.append(server.connect())
        assert later[-1].get("/n/2").body == b"2"
        send_part(later[-1])
    poll(lambda: all(is_closed(connection) for connection in silent))


def test_no_connection_in_the_middle_of_a_request_is_evicted(serve):
    server = serve(settings={"max_connections": 4})
    head, body, later, large = busy = [server.connect(receive_buffer=4096) for _ in range(4)]
    head.send(PART)
    body.send(request("POST", "/body", [("Content-Length", "10")]) + b"12345")
    later.send(request("GET", "/later?key=held"))
    large.send(request("GET", "/static?size=5000000"))
    poll(lambda: not large.quiet())
    waiting = send_get(server.connect())
    assert waiting.quiet(0.3)
    head.send(REST)
    assert head.response().body == b"1"
    assert waiting.response().body == b"1", "as soon as one is idle"
    poll(lambda: is_closed(head))
    body.send(b"67890")
    assert body.response().body == b"1234567890"
    assert len(large.response().body) == 5000000
    with server.connect() as other:
        assert other.get("/release?key=held").status == 200
    assert later.response().status == 200
    for connection in [*busy, waiting]:
        connection.close()


def test_who_still_takes_a_response_keeps_its_place(serve):
    """The kernel has all of it; its client has not. It is evicted when it has read everything."""
    server = serve(settings={"max_connections": 2, "io_threads": 1})
    slow, other = server.connect(receive_buffer=4096), server.connect()
    slow.send(request("GET", "/static?size=1000000"))
    poll(lambda: json.loads(other.get("/counters").body)["bytes_sent"] > 1000000)
    send_part(other)
    waiting = send_get(server.connect())
    assert waiting.quiet(0.3)
    assert len(slow.response().body) == 1000000
    assert waiting.response().body == b"1"
    poll(lambda: is_closed(slow))
    other.send(REST)
    assert other.response().body == b"1"


class Guest(threading.Thread):
    """Asks on a connection until it is closed, because it was evicted, and comes again."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number = server, number
        self.responses, self.fault = 0, None
        self.enough = threading.Event()

    def visit(self):
        with self.server.connect() as connection:
            for n in range(self.number % 4 + 1):
                body = connection.get(f"/n/{self.number * 1000 + n}").body
                assert body == b"%d" % (self.number * 1000 + n)
                self.responses += 1
            if self.number % 2:
                with contextlib.suppress(TimeoutError):
                    connection.socket.settimeout(0.05)
                    connection.socket.recv(1)  # idle, until it is evicted

    def run(self):
        while not self.enough.is_set():
            try:
                self.visit()
            except (Closed, OSError):
                pass
            except BaseException as fault:
                self.fault = fault
                return


def counters_among_guests(server):
    """None if this connection, too, was evicted before it had asked."""
    with contextlib.suppress(Closed, OSError):
        return server.counters()


@pytest.mark.threads
@pytest.mark.parametrize("per_address", ["unlimited", 12])
def test_evicting_on_all_loops_at_once_and_while_the_server_stops(serve, per_address):
    settings = {"max_connections": 6, "connections_per_address_max": per_address, "io_threads": 3, "drain_idle_ms": 50}
    server = serve(settings=settings)
    guests = [Guest(server, number) for number in range(16)]
    for guest in guests:
        guest.start()
    try:
        poll(lambda: all(guest.responses >= 10 for guest in guests), 60, message="some were never served")
        counters = poll(lambda: counters_among_guests(server), 60)
        assert counters["connections_evicted"] > 0
        assert counters["connections_accepted"] - counters["connections_closed"] <= 6
        server.signal()  # while all loops are asked to evict
        assert server.wait() == 0
    finally:
        for guest in guests:
            guest.enough.set()
        for guest in guests:
            guest.join(20)
    for guest in guests:
        assert not guest.is_alive()
        if guest.fault:
            raise guest.fault


def test_idle_connections_are_closed_one_for_each_new_client(serve):
    server = serve(settings={"max_connections": 50, "io_threads": 2})
    idle = [server.connect() for _ in range(49)]
    for connection in idle:
        assert connection.get("/n/1").body == b"1"
    time.sleep(0.15)  # more than two grains of the clock that tells them from the new ones
    new = [send_get(server.connect()) for _ in range(30)]
    for connection in new:
        assert connection.response().body == b"1"
    evicted = server.counter("connections_evicted")
    assert 28 <= evicted <= 32, evicted
    poll(lambda: sum(not connection.quiet() for connection in idle) == evicted)


@pytest.mark.threads
@pytest.mark.parametrize("loops", [1, 3])
def test_connections_per_address_are_exact_over_all_loops(serve, loops):
    server = serve(settings={"connections_per_address_max": 5, "io_threads": loops})
    first, second = "127.0.0.2", "127.0.0.3"
    inside = [server.connect(source=(first, 0)) for _ in range(5)]
    for connection in inside:
        assert connection.get("/n/1").body == b"1"
    for _ in range(20):
        with pytest.raises(ConnectionResetError), server.connect(source=(first, 0)) as refused:
            refused.socket.recv(1)
    assert server.connect(source=(second, 0)).get("/n/1").body == b"1"
    server.wait_counter("connections_refused_address", 20)
    for connection in inside:
        assert connection.get("/n/1").body == b"1", "those that it has are served as before"
    inside.pop().close()

    def comes_in():
        with contextlib.suppress(OSError, Closed):
            connection = server.connect(source=(first, 0))
            return connection.get("/n/1").body == b"1"

    poll(comes_in, message="one has left, one may come")


def test_unix_sockets_have_no_limit_per_address(serve, tmp_path):
    path = str(tmp_path / "socket")
    server = serve(listen=[f"unix:{path}"], address=path, settings={"connections_per_address_max": 1})
    connections = [server.connect() for _ in range(5)]
    for connection in connections:
        assert connection.get("/n/1").body == b"1"


@pytest.mark.threads
@pytest.mark.parametrize("loops", [1, 2])
def test_exactly_max_connections_are_held_and_the_backlog_keeps_the_rest(serve, loops):
    server = serve(settings={"max_connections": 10, "io_threads": loops})
    server.sync()
    before = server.sockets()
    server.control.send(PART)
    clients = [send_part(server.connect()) for _ in range(200)]  # none is idle when the next comes: none is evicted
    poll(lambda: server.sockets() >= before + 9)
    deadline = time.monotonic() + 0.3  # longer than a full backlog takes to be accepted
    while time.monotonic() < deadline:
        assert server.sockets() == before + 9
    server.control.send(REST)
    assert server.control.response().body == b"1"
    for client in clients:
        client.close()
    server.close_control()
    poll(lambda: server.sockets() == before - 1, message="all that waited are accepted and let go")
    assert server.counter("connections_waited") >= 1


@pytest.fixture
def few_descriptors(serve):
    """The limit comes down while it runs: at the start it would have kept clients below it."""
    server = serve(settings={"max_connections": 1000, "keepalive_timeout": 60})
    resource.prlimit(server.pid(), resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return server


def limited(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_to_what_is_needed(serve):
    settings = {"max_connections": 1000, "descriptors_reserved": 100, "io_threads": 1}
    server = serve(settings=settings, preexec_fn=limited(128, 4000))
    soft, hard = resource.prlimit(server.pid(), resource.RLIMIT_NOFILE)
    assert 1100 < soft < 1200 and hard == 4000
    assert server.counter("connections_limit") == 1000
    assert "RLIMIT_NOFILE" not in server.stderr()


def test_a_limit_that_is_too_low_is_said_with_all_numbers(serve):
    settings = {"max_connections": 1000, "descriptors_reserved": 100, "io_threads": 1}
    server = serve(settings=settings, preexec_fn=limited(128, 256))
    assert resource.prlimit(server.pid(), resource.RLIMIT_NOFILE)[0] == 256
    limit = server.counter("connections_limit")
    assert 150 < limit < 192
    text = re.sub(r"\d+ in use", "N in use", re.sub(r"\b11\d\d\b", "NEEDED", server.stderr()))
    assert (
        f"http: at most {limit} connections, not max_connections = 1000, because of RLIMIT_NOFILE: NEEDED descriptors are needed "
        "(N in use, 100 reserved for files and upstreams), soft limit 256, hard limit 256; raise the hard limit "
        "(LimitNOFILE=NEEDED of a systemd unit, limits.conf) or lower max_connections" in text
    )


def test_a_start_for_which_there_are_too_few_descriptors_fails_with_a_reason():
    """However many there are: libuv would end the process."""
    command = [EXAMPLES / "performance_test", "--address", HOST, "--port", "0", "--io-threads", "2", "--engine", ENGINE]
    refused = 0
    for count in range(6, 64):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=limited(count, count)) as started:
            line = next((line for line in started.stderr if "listening on" in line or "ERROR" in line), "")
            if "listening on" in line:
                started.terminate()
                assert started.wait() == 0
                break
        assert started.returncode == 1 and re.search("out of file descriptors|Too many open files", line), (count, started.returncode, line)
        refused += 1
    assert refused > 5 and "listening on" in line


def test_who_does_not_want_it_keeps_the_soft_limit(serve):
    server = serve(settings={"max_connections": 1000, "raise_descriptor_limit": "no"}, preexec_fn=limited(128, 4000))
    assert resource.prlimit(server.pid(), resource.RLIMIT_NOFILE)[0] == 128
    assert "raise_descriptor_limit is off: raise the soft limit (ulimit -n " in server.stderr()
    assert server.counter("connections_limit") <= 96


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.skipif(not (EXAMPLES / "uvhttp").exists(), reason="built without static files or middleware")
def test_clients_leave_descriptors_to_files(serve, tmp_path, busy):
    """Those that are idle make space for a new one; those that are not keep theirs, and files have descriptors all the same."""
    for i in range(20):
        (tmp_path / f"{i}.txt").write_bytes(b"x" * 300_000)
    server = serve("uvhttp", tmp_path, "--io-threads", 1, preexec_fn=limited(256, 256))
    client = server.connect()
    assert client.get("/0.txt").status == 200
    if busy:
        client.send(PART)
    clients = [server.connect() for _ in range(300)]
    if busy:
        for one in clients:
            send_part(one)
    poll(lambda: server.descriptors() >= 150)
    if not busy:
        client = server.connect()  # a new one
    else:
        client.send(REST)
        assert client.response().status == 404
    for i in range(20):
        assert client.get(f"/{i}.txt").status == 200
    assert server.descriptors() < 256
    for one in clients:
        one.close()


@pytest.mark.serial
def test_out_of_descriptors_the_server_serves_what_it_has_and_recovers_at_once(few_descriptors):
    server = few_descriptors
    connections = [send_get(server.connect()) for _ in range(100)]

    poll(lambda: sum(not connection.quiet() for connection in connections) >= 20)
    poll(lambda: server.process.poll() is None and server.descriptors() >= 60)
    inside = []
    while new := [connection for connection in connections if connection not in inside and not connection.quiet()]:
        for connection in new:
            assert connection.response().body == b"1"
        inside += new
        for _ in range(20):  # whoever has been accepted gets a response by then
            assert inside[0].get("/n/2").body == b"2"
    assert 20 <= len(inside) < 64
    waiting = [connection for connection in connections if connection not in inside]
    for _ in range(5):
        for connection in inside:
            assert connection.get("/n/2").body == b"2"
    before = server.cpu_seconds()
    assert all(connection.quiet(0.01) for connection in waiting)
    time.sleep(0.5)
    spent = server.cpu_seconds() - before
    assert spent < 0.15, f"{spent} s of CPU while nothing happened"
    stays = inside.pop()
    for connection in inside:
        connection.close()
    at_once(waiting[0], stays)
    stays.close()
    waiting[0].close()
    for connection in waiting[1:]:
        assert connection.response().body == b"1"
        connection.close()
    assert len(server.new_stderr().splitlines()) <= 3, "said, but not once a connection"


@pytest.mark.serial
def test_relief_that_comes_from_elsewhere_is_seen_too(few_descriptors):
    """Descriptors that the application gives back, and no connection closes: the server finds out by itself."""
    server = few_descriptors
    connections = [send_get(server.connect()) for _ in range(100)]
    poll(lambda: server.descriptors() >= 60)
    poll(lambda: sum(not connection.quiet() for connection in connections) >= 20)
    hard = resource.prlimit(server.pid(), resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.pid(), resource.RLIMIT_NOFILE, (min(hard, 1000), hard))
    for connection in connections:
        assert connection.response().body == b"1"
    for connection in connections:
        connection.close()


def test_the_memory_of_a_request_is_bounded(serve):
    server = serve(settings={"request_memory_max": 100_000})
    assert server.get("/copy?size=50000").status == 200
    response = server.get("/copy?size=200000")
    assert response.status == 500 and response.text == "UVHTTP_E_LIMIT"
    assert server.get("/n/1").body == b"1"


def test_pieces_beyond_the_write_queue_are_refused_not_buffered(serve):
    server = serve(settings={"write_queue_max": 100_000})
    with server.connect(receive_buffer=4096) as connection:
        connection.send(request("GET", "/pieces?n=1000&size=20000"))
        assert connection.response_head().status == 200
        connection.send_anyway(request("GET", "/n/1", [("Connection", "close")]))
        assert len(connection.rest()) < 1_000_000


@pytest.mark.parametrize(
    "setting",
    ["io_threads=1025", "max_connections=0", "read_buffer_size=10", "read_buffer_count=7", "keepalive_timeout=-1", "request_line_max=1", "header_count_max=x", "engine=poll", "no_such_field=1", "body_size_max="],
)
def test_a_wrong_setting_is_one_line_with_its_name_and_value(serve, setting):
    name, value = setting.split("=")
    server = serve(settings={name: value}, wait=False)
    assert server.wait() == 2
    lines = server.stderr().splitlines()
    assert len(lines) == 1, lines
    assert name in lines[0] and (value in lines[0] or name == "no_such_field")
