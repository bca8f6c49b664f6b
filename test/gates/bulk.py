#!/usr/bin/env python3
"""What a large body costs over HTTP/2 by TLS, against the same over HTTP/1: bytes copied per byte of content, counted by the
server's own memcpy and memmove (TLS library included), on both engines; records of TLS that the server sends; and of an upload
the pieces that the application gets, the credit that goes back, and the loop iterations. A frame that does not stand in one
place, or does not fill a record, breaks it, and credit that goes back in many steps."""
import itertools
import os
import pathlib
import ssl
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

PROGRAM = gate.BUILD_DIR / "test" / "bin" / "gate_bulk"
SIZE = 8 << 20  # bytes of a body
FRAME = 16000  # bytes of a DATA frame of ours: credit comes due at no multiple of it
STEP = 1 << 16  # bytes of credit that goes back at once: a quarter of a window
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 7, 8
NAMES = {"down": "a file", "up": "a streamed request body"}


class Connection:
    """Bytes by TLS; counts the records that come."""

    def __init__(self, port, protocol):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols([protocol])
        self.socket = gate.connect(port)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.records, self.cut = 0, b""
        self.retry(self.tls.do_handshake)
        self.push()

    def push(self):
        self.socket.sendall(self.outgoing.read())

    def retry(self, action):
        while True:
            try:
                return action()
            except ssl.SSLWantReadError:
                self.push()
                data = self.socket.recv(1 << 18)
                if not data:
                    sys.exit("BROKEN  the server closed the connection")
                self.incoming.write(data)
                self.count(data)

    def count(self, data):
        self.cut += data
        at = 0
        while at + 5 <= len(self.cut):
            size = 5 + int.from_bytes(self.cut[at + 3 : at + 5], "big")
            if at + size > len(self.cut):
                break
            self.records += 1
            at += size
        self.cut = self.cut[at:]

    def send(self, data):
        for at in range(0, len(data), 1 << 17):
            self.tls.write(data[at : at + (1 << 17)])
            self.push()

    def read(self, size):
        data = bytearray()
        while len(data) < size:
            data += self.retry(lambda: self.tls.read(min(1 << 18, size - len(data))))
        return bytes(data)


class Http1(Connection):
    def __init__(self, port):
        super().__init__(port, "http/1.1")

    def response(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.read(1)
        if not head.startswith(b"HTTP/1.1 200 "):
            sys.exit(f"BROKEN  {head[:60]!r}")
        return self.read(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))

    def get(self, path):
        self.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        return self.response()

    def post(self, path, body):
        self.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path, len(body)))
        self.send(body)
        return self.response()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


class Http2(Connection):
    def __init__(self, port):
        super().__init__(port, "h2")
        self.stream, self.windows, self.initial = -1, {0: 65535}, 65535
        self.body, self.ended, self.updates, self.lone = bytearray(), False, 0, 0
        largest = struct.pack(">HI", 4, 2**31 - 1)
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, largest))
        self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535)))

    def receive(self):
        """One frame."""
        head, flags, stream = struct.unpack(">IBI", self.read(9))
        payload = self.read(head >> 8)
        kind = head & 0xFF
        if kind in (RST_STREAM, GOAWAY):
            sys.exit("BROKEN  RST_STREAM or GOAWAY")
        if kind == DATA:
            self.body += payload
        if kind in (DATA, HEADERS):
            self.ended = bool(flags & 1)
        if kind == WINDOW_UPDATE:
            self.updates += 1
            self.lone += 1 if stream else -1
        if kind == WINDOW_UPDATE and stream in self.windows:
            self.windows[stream] += struct.unpack(">I", payload)[0]
        if kind == SETTINGS and not flags & 1:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == 4:
                    self.initial = value
            self.send(frame(SETTINGS, 1, 0))

    def request(self, method, path, flags):
        self.stream += 2
        self.windows = {0: self.windows[0], self.stream: self.initial}
        self.body, self.ended = bytearray(), False
        block = method + b"\x87\x41\x01a\x04" + bytes((len(path),)) + path
        self.send(frame(HEADERS, flags, self.stream, block))

    def response(self):
        while not self.ended:
            self.receive()
        return bytes(self.body)

    def get(self, path):
        self.request(b"\x82", path, 5)
        return self.response()

    def post(self, path, body):
        self.request(b"\x83", path, 4)
        at = 0
        while at < len(body):
            window = min(self.windows.values(), default=0)
            if window <= 0:
                self.receive()
                continue
            part = body[at : at + window]
            at += len(part)
            for stream in self.windows:
                self.windows[stream] -= len(part)
            pieces = [part[i : i + FRAME] for i in range(0, len(part), FRAME)]
            self.send(b"".join(frame(DATA, int(at == len(body) and piece is pieces[-1]), self.stream, piece) for piece in pieces))
        return self.response()


def counts(client):
    """What the server has counted, then what has come: records, frames of credit, and more of those of streams than of the
    connection's."""
    counted = [int(number) for number in client.get(b"/counts").split()]
    return [*counted, client.records, getattr(client, "updates", 0), getattr(client, "lone", 0)]


def transfer(client, what, content):
    """What it has added to the counts."""
    before = counts(client)
    if what == "down":
        good = client.get(b"/files/large.bin") == content
    else:
        good = int(client.post(b"/streamed", content)) == len(content)
    if not good:
        sys.exit(f"BROKEN  {what}: the content is wrong")
    return [after - count for count, after in zip(before, counts(client))]


def check_up(name, http1, http2):
    """A piece ends with its frame or with its record. Credit of the connection goes in the record of a stream's, each time."""
    _, pieces, iterations, records, updates, lone = http2
    gate.check(f"{name}: pieces", pieces, SIZE // FRAME + SIZE // 16384 + 3, f"HTTP/1: {http1[1]}")
    gate.check(f"{name}: loop iterations", iterations, SIZE // 16384, f"HTTP/1: {http1[2]}")
    gate.check(f"{name}: WINDOW_UPDATE frames", updates, 2 * (SIZE // STEP))
    gate.check(f"{name}: credit of the stream alone", lone, 0)
    gate.check(f"{name}: records", records, SIZE // STEP + 4)


def main():
    content = os.urandom(SIZE)
    for engine in ("uring", "epoll"):
        port, https_port = gate.free_port(), gate.free_port()
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "large.bin").write_bytes(content)
            with gate.running([PROGRAM, engine, str(port), str(https_port), directory], port):
                results = {}
                for kind, what in itertools.product((Http1, Http2), NAMES):
                    client = kind(https_port)
                    transfer(client, what, content)  # what is made once
                    results[kind, what] = transfer(client, what, content)
                    client.socket.close()
                for what, name in NAMES.items():
                    http1, http2 = results[Http1, what], results[Http2, what]
                    copied1, copied2 = http1[0] / SIZE, http2[0] / SIZE
                    gate.check(f"{engine}, {name}: bytes copied per byte", copied2, copied1 + 0.02, f"HTTP/1: {copied1:.3f}")
                    if what == "down":
                        gate.check(f"{engine}, {name}: records", http2[3], SIZE // 16375 + 3)
                    else:
                        check_up(f"{engine}, {name}", http1, http2)
                if min(result[0] for result in results.values()) < 0.9 * SIZE:
                    gate.check(f"{engine}: copies not seen", 1, 0)
    gate.finish()


main()
