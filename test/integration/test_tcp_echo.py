"""The TCP server without HTTP: the example and the benchmark, as a user runs them."""
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from harness import ENGINE, EXAMPLES, HOST, free_port

CONFIGURATION = ["port", "io_threads", "client_threads", "requests_per_thread", "payload_size_bytes"]
RESULTS = ["total_requests", "total_bytes", "elapsed_seconds", "throughput_req_per_sec", "throughput_mib_per_sec", "avg_round_trip_us_per_connection"]
STATISTICS = ["accepted_connections", "closed_connections", "echoed_messages", "echoed_bytes"]


def receive(client, size):
    parts = []
    while size:
        part = client.recv(min(size, 1 << 20))
        assert part, f"end of stream, {size} bytes missing"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def connect(server):
    client = socket.create_connection(server.address)
    client.settimeout(20)
    return client


# --- the example ---


def test_tcp_echo_sends_back_what_it_gets(serve):
    server = serve("tcp_echo")
    with connect(server) as client:
        for size in (1, 100, 16384, 300000):
            data = os.urandom(size)
            client.sendall(data)
            assert receive(client, size) == data
        client.sendall(b"last")
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 4) == b"last"
        assert client.recv(1) == b""


def test_tcp_echo_does_not_grow_for_a_client_that_never_reads(serve):
    server = serve("tcp_echo", "--io-threads", 1)
    with connect(server) as greedy, connect(server) as other:
        greedy.settimeout(0.5)
        sent, piece = 0, bytes(1 << 20)
        with pytest.raises(TimeoutError):
            while sent < 200 << 20:
                sent += greedy.send(piece)
        other.sendall(b"x")
        assert receive(other, 1) == b"x"
        greedy.settimeout(20)
        assert receive(greedy, sent) == bytes(sent), "and nothing is lost"


def test_tcp_echo_drains_at_sigterm(serve):
    server = serve("tcp_echo")
    with connect(server) as client:
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        server.signal(signal.SIGTERM)
        assert client.recv(1) == b""
    assert server.wait() == 0


def test_tcp_echo_serves_many_at_once(serve):
    server = serve("tcp_echo", "--io-threads", 2)
    errors = []

    def talk(number):
        try:
            with connect(server) as client:
                for i in range(50):
                    data = f"{number} {i} ".encode() * (i + 1)
                    client.sendall(data)
                    assert receive(client, len(data)) == data
        except Exception as error:  # the thread's failure is the test's
            errors.append(error)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_tcp_echo_names_a_port_in_use(serve):
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        server = serve("tcp_echo", address=(HOST, port), wait=False)
        assert server.wait() == 1
        assert f"{HOST}:{port}" in server.stderr() and "in use" in server.stderr()
        assert len(server.stderr().splitlines()) == 1


# --- the benchmark ---


def run(program, *options, **environment):
    return subprocess.run([EXAMPLES / program, *map(str, options)], capture_output=True, text=True, timeout=120, env={**os.environ, "UVHTTP_ENGINE": ENGINE, **environment})


SMALL = ["--io-threads", 3, "--client-threads", 4, "--requests-per-thread", 200, "--payload-size", 1024]


def values(result):
    lines = [line.strip().split(": ") for line in result.stdout.splitlines() if line.startswith("  ")]
    return {name: value for name, value in lines}


def check(found):
    for name in [*CONFIGURATION, *RESULTS, *STATISTICS, "engine", "p50_us", "p99_us", "p999_us"]:
        assert name in found, name
    assert [int(found[name]) for name in CONFIGURATION[1:]] == [3, 4, 200, 1024]
    assert int(found["total_requests"]) == int(found["echoed_messages"]) == 800
    assert int(found["total_bytes"]) == int(found["echoed_bytes"]) == 800 * 1024
    assert int(found["accepted_connections"]) == int(found["closed_connections"]) == 4
    seconds = float(found["elapsed_seconds"])
    assert float(found["throughput_req_per_sec"]) == pytest.approx(800 / seconds, rel=0.01)
    assert float(found["throughput_mib_per_sec"]) == pytest.approx(800 / 1024 / seconds, rel=0.02)
    assert float(found["avg_round_trip_us_per_connection"]) == pytest.approx(seconds * 1e6 / 200, rel=0.01)
    assert 0 < float(found["p50_us"]) <= float(found["p99_us"]) <= float(found["p999_us"])


