"""Owns: clients that send numbered requests and check that each gets its own number back, while servers replace each other.

Each speaks one protocol over one connection at a time. A batch of requests is on the wire before the first response is read.
HTTP/1: every request of a batch has to be responded to, also when the last response has `Connection: close`. HTTP/2: the same,
except for streams above the last one that a GOAWAY names, which the server has not processed: they are repeated and counted.
WebSocket: a message that crosses the Close frame of the server (1001) has no response by the protocol: it is repeated and
counted."""
import re
import socket
import ssl
import struct

TIMEOUT_SECONDS = 60
DIGITS = 10
HTTP1_RESPONSE = re.compile(rb"HTTP/1\.1 (\d\d\d) [^\r]*\r\n((?:[^\r]+\r\n)*)\r\n(\d{%d})" % DIGITS)


class Failed(Exception):
    """A request was lost, or its response is not its own."""


class Client:
    """Numbers run from `first` on; `done` counts verified responses, `repeated` those that had to be sent again."""

    tls_protocols = ("http/1.1",)

    def __init__(self, address, first, depth, batches_per_connection, secure):
        self.address, self.number, self.depth, self.batches_per_connection = address, first, depth, batches_per_connection
        self.context = None
        self.done, self.repeated, self.connections = 0, 0, 0
        self.socket = None
        if secure:
            self.context = ssl.create_default_context()
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
            self.context.set_alpn_protocols(self.tls_protocols)

    def open(self):
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        plain = socket.socket(family, socket.SOCK_STREAM)
        plain.settimeout(TIMEOUT_SECONDS)
        plain.connect(self.address)
        if family == socket.AF_INET:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = self.context.wrap_socket(plain) if self.context else plain
        self.data = b""
        self.batches, self.ends = 0, False
        self.connections += 1
        self.greet()

    def greet(self):
        """What comes before the first request."""

    def leave(self):
        """What comes behind the last response."""

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def receive(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise Failed("the server closed with requests that it had not responded to")
        self.data += data

    def start_batch(self):
        if not self.socket:
            self.open()
        numbers = range(self.number, self.number + self.depth)
        self.socket.sendall(self.batch(numbers))

    def finish_batch(self):
        count = self.read_batch(range(self.number, self.number + self.depth))
        self.number += count
        self.done += count
        self.repeated += self.depth - count
        self.batches += 1
        if not self.ends and self.batches >= self.batches_per_connection:
            self.leave()
            self.ends = True
        if self.ends:
            self.close()


class Http1(Client):
    def batch(self, numbers):
        return b"".join(b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%0*d" % (DIGITS, DIGITS, number) for number in numbers)

    def read_batch(self, numbers):
        expected = iter(numbers)
        left = len(numbers)
        while left:
            self.receive()
            at = 0
            for match in HTTP1_RESPONSE.finditer(self.data):
                if match.start() != at or match[1] != b"200" or int(match[3]) != next(expected):
                    raise Failed(f"not the response to its request: {self.data[at:at + 400]!r}")
                at = match.end()
                left -= 1
                if b"\r\nconnection: close" in (b"\r\n" + match[2]).lower():
                    self.ends = True
                    if left:
                        raise Failed(f"`Connection: close` with {left} requests of the batch without a response")
            self.data = self.data[at:]
        return len(numbers)


class Http2(Client):
    tls_protocols = ("h2",)
    # :method POST, :scheme http, :path /api and :authority localhost as literals without indexing.
    FIELDS = b"\x83\x86\x04\x04/api\x01\x09localhost"
    HEADERS, DATA, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 1, 0, 3, 4, 6, 7, 8

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload

    def greet(self):
        self.stream, self.credit, self.last = 1, 65535, 2**31 - 1
        fields = self.FIELDS if not self.context else self.FIELDS.replace(b"\x86", b"\x87")
        self.head_of = lambda stream: self.frame(self.HEADERS, 4, stream, fields)
        window = self.frame(self.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(self.SETTINGS, 0, 0, b"") + window)

    def leave(self):
        self.socket.sendall(self.frame(self.GOAWAY, 0, 0, struct.pack(">II", 0, 0)))

    def batch(self, numbers):
        while self.credit < DIGITS * len(numbers):
            self.receive()
            self.read_frames({}, {})
        frames = []
        for number in numbers:
            frames += self.head_of(self.stream), self.frame(self.DATA, 1, self.stream, b"%0*d" % (DIGITS, number))
            self.stream += 2
        self.credit -= DIGITS * len(numbers)
        return b"".join(frames)

    def read_frames(self, bodies, expected):
        """Consumes the complete frames; bodies of streams, and those that have ended leave `expected`."""
        at, size = 0, len(self.data)
        while size - at >= 9:
            word, flags, stream = struct.unpack_from(">IBI", self.data, at)
            length, kind = word >> 8, word & 255
            if size - at < 9 + length:
                break
            payload = self.data[at + 9 : at + 9 + length]
            at += 9 + length
            if kind == self.HEADERS and payload.lstrip(b"\x20\x3f")[:1] != b"\x88":
                raise Failed(f"the status is not 200: {payload!r}")
            if kind == self.DATA:
                bodies[stream] = bodies.get(stream, b"") + payload
            if kind in (self.HEADERS, self.DATA) and flags & 1:
                if bodies.pop(stream, None) != b"%0*d" % (DIGITS, expected.pop(stream)):
                    raise Failed(f"stream {stream}: not the response to its request")
            elif kind == self.RST_STREAM:
                raise Failed(f"stream {stream} was reset: {payload!r}")
            elif kind == self.SETTINGS and not flags & 1:
                self.socket.sendall(self.frame(self.SETTINGS, 1, 0, b""))
            elif kind == self.PING and not flags & 1:
                self.socket.sendall(self.frame(self.PING, 1, 0, payload))
            elif kind == self.WINDOW_UPDATE and stream == 0:
                self.credit += struct.unpack(">I", payload)[0]
            elif kind == self.GOAWAY:
                last, code = struct.unpack_from(">II", payload)
                if code:
                    raise Failed(f"GOAWAY with code {code}")
                self.last, self.ends = last, True
        self.data = self.data[at:]

    def read_batch(self, numbers):
        first = self.stream - 2 * len(numbers)
        expected = {first + 2 * index: number for index, number in enumerate(numbers)}
        bodies = {}
        # Streams are refused from the end on, so what is done is a sequence.
        while any(stream <= self.last for stream in expected):
            self.receive()
            self.read_frames(bodies, expected)
        return len(numbers) - len(expected)


class WebSocket(Client):
    def greet(self):
        self.socket.sendall(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        while b"\r\n\r\n" not in self.data:
            self.receive()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101 "):
            raise Failed(f"no upgrade: {head!r}")

    def batch(self, numbers):
        return b"".join(b"\x81%c\0\0\0\0%0*d" % (0x80 | DIGITS, DIGITS, number) for number in numbers)

    def read_batch(self, numbers):
        size, done = 2 + DIGITS, 0
        while done < len(numbers):
            whole = len(self.data) // size * size
            for at in range(0, whole, size):
                if self.data[at] == 0x88:
                    break
                if self.data[at : at + size] != b"\x81%c%0*d" % (DIGITS, DIGITS, numbers[done]):
                    raise Failed(f"not the echo of message {numbers[done]}: {self.data[at : at + size]!r}")
                done += 1
            else:
                at = whole
            self.data = self.data[at:]
            if len(self.data) >= 4 and self.data[0] == 0x88:
                if self.data[2:4] != struct.pack(">H", 1001):
                    raise Failed(f"closed: {self.data[:20]!r}")
                self.ends = True
                break
            if done < len(numbers):
                self.receive()
        return done

    def leave(self):
        self.socket.sendall(b"\x88\x82\0\0\0\0\x03\xe8")


KINDS = {"http1": (Http1, False), "http2": (Http2, False), "tls": (Http1, True), "tls-http2": (Http2, True), "websocket": (WebSocket, False), "tls-websocket": (WebSocket, True)}


def run(kind, address, first, connections, depth, batches_per_connection, ends, report):
    """In a process of its own: a batch on each of some connections, then their responses, until ends() or a failure."""
    of, secure = KINDS[kind]
    clients = [of(address, first + index * 10 ** (DIGITS - 3), depth, batches_per_connection, secure) for index in range(connections)]
    failure = ""
    try:
        while not ends():
            for client in clients:
                client.start_batch()
            for client in clients:
                client.finish_batch()
            report(sum(client.done for client in clients))
    except (OSError, Failed, LookupError) as error:
        failure = f"{kind}: {type(error).__name__}: {error}"
    for client in clients:
        client.close()
    return sum(client.done for client in clients), sum(client.repeated for client in clients), sum(client.connections for client in clients), failure
