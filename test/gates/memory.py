#!/usr/bin/env python3
"""Resident memory of idle keep-alive connections: growth of VmRSS from the first 200 connections, which have touched all
that is shared (receive buffers, the iteration arena, the pool of exchanges), to 10,000, each after one request. The same of
HTTP/2, and of its streams that wait. memory.py --streams 10: the memory of 10,000 connections with 10 idle streams."""
import argparse
import pathlib
import resource
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

FIRST = 200
ALL = 10000  # performance_test's max_connections
ENGINES = ("uring", "epoll")
BOUND = 320
# HTTP/2: an idle connection after two requests, 1.5 KB and its tables (counted 1500, 400 of it tables and blocks).
H2_FIRST, H2_ALL, H2_BOUND = 200, 4000, 1740
# An idle stream, 100 on each connection: its head, which has :method, :scheme, :path and :authority, is owned, and its
# response waits for a window or for the application. Connections and slots of streams are part of the figure. So many of
# them, because receive buffers that are first used meanwhile are some 200 KiB.
STREAMS, STREAMS_FIRST, STREAMS_ALL, STREAM_BOUND = 100, 10, 410, 1024


def memory(pid, field):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def grow(port, clients, target, size):
    while len(clients) < target:
        clients.append(gate.connect(port))
        gate.lock_step(clients[-1:], 1, size)


def measure(engine):
    with gate.server(engine) as (process, port):
        clients = [gate.connect(port)]
        size = gate.response_size(clients[0])
        grow(port, clients, FIRST, size)
        gate.lock_step(clients, 20, size)
        gate.lock_step(clients, 2, size, per_write=16)
        before = memory(process.pid, "VmRSS")
        grow(port, clients, ALL, size)
        after = memory(process.pid, "VmRSS")
        for client in clients:
            client.close()
    gate.check(f"{engine}: bytes of resident memory per idle connection", (after - before) / (ALL - FIRST),
               BOUND, f"{FIRST} connections: {before // 1024} KiB, {ALL}: {after // 1024} KiB")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def open_http2(port, window):
    settings = frame(4, 0, 0, struct.pack(">HI", 4, window))
    client = gate.connect(port)
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + frame(4, 1, 0))
    return client


def request(client, number, path):
    """:method, :scheme, :path, :authority; with the first, :authority and a path that is not "/" come into the table."""
    authority = b"\x41\x0e127.0.0.1:8080"
    if path == "/":
        block = b"\x84" + (authority if number == 0 else b"\xbe")
    else:
        block = b"\x44" + bytes((len(path),)) + path.encode() + authority if number == 0 else b"\xbf\xbe"
    client.sendall(frame(1, 5, 2 * number + 1, b"\x82\x86" + block))


def wait_for_pong(client):
    """The response to a PING says that all before it was read."""
    client.sendall(frame(6, 0, 0, b"memory.."))
    data = b""
    while frame(6, 1, 0, b"memory..") not in data:
        piece = client.recv(65536)
        if not piece:
            sys.exit("BROKEN  the server closed the connection")
        data += piece


def grow_http2(port, clients, target, requests, window, path):
    while len(clients) < target:
        clients.append(open_http2(port, window))
        for number in range(requests):
            request(clients[-1], number, path)
        wait_for_pong(clients[-1])


def waiting_server(engine):
    """Requests for /wait wait for the application."""
    port = gate.free_port()
    return gate.running([gate.BUILD_DIR / "test" / "bin" / "gate_memory", engine, str(port)], port)


def growth(server, first, last, requests, window=65535, path="/"):
    """Bytes by which the server grows from the first to the last connection, each with so many requests."""
    with server as (process, port):
        clients = []
        grow_http2(port, clients, first, requests, window, path)
        before = memory(process.pid, "VmRSS")
        grow_http2(port, clients, last, requests, window, path)
        after = memory(process.pid, "VmRSS")
        for client in clients:
            client.close()
    return after - before


def without_rate(engine):
    return gate.server(engine, arguments=("--min-send-rate", "never"))


WAITS = {  # what a stream waits for: server, arguments
    "a window": (without_rate, {"window": 0}),
    "its handler": (waiting_server, {"path": "/wait"}),
}


def measure_http2(engine):
    size = growth(gate.server(engine), H2_FIRST, H2_ALL, 2)
    gate.check(f"{engine}: bytes of resident memory per idle HTTP/2 connection", size / (H2_ALL - H2_FIRST), H2_BOUND)
    for what, (server, options) in WAITS.items():
        size = growth(server(engine), STREAMS_FIRST, STREAMS_ALL, STREAMS, **options)
        gate.check(f"{engine}: bytes of resident memory per stream that waits for {what}",
                   size / (STREAMS_ALL - STREAMS_FIRST) / STREAMS, STREAM_BOUND)


def show(engine, connections, streams):
    """So many of both, by themselves."""
    first = min(FIRST, connections // 2)
    for what, (server, options) in WAITS.items():
        size = growth(server(engine), first, connections, streams, **options)
        each = size / (connections - first)
        print(f"{engine}: {connections} connections with {streams} streams that wait for {what}: "
              f"{size * connections / (connections - first) / 2 ** 20:.1f} MiB, {each:.0f} bytes per connection, "
              f"{each / streams:.0f} per stream with its part of the connection")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, help="only show the memory of connections with so many idle streams")
    parser.add_argument("--connections", type=int, default=ALL, help=f"so many connections (at most {ALL})")
    arguments = parser.parse_args()
    if not 2 <= arguments.connections <= ALL:
        parser.error(f"--connections takes 2 to {ALL}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ALL + 100:
        gate.skip(f"RLIMIT_NOFILE is {hard}: {ALL + 100} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (ALL + 100, hard))  # the server inherits it
    for engine in ENGINES:
        if arguments.streams:
            show(engine, arguments.connections, arguments.streams)
            continue
        measure(engine)
        measure_http2(engine)
    gate.finish()


main()
