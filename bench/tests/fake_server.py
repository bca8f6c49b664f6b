#!/usr/bin/env python3
"""Owns: a stand-in for performance_test with the faults of the audit, chosen by FAKE: 404, later-404, coverage, log, slow,
exit, busy, reno, cpus, files (it changes what every server is given alike). One thread, keep-alive, one response for a request; not fast."""

import os
import resource
import selectors
import socket
import sys
import time
from pathlib import Path

FAULT = os.environ.get("FAKE", "")
BUILDS = {"coverage": "build_coverage.txt"}


def response(status: str) -> bytes:
    body = b"Hello, World!" if status.startswith("200") else b"Not Found"
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def serve(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    if FAULT == "reno":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    if FAULT == "cpus":
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    if FAULT == "files":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    count = 0
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            client = key.fileobj
            assert isinstance(client, socket.socket)
            try:
                data = client.recv(65536)
                if data:
                    count += 1
                    wrong = FAULT == "404" or (FAULT == "later-404" and count > 1)
                    client.sendall(response("404 Not Found" if wrong else "200 OK") * max(1, data.count(b"\r\n\r\n")))
                    if FAULT == "log":
                        print(f"connection reset by peer, number {count}", file=sys.stderr, flush=True)
                    if FAULT == "slow":
                        time.sleep(0.01)
                    if FAULT == "exit" and count > 3:
                        sys.exit("fake: out of luck")
            except OSError:
                data = b""
            if not data:
                selector.unregister(client)
                client.close()


def main() -> None:
    if "--version" in sys.argv:
        fixture = Path(__file__).resolve().parent / "fixtures" / BUILDS.get(FAULT, "build_release.txt")
        print("uvhttp 0.1.0\n" + fixture.read_text().split("\n", 1)[1], end="")
        return
    if FAULT == "busy":
        sys.exit("uvhttp: listen: address in use")
    serve(int(sys.argv[sys.argv.index("--port") + 1]))


main()
