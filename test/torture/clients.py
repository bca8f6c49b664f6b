"""Owns: clients that judge what they get while calls of the server fail: a right response, a clean error, or a connection that
ends; never a byte that is not theirs, and never silence."""
import contextlib
import functools
import ssl
import struct

import h2.exceptions

import wire
import wire_h2

SECONDS = 20  # of silence that are a fault: the server's own timeouts are 1 s, and the machine may stand still for some
ERRORS = {408, 500, 502, 503, 507}
SEEDS = 60
MASK = (1 << 64) - 1
BROKEN_RECORDS = ("BAD_RECORD", "DECRYPTION_FAILED", "WRONG_VERSION", "UNEXPECTED_RECORD", "UNEXPECTED_MESSAGE", "BAD_DECRYPT", "BAD_PACKET")


class Fault(Exception):
    """What must never be."""


@functools.lru_cache(maxsize=4096)
def pattern(seed, size):
    """As pattern.h."""
    first, step = (seed + 1) * 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD
    words = ((first + at * step) & MASK for at in range((size + 7) // 8))
    return struct.pack(f"<{(size + 7) // 8}Q", *words)[:size]


class Seeds:
    """No two requests that are near each other ask for the same bytes."""

    def __init__(self):
        self.last = 0

    def next(self):
        self.last = self.last % SEEDS + 1
        return self.last * 3  # a body that is sent back has the seed of the next


def unchunked(data):
    """As much of a chunked body as has come."""
    body = b""
    while (end := data.find(b"\r\n")) >= 0:
        size = int(data[:end] or b"0", 16)
        body += data[end + 2 : end + 2 + size]
        data = data[end + 4 + size :]
    return body


def judge_part(got, body):
    """got: the raw bytes of an incomplete response."""
    head, end, rest = bytes(got).partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1") and end:
        head, end, rest = rest.partition(b"\r\n\r\n")
    if not end or not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 206")):
        if head and not b"HTTP/1.1 ".startswith(head[:9]):
            raise Fault(f"foreign bytes: {head[:80]!r}")
        return
    rest = unchunked(rest) if b"chunked" in head.lower() else rest
    if not body.startswith(rest):
        raise Fault(f"foreign bytes in a body of {len(body)} that was cut at {len(rest)}")


def judge(response, body, seed, errors, statuses=(200,)):
    """Of a whole response: "ok" or "error"."""
    if response.status in statuses:
        if response.body != body:
            raise Fault(f"foreign bytes: {len(response.body)} of {len(body)}, status {response.status}")
        if seed is not None and response.header("X-Seed") not in (str(seed), None):
            raise Fault(f"the response of another: {response.header('X-Seed')} instead of {seed}")
        return "ok"
    if response.status not in errors:
        raise Fault(f"status {response.status}: {response.body[:80]!r}")
    if len(response.body) > 1000:
        raise Fault(f"an error of {len(response.body)} bytes")
    return "error"


@contextlib.contextmanager
def watched():
    """Converts what a broken stream makes of a client into faults."""
    try:
        yield
    except TimeoutError as error:
        raise Fault("silence") from error
    except (AssertionError, ValueError, h2.exceptions.ProtocolError) as error:
        raise Fault(f"foreign bytes: {type(error).__name__} {error}") from error
    except ssl.SSLError as error:
        if any(word in str(error) for word in BROKEN_RECORDS):
            raise Fault(f"foreign bytes in a record: {error}") from error
        raise


class Client(wire.Connection):
    """HTTP/1."""

    def __init__(self, run, tls=False, address=None, **options):
        self.run, self.got, self.buffer, self.over = run, bytearray(), bytearray(), False
        self.socket = None
        try:
            with watched():
                self.socket = wire.open_socket(address or (run.tls_address if tls else run.address), timeout=SECONDS, **options)
                if tls:
                    self.socket = run.context.wrap_socket(self.socket)
        except OSError:
            self.close()
            self.socket, self.over = None, True

    def _more(self):
        before = len(self.buffer)
        super()._more()
        self.got += self.buffer[before:]

    def close(self):
        if self.socket:
            self.socket.close()

    def send(self, data):
        """The server may have responded already, and closed."""
        if not self.socket:
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            super().send(data)

    def ask(self, target, body, seed=None, method="GET", headers=(), data=None, parts=None, errors=(), statuses=(200,)):
        """One request. body: what has to come back; data: the body of the request; parts: the same, in chunks."""
        fields = [*headers, ("Transfer-Encoding", "chunked")] if parts else headers
        self.expect([(wire.request(method, target, fields, data), parts or [])], [(body, seed, method, {*ERRORS, *errors}, statuses)])

    def expect(self, requests, expected):
        """Sends all requests, then reads all responses."""
        if self.over:
            return self.run.note("closed")
        with watched():
            for head, parts in requests:
                self.send(head)
                for part in parts:
                    self.send(wire.chunk(part))
                if parts:
                    self.send(b"0\r\n\r\n")
        for one in expected:
            self.read(*one)

    def read(self, body, seed, method, errors, statuses):
        self.got = bytearray(self.buffer)
        try:
            with watched():
                response = self.response(method)
        except (wire.Closed, OSError):
            self.over = True
            judge_part(self.got, body)
            return self.run.note("cut" if self.got else "closed")
        self.run.note(judge(response, body, seed, errors, statuses))
        self.over = (response.header("Connection") or "").lower() == "close"

    def reset(self):
        if self.socket:
            super().reset()

    def half_close(self):
        if self.socket:
            super().half_close()

    def ask_admin(self, method, target, right, body=None):
        """right(body): whether it is what the admin listener responds."""
        if self.over:
            return self.run.note("closed")
        fields = [] if body is None else [("Content-Type", "application/json")]
        try:
            with watched():
                self.send(wire.request(method, target, fields, body, host="localhost"))
                response = self.response(method)
                good = response.status == 200 and right(response.body)
        except (wire.Closed, OSError):
            self.over = True
            return self.run.note("cut" if self.buffer else "closed")
        self.over = (response.header("Connection") or "").lower() == "close"
        if not good and response.status not in ERRORS:
            raise Fault(f"{target}: {response.status} {bytes(response.body[:200])!r}")
        self.run.note("ok" if good else "error")

    def finish(self):
        """Nothing may have come that was not asked for."""
        if self.buffer and not self.over:
            raise Fault(f"foreign bytes behind a response: {bytes(self.buffer[:80])!r}")
        self.close()


class Client2:
    """HTTP/2: all requests at once."""

    def __init__(self, run, tls=False):
        self.run = run
        self.asked = {}
        self.client = None
        with watched(), contextlib.suppress(OSError, wire.Closed):
            address = run.tls_address if tls else run.address
            self.client = wire_h2.Client(address, run.context2 if tls else None, timeout=SECONDS)

    def start(self, target, body, seed, method="GET", data=None):
        if not self.client:
            return
        with watched(), contextlib.suppress(OSError, wire.Closed):
            number = self.client.start(method, target, end=data is None)
            self.asked[number] = (body, seed)
            if data is not None:
                self.client.send(number, data, end=True)

    def finish(self):
        ended = not self.client
        for number in self.asked:
            if not ended:
                try:
                    with watched():
                        self.client.finish(number)
                except (OSError, wire.Closed):
                    ended = True
        for number, (body, seed) in self.asked.items():
            self.run.note(self.outcome(self.client.responses[number], body, seed))
        if not self.asked:
            self.run.note("closed")
        if self.client:
            self.client.close()

    def outcome(self, response, body, seed):
        if response.ended and response.reset is None:
            return judge(response, body, seed, ERRORS)
        if response.fields and response.status == 200 and not body.startswith(response.body):
            raise Fault("foreign bytes on a stream")
        return "cut" if response.fields else "closed"


class WebSocket(Client):
    """RFC 6455, without extensions."""

    def __init__(self, run, target, tls=False):
        super().__init__(run, tls)
        if self.over:
            return
        fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
        try:
            with watched():
                super(Client, self).send(wire.request("GET", target, fields))
                head = self.response_head()
        except (OSError, wire.Closed):
            self.over = True
            return
        if head.status != 101:
            self.run.note(judge(self.response_body(head), b"", None, ERRORS))
            self.over = True

    def tell(self, opcode, payload, fin=True):
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
        self.send(bytes([opcode | 0x80 * fin]) + length + bytes(4) + payload)

    def frame(self):
        first, size = self._take(2)
        size = struct.unpack(">H", self._take(2))[0] if size == 126 else size
        return first, self._take(size)

    def hear(self, payload, opcode=2, unless=None):
        """The next message has to be this one, whole in one frame; or the connection ends, with a close frame or without; or it is
        the pong `unless`, of a ping that was sent behind: then it was left out. Returns whether it was heard."""
        if self.over:
            return self.run.note("closed")
        try:
            with watched():
                first, data = self.frame()
        except (OSError, wire.Closed):
            self.over = True
            return self.run.note("cut")
        if first == 0x88 and opcode != 8:
            self.over = True
            return self.run.note("error")
        if unless is not None and (first, data) == (0x8A, unless):
            return self.run.note("error")
        if first != opcode | 0x80 or data != payload:
            raise Fault(f"foreign bytes: a frame {first:#x} of {len(data)}")
        self.run.note("ok")
        return True
