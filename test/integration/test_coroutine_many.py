"""As many coroutines as there may be wait at once in one server: nothing is refused, one more is, and places become free again.

1,000 of them in CI; for 30,000 on 15,000 connections (a process has 20,000 descriptors), with the memory that they take:

    UVHTTP_TEST_COROUTINES=30000 UVHTTP_BUILD_DIR=build pytest -s test/integration/test_coroutine_many.py
"""
import os
import resource
import socket
import time

import pytest

import harness
from harness import poll

pytestmark = pytest.mark.skipif(harness.build_option("BUILD_WITH_COROUTINES") != "ON", reason="built without coroutines")

COROUTINES = int(os.environ.get("UVHTTP_TEST_COROUTINES", "1000"))
PAIRS = COROUTINES // 2
HOLD_MS = 10000 if COROUTINES <= 1000 else 60000


@pytest.fixture
def descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connect(address):
    return socket.create_connection(address, timeout=harness.START_SECONDS)


def has_response(client):
    client.setblocking(False)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def read_response(client):
    client.settimeout(HOLD_MS / 1000 + 30)
    text = client.recv(4096)
    client.close()
    return text


@pytest.mark.timeout(300)
def test_as_many_wait_at_once_as_there_may_be(serve, descriptors):
    address = (harness.HOST, harness.free_port())
    settings = {"COROUTINES_MAX": COROUTINES, "MAX_CONNECTIONS": 20000, "CONNECTION_TIMEOUT": 600, "IO_THREADS": 1}
    environment = {f"UVHTTP_{name}": str(value) for name, value in settings.items()}
    server = serve("coroutine", f"{address[0]}:{address[1]}", address=address, env=environment)
    idle = server.resident_bytes()
    clients = [connect(address) for _ in range(PAIRS)]
    with server.standing_still():  # so that what the clients need to ask is not of the time that they wait
        for client in clients:
            client.sendall(b"GET /pair?ms=%d HTTP/1.1\r\nHost: a\r\n\r\n" % HOLD_MS)
        began = time.monotonic()
    for _ in range(3):
        assert server.get("/").status == 404  # it came behind them: the loop has seen them all
    full = server.resident_bytes()
    refused = server.get("/wait")
    assert refused.status == 503 and refused.header("Retry-After") == "1"
    assert not any(has_response(client) for client in clients), "all of them wait"
    held = time.monotonic() - began
    assert held < HOLD_MS / 1000, "the machine is too slow for this"
    clients.pop().close()
    poll(lambda: server.get("/wait").status == 200, message="no room came back")
    responses = [read_response(client) for client in clients]
    assert all(text.startswith(b"HTTP/1.1 200 ") and text.endswith(b"both waited\n") for text in responses)
    assert server.get("/wait").status == 200
    each = (full - idle) / COROUTINES
    print(f"\n{harness.ENGINE}: {COROUTINES} coroutines on {PAIRS} connections waited at once after {held:.1f} s; resident memory "
          f"{idle >> 20} MiB idle, {full >> 20} MiB then: {each:.0f} bytes a coroutine, connections and requests included")
    server.stop()
