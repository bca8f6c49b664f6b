#!/usr/bin/env python3
"""System calls for a large file without TLS, of a static mount and of a handler, counted by strace. In memory: the loop's
thread sends it by sendfile, looks for it at most twice before each, and no thread reads. Dropped from memory before every
request: other threads read it in, the loop's thread nothing; only where the kernel counts a file's pages (6.5) and drops
them on request, since else nobody knows what is in memory: the server neither (test/unit/exec/test_file_reader.c).
And for content (uvhttp_shared_body_t): one sendfile or more, and nobody looks for it or reads it; a small one is waited for
by its head (seen on libuv only)."""
import collections
import contextlib
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

SIZE = 1 << 20
WAITED_FOR = 100_000
READS = 16  # calls for one piece of 256 KiB; how many pieces it takes depends on what the kernel reads ahead
ROUNDS = 20
CACHESTAT = 451  # on every architecture
DROPS_MAX = 500
PATHS = {"mount": "/tls/files/large.bin", "handler": "/file?path={directory}/large.bin"}
LOOKS = ("cachestat", "syscall_0x1c3", "preadv2")  # strace may not know the first by name
READ_CALLS = ("pread64", "preadv")


def count_calls(path, loop):
    """System calls by name, of the loop's thread and of all others; "MSG_MORE" is any with that flag."""
    calls = {True: collections.Counter(), False: collections.Counter()}
    for line in open(path):
        if row := re.match(r"(\d+)\s+(\w+)\(", line):
            calls[int(row[1]) == loop][row[2]] += 1
            calls[int(row[1]) == loop]["MSG_MORE"] += "MSG_MORE" in line
    return calls[True], calls[False]


def pages_in_memory(fd):
    """By cachestat(2), which Python does not know. None: it cannot be had."""
    part, pages = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    return pages[0] if ctypes.CDLL(None).syscall(CACHESTAT, fd, part, pages, 0) == 0 else None


def free_received():
    """What was received is freed by the CPU that had sent it, when it next has something to do for the network."""
    cpus = os.sched_getaffinity(0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as idle:
        idle.bind((gate.HOST, 0))
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            idle.sendto(b"", idle.getsockname())
    os.sched_setaffinity(0, cpus)


def drop(path):
    """Returns None, or what is in the way: a page that somebody still refers to stays."""
    with open(path, "rb") as file:
        os.fdatasync(file.fileno())
        for _ in range(DROPS_MAX):
            free_received()
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            left = pages_in_memory(file.fileno())
            if left is None:
                return "this kernel does not count the pages of a file"
            if left == 0:
                return None
            time.sleep(0.01)
    return f"{left} pages of {path} do not leave memory"


def why_not_cold():
    """Of a file that nobody has sent."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "large.bin")
        file.write_bytes(bytes(SIZE))
        return drop(file)


@contextlib.contextmanager
def file_server(engine, directory):
    arguments = ("--tls-listen", f"{gate.HOST}:{gate.free_port()}", "--development", "on", "--tls-static", directory)
    with gate.test_server(engine, arguments) as server:
        yield server


def count(engine, path, cold):
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        file = pathlib.Path(directory, "large.bin")
        file.write_bytes(bytes(SIZE))
        process, port = stack.enter_context(file_server(engine, directory))
        request = f"GET {path.format(directory=directory)} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        client = stack.enter_context(gate.connect(port))
        size = gate.response_size(client, request)
        log = os.path.join(directory, "calls")
        with gate.traced(process, log, "-f", "-e", "signal=none"):
            for _ in range(ROUNDS):
                if cold and (why := drop(file)):
                    sys.exit(f"BROKEN  {why}")
                gate.lock_step([client], 1, size, request)
        return count_calls(log, process.pid)


def total(calls, names):
    return sum(calls[name] for name in names)


def check_in_memory(engine, what, path):
    loop, others = count(engine, path, cold=False)
    sends = loop["sendfile"]
    gate.check(f"{engine}, {what}, in memory: requests without sendfile", max(0, ROUNDS - sends), 0, str(dict(loop)))
    gate.check(f"{engine}, {what}, in memory: looks per sendfile", total(loop, LOOKS) / max(1, sends), 2)
    gate.check(f"{engine}, {what}, in memory: reads", total(loop, READ_CALLS) + total(others, READ_CALLS), 0)


def check_cold(engine, what, path):
    loop, others = count(engine, path, cold=True)
    missing = ROUNDS * READS - total(others, READ_CALLS)
    gate.check(f"{engine}, {what}, not in memory: requests that no other thread reads for", max(0, missing), 0, str(dict(others)))
    gate.check(f"{engine}, {what}, not in memory: reads on the loop's thread", total(loop, READ_CALLS), 0)


def check_content(engine):
    loop, others = count(engine, f"/content?size={SIZE}", cold=False)
    gate.check(f"{engine}, content: requests without sendfile", max(0, ROUNDS - loop["sendfile"]), 0, str(dict(loop)))
    names = (*LOOKS, *READ_CALLS)
    gate.check(f"{engine}, content: looks and reads", total(loop, names) + total(others, names), 0)
    if engine == "epoll":
        gate.check(f"{engine}, content of {SIZE}: heads that wait", loop["MSG_MORE"], 0)
        small, _ = count(engine, f"/content?size={WAITED_FOR}", cold=False)
        gate.check(f"{engine}, content of {WAITED_FOR}: heads that do not wait", abs(ROUNDS - small["MSG_MORE"]), 0)


def main():
    if not shutil.which("strace"):
        gate.skip("strace is not installed")
    unknown = why_not_cold()
    if unknown:
        print(f"not in memory: not counted, {unknown}")
    for engine, (what, path) in itertools.product(("uring", "epoll"), PATHS.items()):
        check_in_memory(engine, what, path)
        if not unknown:
            check_cold(engine, what, path)
    for engine in ("uring", "epoll"):
        check_content(engine)
    gate.finish()


main()
