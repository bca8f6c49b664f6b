"""Owns: what is exhausted, and how long after its relief fifty new clients are all served: docs/guide/reliability.md promises 1 s."""
import contextlib
import dataclasses
import resource
import selectors
import socket
import struct
import tempfile
import time
from pathlib import Path
from typing import Callable

from servers import Gone, Server

CLIENTS = 50
RELIEF_MS = 1000
GIVEN_UP_SECONDS = 10
TRIAL_SECONDS = 0.3  # in which not all clients are served while something is exhausted
PART = b"GET /n/1 HTTP/1.1\r\nHost: a\r\n"  # a connection that is not idle makes space for nobody
WHOLE = PART + b"\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
SIZES = (1000000, 100000, 10000, 1000)  # bytes of bodies
ECHO = POST % 20000 + bytes(20000)  # needs memory, which a request without a body does not


# --- clients ---


def hold(server, count, data=PART):
    """Connections that have sent `data`, or what the server took of it, and stay."""
    held = []
    for _ in range(count):
        with contextlib.suppress(OSError):  # refused
            one = socket.create_connection(server.addresses["plain"], 5)
            held.append(one)
            one.settimeout(0.5)
            one.sendall(data)
    return held


def let_go(held):
    for one in held:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


class Client:
    """Asks, and asks again on a connection of its own when it is refused."""

    def __init__(self, selector, address, request):
        self.selector, self.address, self.request = selector, address, request
        self.served = self.refused = False
        self.start()

    def start(self):
        self.socket, self.received, self.sent = socket.socket(), b"", False
        self.socket.setblocking(False)
        self.socket.connect_ex(self.address)
        self.selector.register(self.socket, selectors.EVENT_WRITE, self)

    def stop(self):
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(self.socket)
        self.socket.close()

    def ready(self):
        try:
            if not self.sent:
                self.socket.setblocking(True)
                self.socket.settimeout(1)
                self.socket.sendall(self.request)
                self.sent = True
                self.selector.modify(self.socket, selectors.EVENT_READ, self)
                return
            data = self.socket.recv(65536)
        except OSError:
            data = b""
        self.received += data
        self.served = self.received.startswith(b"HTTP/1.1 200 ")
        if self.served or not data or self.received.startswith(b"HTTP/1.1 5"):
            self.stop()
            if not self.served:
                self.refused = True
                self.start()


def ask(server, request, count, seconds):
    """The clients, and after how many ms the last of them was served, if all were."""
    since = time.monotonic()
    with selectors.DefaultSelector() as selector:
        clients = [Client(selector, server.addresses["plain"], request) for _ in range(count)]
        while not all(client.served for client in clients) and time.monotonic() < since + seconds:
            for key, _ in selector.select(0.01):
                key.data.ready()
        last = (time.monotonic() - since) * 1000
        for client in clients:
            client.stop()
    return clients, last


def serve(server, request, count, seconds):
    """How many of them have been served, and after how many ms the last of them was."""
    clients, last = ask(server, request, count, seconds)
    return sum(client.served for client in clients), last


def is_refused(server, request):
    """Every client. One that waits for a slow machine is neither refused nor served."""
    clients, _ = ask(server, request, 10, TRIAL_SECONDS)
    return all(client.refused and not client.served for client in clients)


# --- scenes: exhaust, stop there, relieve ---


def few_descriptors(server):
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (server.descriptors() + 40, hard))
    return hard


def descriptors_closed(server):
    few_descriptors(server)
    held = hold(server, 200)
    yield
    let_go(held)


def descriptors_raised(server):
    hard = few_descriptors(server)
    held = hold(server, 100)
    yield
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    let_go(held)


def connections(server):
    held = hold(server, 200)
    yield
    let_go(held)


def workers(server):
    with tempfile.TemporaryDirectory() as directory:
        go = Path(directory) / "go"
        held = hold(server, 80, b"GET /w/wait?go=%b HTTP/1.1\r\nHost: a\r\n\r\n" % str(go).encode())
        yield
        go.touch()
        yield
        let_go(held)


def uploads(server):
    """Large bodies, and smaller ones in the rest that those leave, until nobody is served."""
    held, until = [], time.monotonic() + GIVEN_UP_SECONDS
    while not is_refused(server, ECHO) and time.monotonic() < until:
        held += [one for size in SIZES for one in hold(server, 40, POST % size + bytes(size - 1))]
    yield
    let_go(held)


@dataclasses.dataclass
class Exhaustion:
    name: str
    limit: str
    counter: str  # that says so
    exhaust: Callable
    settings: dict = dataclasses.field(default_factory=dict)
    arguments: tuple = ()
    request: bytes = WHOLE


EXHAUSTIONS = [
    Exhaustion("descriptors; clients leave", "RLIMIT_NOFILE", "accept_paused", descriptors_closed),
    Exhaustion("descriptors; the limit is raised", "RLIMIT_NOFILE", "accept_paused", descriptors_raised),
    Exhaustion("connections", "max_connections", "connections_waited", connections, {"max_connections": 100}),
    Exhaustion("connections of one address", "connections_per_address_max", "connections_refused_address", connections, {"connections_per_address_max": 100}),
    Exhaustion("queue of the worker threads", "max_backlog", "work_refused", workers, {"worker_threads": 2, "max_backlog": 60},
               request=b"GET /w/wait HTTP/1.1\r\nHost: a\r\n\r\n"),
    Exhaustion("memory", "uvhttp_set_allocator", "rejected_nomem", uploads, arguments=("--memory-max", str(16 << 20)), request=ECHO),
]  # fmt: skip


def suffer(build, backend, exhaustion):
    """Returns what was wrong."""
    patient = {"connection_timeout": 60, "body_timeout": 60, "write_timeout": 60, "min_receive_rate": "never"}
    with Server(build, backend, {**patient, **exhaustion.settings}, exhaustion.arguments) as server:
        scene = exhaustion.exhaust(server)
        next(scene)
        before, _ = serve(server, exhaustion.request, 10, TRIAL_SECONDS)
        next(scene, None)
        served, ms = serve(server, exhaustion.request, CLIENTS, GIVEN_UP_SECONDS)
        next(scene, None)
        counted = server.counters().get(exhaustion.counter, 0)
    wrong = ["not exhausted"] * (before == 10) + [f"no {exhaustion.counter}"] * (not counted)
    wrong += ["late"] * (served < CLIENTS or ms > RELIEF_MS)
    print(f"| {exhaustion.name} | {exhaustion.limit} | {exhaustion.counter} {counted} | {before} of 10 | {served} of {CLIENTS} | {ms:.0f} | "
          f"{', '.join(wrong) or 'ok'} |", flush=True)  # fmt: skip
    return wrong


def table(options, backend):
    """Returns whether all was well."""
    build, good = options.build.absolute(), True
    print(f"Exhaustion and relief on {backend}: {CLIENTS} new clients, from the moment of relief.\n")
    print("| exhausted | limit | counter | served meanwhile | served | all after ms | |")
    print("|---" * 7 + "|")
    for exhaustion in EXHAUSTIONS:
        if options.only not in exhaustion.name:
            continue
        try:
            good = not suffer(build, backend, exhaustion) and good
        except Gone as gone:
            print(f"| {exhaustion.name} | {exhaustion.limit} |" + " |" * 4 + f" {gone} |", flush=True)
            good = False
    print()
    return good
