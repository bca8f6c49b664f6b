"""The C++ interface: handlers, coroutines and their ends, whatever happens; examples/hello_cpp.cpp."""
import errno
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import pytest

import harness
from harness import poll
from wire import Closed, request

PROGRAM = harness.TEST_PROGRAMS / "cpp_test_server"
HEADER = pathlib.Path(__file__).parents[2] / "include/uvhttp/config.hpp"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without C++")


@pytest.fixture
def server(serve):
    return serve(PROGRAM)


def stats(server):
    return json.loads(server.ask("/stats").body)


@pytest.mark.threads
def test_every_kind_of_handler_responds(server):
    for path, status, body in (
        ("/hello", 200, b"Hello, World!"),
        ("/buffer", 200, b"from a buffer on the stack 0"),
        ("/reply", 201, b"/reply"),
        ("/empty", 204, b""),
        ("/move", 200, b"moved into its lambda"),
        ("/at_once", 200, b"at once"),
        ("/content", 200, b"made once"),
        ("/content?large=1", 200, b"c" * 100_000),
        ("/nested?depth=50", 200, b"50"),
        ("/wait?ms=0", 200, b"/wait -"),
    ):
        response = server.get(path)
        assert (response.status, response.body) == (status, body), path
    assert server.get("/redirect").header("Location") == "/hello"
    assert server.get("/reply").header("X-Host") == "h"
    assert server.get("/echo", method="POST", body=b"a\0b").body == b"a\0b"
    response = server.get("/wait?ms=2", headers=[("X-Name", "n" * 3000)])
    assert response.text == "/wait " + "n" * 3000 and response.all("X-First") == ["1", "2"]
    with server.connect() as connection:
        connection.send(request("GET", "/hints"))
        assert connection.response().all("Link") == ["</a.css>", "</b.css>"]
        assert connection.response().status == 102
        assert connection.response().text == "hinted"
    response = server.get("/later")
    assert response.text == "from a thread" and response.header("X-Thread") == "yes"
    assert stats(server)["live"] == 0 and server.new_stderr() == ""


def test_a_handler_that_does_not_respond_gives_a_500(server):
    with server.connect() as connection:
        for path in ("/nothing", "/nothing/later", "/dropped"):
            assert connection.get(path).status == 500, path
        assert connection.get("/hello").status == 200
    assert stats(server)["exceptions"] == 0


def test_the_hook_of_a_server_that_is_ready_has_run(server):
    assert stats(server)["ready"] == 1


def test_exceptions_become_500_and_are_counted(server):
    paths = ["/throw/sync", "/throw/reply", "/throw/begin", "/throw/later", "/throw/status", "/throw/header"]
    with server.connect() as connection:
        for path in paths:
            response = connection.get(path)
            assert (response.status, response.text) == (500, "Internal Server Error\n"), path
        assert connection.get("/throw/caught").text == "later", "caught by who awaited"
    seen = stats(server)
    assert seen["exceptions"] == seen["hooked"] == len(paths) and seen["live"] == 0
    assert server.new_stderr() == ""


def test_sleeping_coroutines_hold_nobody_up(server):
    connections = [server.connect() for _ in range(200)]
    start = time.monotonic()
    for connection in connections:
        connection.send(request("GET", "/wait?ms=300"))
    for connection in connections:
        assert connection.response().status == 200
        connection.close()
    assert 0.29 < time.monotonic() - start < 30, "one after the other they would take 60 s"
    assert stats(server)["live"] == 0


def test_work_gives_back_what_a_worker_made_or_threw(server):
    with server.connect() as connection:
        assert [connection.get("/work").text for _ in range(3)] == ["42 thrown by a worker"] * 3
    assert stats(server)["exceptions"] == 0 and stats(server)["live"] == 0


def test_pipelined_coroutines_respond_in_order(server):
    with server.connect() as connection:
        connection.send(b"".join(request("GET", f"/wait?ms={ms}", headers=[("X-Name", ms)]) for ms in (20, 0, 10, 5)))
        assert [connection.response().text for _ in range(4)] == ["/wait 20", "/wait 0", "/wait 10", "/wait 5"]


def leave(connection, reset):
    if reset:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


