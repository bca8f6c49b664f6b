"""Owns: a client that sends exactly the given bytes, and reads responses strictly."""
import dataclasses
import select
import socket
import struct

TIMEOUT_SECONDS = 20


class Closed(Exception):
    """The connection ended inside, or before, a response."""


@dataclasses.dataclass
class Response:
    status: int
    reason: str
    minor: int
    headers: list
    body: bytes = b""

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name):
        values = self.all(name)
        assert len(values) < 2, f"{name} is repeated: {values}"
        return values[0] if values else None

    @property
    def text(self):
        return self.body.decode()

    @property
    def announced(self):
        """Whether the head tells how long the body is."""
        return self.header("Content-Length") is not None


def head(method="GET", target="/", headers=(), version="HTTP/1.1", host="test"):
    lines = [f"{method} {target} {version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def request(method="GET", target="/", headers=(), body=None, **options):
    fields = list(headers)
    if body is not None:
        fields.append(("Content-Length", len(body)))
    return head(method, target, fields, **options) + (body or b"")


def chunk(part):
    return b"%x\r\n%b\r\n" % (len(part), part)


def chunked(*parts, trailer=b""):
    return b"".join(map(chunk, parts)) + b"0\r\n" + trailer + b"\r\n"


def open_socket(address, timeout=TIMEOUT_SECONDS, receive_buffer=None, source=None, segment=None):
    """address: (host, port) or the path of a Unix socket ("@name": abstract)."""
    if isinstance(address, str):
        made = socket.socket(socket.AF_UNIX)
        target = "\0" + address[1:] if address.startswith("@") else address
    else:
        made = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        target = address
    made.settimeout(timeout)
    try:
        if receive_buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if segment:  # those of the loopback are so large that a narrow window waits for timers of the kernel
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        if source:
            made.bind(source)
        made.connect(target)
    except OSError:
        made.close()
        raise
    return made


def reset_socket(one):
    """Closes with RST."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


class Connection:
    def __init__(self, address, **options):
        self.socket = open_socket(address, **options)
        self.buffer = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        reset_socket(self.socket)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data):
        self.socket.sendall(data)

    def send_anyway(self, data):
        """Sends although the server may have closed. Returns whether everything went out."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    # --- reading ---

    def _more(self):
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(bytes(self.buffer[:2000]))
        self.buffer += data

    def _take(self, size):
        while len(self.buffer) < size:
            self._more()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def _until(self, end):
        start = 0
        while True:
            at = self.buffer.find(end, start)
            if at >= 0:
                return self._take(at + len(end))[: -len(end)]
            start = max(0, len(self.buffer) - len(end))
            self._more()

    def chunk(self):
        """The next one, complete; empty: the last."""
        line = self._until(b"\r\n")
        assert line and all(c in b"0123456789abcdefABCDEF" for c in line), line
        data = self._take(int(line, 16))
        assert self._take(2) == b"\r\n"
        return data

    def _chunks(self):
        body = b""
        while part := self.chunk():
            body += part
        return body

    def response_head(self):
        lines = self._until(b"\r\n\r\n").split(b"\r\n")
        assert not any(b"\n" in line or b"\r" in line for line in lines), lines
        version, status, reason = lines[0].decode("latin-1").split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
        headers = []
        for line in lines[1:]:
            name, value = line.decode("latin-1").split(":", 1)
            assert name and name == name.strip(), line
            headers.append((name, value.strip()))
        return Response(int(status), reason, int(version[-1]), headers)

    def response(self, method="GET"):
        """The next response, complete; interim ones (1xx) too."""
        return self.response_body(self.response_head(), method)

    def response_body(self, response, method="GET"):
        """What follows its head."""
        lengths = response.all("Content-Length")
        coding = response.header("Transfer-Encoding")
        assert len(lengths) < 2 and not (lengths and coding), response.headers
        if response.status < 200 or response.status in (204, 304):
            assert response.status == 304 or not lengths, "RFC 9110 section 8.6"
            return response
        if method == "HEAD":
            return response
        if coding:
            assert coding.lower() == "chunked" and response.minor == 1
            response.body = self._chunks()
        elif lengths:
            response.body = self._take(int(lengths[0]))
        else:
            response.body = self.rest()
        return response

    def rest(self):
        """Everything until the server closes."""
        try:
            while True:
                self._more()
        except Closed:
            pass
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def get(self, target="/", headers=(), method="GET", body=None, **options):
        self.send(request(method, target, headers, body, **options))
        return self.response(method)

    def quiet(self, seconds=0.0):
        """Whether nothing has come."""
        return not self.buffer and not select.select([self.socket], [], [], seconds)[0]

    def assert_closed(self):
        """The server closes, and has sent nothing else."""
        data = self.rest()
        assert data == b"", data[:500]
