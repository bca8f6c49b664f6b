"""The gRPC example, with the library that clients of gRPC use: in clear, over TLS, and through proxies that speak HTTP/2 to
both sides."""
import concurrent.futures
import contextlib
import os
import ssl
import threading

import pytest

import harness
from proxies import haproxy, needs, nginx
from wire_h2 import Client

grpc = pytest.importorskip("grpc")

pytestmark = [
    pytest.mark.threads,
    pytest.mark.skipif(harness.build_option("BUILD_WITH_COROUTINES") != "ON", reason="built without coroutines"),
]

TIMEOUT = 60
OPTIONS = [("grpc.max_receive_message_length", 8 << 20), ("grpc.max_send_message_length", 8 << 20), ("grpc.enable_http_proxy", 0)]


def text(value):
    """message Text { string text = 1; }"""
    size, data = len(value), b""
    while size >= 0x80:
        data += bytes([size & 0x7F | 0x80])
        size >>= 7
    return b"\x0a" + data + bytes([size]) + value


PROXIES = {
    "nginx": lambda server, folder: nginx(server.address, folder, "grpc_pass grpc://backend; grpc_socket_keepalive on;"),
    "haproxy": lambda server, folder: haproxy(server.address, folder, "proto h2", bind="proto h2"),
}


@pytest.fixture(params=["clear", "tls", *(pytest.param(name, marks=needs(name)) for name in PROXIES)])
def server(serve, request, tmp_path):
    """`way`: how it is reached; `front`: where."""
    one = serve("grpc", *(["tls"] if request.param == "tls" else []))
    one.way = request.param
    with PROXIES[one.way](one, tmp_path) if one.way in PROXIES else contextlib.nullcontext(one.address) as one.front:
        yield one


def certificate(address):
    return ssl.get_server_certificate(address).encode()


@pytest.fixture
def channel(server):
    target = "%s:%d" % server.front
    if server.way == "tls":
        credentials = grpc.ssl_channel_credentials(certificate(server.address))
        options = [*OPTIONS, ("grpc.ssl_target_name_override", "localhost")]
        made = grpc.secure_channel(target, credentials, options)
    else:
        made = grpc.insecure_channel(target, OPTIONS)
    with made:
        yield made


def hello(channel):
    return channel.unary_unary("/Greeter/Hello")


def chat(channel):
    return channel.stream_stream("/Greeter/Chat")


def failure(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def test_a_call_is_served(channel):
    for name in (b"Ann", "Bärbel".encode(), b"x" * 200):
        assert hello(channel)(text(name), timeout=TIMEOUT) == text(b"Hello, " + name + b"!")


def test_messages_go_both_ways_while_the_call_lasts(channel):
    came, proceed = [], threading.Semaphore(1)

    def send():
        for i in range(500):
            assert proceed.acquire(timeout=TIMEOUT)  # one only when the last has come back
            yield text(b"%d" % i)

    for message in chat(channel)(send(), timeout=TIMEOUT):
        came.append(message)
        proceed.release()
    assert came == [text(b"%d" % i) for i in range(500)]


def test_many_messages_at_once_come_back_in_order(channel):
    messages = [text(b"%d" % i * (i % 50)) for i in range(5000)]
    assert list(chat(channel)(iter(messages), timeout=TIMEOUT)) == messages


def test_large_messages(channel):
    name = os.urandom(1 << 20)
    assert hello(channel)(text(name), timeout=TIMEOUT) == text(b"Hello, " + name + b"!")
    messages = [text(os.urandom(1 << 20)) for _ in range(5)]
    assert list(chat(channel)(iter(messages), timeout=TIMEOUT)) == messages


def test_errors_have_status_and_message(channel):
    error = failure(lambda: hello(channel)(text(b""), timeout=TIMEOUT))
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "a name is missing")
    assert failure(lambda: hello(channel)(b"\xff\xff", timeout=TIMEOUT)).code() == grpc.StatusCode.INVALID_ARGUMENT
    assert failure(lambda: channel.unary_unary("/Greeter/None")(b"", timeout=TIMEOUT)).code() == grpc.StatusCode.UNIMPLEMENTED
    assert hello(channel)(text(b"again"), timeout=TIMEOUT) == text(b"Hello, again!")


def test_a_message_that_is_too_large_is_refused_before_it_has_come(server, channel):
    assert failure(lambda: hello(channel)(text(bytes(5 << 20)), timeout=TIMEOUT)).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert hello(channel)(text(b"again"), timeout=TIMEOUT) == text(b"Hello, again!")


def test_a_hundred_calls_at_once(channel):
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        names = [b"client %d" % i for i in range(100)]
        found = list(pool.map(lambda name: hello(channel)(text(name), timeout=TIMEOUT), names))
    assert found == [text(b"Hello, " + name + b"!") for name in names]


def endless(stop):
    yield text(b"first")
    stop.wait(TIMEOUT)


def test_a_deadline_ends_the_call(channel, server):
    """The client's timer or the server's may come first. If it is the server's, its response ends with the status, and
    RST_STREAM(NO_ERROR) asks for no more of the request (RFC 9113 section 8.1). haproxy sends CANCEL for that NO_ERROR, and
    the client then names whichever of the two frames it has handled first."""
    expected = {grpc.StatusCode.DEADLINE_EXCEEDED}
    if server.way == "haproxy":
        expected.add(grpc.StatusCode.CANCELLED)
    stop = threading.Event()

    def begun():
        """A call with a deadline, and whether its first message was back before that. Each has twice the time of the one before."""
        seconds = 0.5
        while seconds < TIMEOUT:
            call = chat(channel)(endless(stop), timeout=seconds)
            with contextlib.suppress(grpc.RpcError):
                assert next(call) == text(b"first")
                return call
            assert call.code() in expected
            seconds *= 2
        raise AssertionError("no message came")

    call = begun()
    assert failure(lambda: next(call)).code() in expected
    stop.set()
    assert hello(channel)(text(b"again"), timeout=TIMEOUT) == text(b"Hello, again!")


def test_the_server_holds_to_the_deadline_by_itself(server):
    """A client that names one and does nothing about it."""
    if server.way == "tls":
        pytest.skip("in clear")
    with Client(server.front) as client:
        fields = [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "100m")]
        number = client.start("POST", "/Greeter/Chat", fields, end=False)
        response = client.finish(number)
        assert response.status == 200 and response.header("grpc-status") == "4"
        number = client.start("POST", "/Greeter/Chat", fields, end=False)
        client.send(number, b"\0\0\0\0\2\x0a\0")
        response = client.finish(number)
        assert dict(response.trailers)["grpc-status"] == "4" and response.body == b"\0\0\0\0\2\x0a\0"
        for wrong in ("100", "m", "123456789m", "1x"):
            fields[2] = ("grpc-timeout", wrong)
            assert client.get("/Greeter/Chat", fields, "POST", b"").header("grpc-status") == "3"
        assert client.get("/Greeter/Hello", [], "POST", b"").status == 415


def test_cancelled_calls_leave_nothing_behind(channel):
    stop = threading.Event()
    for _ in range(50):
        call = chat(channel)(endless(stop), timeout=TIMEOUT)
        assert next(call) == text(b"first")
        call.cancel()
        assert failure(lambda: next(call)).code() == grpc.StatusCode.CANCELLED
    stop.set()
    assert hello(channel)(text(b"again"), timeout=TIMEOUT) == text(b"Hello, again!")
