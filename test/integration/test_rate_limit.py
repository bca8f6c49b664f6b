"""The rate limiter as clients see it: examples/rate_limit.c, two loops that share one table."""
import json
import re
import shutil
import subprocess
import threading
import time

import pytest

pytestmark = pytest.mark.neutral
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
CLIENTS = 8


def fields(response):
    return [value for name, value in response.headers if name.lower() == "ratelimit"]


def test_an_admitted_request_is_notified_of_what_is_left(serve):
    server = serve("rate_limit")
    with server.connect() as connection:
        connection.get("/")
        response = connection.get("/")
    assert response.status == 200 and response.body == b"Hello, World!"
    assert response.header("RateLimit-Policy") == '"all";q=100;w=5'
    remaining, seconds = re.fullmatch(r'"all";r=(\d+);t=(\d+)', response.header("RateLimit")).groups()
    assert 90 <= int(remaining) < 100 and int(seconds) == 1


def test_a_refused_request_is_notified_when_to_come_back_and_the_connection_stays(serve):
    server = serve("rate_limit")
    with server.connect() as connection:
        for left in (4, 3, 2, 1, 0):
            response = connection.get("/login", method="POST", body=b"name=a")
            assert response.status == 200
            assert fields(response)[1].startswith(f'"login";r={left};t=')
        response = connection.get("/login", method="POST", body=b"name=a")
        assert response.status == 429 and response.body == b"Too Many Requests\n"
        assert 1 <= int(response.header("Retry-After")) <= 12
        assert fields(response)[1] == f'"login";r=0;t={response.header("Retry-After")}'
        assert connection.get("/").status == 200
    assert server.new_stderr() == ""


def test_who_waits_as_notified_is_admitted(serve):
    server = serve("rate_limit")
    headers = {"X-Api-Key": "tea"}
    with server.httpx(headers=headers) as client:
        responses = [client.get("/api/hello") for _ in range(21)]
        assert [response.status_code for response in responses[:20]] == [200] * 20
        refused = next((response for response in responses if response.status_code == 429), None) or client.get("/api/hello")
        while refused.status_code == 200:  # a slow machine: more was filled in
            refused = client.get("/api/hello")
        assert refused.status_code == 429
        assert client.get("/api/hello", headers={"X-Api-Key": "coffee"}).status_code == 200
        time.sleep(int(refused.headers["Retry-After"]))
        assert client.get("/api/hello").status_code == 200


@needs_curl
@pytest.mark.http1("over HTTP/2 curl 7.88 repeats its preface before a second request")
def test_curl_comes_back_by_itself(serve):
    server = serve("rate_limit")
    for _ in range(20):
        server.get("/api/hello", headers=[("X-Api-Key", "k")])
    command = server.curl("--retry", "5", "-w", " %{num_retries} %{http_code}", "-H", "X-Api-Key: k")
    out = subprocess.run([*command, server.url("/api/hello")], capture_output=True, text=True, check=True).stdout
    assert out.endswith(" 200")


def test_clients_of_the_allow_list_are_not_limited(serve):
    server = serve("rate_limit", "192.0.2.0/24", "127.0.0.0/8")
    with server.connect() as connection:
        for _ in range(300):
            response = connection.get("/")
            assert response.status == 200 and response.header("RateLimit") is None
        stats = json.loads(connection.get("/stats").body)
    assert stats == {"allowed": 0, "refused": 0, "keys": 0, "evicted": 0, "exempt": 301}


def test_wrong_options_end_the_start_with_a_line_that_says_why(serve):
    server = serve("rate_limit", "10.1.2.3/8", wait=False)
    assert server.wait() == 1
    assert 'allow[0] is "10.1.2.3/8": it has bits set behind its prefix' in server.stderr()


def test_other_addresses_have_buckets_of_their_own(serve):
    server = serve("rate_limit")

    def log_in(source):
        with server.connect(source=(source, 0)) as client:
            return client.get("/login", method="POST", body=b"").status

    for source in ("127.0.0.1", "127.0.0.2", "127.99.0.1"):
        assert [log_in(source) for _ in range(6)] == [200] * 5 + [429]


@pytest.mark.threads
def test_all_loops_together_admit_exactly_the_burst(serve):
    server = serve("rate_limit")
    statuses, faults = [], []
    barrier = threading.Barrier(CLIENTS)

    def client():
        try:
            with server.connect() as connection:
                barrier.wait(30)
                for _ in range(10):
                    statuses.append(connection.get("/login", method="POST", body=b"").status)
        except Exception as fault:
            faults.append(fault)

    start = time.monotonic()
    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    more = int((time.monotonic() - start) / 12) + 1  # an interval may end in the run on a very slow machine
    assert not faults
    assert len(statuses) == CLIENTS * 10
    assert 5 <= statuses.count(200) < 5 + more
    assert set(statuses) == {200, 429}
