"""Owns: clients of HTTP/2 for the tests: one that keeps to the rules (on PyPI's h2), and one that sends the frames it is
asked to (on hyperframe and hpack)."""
import dataclasses
import ssl
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hpack
from hyperframe import frame as frames

import wire
from wire import Closed

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclasses.dataclass
class Response:
    """Names of fields are in lower case, as they arrive."""

    fields: list = dataclasses.field(default_factory=list)
    received: bytearray = dataclasses.field(default_factory=bytearray)
    interim: list = dataclasses.field(default_factory=list)
    trailers: list = dataclasses.field(default_factory=list)
    ended: bool = False
    reset: int = None

    @property
    def status(self):
        return int(dict(self.fields)[":status"])

    @property
    def headers(self):
        return [field for field in self.fields if not field[0].startswith(":")]

    @property
    def body(self):
        return bytes(self.received)

    def all(self, name):
        return [value for key, value in self.fields if key == name.lower()]

    def header(self, name):
        values = self.all(name)
        assert len(values) < 2, f"{name} is repeated: {values}"
        return values[0] if values else None

    @property
    def announced(self):
        """Whether the head tells how long the body is."""
        return self.header("content-length") is not None

    @property
    def text(self):
        return self.body.decode()


def decoded(fields):
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]


def open_socket(address, context=None, name="a.test", session=None, ragged_eof=True, **options):
    """ragged_eof: an end without close_notify is one, too."""
    made = wire.open_socket(address, **options)
    if context:
        made = context.wrap_socket(made, server_hostname=name, session=session, suppress_ragged_eofs=ragged_eof)
        assert made.selected_alpn_protocol() == "h2"
    return made


