"""What a machine does to a server in its worst hours: a disk that is full, a Redis or an upstream that is killed, a clock that is
set back. Requests get right bytes or a clean error meanwhile, and full service within a second of the relief: on a machine that is slow
itself, after few requests."""
import contextlib
import email.utils
import itertools
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time

import pytest

import harness
import wire
from harness import HOST, TEST_PROGRAMS, free_port
from test_redis import Redis

sys.path.append(str(pathlib.Path(__file__).parent.parent / "torture"))

from clients import pattern
from control import Control

RELIEF_SECONDS = 1.0
RELIEF_REQUESTS = 3  # that may fail, however long the machine takes for them: without relief a hundred a second would
LINE = re.compile(r'127\.\d+\.\d+\.\d+ - - \[[^]]+\] "(GET|POST|PUT) /\S* HTTP/1\.1" \d{3} (\d+|-)')
TMPFS = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=256k tmpfs /mnt && exec "$@"', "sh"]

pytestmark = pytest.mark.skipif(not (TEST_PROGRAMS / "pattern_server").exists(), reason="this build has no server whose calls fail")


@pytest.fixture
def launch(tmp_path):
    """Starts a pattern_server."""
    servers = []

    def start(*args, address=None, prefix=(), env=None):
        address = address or (HOST, free_port())
        command = [*prefix, TEST_PROGRAMS / "pattern_server", "--listen", "%s:%d" % address, *args]
        servers.append(harness.Server(command, address, tmp_path / f"server-{len(servers)}", env).wait_ready())
        return servers[-1]

    yield start
    harness.stop_all(servers)


def ask(server, route, seed, size, method="GET", body=None):
    with wire.Connection(server.address) as client:
        response = client.get(f"/{route}/{seed}/{size}", method=method, body=body)
    if response.status == 200:
        assert response.body == pattern(seed + (method == "POST"), size)
    return response.status


def served_soon(what, expected):
    began, asked = time.monotonic(), itertools.count()
    harness.poll(lambda: next(asked) >= 0 and what() == expected, 10)
    assert time.monotonic() - began < RELIEF_SECONDS or next(asked) <= RELIEF_REQUESTS + 1


# --- a full disk ---


@pytest.mark.skipif(not shutil.which("unshare") or subprocess.run([*TMPFS, "true"], capture_output=True).returncode != 0, reason="no mount namespaces here")
def test_a_full_disk_costs_what_needs_it_and_no_more(launch):
    server = launch("--access-log", "/mnt/access.log", "--uploads", "/mnt", "--set", "spool_directory=/mnt", "--set", "spool_memory=4096", prefix=TMPFS)
    disk = pathlib.Path(f"/proc/{server.pid()}/root/mnt")
    spool = lambda: ask(server, "spool", 1, 30000, "POST", pattern(1, 30000))
    save = lambda: ask(server, "save", 2, 50000, "PUT", pattern(2, 50000))
    assert spool() == 200 and save() == 201 and ask(server, "copy", 3, 1000) == 200
    with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(512)):
            pass
    before = set(os.listdir(disk))
    for seed in range(200):  # log lines enough to meet the end of the disk
        assert ask(server, "copy", seed, 1000) == 200
    assert spool() == 507 and save() == 507
    assert set(os.listdir(disk)) == before, "what could not be saved leaves nothing"
    (disk / "filler").unlink()
    served_soon(spool, 200)
    served_soon(save, 201)
    size = (disk / "access.log").stat().st_size
    harness.poll(lambda: ask(server, "copy", 4, 1000) == 200 and (disk / "access.log").stat().st_size > size + 100)
    text = harness.poll(lambda: (text := (disk / "access.log").read_text()).endswith("\n") and text)
    wrong = [line for line in text.splitlines() if not LINE.fullmatch(line)]
    assert not wrong, wrong


# --- others that are killed ---


