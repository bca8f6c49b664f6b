#!/usr/bin/env python3
"""Owns: servers as readers bring them: `own_server.py PORT [MODE] [MICROSECONDS of CPU time per request]`. MODE: plain, workers
(forks two), forks (one process for each connection, which nobody waits for), never (does not listen), ends, background,
closes, varies, random (each process has a body of its own), leaves (a child leaves the session and stays), blanks (more, or
fewer, around values than usual)."""

import os
import signal
import socket
import sys
import threading
import time
from itertools import count

PORT, MODE = int(sys.argv[1]), (sys.argv[2:3] or ["plain"])[0]
SECONDS = int((sys.argv[3:4] or ["0"])[0]) / 1e6
BODY = os.urandom(4).hex().encode() if MODE == "random" else b"Hello, World!"
NUMBERS = count()


def response(head: bytes) -> bytes:
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        pass
    status = b"404 Not Found" if b" /gone " in head.splitlines()[0] else b"200 OK"
    body = b"%d" % next(NUMBERS) if MODE == "varies" else BODY
    close = b"Connection: close\r\n" if MODE == "closes" else b""
    length = b"Server:own\r\nX:  1 \r\nContent-Length:%d\r\n" if MODE == "blanks" else b"Content-Length: %d\r\n"
    return b"HTTP/1.1 " + status + b"\r\n" + length % len(body) + close + b"\r\n" + body


def converse(client: socket.socket) -> None:
    data = b""
    with client:
        while True:
            try:
                more = client.recv(65536)
                if not more:
                    return
                *heads, data = (data + more).split(b"\r\n\r\n")
                client.sendall(b"".join(response(head) for head in heads))
            except OSError:
                return
            if MODE == "closes" and heads:
                return


def accept(listener: socket.socket) -> None:
    while True:
        client, _ = listener.accept()
        if MODE == "forks":
            if os.fork() == 0:
                listener.close()
                converse(client)
                os._exit(0)
            client.close()
        else:
            threading.Thread(target=converse, args=(client,), daemon=True).start()


def main() -> None:
    if MODE == "ends":
        sys.exit("own_server: no configuration")
    if MODE == "never":
        print("own_server: waiting for the database", flush=True)
        signal.pause()
    if MODE == "background" and os.fork():
        return
    if MODE == "leaves" and os.fork() == 0:
        os.setsid()
        signal.pause()
    listener = socket.create_server(("127.0.0.1", PORT), backlog=512)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if MODE == "workers" and os.fork() and os.fork():
        listener.close()
        while True:
            signal.pause()
    accept(listener)


main()
