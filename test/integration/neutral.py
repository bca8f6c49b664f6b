"""Owns: one client for both protocols, for tests that do not speak of bytes: connections that ask and wait (`get`), or start a
request and continue with it later (`start`)."""
import wire
import wire_h2


class Http1Request:
    """A request whose body or response has not been sent or read yet."""

    def __init__(self, connection, method, chunked):
        self.connection, self.method, self.chunked = connection, method, chunked
        self.received = b""
        self.head = None

    def send(self, data):
        self.connection.send(wire.chunk(data) if self.chunked else data)

    def end(self):
        if self.chunked:
            self.connection.send(b"0\r\n\r\n")

    def cancel(self):
        """A client of HTTP/1 can only go."""
        self.connection.reset()

    def wait_head(self):
        self.head = self.head or self.connection.response_head()
        return self.head

    def wait_body(self, text):
        """Until `text` has come, of a body in chunks; what is behind it is kept."""
        coding = self.wait_head().header("Transfer-Encoding")
        assert coding == "chunked"
        while text not in self.received:
            self.received += self.connection.chunk()
        self.received = self.received.partition(text)[2]

    def response(self):
        response = self.connection.response_body(self.wait_head(), self.method)
        response.body = self.received + response.body
        return response


class Http1(wire.Connection):
    version = "HTTP/1.1"

    def start(self, target="/", headers=(), method="GET", body=None, more=False):
        """`more`: the body follows by send() and end(), in chunks unless its length is among the headers."""
        chunked = more and not any(name.lower() == "content-length" for name, _ in headers)
        fields = [*headers, ("Transfer-Encoding", "chunked")] if chunked else headers
        self.send(wire.request(method, target, fields, body))
        return Http1Request(self, method, chunked)


class Http2Request:
    def __init__(self, connection, number):
        self.connection, self.number = connection, number
        self.seen = connection.responses[number]

    def send(self, data):
        self.connection.send(self.number, data)

    def end(self):
        if not self.seen.ended:  # a response may come before the end of the request
            self.connection.h2.end_stream(self.number)
            self.connection.flush()

    def cancel(self):
        self.connection.cancel(self.number)

    def wait(self, what):
        self.connection.until(lambda: what() or self.seen.ended or self.seen.reset is not None)
        if not what():
            raise wire.Closed(f"stream {self.number}: {self.seen.reset}, {self.seen.received[:2000]}")

    def wait_head(self):
        self.wait(lambda: self.seen.fields)
        return self.seen

    def wait_body(self, text):
        received = self.seen.received
        self.wait(lambda: text in received)
        del received[: received.index(text) + len(text)]

    def response(self):
        """With what wait_body() has left of the body."""
        self.wait(lambda: self.seen.ended)
        return self.seen


class Http2(wire_h2.Client):
    """The same as Http1. Requests on one connection do not wait for each other."""

    version = "HTTP/2.0"

    def start(self, target="/", headers=(), method="GET", body=None, more=False):
        if body is not None and not any(name.lower() == "content-length" for name, _ in headers):
            headers = [*headers, ("content-length", len(body))]
        number = super().start(method, target, headers, end=body is None and not more)
        if body is not None:
            self.send(number, body, end=True)
        return Http2Request(self, number)

    def get(self, target="/", headers=(), method="GET", body=None):
        return self.start(target, headers, method, body).response()

    def reset(self):
        wire.reset_socket(self.socket)

    def assert_closed(self):
        """The server closes, and has sent nothing else."""
        assert self.ended() and self.goaways


PROTOCOLS = {"http1": Http1, "http2": Http2}
