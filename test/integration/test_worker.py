"""Handlers on worker threads and jobs of the application, with many clients, some of which leave."""
import random
import subprocess
import threading
import time

import pytest

from harness import poll, run_threads
from wire import Closed

pytestmark = [pytest.mark.threads, pytest.mark.neutral]


def waits_for(path):
    """The target of a request whose thread blocks until there is a file `path`."""
    return f"/w/wait?go={path}"


def letters(size):
    return (b"abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]


def test_a_handler_that_blocks_holds_nobody_up(server, tmp_path):
    with server.connect() as slow:
        asked = slow.start(waits_for(tmp_path / "go"))
        poll(lambda: server.counter("work_running") == 1)
        for i in range(20):
            assert server.get(f"/n/{i}").body == b"%d" % i
        assert server.counter("work_running") == 1
        (tmp_path / "go").touch()
        assert asked.response().text == f"/w/wait?go={tmp_path}/go"


def test_bodies_come_whole_and_responses_of_any_size_leave(connection):
    for size in (0, 1, 5000, 400_000):
        body = random.Random(size).randbytes(size)
        assert connection.get("/w/echo", method="POST", body=body).body == body
    assert connection.get("/n/1").body == b"1"


@pytest.mark.parametrize("piece", [17, 4096, 1_000_000])
def test_a_response_in_pieces(connection, piece):
    size = piece * 40 if piece < 1_000_000 else 3_000_001
    assert connection.get(f"/w/stream?size={size}&piece={piece}").body == letters(size)
    assert connection.get("/n/1").body == b"1"


def test_curl_at_its_own_pace_gets_every_byte(server):
    size = 600_000
    command = server.curl("--limit-rate", "1M", server.url(f"/w/stream?size={size}&piece=30000"))
    assert subprocess.run(command, capture_output=True, check=True, timeout=30).stdout == letters(size)


def test_a_hundred_that_wait_do_so_at_once(serve, tmp_path):
    """At default settings: the pool finds out that its threads are blocked, and grows."""
    server = serve()
    connections = [server.connect() for _ in range(100)]
    for number in range(2):
        asked = [connection.start(waits_for(tmp_path / f"go{number}")) for connection in connections]
        poll(lambda: server.counter("work_running") == 100)
        if number == 0:
            assert server.counter("work_threads") == 100, "not one more, however busy the machine is"
        (tmp_path / f"go{number}").touch()
        for one in asked:
            assert one.response().status == 200
    for connection in connections:
        connection.close()
    assert server.counter("work_refused") == 0


def test_a_full_backlog_is_503_with_retry_after(serve, tmp_path):
    server = serve(settings={"worker_threads": 2, "max_backlog": 3})
    connections = [server.connect() for _ in range(12)]
    asked = [connection.start(waits_for(tmp_path / "go")) for connection in connections[:2]]
    poll(lambda: server.counter("work_running") == 2)
    asked += [connection.start(waits_for(tmp_path / "go")) for connection in connections[2:]]
    server.wait_counter("work_refused", 7)
    (tmp_path / "go").touch()
    responses = [one.response() for one in asked]
    refused = [response for response in responses if response.status == 503]
    assert len(refused) == server.counter("rejected_work_full") == 7
    assert all(response.header("Retry-After") == "1" for response in refused)
    for connection in connections:
        assert connection.get("/w/wait").status == 200
        connection.close()


def test_more_slow_uploads_than_threads_hold_nobody_up(serve, tmp_path):
    """At default settings, 512 threads among them, but with time for slow machines: one client sends all bodies in turn. Each
    upload has sent 300 bytes; 32 have sent more than stays in memory."""
    uploads, size, large = 560, 200_000, 32
    slow = {"connection_timeout": 600, "keepalive_timeout": 600, "body_timeout": 600, "min_receive_rate": "never"}
    server = serve(settings={"spool_directory": tmp_path, **slow})
    server.get("/w/wait")
    server.counters()  # what they are asked by stays connected
    growth, descriptors = server.memory_growth(), server.descriptors()
    connections = [server.connect() for _ in range(uploads)]
    sent = [150_000 if i < large else 300 for i in range(uploads)]
    asked = [connection.start("/w/upload", [("Content-Length", size)], method="POST", more=True) for connection in connections]
    for one, count in zip(asked, sent, strict=True):
        one.send(letters(count))
    server.wait_counter("bodies_spooled", large)
    poll(lambda: server.counter("requests") > uploads)
    poll(lambda: server.counter("work_running") == 0)
    for _ in range(20):
        assert server.get("/w/wait").status == 200
    assert server.counter("work_threads") < 64, "as many as wrote the files, not as many as there are uploads"
    poll(lambda: server.descriptors() - descriptors <= uploads + large + 4)  # when those of the twenty are closed
    growth.stays_below(uploads * 20_000 + large * 100_000)
    assert list(tmp_path.glob("uvhttp-*")) == [], "the files have no names"
    for one, count in zip(asked, sent, strict=True):
        one.send(letters(size)[count:])
        one.end()
        assert one.response().text == str(size)
        one.connection.close()
    poll(lambda: server.descriptors() <= descriptors, message="the files or connections are still open")
    assert server.counter("work_queue_timeouts") == 0


def test_jobs_respond_for_handlers_that_have_returned(server):
    with server.connect() as connection:
        for where in ("/w/job", "/job"):
            asked = [connection.start(f"{where}?ms={5 - n}&tag=9&n={n}") for n in range(5)]
            assert [one.response().text for one in asked] == ["0", "1", "2", "3", "4"]


def test_a_stop_lets_handlers_and_jobs_end(serve, tmp_path):
    server = serve()
    waiting, delayed = server.connect(), server.connect()
    blocked = waiting.start(waits_for(tmp_path / "go"))
    job = delayed.start("/job?ms=60000")
    poll(lambda: server.counter("work_running") == 1 and server.counter("work_waiting") == 1)
    server.signal()
    assert job.response().text == "cancelled", "its time would not have come"
    (tmp_path / "go").touch()
    assert blocked.response().status == 200
    waiting.close()
    delayed.close()
    assert server.wait() == 0


def visit(server, seed, faults):
    chance = random.Random(seed)
    try:
        for _ in range(25):
            size, piece = chance.randrange(1, 400_000), chance.choice((100, 5000, 70_000))
            size = min(size, piece * 50)
            target = chance.choice(("/w/wait", f"/w/stream?size={size}&piece={piece}", "/w/job?ms=1&tag=3", "/job?n=1", "/n/1"))
            connection = server.connect()
            asked = connection.start(target)
            leave = chance.randrange(4)
            if leave == 0:
                connection.reset()
                continue
            if leave == 1:
                time.sleep(chance.random() * 0.004)  # wherever it is then
                connection.close()
                continue
            response = asked.response()
            assert response.status == 200
            if "stream" in target:
                assert response.body == letters(size)
            connection.close()
    except (AssertionError, Closed, OSError) as fault:
        faults.append(fault)


def test_clients_of_all_modes_that_come_and_go(serve):
    server = serve(settings={"io_threads": 2, "write_queue_max": 65536})
    faults = []
    threads = [threading.Thread(target=visit, args=(server, seed, faults)) for seed in range(8)]
    run_threads(threads, faults)
    poll(lambda: server.counter("work_running") == 0 and server.counter("work_waiting") == 0)
    assert server.get("/w/wait").status == 200
    server.signal()
    assert server.wait() == 0
