#!/usr/bin/env python3
"""Resident memory of idle keep-alive connections: growth of VmRSS from the first 200 connections, which have touched all
that is shared (receive buffers, turn memory, the pool of exchanges), to 10,000, each after one request."""
import pathlib
import resource
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

FIRST = 200
ALL = 10000  # performance_test's max_connections
ENGINES = ("uring", "libuv")
BOUND = 320


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


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ALL + 100:
        gate.skip(f"RLIMIT_NOFILE is {hard}: {ALL + 100} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (ALL + 100, hard))  # the server inherits it
    for engine in ENGINES:
        measure(engine)
    gate.finish()


main()
