"""Owns: the scenarios: what clients ask of pattern_server while its calls fail. Each is short, runs many times, and uses other
bytes each time."""
import contextlib
import json
import os
import time

from clients import SEEDS, Client, Client2, Fault, WebSocket, pattern
from readers import access_log_pipe, log_pipe

import wire

BINARY, PING, PONG, CLOSE = 2, 9, 10, 8
FILE_SIZE = 40000
SPAN_SECONDS, LOG_SECONDS = 2, 2


def get(client, run, route, size, **options):
    seed = run.seeds.next()
    client.ask(f"/{route}/{seed}/{size}", pattern(seed, size), seed, **options)


def post(client, run, route, size, pieces=0):
    seed = run.seeds.next()
    data = pattern(seed, size)
    step = size // pieces if pieces else size
    parts = [data[at : at + step] for at in range(0, size, step)] if pieces else None
    options = {"parts": parts} if pieces else {"data": data}
    client.ask(f"/{route}/{seed}/{size}", pattern(seed + 1, size), seed + 1, method="POST", **options)


def pipeline(client, run, routes):
    seeds = [run.seeds.next() for _ in routes]
    requests = [(b"".join(wire.request("GET", f"/{route}/{seed}/{size}") for (route, size), seed in zip(routes, seeds)), [])]
    client.expect(requests, [(pattern(seed, size), seed, "GET", {500, 503}, (200,)) for (_, size), seed in zip(routes, seeds)])


def keep_alive(run, tls=False):
    client = Client(run, tls)
    get(client, run, "copy", 100)
    get(client, run, "pieces", 20000)
    get(client, run, "ref", 3000)
    pipeline(client, run, [("copy", 500), ("ref", 9000), ("copy", 10)])
    client.finish()


def bodies(run, tls=False):
    client = Client(run, tls)
    post(client, run, "body", 3000)
    post(client, run, "stream", 12000, pieces=3)
    post(client, run, "body", 40000, pieces=2)
    client.finish()


def large(run, tls=False):
    """More than the socket takes at once, to a client that reads slowly at first."""
    client = Client(run, tls, receive_buffer=8192)
    get(client, run, "copy", 400000)
    get(client, run, "pieces", 300000)
    client.finish()


def files(run, tls=False):
    """A file that nobody has asked for yet: whole, in part, its head, not again; and one that is no file of the folder."""
    name = run.new_file()
    body = pattern(SEEDS * 4, FILE_SIZE)
    missing = {403, 404}
    client = Client(run, tls)
    client.ask(f"/static/{name}", body, errors=missing)
    client.ask(f"/static/{name}", body[1000:5001], headers=[("Range", "bytes=1000-5000")], statuses=(206,), errors=missing)
    client.ask(f"/static/{name}", b"", method="HEAD", errors=missing)
    client.ask(f"/static/{name}", b"", headers=[("If-None-Match", "*")], statuses=(304,), errors=missing)
    get(client, run, "file", 100000)
    client.finish()


def websocket(run, tls=False):
    client = WebSocket(run, "/ws", tls)
    for size in (10, 3000, 40000):
        message = pattern(run.seeds.next(), size)
        client.tell(BINARY, message)
        client.hear(message)
    message = pattern(run.seeds.next(), 2000)
    client.tell(BINARY, message[:700], fin=False)
    client.tell(PING, b"between")
    client.hear(b"between", PONG)
    client.tell(0, message[700:])
    client.hear(message)
    client.tell(CLOSE, b"\x03\xe8")
    client.hear(b"\x03\xe8", CLOSE)
    client.finish()


def topics(run):
    """A publication may be left out where memory is; what comes is right, and subscribers live on."""
    clients = [WebSocket(run, "/topic") for _ in range(3)]
    for client in clients:
        client.tell(1, b"+")
        client.hear(b"+", 1)
    message = pattern(run.seeds.next(), 3000)
    clients[0].tell(BINARY, message)
    for client in clients:  # the publisher first: when it gets a response, the others have been notified
        client.tell(PING, b"behind")
        if client.hear(message, unless=b"behind"):
            client.hear(b"behind", PONG)
    for client in clients:
        client.close()


def streams(run, tls=False):
    client = Client2(run, tls)
    for route, size in (("copy", 100), ("pieces", 30000), ("ref", 20000), ("file", 90000), ("worker", 5000), ("later", 400), ("coro", 700)):
        seed = run.seeds.next()
        client.start(f"/{route}/{seed}/{size}", pattern(seed, size), seed)
    for route, size in (("body", 2000), ("stream", 40000)):
        seed = run.seeds.next()
        client.start(f"/{route}/{seed}/{size}", pattern(seed + 1, size), seed + 1, "POST", pattern(seed, size))
    client.finish()


def workers(run):
    client = Client(run)
    get(client, run, "worker", 10000)
    post(client, run, "spool", 30000)
    client.finish()


