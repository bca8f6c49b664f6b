"""Owns: what the gates share: starting performance_test, clients that do exactly so many requests, one line per figure.
A gate counts; it never looks at a clock to judge. It exits 1 when a bound is broken and 77 when this machine cannot
count (no ptrace, no valgrind), saying why."""
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD_DIR = pathlib.Path(os.environ.get("UVHTTP_BUILD_DIR", "build")).absolute()
SERVER = BUILD_DIR / "dist" / "bin" / "performance_test"
TEST_SERVER = BUILD_DIR / "test" / "bin" / "http_test_server"
HOST = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
GET_LARGE = b"GET /large/100kb HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
SECONDS = 60  # a hang, not a measure
failed = False
given_ports = set()


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def check(figure, value, bound, note=""):
    """One line; `value` may not be above `bound`."""
    global failed
    good = value <= bound
    failed = failed or not good
    number = f"{value:g}" if isinstance(value, int) else f"{value:.3f}"
    print(f"{'ok    ' if good else 'BROKEN'}  {figure}: {number} (at most {bound:g}){note and '  ' + note}")


def finish():
    sys.exit(1 if failed else 0)


def free_port():
    """One that no client is given meanwhile: they get those from ip_local_port_range on. No two are the same."""
    first_of_clients = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(max(1024, first_of_clients // 2), max(2048, first_of_clients))
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            if port not in given_ports:
                given_ports.add(port)
                return port


def connect(port, host=HOST):
    client = socket.create_connection((host, port), timeout=SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def server(engine, prefix=(), arguments=(), **options):
    """performance_test with one loop. Yields (process, port); engine uring must be the engine it says it runs on. It says
    nothing of iterations that take long because the machine stands still: that would be calls and allocations."""
    port = free_port()
    command = [SERVER, "--port", str(port), "--io-threads", "1", "--engine", engine, "--handler-warn-ms", "never"]
    return running([*prefix, *command, *arguments], port, **options)


def test_server(engine, arguments=()):
    """The server of the integration tests, which has one loop and more routes. Yields (process, port)."""
    port = free_port()
    environment = dict(os.environ, UVHTTP_ENGINE=engine)
    return running([TEST_SERVER, "--listen", f"{HOST}:{port}", *arguments], port, env=environment)


@contextlib.contextmanager
def running(command, port, **options):
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        try:
            wait_port(process, port, log)
            yield process, port
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_port(process, port, log):
    for attempt in range(20 * SECONDS):
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        log.seek(0)
        text = log.read().decode(errors="replace").strip()
        if "not supported by this" in text:
            skip(f"the engine does not work here: {text}")
        sys.exit(f"BROKEN  the server did not start: {text}")
    sys.exit("BROKEN  the server does not listen")


@contextlib.contextmanager
def traced(process, path, *options):
    """strace of the process while the block runs; behind it, what it wrote is in path. A client has its last response before
    the call that sent it has returned and is counted, so the trace ends when every thread of the process sleeps."""
    command = ["strace", *options, "-o", path, "-p", str(process.pid)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    if "attached" not in (line := strace.stderr.readline()):
        strace.wait()
        skip(f"strace cannot attach: {line.strip()}")
    try:
        yield
        wait_asleep(process)
    finally:
        strace.send_signal(signal.SIGINT)
        strace.wait()


def wait_asleep(process):
    """Until every thread waits for something from outside: one that strace holds, or that runs, has another state."""
    states = []
    for attempt in range(200 * SECONDS):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread has ended since: look again
            tasks = pathlib.Path(f"/proc/{process.pid}/task")
            states = [stat.read_text().rsplit(")", 1)[1].split()[0] for stat in tasks.glob("*/stat")]
        if states and set(states) <= {"S", "I"}:
            return
        time.sleep(0.005)
    sys.exit(f"BROKEN  the server does not come to rest: its threads are in the states {states}")


def read_counts(path):
    """System calls by name, of strace -c."""
    rows = (re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$", line) for line in open(path))
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}


def others(counts, *known):
    return {name: n for name, n in counts.items() if name not in known}


def read_replies(client, count, response_size):
    """Exactly `count` responses of the known size, all of them 200."""
    left = count * response_size
    while left > 0:
        data = client.recv(min(left, 65536))
        if not data:
            sys.exit("BROKEN  the server closed the connection")
        left -= len(data)


def response_size(client, request=GET):
    client.sendall(request)
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, body = data.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"BROKEN  {head[:60]!r}")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65536)
    return len(head) + 4 + length


def lock_step(clients, rounds, size, request=GET, per_write=1):
    """`rounds` times: every client sends, then every client reads its responses."""
    for _ in range(rounds):
        for client in clients:
            client.sendall(request * per_write)
        for client in clients:
            read_replies(client, per_write, size)
    return rounds * len(clients) * per_write
