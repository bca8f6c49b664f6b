#!/usr/bin/env python3
"""System calls per HTTPS request in steady state, counted by strace while a client in lock-step does exactly so many
requests: as many as without TLS, and nothing else. And a large file by TLS, of a static mount and of a handler: the loop's
thread reads none of it, other threads do. (That a message allocates nothing of ours: test/unit/tls/test_tcp.c.)"""
import itertools
import os
import pathlib
import shutil
import ssl
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

PIECES = 16  # of 64 KiB, in 1 MiB
FILES = {"mount": "/tls/files/1m.bin", "handler": "/file?path={directory}/1m.bin"}
ALLOWANCE = 12  # iterations for timers, and the call that strace interrupts when it attaches


def connect(port):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(gate.connect(port))


def count(server, https_port, request, rounds, follow):
    """Returns the system calls by name, of the loop's thread or (follow) of all."""
    with tempfile.TemporaryDirectory() as directory, server as (process, _):
        client = connect(https_port)
        size = gate.response_size(client, request)
        gate.lock_step([client], 20, size, request)
        path = os.path.join(directory, "counts")
        with gate.traced(process, path, "-c", *(["-f"] if follow else [])):
            gate.lock_step([client], rounds, size, request)
        client.close()
        return gate.read_counts(path)


def count_small(engine, rounds):
    https_port = gate.free_port()
    return count(gate.server(engine, arguments=("--https-port", str(https_port))), https_port, gate.GET, rounds, True)


def count_large(engine, path, rounds, follow):
    https_port = gate.free_port()
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "1m.bin").write_bytes(bytes(1 << 20))
        arguments = ("--tls-listen", f"{gate.HOST}:{https_port}", "--development", "on", "--tls-static", directory)
        request = f"GET {path.format(directory=directory)} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        return count(gate.test_server(engine, arguments), https_port, request, rounds, follow)


def main():
    if not shutil.which("strace"):
        gate.skip("strace is not installed")
    rounds = 1000
    counts = count_small("uring", rounds)
    gate.check("io_uring: io_uring_enter not seen", int("io_uring_enter" not in counts), 0)
    gate.check("io_uring: io_uring_enter per request", max(0, counts.get("io_uring_enter", 0) - ALLOWANCE) / rounds, 1.05)
    rest = gate.others(counts, "io_uring_enter")
    gate.check(f"io_uring: other system calls in {rounds} requests", sum(rest.values()), 2, str(rest or ""))
    counts = count_small("epoll", rounds)
    for names in (("recvfrom", "read"), ("sendto", "sendmsg"), ("epoll_wait", "epoll_pwait", "epoll_pwait2")):
        calls = sum(counts.get(name, 0) for name in names)
        gate.check(f"epoll: {names[0]} not seen", max(0, rounds - calls), ALLOWANCE)
        gate.check(f"epoll: {names[0]} per request", max(0, calls - ALLOWANCE) / rounds, 1)
    rest = gate.others(counts, "recvfrom", "read", "sendto", "sendmsg", "epoll_wait", "epoll_pwait", "epoll_pwait2")
    gate.check(f"epoll: other system calls in {rounds} requests", sum(rest.values()), 2, str(rest or ""))
    for engine, (what, path) in itertools.product(("uring", "epoll"), FILES.items()):
        everybody = count_large(engine, path, 20, True).get("preadv", 0)
        gate.check(f"{engine}, {what}: pieces of a large file not read by anybody", max(0, PIECES * 20 - everybody), 0)
        loop = count_large(engine, path, 20, False)
        gate.check(f"{engine}, {what}: loop's thread not seen", int("io_uring_enter" not in loop and "recvfrom" not in loop), 0, str(loop))
        reads = sum(loop.get(name, 0) for name in ("pread64", "preadv", "preadv2", "sendfile"))
        gate.check(f"{engine}, {what}: of them on the loop's thread", reads, 0)
    gate.finish()


main()
