"""Several loops at once."""
import json
import threading

import pytest

from harness import run_threads
from wire import request

pytestmark = pytest.mark.threads
CLIENTS = 8


def in_parallel(work, count=CLIENTS):
    faults = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    run_threads(threads, faults)


@pytest.fixture
def wide(serve):
    return serve(settings={"io_threads": 4})


def test_connections_are_spread_over_the_loops(wide):
    threads = set()
    for _ in range(100):
        threads.add(json.loads(wide.get("/metrics").body)["thread"])
    assert len(threads) == 4


def test_parallel_clients_all_get_their_own_responses(wide):
    def work(number):
        for round_number in range(5):
            with wide.connect() as connection:
                for i in range(20):
                    n = number * 1000 + round_number * 100 + i
                    assert connection.get(f"/n/{n}").body == b"%d" % n
                body = b"%d" % number * 5000
                assert connection.get("/body", method="POST", body=body).body == body
                assert connection.get("/ref?size=200000").body[:3] == b"abc"
                connection.send(b"".join(request("GET", f"/later?how=request&ms=1&n={i}") for i in range(5)))
                for i in range(5):
                    assert connection.response().text.endswith(f"&n={i}")
                assert connection.get("/counters").status == 200

    in_parallel(work)
    counters = wide.counters()
    assert counters["test_ref_used"] == CLIENTS * 5
    assert counters["requests"] == CLIENTS * 5 * 28 + 1
    assert counters["responses_2xx"] in (counters["requests"], counters["requests"] - 1)
    # What was sent by reference may be the kernel's for a while after the client has it.
    wide.wait_counter("test_ref_released", CLIENTS * 5)


def test_counters_and_metrics_can_be_read_from_any_loop_at_any_time(wide):
    def work(number):
        for i in range(50):
            target = ("/metrics", "/counters", "/n/1")[(number + i) % 3]
            assert wide.get(target).status == 200

    in_parallel(work)


def test_clients_that_come_and_continue_all_loops(wide):
    def work(number):
        for i in range(100):
            connection = wide.connect()
            connection.send(request("GET", ("/later?ms=1", "/static?size=500000", "/n/1")[i % 3]))
            if i % 2:
                connection.reset()
            else:
                connection.close()

    in_parallel(work)
    assert wide.get("/n/1").body == b"1"


def test_a_stop_while_clients_are_at_it_ends_well(serve):
    for _ in range(3):
        server = serve(settings={"io_threads": 4})
        stopping = threading.Event()

        def work(number):
            try:
                while not stopping.is_set():
                    with server.connect() as connection:
                        connection.get("/later?ms=1")
                        if number == 0:
                            stopping.set()
                            connection.get("/stop", method="POST", body=b"")
            except Exception:
                assert stopping.is_set()

        in_parallel(work)
        assert server.wait() == 0