BODY_HEAD = b"PUT /body%b HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize(
    ("sent", "frames"),
    [
        (request("GET", "/wait?ms=100000"), 1),
        (request("GET", "/nested?ms=100000&depth=3"), 4),
        (request("GET", "/work?ms=500"), 1),
        (BODY_HEAD % b"", 1),
        (BODY_HEAD % b"" + b"x" * 10, 1),
        (BODY_HEAD % b"?ms=100000" + b"x" * 10, 1),
        (BODY_HEAD % b"?ms=100000" + b"x" * 100, 1),
    ],
    ids=["sleep", "nested", "work", "body", "body begun", "sleep in the body", "sleep behind the body"],
)
def test_a_client_that_goes_ends_the_coroutine_wherever_it_waits(server, sent, frames, reset):
    connections = [server.connect() for _ in range(5)]
    for connection in connections:
        connection.send(sent)
    poll(lambda: stats(server)["live"] == 5 * frames)
    for connection in connections:
        leave(connection, reset)
    poll(lambda: stats(server)["live"] == 0)
    assert stats(server)["exceptions"] == 0 and server.get("/hello").status == 200


def open_for_writing(pipe):
    """The file descriptor, as soon as there is a reader."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        assert error.errno == errno.ENXIO
        return None


@pytest.mark.parametrize("reset", [True, False])
def test_a_client_that_goes_between_the_end_of_the_coroutine_and_its_response(server, tmp_path, reset):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    connection = server.connect()
    connection.send(request("GET", f"/block?pipe={pipe}"))
    fd = poll(lambda: open_for_writing(pipe))
    leave(connection, reset)
    os.close(fd)
    poll(lambda: stats(server)["live"] == 0)
    assert stats(server)["exceptions"] == 0 and server.get("/hello").status == 200


def test_clients_that_go_at_any_time(server):
    for round_number in range(60):
        with server.connect() as connection:
            connection.send(request("GET", f"/wait?ms={round_number % 3}") * 3)
            if round_number % 2:
                connection.response()
            leave(connection, True)
    poll(lambda: stats(server)["live"] == 0)
    assert server.get("/hello").status == 200


def text_of(server, target, method="GET", body=None):
    response = server.get(target, method=method, body=body)
    assert response.status == 200, target
    return response.text


def test_descriptors_and_sockets_are_waited_for(server):
    own = f"{server.address[0]}:{server.address[1]}"
    assert text_of(server, "/descriptor") == "readable"
    assert text_of(server, "/interrupted") == "readable"
    assert text_of(server, "/descriptor?limit=0") == "UVHTTP_E_TIMEOUT"
    assert text_of(server, "/descriptor?limit=20") == "UVHTTP_E_TIMEOUT"
    assert text_of(server, "/write?limit=20") == "UVHTTP_E_TIMEOUT"
    for to, response in (
        (own, "HTTP/1.1 200 OK"),
        (own.replace(".0.0.", "."), "HTTP/1.1 200 OK"), # a name, for getaddrinfo
        ("", "UVHTTP_E_ADDRESS"),
        ("unix:/nowhere", "UVHTTP_E_PEER_UNREACHABLE"),
        ("a" * 64 + ".test:1", "UVHTTP_E_PEER_NAME"), # a label that is too long: nobody is asked
    ):
        assert text_of(server, f"/talk?to={to}") == response, to
    assert text_of(server, f"/talk?to={own}&limit=0") == "UVHTTP_E_TIMEOUT"
    assert stats(server)["live"] == 0 and stats(server)["exceptions"] == 0


def test_other_servers_are_asked(server):
    own = f"http://{server.address[0]}:{server.address[1]}"
    assert text_of(server, f"/fetch?url={own}/echo", "POST", b"said") == "200 text/plain said"
    assert text_of(server, f"/fetch?url={own}/none", "POST", b"said").startswith("404 ")
    assert text_of(server, "/fetch?url=https://a/", "POST", b"") == "UVHTTP_E_UNSUPPORTED"
    assert text_of(server, f"/fetch?url={own}/echo&limit=0", "POST", b"") == "UVHTTP_E_TIMEOUT"
    assert text_of(server, "/fetch?url=http://unix:/nowhere", "POST", b"") == "UVHTTP_E_CLIENT_UNIX_URL"
    with socket.create_server((harness.HOST, 0)) as silent:
        url = f"http://{harness.HOST}:{silent.getsockname()[1]}/"
        assert text_of(server, f"/fetch?url={url}&limit=30", "POST", b"") == "UVHTTP_E_TIMEOUT"
    assert stats(server)["live"] == 0 and stats(server)["exceptions"] == 0


def test_channels_pass_items_in_order(serve):
    server = serve(PROGRAM)
    assert text_of(server, "/channel?limit=0") == "UVHTTP_E_TIMEOUT"
    assert text_of(server, "/channel?limit=10") == "UVHTTP_E_TIMEOUT"
    for word in "ab":
        assert text_of(server, f"/channel?send={word}") == "sent"
    assert text_of(server, "/channel?send=x&limit=0") == "UVHTTP_E_TIMEOUT"
    assert text_of(server, "/channel?send=x&limit=10") == "UVHTTP_E_TIMEOUT"
    with server.connect() as third, server.connect() as fourth:
        for connection, word, live in ((third, "c", 1), (fourth, "d", 2)): # it is full: they wait, in this order
            connection.send(request("GET", f"/channel?send={word}"))
            poll(lambda: stats(server)["live"] == live)
        assert [text_of(server, "/channel") for _ in range(4)] == ["a", "b", "c", "d"]
        assert third.response().text == fourth.response().text == "sent"
    receivers = [server.connect() for _ in range(3)]
    for live, connection in enumerate(receivers, 1):
        connection.send(request("GET", "/channel"))
        poll(lambda: stats(server)["live"] == live)
    leave(receivers.pop(0), True) # who has waited longest goes: nothing is lost
    poll(lambda: stats(server)["live"] == 2)
    assert text_of(server, "/channel?send=e") == "sent" and receivers[0].response().text == "e"
    assert text_of(server, "/channel?close=") == "closed" and receivers[1].response().text == "at its end"
    assert text_of(server, "/channel") == "at its end"
    assert text_of(server, "/channel?send=f") == "UVHTTP_E_CLOSED"
    assert stats(server)["live"] == 0


@pytest.mark.parametrize("reset", [True, False])
def test_a_client_that_goes_ends_every_other_wait(server, reset):
    with socket.create_server((harness.HOST, 0)) as silent:
        to = f"{harness.HOST}:{silent.getsockname()[1]}"
        targets = [
            request("GET", "/descriptor?wait="),
            request("GET", "/write"),
            request("GET", f"/talk?to={to}"),
            request("POST", f"/fetch?url=http://{to}/", body=b"x"),
            request("GET", "/channel"),
            request("GET", "/channel"),
        ]
        connections = [server.connect() for _ in targets]
        for connection, sent in zip(connections, targets):
            connection.send(sent)
        poll(lambda: stats(server)["live"] == len(targets))
        before = server.descriptors()
        for connection in connections:
            leave(connection, reset)
        poll(lambda: stats(server)["live"] == 0)
        poll(lambda: server.descriptors() < before)
    assert stats(server)["exceptions"] == 0 and server.get("/hello").status == 200


@pytest.mark.parametrize("what", ["descriptors", "refused", "channel", "others"])
def test_a_wait_that_is_kept_in_a_variable_resumes_once_and_may_be_awaited_again(server, what):
    own = f"{server.address[0]}:{server.address[1]}"
    with socket.create_server((harness.HOST, 0)) as silent:
        target = f"/kept/{what}?to={own}&silent={harness.HOST}:{silent.getsockname()[1]}"
        assert (text_of(server, target), server.new_stderr()) == ("kept", "")
    assert stats(server)["live"] == 0


def test_a_wait_that_outlives_its_coroutine_resumes_nobody(server):
    with server.connect() as first, server.connect() as second:
        first.send(request("GET", "/kept/longer?wait="))
        poll(lambda: stats(server)["live"] == 1)
        second.send(request("GET", "/kept/longer?wait="))
        assert second.response().text == "UVHTTP_E_STATE", "two cannot wait for one"
        leave(first, True)
    poll(lambda: stats(server)["live"] == 0)
    assert text_of(server, "/kept/longer") == "ready"


def test_bodies_are_read_piece_by_piece(server):
    data = bytes(range(256)) * 2000
    want = f"{len(data)} {sum(data)}"
    for query in ("", "?ms=0"):
        assert server.get(f"/body{query}", method="PUT", body=data).text == want
    with server.connect() as connection:
        connection.send(b"PUT /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (b"a", b"bc", b"def"):
            connection.send(b"%x\r\n%b\r\n" % (len(part), part))
            server.ask("/hello")
        connection.send(b"0\r\n\r\n")
        assert connection.response().text == f"6 {sum(b'abcdef')}"
        assert connection.get("/body", method="PUT", body=b"").text == "0 0"
        assert connection.get("/hello").status == 200


def test_a_body_that_is_not_read_to_its_end(server):
    with server.connect() as connection:
        response = connection.get("/body?until=10", method="PUT", body=b"x" * 1000)
        assert response.status == 200 and connection.get("/hello").status == 200
    with server.connect() as connection:
        connection.send(b"PUT /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n")
        assert connection.response().status == 400
    poll(lambda: stats(server)["live"] == 0)


def test_a_drain_waits_for_coroutines_and_cuts_them_off(serve):
    def waits_for_the_quick_one():
        """Unless the machine stands still until it gets a response, or for the second that a drain may take."""
        server = serve(PROGRAM)
        with server.connect() as quick, server.connect() as slow:
            quick.send(request("GET", "/wait?ms=200"))
            slow.send(request("GET", "/wait?ms=100000"))
            poll(lambda: stats(server)["live"] == 2 or not quick.quiet())
            runs, signalled = quick.quiet(), time.monotonic()
            server.signal()
            try:
                assert quick.response().text == "/wait -"
            except Closed:
                runs = False
                assert time.monotonic() - signalled > 0.9, "cut off before its time"
            assert server.wait() == 0, "no frame lives on"
            return runs

    poll(waits_for_the_quick_one, seconds=60)


def test_nothing_is_allocated_but_the_frame(server):
    if harness.sanitizer():
        pytest.skip("a sanitizer allocates on its own")

    def per_request(path, count=40):
        with server.connect() as connection:
            for _ in range(10):
                connection.get(path)
            first, second = stats(server), stats(server)
            for _ in range(count):
                assert connection.get(path).status == 200
            third = stats(server)
        return [(third[name] - second[name] - (second[name] - first[name])) / count for name in ("news", "hook_calls")]

    assert per_request("/hello") == [0, 0]
    news, of_c = per_request("/c")
    assert news == 0
    assert per_request("/literal") == [1, of_c], "what C does, and a frame"
    assert per_request("/at_once") == [1, of_c]


@pytest.mark.parametrize("path", ["/literal", "/nested?depth=2", "/later", "/throw/later", "/descriptor?limit=1", "/ask_self?at="])
@pytest.mark.parametrize("which", ["new", "hook"])
def test_each_allocation_may_fail(server, which, path):
    path += f"{server.address[0]}:{server.address[1]}" if path.endswith("at=") else ""
    with server.connect() as connection:
        right = connection.get(path).status
        for number in range(1, 30):
            assert connection.get(f"/fail?{which}={number}").status == 200
            status = connection.get(path).status
            assert status in (right, 500, 503), number
            assert connection.get("/fail").status == 200
        assert status == right, "more than enough"
        assert connection.get(path).status == right
    assert stats(server)["live"] == 0


@pytest.mark.parametrize(("which", "path"), [("hook", "/dropped"), ("new", "/literal"), ("new", "/nested?depth=2")])
def test_want_of_memory_is_a_503_as_in_c(server, which, path):
    """`reply.defer()`, and frames of coroutines."""
    if which == "new" and harness.sanitizer():
        pytest.skip("with a sanitizer `new` is its own")
    responses = set()
    with server.connect() as connection:
        right = connection.get(path)
        for number in range(1, 10):
            assert connection.get(f"/fail?{which}={number}").status == 200
            response = connection.get(path)
            responses.add((response.status, response.text))
            assert connection.get("/fail").status == 200
    assert responses == {(right.status, right.text), (503, "Service Unavailable\n")}
    assert stats(server)["exceptions"] > 0


def test_the_configuration_has_every_field(server):
    listed = re.findall(r"^    X\((\w+)\)", HEADER.read_text(encoding="utf-8"), re.M)
    fields = server.get("/fields").text.split()
    assert sorted(listed) == sorted(fields), "UVHTTP_HPP_CONFIG and UVHTTP_HPP_PERFORMANCE of uvhttp/config.hpp, against the table of config.c"


def test_hello_cpp(serve):
    server = serve("hello_cpp")

    def curl(path, *options):
        return subprocess.run(["curl", "-sS", "-m", "10", *options, server.url(path)], capture_output=True, text=True, check=True).stdout

    assert curl("/") == "Hello, World!"
    assert json.loads(curl("/users/7?greeting=Hi")) == {"id": "7", "greeting": "Hi"}
    assert json.loads(curl("/users/7")) == {"id": "7", "greeting": "Hello"}
    start = time.monotonic()
    assert curl("/wait") == "slept\n" and time.monotonic() - start >= 0.199
    assert curl("/sum") == curl("/ask") == "42"
    assert curl("/later") == "from a thread\n"
    assert curl("/throw") == "Internal Server Error\n"
    assert curl("/size", "-T", __file__) == str(pathlib.Path(__file__).stat().st_size)