class Client:
    """Streams are numbered as h2 does: 1, 3, 5. Windows open as the application reads unless `manual_windows`."""

    def __init__(self, address, context=None, settings=None, manual_windows=False, **options):
        self.socket = open_socket(address, context, **options)
        self.authority = "test"
        self.scheme = "https" if context else "http"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.manual_windows = manual_windows
        self.responses = {}
        self.goaways = []
        self.pending = b""
        self.pings = []
        self.events = []
        if settings:
            self.h2.local_settings.update(settings)
            self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.socket.sendall(data)

    # --- requests ---

    def start(self, method="GET", target="/", headers=(), end=True, flush=True, pseudo=()):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", self.scheme), (":authority", self.authority), (":path", target), *pseudo]
        fields = [(name.encode("latin-1"), str(value).encode("latin-1")) for name, value in [*head, *headers]]
        self.h2.send_headers(number, [(name.lower(), value) for name, value in fields], end_stream=end)
        self.responses[number] = Response()
        if flush:
            self.flush()
        return number

    def connect(self, target="/", headers=(), protocol="websocket"):
        """Extended CONNECT (RFC 8441)."""
        self.until(lambda: self.h2.remote_settings.enable_connect_protocol)
        return self.start("CONNECT", target, headers, end=False, pseudo=[(":protocol", protocol)])

    def send(self, number, data, end=False):
        """As far as the windows let it, taking what comes meanwhile; no further than to the end of the response."""
        at, response = 0, self.responses[number]
        while (at < len(data) or end) and not response.ended and response.reset is None:
            size = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(data) - at)
            if size == 0 and at < len(data):
                self.flush()
                self.receive()
                continue
            self.h2.send_data(number, data[at : at + size], end_stream=end and at + size == len(data))
            at += size
            if at == len(data):
                break
        self.flush()

    def cancel(self, number):
        self.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        self.flush()

    def get(self, target="/", headers=(), method="GET", body=None):
        number = self.start(method, target, headers, end=body is None)
        if body is not None:
            self.send(number, body, end=True)
        return self.finish(number)

    # --- what comes ---

    def receive(self):
        """Once; returns what happened."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise Closed
        events = self.h2.receive_data(self.without_goaway(data))
        for event in events:
            self.note(event)
        self.events += events
        self.flush()
        return events

    def without_goaway(self, data):
        """PyPI's h2 takes GOAWAY for the end of all streams: it must not see it."""
        self.pending += data
        found = b""
        while len(self.pending) >= 9:
            frame, size = frames.Frame.parse_frame_header(memoryview(self.pending[:9]))
            if len(self.pending) < 9 + size:
                break
            if isinstance(frame, frames.GoAwayFrame):
                frame.parse_body(memoryview(self.pending[9 : 9 + size]))
                self.goaways.append(frame)
            else:
                found += self.pending[: 9 + size]
            self.pending = self.pending[9 + size :]
        return found

    @property
    def goaway(self):
        """The last one; None: none has come."""
        return self.goaways[-1] if self.goaways else None

    def note(self, event):
        response = self.responses.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.ResponseReceived):
            response.fields = decoded(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            response.interim.append(decoded(event.headers))
        elif isinstance(event, h2.events.TrailersReceived):
            response.trailers = decoded(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            response.received += event.data
            if not self.manual_windows and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            response.ended = True
        elif isinstance(event, h2.events.StreamReset):
            response.reset = event.error_code
        elif isinstance(event, h2.events.PingAckReceived):
            self.pings.append(event.ping_data)

    def until(self, what):
        while not what():
            self.receive()

    def finish(self, number):
        response = self.responses[number]
        self.until(lambda: response.ended or response.reset is not None)
        return response

    def finish_all(self):
        return [self.finish(number) for number in list(self.responses)]

    def sync(self):
        """Returns when the server has seen what was sent before."""
        count = len(self.pings)
        self.h2.ping(b"%08d" % count)
        self.flush()
        self.until(lambda: len(self.pings) > count)

    def ended(self):
        """Reads to the end of the connection."""
        try:
            while True:
                self.receive()
        except (Closed, ConnectionError, ssl.SSLError):
            return True


class Raw:
    """Sends frames as they are, and collects what comes. The preface and empty SETTINGS are sent, and the server's
    SETTINGS acknowledged, unless `quiet`."""

    def __init__(self, address, context=None, quiet=False, settings=None, **options):
        self.socket = open_socket(address, context, **options)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.pending = b""
        self.seen = []
        if not quiet:
            self.socket.sendall(PREFACE)
            self.send(frames.SettingsFrame(0, settings=settings or {}))
            self.until(frames.SettingsFrame)
            self.send(frames.SettingsFrame(0, flags=["ACK"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *what):
        self.socket.sendall(b"".join(one if isinstance(one, bytes) else one.serialize() for one in what))

    def block(self, method="GET", path="/", fields=(), scheme="http", authority="test"):
        head = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
        return self.encoder.encode(head + list(fields))

    def headers(self, number, flags=("END_HEADERS", "END_STREAM"), **options):
        return frames.HeadersFrame(number, data=self.block(**options), flags=list(flags))

    def request(self, number, **options):
        self.send(self.headers(number, **options))

    def receive(self):
        """The next frame; Closed at the end of the connection."""
        while True:
            if len(self.pending) >= 9:
                frame, size = frames.Frame.parse_frame_header(memoryview(self.pending[:9]))
                if len(self.pending) >= 9 + size:
                    frame.parse_body(memoryview(self.pending[9 : 9 + size]))
                    self.pending = self.pending[9 + size :]
                    self.seen.append(frame)
                    return frame
            try:
                data = self.socket.recv(1 << 16)
            except (ConnectionError, ssl.SSLError) as error:
                raise Closed from error
            if not data:
                raise Closed
            self.pending += data

    def until(self, kind, number=None, flag=None):
        while True:
            frame = self.receive()
            if isinstance(frame, kind) and (number is None or frame.stream_id == number) and (flag is None or flag in frame.flags):
                return frame

    def rest(self):
        """All frames up to the end of the connection."""
        found = []
        try:
            while True:
                found.append(self.receive())
        except Closed:
            return found

    def expect_goaway(self, code):
        found = [frame for frame in self.rest() if isinstance(frame, frames.GoAwayFrame)]
        assert found and found[-1].error_code == code, self.seen
        return found[-1]

    def expect_reset(self, number, code):
        frame = self.until(frames.RstStreamFrame, number)
        assert frame.error_code == code, frame
        return frame

    def status(self, number):
        """Of the next response; the header block must be one frame."""
        frame = self.until(frames.HeadersFrame, number)
        return int(dict(self.decoder.decode(frame.data))[":status"])

    def sync(self):
        self.send(frames.PingFrame(0, opaque_data=b"syncsync"))
        self.until(frames.PingFrame, flag="ACK")


def wait_until(what, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Tunnel:
    """A WebSocket on a stream of its own connection (RFC 8441), with the interface of wire.Connection as far as bytes go."""

    def __init__(self, address, target="/", headers=(), early=b"", protocol="websocket", context=None, receive_buffer=None):
        self.client = Client(address, context, manual_windows=True, receive_buffer=receive_buffer)
        self.buffer = bytearray()
        self.number = self.client.connect(target, headers, protocol)
        self.response = self.client.responses[self.number]
        if early:
            self.client.send(self.number, early)
        self.client.until(lambda: self.response.fields)

    @property
    def socket(self):
        return self.client.socket

    def close(self):
        self.client.close()

    def reset(self):
        self.client.cancel(self.number)

    def send(self, data):
        self.client.send(self.number, data)

    def send_anyway(self, data):
        """Sends although the server may have ended the stream. Returns whether everything went out."""
        try:
            self.send(data)
            return True
        except (OSError, Closed, h2.exceptions.ProtocolError):
            return False

    def end(self):
        self.client.h2.end_stream(self.number)
        self.client.flush()

    def quiet(self):
        """Whether no byte has come, when the server has seen what was sent before."""
        self.client.sync()
        return not self.buffer and not self.response.received

    def _more(self):
        if self.response.ended or self.response.reset is not None:
            raise wire.Closed(bytes(self.buffer[:2000]))
        try:
            self.client.receive()
        except (Closed, ConnectionError) as error:
            raise wire.Closed(bytes(self.buffer[:2000])) from error

    def _fetch(self):
        """The window opens with what is read."""
        size = len(self.response.received)
        self.buffer += self.response.received
        self.response.received.clear()
        if size and not self.response.ended and self.response.reset is None:
            self.client.h2.acknowledge_received_data(size, self.number)
            self.client.flush()

    def _take(self, size):
        self._fetch()
        while len(self.buffer) < size:
            self._more()
            self._fetch()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data
