"""One client of a WebSocket must not make the others wait: its connection has a share of each loop iteration, in which eight frames
count as a request, and so do 256 inflated bytes."""
import pytest

import harness
from test_websocket import BINARY, PING, PONG, Raw, frame
from test_websocket import pytestmark as needs_websocket
from test_websocket_deflate import deflate

pytestmark = [needs_websocket, pytest.mark.serial]  # the server stands still meanwhile
DEFLATE = [("Sec-WebSocket-Extensions", "permessage-deflate")]


@pytest.fixture(params=harness.protocols())
def serve_carrier(request, serve):
    def start(settings):
        server = serve(settings=settings)
        server.carrier = request.param
        return server

    return start


def expect_share(server, target, fields, message, count, most):
    """`count` messages are the received bytes of one connection; when another one, which has sent behind them, has its response, at
    most `most` more have been seen."""
    with Raw(server, target, fields) as greedy, server.connect() as connection:
        for sent in range(count, 5 * count, count):
            assert server.count_before(connection, "ws_messages_received", lambda: greedy.send(message * count)) <= most
            server.wait_counter("ws_messages_received", sent)
        assert server.counter("budget_exhausted") >= count / most


def test_small_messages_have_a_share_of_an_iteration(serve_carrier):
    """Two iterations at most, however many receive buffers are full of them."""
    server = serve_carrier({"iteration_requests_max": 10})
    expect_share(server, "/tls/ws", [], frame(BINARY, b"tea"), 5000, 2 * 10 * 8)


def test_pings_have_a_share_of_an_iteration(serve_carrier):
    server = serve_carrier({"iteration_requests_max": 10})
    with Raw(server, "/tls/ws") as client:
        before = server.counter("budget_exhausted")
        with server.standing_still():
            client.send(frame(PING) * 5000)
        for _ in range(5000):
            client.expect(PONG, b"")
        assert server.counter("budget_exhausted") - before >= 5000 // 80


@pytest.mark.skipif(harness.build_option("BUILD_WITH_COMPRESSION") != "ON", reason="built without compression")
def test_messages_that_grow_have_a_share_of_an_iteration(serve_carrier):
    """A message of 80 bytes becomes one of 64 KiB. Each uses up the share of an iteration."""
    server = serve_carrier({"iteration_requests_max": 100})
    expect_share(server, "/costly/ws", DEFLATE, frame(BINARY, deflate(bytes(65536)), reserved=4), 400, 2)