def test_a_redis_that_is_killed_under_load_costs_no_request(launch, tmp_path):
    redis = Redis(tmp_path).start()
    server = launch("--redis", redis.address)
    stop, statuses, slowest, faults = threading.Event(), [], [0.0], []

    def client(number):
        try:
            with wire.Connection(server.address) as one:
                while not stop.is_set():
                    began = time.monotonic()
                    response = one.get(f"/limited/{number}/500")
                    assert response.body == pattern(number, 500)
                    statuses.append(response.status)
                    slowest[0] = max(slowest[0], time.monotonic() - began)
        except Exception as error:  # whatever it is, it is the result
            faults.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            count = len(statuses)
            harness.poll(lambda count=count: len(statuses) > count + 50)
            redis.stop()  # kill -9
            count = len(statuses)
            harness.poll(lambda count=count: len(statuses) > count + 50)
            redis.start()
        began = time.monotonic()
        harness.poll(lambda: "uvhttp:" in redis.ask("KEYS", "*"))  # asked again
        back = time.monotonic() - began
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        redis.stop()
    assert not faults and set(statuses) == {200}
    assert slowest[0] < 3, "the question's timeout is half a second"
    assert back < 5


def test_an_upstream_that_is_killed_in_the_middle_is_a_502_at_once(launch, tmp_path):
    address = (HOST, free_port())
    upstream = launch(address=address)
    server = launch("--upstream", "%s:%d" % address)
    assert ask(server, "client", 1, 5000) == 200
    upstream.process.send_signal(signal.SIGSTOP)
    harness.poll(lambda: upstream.state() == "T")
    clients = [wire.Connection(server.address) for _ in range(8)]
    for number, client in enumerate(clients):
        client.send(wire.request("GET", f"/client/{number}/5000"))
    harness.poll(lambda: server.sockets() >= 2 * len(clients))  # each has its own connection to the upstream
    upstream.kill()
    for client in clients:
        response = client.response()
        assert response.status == 502 and "TIMEOUT" not in response.text, "not at once"
        assert client.get("/copy/9/100").body == pattern(9, 100)
        client.close()
    assert ask(server, "client", 2, 5000) == 502
    launch(address=address)
    served_soon(lambda: ask(server, "client", 3, 5000), 200)


# --- a clock that is set ---


def date_of(response):
    return email.utils.parsedate_to_datetime(response.header("Date")).timestamp()


@pytest.mark.parametrize("offset", [-86400 * 365 * 3, -3700, 86400 * 365 * 20], ids=["years-back", "an-hour-back", "years-ahead"])
def test_a_clock_that_is_set_changes_dates_and_nothing_else(launch, tmp_path, offset):
    control = Control(tmp_path / "control")
    tls = (HOST, free_port())
    server = launch("--access-log", tmp_path / "access.log", "--tls-listen", "%s:%d" % tls, "--set", "keepalive_timeout=60", "--set", "connection_timeout=60",
                    env={"FAIL_CALLS_CONTROL": str(control.path)})  # fmt: skip
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # its session is there when the handshake has ended
    with wire.Connection(server.address) as kept, wire.Connection(server.address) as half, context.wrap_socket(wire.open_socket(tls)) as secure:
        assert abs(date_of(kept.get("/")) - time.time()) < 5
        half.send(b"GET /copy/5/100 HTTP/1.1\r\n")
        server.sync()
        control["clock_offset"] = offset
        now = time.time() + offset
        harness.poll(lambda: abs(date_of(kept.get("/copy/1/10")) - now) < 10, 5)
        half.send(b"Host: x\r\n\r\n")
        assert half.response().body == pattern(5, 100), "a deadline does not come earlier"
        for route in ("coro", "later", "worker"):
            assert ask(server, route, 7, 3000) == 200, route
        with context.wrap_socket(wire.open_socket(tls), session=secure.session) as again:  # resumed, or not: it is a handshake
            again.sendall(wire.request("GET", "/copy/8/100"))
            assert again.recv(4096).startswith(b"HTTP/1.1 200")
        control["clock_offset"] = 0
        harness.poll(lambda: abs(date_of(kept.get("/copy/2/10")) - time.time()) < 10, 5)
    server.stop()
    lines = (tmp_path / "access.log").read_text().splitlines()
    assert len(lines) > 6 and not [line for line in lines if not LINE.fullmatch(line)]
    year = time.gmtime(now).tm_year
    assert any(f"/{year}:" in line for line in lines)
