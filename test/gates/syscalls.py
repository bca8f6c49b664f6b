#!/usr/bin/env python3
"""System calls per request, counted by strace while a client in lock-step does exactly so many requests.

io_uring: only io_uring_enter, one per loop iteration. libuv: one recvfrom and one sendto per request, one epoll_pwait
per iteration, and no epoll_ctl. A body of 100 KB adds one sendfile. A timer that falls due in the window may cost an iteration: ALLOWANCE calls in all."""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

ALLOWANCE = 12  # iterations for timers (a few a second), and the call that strace interrupts when it attaches


def count(engine, connections, rounds, per_write=1, request=gate.GET):
    """Returns (requests, system calls by name)."""
    with gate.server(engine) as (process, port), tempfile.TemporaryDirectory() as directory:
        clients = [gate.connect(port) for _ in range(connections)]
        size = gate.response_size(clients[0], request)
        gate.lock_step(clients, 20, size, request, per_write)
        path = os.path.join(directory, "counts")
        with gate.traced(process, path, "-f", "-c"):
            requests = gate.lock_step(clients, rounds, size, request, per_write)
        for client in clients:
            client.close()
        return requests, gate.read_counts(path)


def check_uring(connections, rounds, per_write, bound):
    requests, counts = count("uring", connections, rounds, per_write)
    what = f"io_uring, c={connections}, {per_write} per write"
    enters = max(0, counts.get("io_uring_enter", 0) - ALLOWANCE)
    if not counts:
        gate.check(f"{what}: system calls not seen", 1, 0)
    gate.check(f"{what}: io_uring_enter per request", enters / requests, bound)
    rest = gate.others(counts, "io_uring_enter")
    gate.check(f"{what}: other system calls in {requests} requests", sum(rest.values()), 2, str(rest or ""))


WAITS = ("epoll_wait", "epoll_pwait", "epoll_pwait2")
RECEIVES = ("recvfrom", "read")
SENDS = ("sendto", "sendmsg")  # sendmsg: the responses of a batch lie in two chunks of the iteration arena


def check_epoll(connections, rounds, per_write):
    requests, counts = count("epoll", connections, rounds, per_write)
    what = f"epoll, c={connections}, {per_write} per write"
    writes = requests // per_write
    for names in (RECEIVES, SENDS):
        calls = sum(counts.get(name, 0) for name in names)
        gate.check(f"{what}: {names[0]} per batch", calls / writes, 1)
        if calls < writes:
            gate.check(f"{what}: {names[0]} not seen", writes - calls, 0, "fewer than needed: strace missed some")
    waits = sum(counts.get(name, 0) for name in WAITS)
    gate.check(f"{what}: epoll_pwait per batch", max(0, waits - ALLOWANCE) / writes, 1)
    rest = gate.others(counts, *WAITS, *RECEIVES, *SENDS)
    gate.check(f"{what}: other system calls in {requests} requests", sum(rest.values()), 2, str(rest or ""))


def check_large(engine, bounds):
    """bounds: calls per request by their names, None for waits: how often a large send wakes the loop depends on when its
    client reads. All others are checked together."""
    requests, counts = count(engine, 1, 500, request=gate.GET_LARGE)
    for names, bound in bounds.items():
        if bound is None:
            continue
        calls = sum(counts.get(name, 0) for name in names)
        gate.check(f"{engine}, 100 KB: {names[0]} per request", max(0, calls - ALLOWANCE) / requests, bound)
    if counts.get("sendfile", 0) < requests:
        gate.check(f"{engine}, 100 KB: requests without sendfile", requests - counts.get("sendfile", 0), 0)
    rest = gate.others(counts, *(name for names in bounds for name in names))
    gate.check(f"{engine}, 100 KB: other system calls in {requests} requests", sum(rest.values()), 10, str(rest or ""))


def main():
    if not shutil.which("strace"):
        gate.skip("strace is not installed")
    check_uring(1, 2000, 1, 1.05)
    check_uring(50, 100, 1, 0.6)
    check_uring(50, 10, 16, 0.05)
    check_epoll(1, 2000, 1)
    check_epoll(50, 100, 1)
    check_epoll(50, 10, 16)
    check_large("uring", {("io_uring_enter",): None, ("sendfile",): 1})
    check_large("epoll", {WAITS: None, RECEIVES: 1, SENDS: 1, ("sendfile",): 1})
    gate.finish()


main()
