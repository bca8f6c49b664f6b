"""At a limit the server keeps what it has, costs nothing, and is back at once."""
import resource
import time

import pytest

from harness import poll
from wire import request


def send_get(connection, target="/n/1"):
    connection.send(request("GET", target))
    return connection


def at_once(waiting, other):
    """One who waits has been answered before some more requests of another client are, whatever time they take."""
    for _ in range(100):
        assert other.get("/n/2").body == b"2"
    assert not waiting.quiet(), "it was not its turn as soon as there was room"
    assert waiting.response().body == b"1"


@pytest.mark.serial
def test_more_clients_than_max_connections_wait_and_are_served_in_turn(serve):
    server = serve(settings={"max_connections": 4, "keepalive_timeout": 60})
    inside = [server.connect() for _ in range(4)]
    for connection in inside:
        assert connection.get("/n/1").body == b"1"
    outside = [send_get(server.connect()) for _ in range(3)]
    for _ in range(20):
        assert all(connection.get("/n/2").body == b"2" for connection in inside)
    assert all(connection.quiet() for connection in outside)
    before = server.cpu_seconds()
    assert all(connection.quiet(0.1) for connection in outside)
    assert server.cpu_seconds() - before < 0.1
    for waiting in outside:
        inside.pop(0).close()
        at_once(waiting, inside[0])
    for connection in inside + outside:
        connection.close()
    assert server.get("/n/3").body == b"3"


def test_max_connections_counts_all_loops_together(serve):
    server = serve(settings={"max_connections": 8, "io_threads": 2})
    connections = [send_get(server.connect()) for _ in range(40)]
    poll(lambda: sum(not connection.quiet() for connection in connections) >= 8)
    served = set()
    for _ in range(40):  # each that is served leaves, and another moves up
        poll(lambda: any(not connection.quiet() for connection in connections if connection not in served))
        ready = [connection for connection in connections if connection not in served and not connection.quiet()]
        assert len(ready) <= 8
        for connection in ready:
            assert connection.response().body == b"1"
            connection.close()
            served.add(connection)
        if len(served) == 40:
            break
    assert len(served) == 40


@pytest.mark.parametrize("loops", [1, 2])
def test_exactly_max_connections_are_held_and_the_backlog_keeps_the_rest(serve, loops):
    server = serve(settings={"max_connections": 10, "io_threads": loops})
    server.sync()
    before = server.descriptors()
    clients = [server.connect() for _ in range(200)]
    for client in clients:
        client.send(b"GET /n/1 HTTP/1.1\r\n")  # not idle: nobody can take its place
    poll(lambda: server.descriptors() >= before + 9)
    server.wait_counter("connections_accepted", server.counter("connections_closed") + 10)
    for _ in range(20):
        server.sync()
        assert server.descriptors() == before + 9
    assert server.counter("connections_waited") >= 1
    for client in clients:
        client.close()
    poll(lambda: server.descriptors() == before, message="all that waited are accepted and let go")


@pytest.fixture
def few_descriptors(serve):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    return serve(settings={"max_connections": 1000, "keepalive_timeout": 60}, preexec_fn=limit)


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
        for _ in range(20):  # whoever has been accepted is answered by then
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
    ["io_threads=1025", "max_connections=0", "read_buffer_size=10", "read_buffer_count=7", "keepalive_timeout=-1", "request_line_max=1", "header_count_max=x", "engine=epoll", "no_such_field=1", "body_size_max="],
)
def test_a_wrong_setting_is_one_line_with_its_name_and_value(serve, setting):
    name, value = setting.split("=")
    server = serve(settings={name: value}, wait=False)
    assert server.wait() == 2
    lines = server.stderr().splitlines()
    assert len(lines) == 1, lines
    assert name in lines[0] and (value in lines[0] or name == "no_such_field")
