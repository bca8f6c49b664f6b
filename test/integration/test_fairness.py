"""One greedy client must not make the others wait."""
import statistics
import subprocess
import sys
import time

import pytest
from wire import request

pytestmark = pytest.mark.serial  # how long one client waits next to another

GREEDY = """
import socket, sys, threading
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
one = socket.create_connection((host, port))
data = b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n" * 1000
def send():
    for _ in range(count // 1000):
        one.sendall(data)
one.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
size = len(one.recv(65536))
sender = threading.Thread(target=send)
sender.start()
print("started", flush=True)
left = size * count
buffer = bytearray(1 << 20)
while left > 0:
    got = one.recv_into(buffer)
    if not got:
        sys.exit("closed with %d bytes to come" % left)
    left -= got
sender.join()
"""


def test_a_client_that_pipelines_a_million_requests_does_not_make_another_wait(serve, sanitizer):
    count = 50_000 if sanitizer else 1_000_000
    server = serve()
    growth, cpu = server.memory_growth(highest=True), server.cpu_seconds()
    greedy = subprocess.Popen(
        [sys.executable, "-c", GREEDY, server.address[0], str(server.address[1]), str(count)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert greedy.stdout.readline() == "started\n"
        latencies, costs = [], []
        with server.connect() as connection:
            while greedy.poll() is None:
                start, cpu_start = time.monotonic(), server.cpu_seconds()
                assert connection.get("/n/1").body == b"1"
                latencies.append(time.monotonic() - start)
                costs.append(server.cpu_seconds() - cpu_start)
        assert greedy.wait() == 0, greedy.stderr.read()
    finally:
        greedy.kill()
        greedy.wait()
        greedy.stdout.close()
        greedy.stderr.close()
    assert len(latencies) >= 20
    assert statistics.median(latencies) < 0.05
    assert max(costs) < 1, "what the server did before it answered: a machine that stands still does nothing"
    growth.stays_below(8_000_000)  # what it has sent ahead waits in its own socket
    if not sanitizer:
        assert server.cpu_seconds() - cpu < 3


def expect_share(server, asked, count, most):
    """`count` requests lie in the received bytes of a connection; when another one, which has sent after them, is asked, at most `most`
    more have been seen. The server stands still until both have sent, so that what it does first is its own choice; it says
    itself how many requests it has seen."""
    with server.connect() as greedy, server.connect() as connection:
        greedy.get("/n/1")
        for _ in range(8):
            assert server.count_before(connection, "requests", lambda: greedy.send(asked * count)) <= 1 + most
            for _ in range(count):
                assert greedy.response().body == b"1"


def test_a_connection_has_its_share_of_an_iteration_and_no_more(serve):
    """Two iterations at most, not the 200 of a receive buffer."""
    server = serve(settings={"iteration_requests_max": 10, "write_buffer_size": 1 << 20})
    expect_share(server, request(target="/n/1"), 200, 2 * 10)


def test_large_heads_have_no_larger_share_of_an_iteration(serve):
    """A request counts once more for each 256 bytes of its head: what a head costs grows with it. One iteration could read all 60 heads of
    4 KiB; it is two iterations at most, of two requests each."""
    server = serve(settings={"iteration_requests_max": 34, "write_buffer_size": 1 << 20})
    expect_share(server, request(target="/n/1", headers=[("X-Large", "x" * 4096)]), 60, 2 * 2)


def test_small_chunks_have_no_larger_share_of_an_iteration(serve):
    """Eight chunks count as a request: 4096 of them are 512, which is more than fifteen iterations take."""
    server = serve(settings={"iteration_requests_max": 34})
    with server.connect() as connection:
        before = server.counter("budget_exhausted")
        with server.standing_still():
            connection.send(request("POST", "/body", [("Transfer-Encoding", "chunked")]) + b"1\r\nx\r\n" * 4096 + b"0\r\n\r\n")
        assert connection.response().body == b"x" * 4096
        assert server.counter("budget_exhausted") - before >= 14


def test_a_client_that_takes_a_large_response_does_not_make_another_wait(serve):
    server = serve()
    takers = [server.connect() for _ in range(4)]
    for taker in takers:
        taker.send(b"GET /static?size=30000000 HTTP/1.1\r\nHost: a\r\n\r\n")
    latencies = []
    left = {taker: 30_000_000 for taker in takers}
    with server.connect() as connection:
        for taker in takers:
            taker.response_head()
            left[taker] -= len(taker.buffer)
        while left:
            start = time.monotonic()
            connection.get("/n/1")
            latencies.append(time.monotonic() - start)
            for taker in list(left):
                left[taker] -= len(taker.socket.recv(1 << 20))
                if left[taker] <= 0:
                    del left[taker]
    for taker in takers:
        taker.close()
    assert statistics.median(latencies) < 0.05