def test_benchmark_tcp_echo_prints_the_keys_of_the_contract():
    result = run("benchmark_tcp_echo", *SMALL)
    assert result.returncode == 0, result.stderr
    check(values(result))


def test_benchmark_tcp_echo_as_json():
    result = run("benchmark_tcp_echo", *SMALL, "--json")
    assert result.returncode == 0, result.stderr
    check(json.loads(result.stdout))


@pytest.mark.threads
def test_benchmark_tcp_echo_under_thread_sanitizer():
    result = run("benchmark_tcp_echo", "--io-threads", 2, "--client-threads", 3, "--requests-per-thread", 50)
    assert result.returncode == 0, result.stderr
    assert "Sanitizer" not in result.stderr


def test_benchmark_tcp_echo_takes_the_engine_and_the_port():
    port = free_port("127.0.0.1")
    result = run("benchmark_tcp_echo", *SMALL, "--engine", "epoll", "--port", port)
    assert result.returncode == 0, result.stderr
    found = values(result)
    assert found["engine"] == "epoll" and found["port"] == str(port)


def test_benchmark_tcp_echo_names_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = run("benchmark_tcp_echo", *SMALL, "--port", port)
    assert result.returncode == 1 and str(port) in result.stderr and result.stdout == ""


# --- options of both ---


WRONG = [
    ("tcp_echo", "--port", "65536", "0..65535"),
    ("tcp_echo", "--port", "", "0..65535"),
    ("tcp_echo", "--io-threads", "-1", "0..1024"),
    ("tcp_echo", "--engine", "poll", "auto, uring, epoll"),
    ("benchmark_tcp_echo", "--port", "x", "0..65535"),
    ("benchmark_tcp_echo", "--io-threads", "1025", "0..1024"),
    ("benchmark_tcp_echo", "--client-threads", "0", "1..1024"),
    ("benchmark_tcp_echo", "--requests-per-thread", "0", "1..1000000000"),
    ("benchmark_tcp_echo", "--payload-size", "1048577", "1..1048576"),
    ("benchmark_tcp_echo", "--payload-size", "99999999999999999999", "1..1048576"),
    ("benchmark_tcp_echo", "--engine", "poll", "auto, uring, epoll"),
]


@pytest.mark.parametrize(("program", "name", "value", "allowed"), WRONG)
def test_a_wrong_value_is_named_with_what_is_allowed(program, name, value, allowed):
    for options in ([name, value], [f"{name}={value}"]):
        result = run(program, *options)
        assert result.returncode == 2 and result.stdout == ""
        assert len(result.stderr.splitlines()) == 1
        assert name in result.stderr and f"'{value}'" in result.stderr and allowed in result.stderr


@pytest.mark.parametrize("program", ["tcp_echo", "benchmark_tcp_echo"])
def test_unknown_options_and_help(program):
    result = run(program, "--unknown")
    assert result.returncode == 2 and "--unknown" in result.stderr
    result = run(program, "--io-thread=3")
    assert result.returncode == 2 and "did you mean --io-threads?" in result.stderr
    result = run(program, "--config", "x")
    assert result.returncode == 2 and "unknown" in result.stderr
    result = run(program, "--port")
    assert result.returncode == 2 and "--port" in result.stderr
    result = run(program, "--help")
    assert result.returncode == 0 and "--io-threads" in result.stdout and result.stderr == ""