def uploads(run):
    """What is saved is the body, whole; and of what is not saved nothing is left."""
    seed = run.seeds.next()
    client = Client(run)
    before = set(os.listdir(run.uploads))
    client.expect([(wire.request("PUT", f"/save/{seed}/50000", (), pattern(seed, 50000)), [])], [])
    name = saved(client)
    client.close()
    new = set(os.listdir(run.uploads)) - before
    if name is None:
        run.note("error")
        if new and not run.control.has_failed:
            raise Fault(f"left behind: {new}")
    elif new != {name} or (run.uploads / name).read_bytes() != pattern(seed, 50000):
        raise Fault("foreign bytes in a saved file")
    else:
        run.note("ok")
    for left in new:
        (run.uploads / left).unlink()


def saved(client):
    if client.over:
        return None
    try:
        response = client.response("PUT")
    except TimeoutError as error:
        raise Fault("silence") from error
    except (wire.Closed, OSError):
        return None
    if response.status != 201 and response.status not in {500, 503, 507, 403}:
        raise Fault(f"status {response.status}")
    return response.text if response.status == 201 else None


def three_clients(run, route):
    clients = [Client(run) for _ in range(3)]
    for client in clients:
        get(client, run, route, 8000)
        client.finish()


def coroutines(run):
    three_clients(run, "coro")


def deferred(run):
    three_clients(run, "later")


def asks_others(run):
    """By the library's client, from a server that does not fail."""
    client = Client(run)
    get(client, run, "client", 5000)
    get(client, run, "client", 90000)
    client.finish()


def rate_limit(run):
    client = Client(run)
    for _ in range(3):
        get(client, run, "limited", 500)
    client.finish()


def admin(run):
    """Each endpoint of the admin listener; what it responds with is complete."""
    client = Client(run, address=run.service.admin)
    client.ask_admin("GET", "/ready", lambda body: json.loads(body)["ready"] is True)
    client.ask_admin("GET", "/health", lambda body: json.loads(body)["healthy"] is True or run.control.has_failed)
    client.ask_admin("GET", "/connections", lambda body: json.loads(body)["total"] >= 0)
    client.ask_admin("GET", "/config", lambda body: len(json.loads(body)["settings"]) > 50)
    client.ask_admin("GET", "/metrics", lambda body: b"uvhttp_" in body and body.endswith(b"\n"))
    client.ask_admin("PUT", "/log-level", lambda body: json.loads(body) == {"level": "warn"}, b'{"level": "warn"}')
    client.ask_admin("GET", "/", lambda body: body.startswith(b"<!doctype html>") and len(body) > 10000)
    client.finish()
    with contextlib.suppress(OSError, wire.Closed, Fault):
        run.service.events().reset()


def traces(run):
    """Their spans arrive, or count as failed; Torture.look_at_spans looks at all of them."""
    before = len(run.collector.bodies)
    client = Client(run)
    get(client, run, "copy", 100)
    get(client, run, "later", 100)
    client.finish()
    deadline = time.monotonic() + SPAN_SECONDS
    while len(run.collector.bodies) == before and not run.control.has_failed and time.monotonic() < deadline:
        time.sleep(0.0005)


def log_lines(run):
    """Torture.look_at_lines looks at all of them."""
    seed = run.seeds.next()
    client = Client(run)
    before = run.outcomes.get("ok", 0)
    client.ask(f"/log/{seed}/500", pattern(seed, 500), seed)
    run.lines_due += 5 * (run.outcomes["ok"] - before if "ok" in run.outcomes else 0)
    client.finish()
    deadline = time.monotonic() + LOG_SECONDS
    while not run.lines_are_settled() and not run.control.has_failed and time.monotonic() < deadline:
        time.sleep(0.0005)


def access_log(run):
    """Torture.end looks at the lines."""
    client = Client(run)
    for _ in range(3):
        get(client, run, "copy", 200)
    client.finish()


def gone(run):
    """Clients that go in the middle: of a body, of a response, of a head, of what threads and coroutines do for them."""
    seed = run.seeds.next()
    parts = [wire.head("POST", f"/stream/{seed}/9000", [("Content-Length", 9000)]) + pattern(seed, 4000), b"GET /copy/1/"]
    parts += [wire.request("GET", f"/{route}/{seed}/{size}") for route, size in (("copy", 600000), ("later", 90), ("worker", 90), ("coro", 90))]
    for data in parts:
        client = Client(run)
        client.send(data)
        client.reset()
    client = Client(run)
    client.send(wire.head("POST", f"/worker/{seed}/9000", [("Content-Length", 9000)]))
    with contextlib.suppress(OSError):  # it may have gone first
        client.half_close()
    client.close()
    client = Client(run)  # accepted behind the others
    get(client, run, "copy", 100)
    client.finish()


def tls(run):
    keep_alive(run, True)
    bodies(run, True)


def tls_files(run):
    files(run, True)


def tls_websocket(run):
    websocket(run, True)


def tls_streams(run):
    streams(run, True)


SCENARIOS = [keep_alive, bodies, large, files, tls, tls_files, websocket, tls_websocket, topics, streams, tls_streams, workers, uploads, coroutines,
             deferred, asks_others, rate_limit, access_log, gone, admin, traces, log_lines, access_log_pipe,
             log_pipe]  # fmt: skip
NAMES = {one.__name__: one for one in SCENARIOS}
