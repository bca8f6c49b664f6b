#!/usr/bin/env python3
"""Owns: a stand-in for performance_test that tries to get false figures published, by the tricks of the audit, chosen by
TRICK. One thread, keep-alive; a probe of the harness and the load see the same server.

wrong-body, later-wrong-body: another body of the right length, from the start or once the first request gets a response
302, later-302: a redirection for everything
garbage: echoes of the right length and another content (POST and WebSocket)
twice: two responses to each request
unread: responses without reading requests, once the first request gets a response
miscounts: its own counter says twice as many requests
no-counter: nothing wrong with it, but it does not say what it has counted"""

import base64
import hashlib
import os
import re
import selectors
import socket
import sys
from pathlib import Path

TRICK = os.environ.get("TRICK", "")
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HELLO, WRONG = b"Hello, World!", b"Hello, Wurld!"
PIECE = 1 << 16


def response(status: str, body: bytes, more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


REDIRECTION = response("302 Found", b"", "Location: /\r\n")


class Server:
    def __init__(self) -> None:
        self.requests = 0
        self.pending: dict[socket.socket, bytes] = {}
        self.upgraded: set[socket.socket] = set()

    def respond(self, head: bytes, body: bytes) -> bytes:
        later = self.requests > 0
        self.requests += 1
        if TRICK == "302" or (TRICK == "later-302" and later):
            return REDIRECTION
        if head.startswith(b"GET /counters"):
            if TRICK in ("no-counter", "twice", "unread"):
                return response("404 Not Found", b"")
            said = (2 if TRICK == "miscounts" else 1) * self.requests
            return response("200 OK", b'{"requests":%d}' % said)
        if head.startswith(b"POST"):
            return response("200 OK", body[::-1] if TRICK == "garbage" else body)
        wrong = TRICK == "wrong-body" or (TRICK == "later-wrong-body" and later)
        return response("200 OK", WRONG if wrong else HELLO) * (2 if TRICK == "twice" else 1)

    def upgrade(self, client: socket.socket, head: bytes) -> bytes:
        self.upgraded.add(client)
        found = re.search(rb"(?im)^Sec-WebSocket-Key: *(\S+)", head)
        assert found
        key = base64.b64encode(hashlib.sha1(found[1] + GUID).digest())
        return (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n"
            % key
        )

    def echo(self, data: bytes) -> tuple[bytes, bytes]:
        """Messages below 126 bytes. The response, and what is not whole yet."""
        out = b""
        while len(data) >= 6 and len(data) >= 6 + (data[1] & 127):
            size, mask = data[1] & 127, data[2:6]
            payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data[6 : 6 + size]))
            out += bytes([data[0], size]) + (payload[:16] + b"x" * (size - 16) if TRICK == "garbage" else payload)
            data = data[6 + size :]
        return out, data

    def requests_in(self, client: socket.socket) -> bytes:
        """The responses to all requests that are complete."""
        data, out = self.pending[client], b""
        while client not in self.upgraded and b"\r\n\r\n" in data:
            head, _, rest = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?im)^Content-Length: *(\d+)", head)
            size = int(length[1]) if length else 0
            if len(rest) < size:
                break
            out += self.upgrade(client, head) if b"\r\nUpgrade:" in head else self.respond(head, rest[:size])
            data = rest[size:]
        if client in self.upgraded:
            echoed, data = self.echo(data)
            out += echoed
        self.pending[client] = data
        return out

    def on_readable(self, client: socket.socket) -> bool:
        """Whether the client is still there."""
        if TRICK == "unread" and self.requests > 0:  # as many responses as it takes to never be asked
            client.sendall(response("200 OK", HELLO) * 10)
            return (
                client.recv(1, socket.MSG_PEEK) != b"" and client.recv(PIECE, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
            )
        data = client.recv(PIECE)
        self.pending[client] = self.pending.get(client, b"") + data
        client.sendall(self.requests_in(client))
        return bool(data)

    def run(self, port: int) -> None:
        listener = socket.create_server(("127.0.0.1", port))
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                    continue
                client = key.fileobj
                assert isinstance(client, socket.socket)
                try:
                    stays = self.on_readable(client)
                except OSError:
                    stays = False
                if not stays:
                    selector.unregister(client)
                    client.close()


def main() -> None:
    if "--version" in sys.argv:
        fixture = Path(__file__).resolve().parent / "fixtures" / "build_release.txt"
        print("uvhttp 0.1.0\n" + fixture.read_text().split("\n", 1)[1], end="")
        return
    Server().run(int(sys.argv[sys.argv.index("--port") + 1]))


main()
