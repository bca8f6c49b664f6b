#!/usr/bin/env python3
"""System calls per HTTPS request in steady state, counted by strace while a client in lock-step does exactly so many
requests: as many as without TLS, and nothing else. And a large file of a static mount by TLS: the loop's thread reads none
of it, helper threads do. (That a message allocates nothing of ours: test/unit/tls/test_tcp.c.)"""
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

ALLOWANCE = 12  # turns for timers, and the call that strace interrupts when it attaches
LARGE = b"GET /static/1m.bin HTTP/1.1\r\nHost: a\r\n\r\n"


def connect(port):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(gate.connect(port))


def count(engine, request, rounds, follow):
    """Returns the system calls by name, of the loop's thread or (follow) of all."""
    https_port = gate.free_port()
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "1m.bin").write_bytes(bytes(1 << 20))
        arguments = ("--https-port", str(https_port), "--static", directory)
        with gate.server(engine, arguments=arguments) as (process, _):
            client = connect(https_port)
            size = gate.answer_size(client, request)
            gate.lock_step([client], 20, size, request)
            path = os.path.join(directory, "counts")
            command = ["strace", *(["-f"] if follow else []), "-c", "-o", path, "-p", str(process.pid)]
            strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            if "attached" not in (line := strace.stderr.readline()):
                strace.wait()
                gate.skip(f"strace can not attach: {line.strip()}")
            gate.lock_step([client], rounds, size, request)
            strace.send_signal(signal.SIGINT)
            strace.wait()
            client.close()
            rows = (re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$", line) for line in open(path))
            return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}


def others(counts, *known):
    return {name: n for name, n in counts.items() if name not in known}


def main():
    if not shutil.which("strace"):
        gate.skip("strace is not installed")
    rounds = 1000
    counts = count("uring", gate.GET, rounds, True)
    gate.check("io_uring: io_uring_enter not seen", int("io_uring_enter" not in counts), 0)
    gate.check("io_uring: io_uring_enter per request", max(0, counts.get("io_uring_enter", 0) - ALLOWANCE) / rounds, 1.05)
    rest = others(counts, "io_uring_enter")
    gate.check(f"io_uring: other system calls in {rounds} requests", sum(rest.values()), 2, str(rest or ""))
    counts = count("libuv", gate.GET, rounds, True)
    for names in (("recvfrom", "read"), ("sendto", "sendmsg"), ("epoll_wait", "epoll_pwait", "epoll_pwait2")):
        calls = sum(counts.get(name, 0) for name in names)
        gate.check(f"libuv: {names[0]} not seen", max(0, rounds - calls), ALLOWANCE)
        gate.check(f"libuv: {names[0]} per request", max(0, calls - ALLOWANCE) / rounds, 1)
    rest = others(counts, "recvfrom", "read", "sendto", "sendmsg", "epoll_wait", "epoll_pwait", "epoll_pwait2")
    gate.check(f"libuv: other system calls in {rounds} requests", sum(rest.values()), 2, str(rest or ""))
    for engine in ("uring", "libuv"):
        everybody = count(engine, LARGE, 20, True).get("pread64", 0)
        gate.check(f"{engine}: pieces of a large file not read by anybody", max(0, 160 - everybody), 0)
        loop = count(engine, LARGE, 20, False)
        gate.check(f"{engine}: loop's thread not seen", int("io_uring_enter" not in loop and "recvfrom" not in loop), 0, str(loop))
        gate.check(f"{engine}: of them on the loop's thread", loop.get("pread64", 0), 0)
    gate.finish()


main()
