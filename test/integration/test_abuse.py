"""Clients that break off, reset, or send what is legal but costly."""
import contextlib
import random

import pytest

from harness import poll
from wire import Closed, Connection, head, request


def closed_more(server, before, count):
    poll(lambda: server.counter("connections_closed") - before >= count, message="the connection is not given back")


@pytest.mark.parametrize("part", [b"", b"GET / HT", head("POST", "/body", [("Content-Length", 100)]) + b"x" * 10, head("POST", "/body", [("Transfer-Encoding", "chunked")]) + b"5\r\nhe"], ids=["connected", "head", "body", "chunk"])
def test_a_half_close_in_mid_request_frees_the_connection_at_once(server, part):
    before = server.counter("connections_closed")
    with server.connect() as connection:
        connection.send(part)
        connection.half_close()
        data = connection.rest()  # every time limit is longer than this one's, or makes it a 408
        assert data == b"" or data.startswith(b"HTTP/1.1 400 "), data
        closed_more(server, before, 1)
    assert server.new_stderr() == ""


@pytest.mark.parametrize("part", [b"GET / HT", head("POST", "/body", [("Content-Length", 100)]) + b"x" * 10, head("GET", "/later?key=never-asked")], ids=["head", "body", "deferred"])
def test_a_reset_frees_the_connection_at_once(server, part):
    before = server.counter("connections_closed")
    connection = server.connect()
    connection.send(part)
    server.sync()
    connection.reset()
    closed_more(server, before, 1)
    server.ask("/release?key=never-asked")
    assert server.new_stderr() == ""


@pytest.mark.parametrize("route", ["/static?size=30000000", "/copy?size=12000000", "/ref?size=30000000"])
def test_a_reset_in_mid_response_frees_the_connection(server, route):
    before = server.counters()
    for _ in range(5):
        connection = server.connect(receive_buffer=4096)
        connection.send(request("GET", route) * 3)
        connection.response_head()
        connection.reset()
    closed_more(server, before["connections_closed"], 5)
    poll(lambda: (lambda now: now["test_ref_used"] == now["test_ref_released"])(server.counters()))
    assert server.new_stderr() == ""


def test_resets_leave_nothing_behind(serve):
    server = serve(settings={"max_connections": 20000})

    def storm(count):
        before = server.counter("connections_closed")
        for i in range(count):
            connection = server.connect()
            if i % 2:
                connection.send(b"GET / HTTP/1.1\r\n" if i % 4 == 1 else b"GET /static?size=100000 HTTP/1.1\r\nHost: a\r\n\r\n")
            connection.reset()
        # A connection that was reset before it was accepted may never be seen: what counts is that none stays.
        poll(lambda: (lambda now: now["connections_accepted"] - now["connections_closed"] == 1)(server.counters()), 20)
        assert server.counter("connections_closed") > before

    storm(2000)
    growth, descriptors = server.memory_growth(), server.descriptors()
    storm(10000)
    poll(lambda: server.descriptors() <= descriptors)
    growth.stays_below(2_000_000)
    assert server.new_stderr() == ""


@pytest.mark.parametrize("part", [b"GET / HT", head("POST", "/body", [("Content-Length", 1000)]) + b"x" * 500], ids=["head", "body"])
def test_ten_thousand_half_closes_in_mid_request_leave_nothing_behind(serve, part):
    server = serve()

    def storm(count):
        before = server.counter("connections_closed")
        for _ in range(count):
            with server.connect() as connection:
                connection.send(part)
                connection.half_close()
                data = connection.rest()
                assert data == b"" or data.startswith(b"HTTP/1.1 400 "), data
        closed_more(server, before, count)

    storm(1000)
    growth, descriptors = server.memory_growth(), server.descriptors()
    storm(9000)
    poll(lambda: server.descriptors() <= descriptors)
    growth.stays_below(2_000_000)
    assert server.new_stderr() == ""


def test_connections_leave_nothing_behind(serve):
    server = serve()

    def visit(count):
        for i in range(count):
            with server.connect() as connection:
                connection.get("/n/1" if i % 3 else "/pieces")

    visit(500)
    growth = server.memory_growth()
    visit(3000)
    growth.stays_below(2_000_000)


