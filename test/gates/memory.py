#!/usr/bin/env python3
"""Resident memory of idle keep-alive connections: growth of VmRSS from the first 200 connections, which have touched all
that is shared (receive buffers, turn memory, the pool of exchanges), to 10,000, each after one request. The same of
HTTP/2, and of its streams whose responses wait for a window."""
import pathlib
import resource
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

FIRST = 200
ALL = 10000  # performance_test's max_connections
ENGINES = ("uring", "libuv")
BOUND = 320
# HTTP/2: an idle connection after two requests, 1.5 KB and its tables (counted 1582, 400 of it tables and blocks); a
# stream of 5 fields whose head is owned (counted 1950; to come below 1 KB).
H2_FIRST, H2_ALL, H2_BOUND = 200, 4000, 1740
STREAMS, STREAMS_FIRST, STREAMS_ALL, STREAM_BOUND = 100, 10, 110, 2140


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
        size = gate.answer_size(clients[0])
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


def request(client, number):
    """:method, :scheme, :path; with the first :authority comes into the table."""
    authority = b"\x41\x0e127.0.0.1:8080" if number == 0 else b"\xbe"
    client.sendall(frame(1, 5, 2 * number + 1, b"\x82\x86\x84" + authority))


def answered(client):
    """The answer to a PING says that all before it was read."""
    client.sendall(frame(6, 0, 0, b"memory.."))
    data = b""
    while frame(6, 1, 0, b"memory..") not in data:
        piece = client.recv(65536)
        if not piece:
            sys.exit("BROKEN  the server closed the connection")
        data += piece


def grow_http2(port, clients, target, requests, window):
    while len(clients) < target:
        clients.append(open_http2(port, window))
        for number in range(requests):
            request(clients[-1], number)
        answered(clients[-1])


def measure_http2(engine, what, first, last, requests, window, bound):
    """Bytes of each connection, or with a window of 0 of each stream, all of which wait."""
    with gate.server(engine, arguments=("--min-send-rate", "0")) as (process, port):
        clients = []
        grow_http2(port, clients, first, requests, window)
        before = memory(process.pid, "VmRSS")
        grow_http2(port, clients, last, requests, window)
        after = memory(process.pid, "VmRSS")
        for client in clients:
            client.close()
    count = (last - first) * (requests if window == 0 else 1)
    gate.check(f"{engine}: bytes of resident memory per idle {what}", (after - before) / count, bound)


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ALL + 100:
        gate.skip(f"RLIMIT_NOFILE is {hard}: {ALL + 100} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (ALL + 100, hard))  # the server inherits it
    for engine in ENGINES:
        measure(engine)
        measure_http2(engine, "HTTP/2 connection", H2_FIRST, H2_ALL, 2, 65535, H2_BOUND)
        measure_http2(engine, "stream", STREAMS_FIRST, STREAMS_ALL, STREAMS, 0, STREAM_BOUND)
    gate.finish()


main()
