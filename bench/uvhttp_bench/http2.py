"""Owns: one request over HTTP/2, for probes: in clear by prior knowledge, over TLS by ALPN."""

import socket
import ssl
from collections.abc import Sequence
from contextlib import closing

import h2.config
import h2.connection
import h2.events
import h2.exceptions

SECONDS = 30


class ProtocolError(OSError):
    """The server does not speak it, or not well."""


def _connect(host: str, port: int, scheme: str) -> socket.socket:
    raw = socket.create_connection((host, port), SECONDS)
    if scheme == "http":
        return raw
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is the one made for this run
    context.set_alpn_protocols(["h2"])
    secured = context.wrap_socket(raw)
    if secured.selected_alpn_protocol() != "h2":
        secured.close()
        raise ProtocolError("it does not choose h2 by ALPN")
    return secured


class _Exchange:
    """A request and what has come of its response."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.status, self.body, self.ended = 0, b"", False
        self._h2.initiate_connection()

    def send(self, fields: Sequence[tuple[str, str]], body: bytes) -> None:
        self._h2.send_headers(1, list(fields), end_stream=not body)
        at = 0
        while at < len(body):
            size = min(self._h2.local_flow_control_window(1), self._h2.max_outbound_frame_size, len(body) - at)
            if size == 0:
                self.receive()
                continue
            self._h2.send_data(1, body[at : at + size], end_stream=at + size == len(body))
            at += size
        self._flush()

    def receive(self) -> None:
        self._flush()
        data = self._peer.recv(1 << 16)
        if not data:
            raise ProtocolError("it closes the connection before the end of the response")
        if data.startswith(b"HTTP/1"):
            raise ProtocolError("it speaks HTTP/1 here")
        for event in self._h2.receive_data(data):
            self._note(event)
        self._flush()

    def _flush(self) -> None:
        self._peer.sendall(self._h2.data_to_send())

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.status = next(int(value) for name, value in event.headers if name in (":status", b":status"))
        elif isinstance(event, h2.events.DataReceived):
            self.body += event.data
            if event.flow_controlled_length:
                self._h2.acknowledge_received_data(event.flow_controlled_length, 1)
        elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
            raise ProtocolError(f"it ends the stream with {event.error_code!r}")
        elif isinstance(event, h2.events.StreamEnded):
            self.ended = True


def ask(
    host: str, port: int, scheme: str, path: str, method: str, body: bytes, headers: Sequence[tuple[str, str]]
) -> tuple[int, bytes]:
    """Status and body of one response."""
    fields = [(":method", method), (":scheme", scheme), (":authority", f"{host}:{port}"), (":path", path)]
    fields += [(name.lower(), value) for name, value in headers]
    if body:
        fields += [("content-type", "application/json"), ("content-length", str(len(body)))]
    with closing(_connect(host, port, scheme)) as peer:
        exchange = _Exchange(peer)
        try:
            exchange.send(fields, body)
            while not exchange.ended:
                exchange.receive()
        except h2.exceptions.H2Error as error:
            raise ProtocolError(f"it does not speak HTTP/2 well: {str(error) or type(error).__name__}") from error
    return exchange.status, exchange.body