def test_a_body_in_single_byte_chunks_costs_no_more_than_it_should(serve, sanitizer):
    size = 1_000_000 if sanitizer else 10_000_000
    server = serve(settings={"body_size_max": 20_000_000})
    before = server.cpu_seconds()
    with server.connect() as connection:
        connection.send(head("POST", "/sum", [("Transfer-Encoding", "chunked")]))
        piece = b"1\r\nx\r\n" * 100_000
        for _ in range(size // 100_000):
            connection.send(piece)
        connection.send(b"0\r\n\r\n")
        assert connection.response().text.split()[0] == str(size)
    assert server.cpu_seconds() - before < 3


def test_a_body_sent_in_tiny_segments_costs_no_more_than_it_should(serve):
    server = serve()
    before = server.cpu_seconds()
    with server.connect() as connection:
        connection.send(head("POST", "/sum", [("Content-Length", 20000)]))
        for _ in range(20000):
            connection.send(b"x")
        assert connection.response().text.split()[0] == "20000"
    assert server.cpu_seconds() - before < 3


def test_many_small_heads_cut_in_two_cost_no_memory(serve):
    server = serve()
    connections = [server.connect() for _ in range(500)]
    data = request("GET", "/n/1", [("A", "b" * 3000)])

    def cycle():
        for connection in connections:
            connection.send(data[:2000])
        server.sync()
        for connection in connections:
            connection.send(data[2000:])
        for connection in connections:
            assert connection.response().body == b"1"

    cycle()
    growth = server.memory_growth()
    for _ in range(5):
        cycle()
    growth.stays_below(2_000_000)
    for connection in connections:
        connection.close()


def test_all_clients_are_served_when_more_send_bodies_than_there_are_buffers(serve):
    server = serve(settings={"read_buffer_count": 8, "read_buffer_size": 1024})
    connections = [server.connect() for _ in range(100)]
    body = b"x" * 200_000
    data = request("POST", "/sum", body=body)
    position = [0] * len(connections)
    while min(position) < len(data):
        for i, connection in enumerate(connections):
            connection.send(data[position[i] : position[i] + 20_000])
            position[i] += 20_000
    for connection in connections:
        assert connection.response().text.split()[0] == "200000"
        connection.close()


def test_garbage_never_stops_the_server(server):
    random.seed(7)
    good = request("POST", "/body", [("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n0\r\n\r\n" + request("GET", "/n/1")
    for _ in range(300):
        data = bytearray(good)
        for _ in range(random.randrange(1, 6)):
            at = random.randrange(len(data))
            kind = random.randrange(3)
            if kind == 0:
                data[at] = random.randrange(256)
            elif kind == 1:
                del data[at]
            else:
                data.insert(at, random.choice(b"\r\n\0 :;\"0f"))
        with Connection(server.address) as connection:
            connection.send_anyway(bytes(data))
            connection.half_close()
            try:
                while True:
                    response = connection.response()
                    assert response.status in (200, 400, 404, 405, 413, 417, 501, 505), response
            except (Closed, OSError):
                pass
    assert server.new_stderr() == ""


def test_who_floods_behind_a_refusal_is_not_waited_for(server):
    flood = bytes(1 << 20)

    def flooded():
        with server.connect() as one:
            one.send(b"nonsense\r\n\r\n")
            assert one.response().status == 400
            with contextlib.suppress(ConnectionError):
                for _ in range(256):
                    one.send(flood)
        return server.counter("closing_floods") > 0

    poll(flooded)
    with server.connect() as one:
        assert one.get("/n/1").body == b"1"
    assert server.new_stderr() == ""


RESETS = ("resets_idle", "resets_reading", "resets_writing", "resets_closing")


def resets(server):
    counters = server.counters()
    return {name: counters[name] for name in RESETS}


def untouched(connection):
    pass


def after_a_response(connection):
    assert connection.get("/n/1").body == b"1"


def in_a_head(connection):
    connection.send(b"GET / HTTP/1.1\r\nHost:")


def in_a_body(connection):
    connection.send(request("POST", "/body", [("Content-Length", "10")]) + b"12345")


def before_a_response(connection):
    connection.send(request("GET", "/later?key=never-released"))


def in_a_response(connection):
    connection.send(request("GET", "/static?size=8000000"))
    assert connection.response_head().status == 200


@pytest.mark.parametrize(
    "how, phase, count",
    [(untouched, "idle", 100), (after_a_response, "idle", 100), (in_a_head, "reading", 50), (in_a_body, "reading", 50), (before_a_response, "writing", 50), (in_a_response, "writing", 50)],
)
def test_each_reset_is_counted_once(serve, how, phase, count):
    """400 in all, and none by the server's own ends or by clients that leave with FIN."""
    server = serve()
    before = resets(server)
    assert sum(before.values()) == 0
    for _ in range(count):
        with server.connect() as one:
            assert one.get("/n/1").body == b"1"
        connection = server.connect(receive_buffer=4096)
        how(connection)
        if how is not in_a_response:
            server.sync()  # it is accepted
            server.sync()  # what it has sent has been read
        connection.reset()
    poll(lambda: sum(resets(server).values()) >= count, message=str(resets(server)))
    server.sync()
    assert resets(server) == {**before, f"resets_{phase}": count}
    assert server.counter("connections_accepted") - server.counter("connections_closed") == 1
