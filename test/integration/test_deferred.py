"""Responses that are made later and elsewhere."""
import time

import pytest

from harness import poll
from wire import request

pytestmark = [pytest.mark.threads, pytest.mark.neutral]


@pytest.mark.parametrize("how", ["text", "json", "send", "ref", "run", "pieces", "twice"])
@pytest.mark.parametrize("ms", [0, 20])
def test_a_response_made_on_another_thread_arrives(server, connection, how, ms):
    before = server.counters()
    response = connection.get(f"/later?how={how}&ms={ms}")
    assert response.status == 200
    assert response.body == (b'"later"' if how == "json" else b"later")
    assert response.header("X-Later") == ("yes" if how == "text" else None)
    server.wait_counter("test_responded", before["test_responded"] + 1)
    server.wait_counter("test_refused", before["test_refused"] + (how == "twice"))
    server.wait_counter("test_deferred_released", before["test_deferred_released"] + (how == "ref"))
    assert connection.get("/n/1").body == b"1"


def test_the_request_stays_readable_until_the_response(connection):
    target = "/later?how=request&ms=30&x=" + "y" * 3000
    assert connection.get(target).text == target


def test_the_body_of_a_deferred_request_does_not_disturb_the_next(connection):
    assert connection.get("/later?ms=5", method="POST", body=b"x" * 100_000).body == b"later"
    assert connection.get("/body", method="POST", body=b"next").body == b"next"


def test_a_handle_that_is_released_without_a_response_gives_500(server, connection):
    assert connection.get("/later?how=nothing&ms=10").status == 500
    assert connection.get("/later?how=nothing").status == 500
    assert connection.get("/n/1").body == b"1"


@pytest.mark.parametrize("how", ["text", "ref", "run", "pieces", "request", "nothing"])
@pytest.mark.parametrize("leave", ["close", "reset"])
def test_a_client_that_goes_first_is_seen_and_responding_is_harmless(server, how, leave):
    before = server.counters()
    connection = server.connect()
    key = f"{how}-{leave}-{connection.version[-3]}"
    connection.start(f"/later?how={how}&key={key}")
    poll(lambda: server.counter("test_held") > before["test_held"])
    getattr(connection, leave)()
    server.wait_counter("test_on_abort", before["test_on_abort"] + 1)
    assert server.counter("aborted") == before["aborted"] + 1
    assert server.ask(f"/release?key={key}").text == "1"
    if how != "nothing":
        server.wait_counter("test_aborted", before["test_aborted"] + 1)
    server.wait_counter("test_deferred_released", before["test_deferred_released"] + (how == "ref"))
    assert server.counter("test_responded") == before["test_responded"]


@pytest.mark.http1("half-closed connections")
def test_a_client_that_sends_fin_has_gone_unless_half_close_is_on(serve):
    for half_close in (False, True):
        server = serve(settings={"half_close": "true" if half_close else "false"})
        with server.connect() as connection:
            connection.send(request("GET", "/later?key=k"))
            poll(lambda: server.counter("test_held") == 1)
            connection.half_close()
            if half_close:
                server.sync()
                assert connection.quiet()
                server.ask("/release?key=k")
                assert connection.response().body == b"later"
            connection.assert_closed()
        assert server.counter("test_on_abort") == (0 if half_close else 1)
        server.ask("/release?key=k")


def test_a_waiting_connection_costs_no_cpu(serve):
    server = serve()
    with server.connect() as connection:
        asked = connection.start("/later?key=k")
        poll(lambda: server.counter("test_held") == 1)
        before = server.cpu_seconds()
        time.sleep(0.5)
        assert server.cpu_seconds() - before < 0.1
        server.ask("/release?key=k")
        assert asked.response().body == b"later"


@pytest.mark.http1("pipelining")
def test_much_that_comes_behind_a_deferred_request_waits_without_growing(serve):
    server = serve()
    growth = server.memory_growth()
    with server.connect() as connection:
        connection.send(request("GET", "/later?key=k"))
        poll(lambda: server.counter("test_held") == 1)
        connection.socket.settimeout(0.3)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += connection.socket.send(b"GET /n/1 HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)
        except TimeoutError:
            pass
        assert sent < 50_000_000, "the client is held back"
        growth.stays_below(4_000_000)
        server.ask("/release?key=k")
        connection.socket.settimeout(20)
        assert connection.response().body == b"later"
        assert connection.response().body == b"1"


def test_thousands_of_deferred_responses_at_once(serve):
    server = serve(settings={"io_threads": 2})
    connections = [server.connect() for _ in range(300)]
    for round_number in range(3):
        asked = [connection.start(f"/later?how=request&ms={i % 20}&n={round_number}-{i}") for i, connection in enumerate(connections)]
        for i, one in enumerate(asked):
            assert one.response().text.endswith(f"&n={round_number}-{i}")
    for connection in connections:
        connection.close()


def test_clients_that_leave_at_the_moment_of_the_response(serve):
    server = serve(settings={"io_threads": 2})
    for i in range(300):
        connection = server.connect()
        connection.start(f"/later?ms={i % 3}&how={('text', 'ref', 'run', 'pieces')[i % 4]}")
        if i % 2:
            connection.reset()
        else:
            connection.close()
    poll(lambda: (lambda now: now["connections_accepted"] - now["connections_closed"] == 1)(server.counters()))

    def settled():
        now = server.counters()
        return now["test_responded"] + now["test_aborted"] == now["deferred"]

    poll(settled)
