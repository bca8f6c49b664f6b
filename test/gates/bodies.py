#!/usr/bin/env python3
"""What a request body in chunks of one byte costs, against the same in chunks of 64 KiB, for every way to read it: bytes
copied per byte of content (counted by the server's own memcpy and memmove, on both engines), and instructions per
chunk, counted by callgrind (epoll: valgrind knows no io_uring). A body that is moved or waited for once a chunk
breaks both. The bounds of instructions are what was counted with gcc 12 -O2, and a third: how bytes arrive differs."""
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

PROGRAM = gate.BUILD_DIR / "test" / "bin" / "gate_bodies"
SIZE = 100_000  # bytes of a body whose copies are counted
CHUNKS = 20_000  # of a body whose instructions are counted
# Bytes copied per chunk, above twice what they are per byte in large chunks: a chunk of one byte has 6 bytes on the wire,
# and those that come while the route does not read are kept.
COPIES = 18
# path: instructions per chunk
BOUNDS = {"/buffered": 335, "/streamed": 325, "/paused": 2100, "/spooled": 365, "/live": 365, "/coroutine": 570}


def body(size, chunk):
    whole, rest = divmod(size, chunk)
    text = b"%x\r\n%s\r\n" % (chunk, b"b" * chunk) * whole
    return text + (b"%x\r\n%s\r\n" % (rest, b"b" * rest) if rest else b"") + b"0\r\n\r\n"


def response(client):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            sys.exit("BROKEN  the server closed the connection")
        data += piece
    head, text = data.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"BROKEN  {head[:60]!r}")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(text) < length:
        text += client.recv(65536)
    return int(text)


def upload(client, path, size, chunk):
    client.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % path.encode())
    client.sendall(body(size, chunk))
    got = response(client)
    if got != size:
        sys.exit(f"BROKEN  {path}: {got} bytes of {size}")


def copied(client):
    client.sendall(b"GET /copied HTTP/1.1\r\nHost: a\r\n\r\n")
    return response(client)


def server(engine, prefix=()):
    port = gate.free_port()
    return gate.running([*prefix, PROGRAM, engine, str(port)], port)


def count_copies(engine):
    with server(engine) as (_, port), gate.connect(port) as client:
        for path in BOUNDS:
            per_byte = {}
            for chunk in (65536, 1):
                upload(client, path, SIZE, chunk)  # what is made once
                before = copied(client)
                upload(client, path, SIZE, chunk)
                per_byte[chunk] = (copied(client) - before) / SIZE
            gate.check(f"{engine}, {path}: bytes copied per byte in 1-byte chunks", per_byte[1],
                       2 * per_byte[65536] + COPIES, f"in 64-KiB chunks: {per_byte[65536]:.3f}")


def instructions(path, size):
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind"
        with server("epoll", ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]) as (_, port):
            with gate.connect(port) as client:
                upload(client, path, size, 1)
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)[1])


def main():
    for engine in ("uring", "epoll"):
        count_copies(engine)
    if not shutil.which("valgrind"):
        if gate.failed:
            gate.finish()
        gate.skip("valgrind is not installed: instructions were not counted")
    few = instructions("/buffered", 1)
    for path, bound in BOUNDS.items():
        gate.check(f"epoll, {path}: instructions per 1-byte chunk", (instructions(path, CHUNKS) - few) / CHUNKS, bound)
    gate.finish()


main()
