"""However the bytes are split, and however many requests come at once, the responses are the same."""
import json
import threading

import pytest

from wire import chunked, head, request

SPLIT = {
    "plain": request("GET", "/echo/a?x=1", [("X-Repeated", "1"), ("Accept", "*/*")]),
    "body": request("POST", "/echo", [("Content-Type", "text/plain")], b"hello world"),
    "chunked": head("POST", "/echo", [("Transfer-Encoding", "chunked")]) + chunked(b"hello", b" world!", trailer=b"A: b\r\n"),
}


def ask(connection, data):
    connection.send(data)
    response = connection.response()
    assert response.status == 200
    seen = json.loads(response.body)
    del seen["peer"]
    return seen


@pytest.mark.parametrize("name", SPLIT)
def test_a_request_cut_at_any_byte_is_the_same_request(server, name):
    data = SPLIT[name]
    with server.connect() as connection:
        whole = ask(connection, data)
        for at in range(1, len(data)):
            connection.send(data[:at])
            server.sync()  # the loop has seen the first part when this returns
            assert connection.quiet()
            assert ask(connection, data[at:]) == whole, at


@pytest.mark.parametrize("name", SPLIT)
def test_a_request_in_single_bytes_is_the_same_request(server, name):
    data = SPLIT[name]
    with server.connect() as connection:
        whole = ask(connection, data)
        for at in range(len(data) - 1):
            connection.send(data[at : at + 1])
            server.sync()
        assert ask(connection, data[-1:]) == whole


def test_the_end_of_one_request_and_the_start_of_the_next_may_come_together(server):
    data = request("GET", "/n/1") + request("POST", "/body", body=b"two") + request("GET", "/n/3")
    for at in range(1, len(data)):
        with server.connect() as connection:
            connection.send(data[:at])
            server.sync()
            connection.send(data[at:])
            assert [connection.response().body for _ in range(3)] == [b"1", b"two", b"3"]


@pytest.mark.parametrize("count", [1, 2, 16, 127, 128, 129, 1000])
def test_pipelined_requests_are_served_in_order(connection, count):
    data, expected = b"", []
    for i in range(count):
        kind = i % 5
        if kind == 3:
            body = b"body %d " % i * (i % 50)
            data += request("POST", "/body", body=body)
        elif kind == 4:
            body = b"chunk %d" % i
            data += head("PUT", "/body", [("Transfer-Encoding", "chunked")]) + chunked(body, b"!")
            body += b"!"
        else:
            body = b"%d" % i
            data += request("GET", f"/n/{i}")
        expected.append(body)
    connection.send(data)
    assert [connection.response().body for _ in range(count)] == expected


def test_pipelined_requests_wait_behind_a_deferred_response(server, connection):
    connection.send(request("GET", "/n/1") + request("GET", "/later?key=p1") + request("GET", "/n/3"))
    assert connection.response().body == b"1"
    server.sync()
    assert connection.quiet()
    assert server.ask("/release?key=p1").text == "1"
    assert connection.response().body == b"later" and connection.response().body == b"3"


def test_many_deferred_responses_in_a_row_keep_their_order(connection):
    connection.send(b"".join(request("GET", f"/later?how=request&ms={i % 3}&i={i}") for i in range(50)))
    for i in range(50):
        assert connection.response().body.endswith(b"&i=%d" % i)


def test_large_responses_to_pipelined_requests_are_whole(server):
    sizes = [1_000_000, 10, 3_000_000, 0, 70_000] * 5
    with server.connect() as connection:
        data = b"".join(request("GET", f"/{'static' if i % 2 else 'copy'}?size={size}") for i, size in enumerate(sizes))
        sender = threading.Thread(target=connection.send, args=(data,))
        sender.start()
        assert [len(connection.response().body) for _ in sizes] == sizes
        sender.join()


def test_requests_after_close_are_not_served(server):
    with server.connect() as connection:
        connection.send_anyway(request("GET", "/n/1", [("Connection", "close")]) + request("GET", "/n/2") * 3)
        assert connection.response().body == b"1"
        connection.assert_closed()


def test_requests_that_are_there_are_served_before_a_half_close(server):
    with server.connect() as connection:
        connection.send(b"".join(request("GET", f"/n/{i}") for i in range(100)))
        connection.half_close()
        assert [connection.response().body for _ in range(100)] == [b"%d" % i for i in range(100)]
        connection.assert_closed()


def test_a_connection_serves_many_requests(connection):
    for i in range(2000):
        assert connection.get(f"/n/{i}").body == b"%d" % i


def test_keepalive_requests_bounds_a_connection(serve):
    server = serve(settings={"keepalive_requests_max": 3})
    with server.connect() as connection:
        responses = [connection.get("/") for _ in range(3)]
        assert [response.header("Connection") for response in responses] == [None, None, "close"]
        connection.assert_closed()
