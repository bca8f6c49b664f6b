"""Owns: what the kernel moved over the connections of one server. When a TCP socket is destroyed, sock_diag sends its
counters to every listener of the network namespace: exact bytes by connection, whatever else uses the loopback."""

import contextlib
import errno
import functools
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

NETLINK_SOCK_DIAG = 4
DESTROYED_IPV4, DESTROYED_IPV6 = 1 << 0, 1 << 2  # SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY
SOCK_DIAG_BY_FAMILY, INET_DIAG_INFO = 20, 2
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 8 << 20
TRY_SECONDS = 1.0  # for the event of a socket that this program has closed itself
CLOSED_SECONDS = 3.0  # for the server to close what its clients have closed

MESSAGE = struct.Struct("=IHHII")  # nlmsghdr
ATTRIBUTE = struct.Struct("=HH")
PORTS = struct.Struct("!HH")
PORTS_AT, QUEUE_AT, DIAG_BYTES = 4, 56, 72  # in inet_diag_msg
RECEIVED_AT, SENT_AT, SENT_AGAIN_AT, INFO_BYTES = 128, 200, 208, 216  # in tcp_info


@dataclass(frozen=True)
class Moved:
    """Of all connections of a server that carried something and are closed. A FIN counts as a byte of what was received."""

    connections: int  # whose client has sent something: a server of HTTP/2 sends first, even to one that only looks
    received: int  # by the server
    unread: int  # of that, what the server never read
    sent: int  # by the server, each byte once


@dataclass(frozen=True)
class Closed:
    """One destroyed socket."""

    port: int  # its own
    received: int
    unread: int
    sent: int


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        size, kind = ATTRIBUTE.unpack_from(data, at)
        if size < ATTRIBUTE.size:
            return
        yield kind, data[at + ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3


def parse(data: bytes) -> Iterator[Closed]:
    """The sockets that a datagram of sock_diag names."""
    at = 0
    while at + MESSAGE.size <= len(data):
        size, kind, *_ = MESSAGE.unpack_from(data, at)
        if size < MESSAGE.size:
            return
        body = data[at + MESSAGE.size : at + size]
        at += (size + 3) & ~3
        if kind != SOCK_DIAG_BY_FAMILY or len(body) < DIAG_BYTES:
            continue
        info = next((value for name, value in _attributes(body[DIAG_BYTES:]) if name == INET_DIAG_INFO), b"")
        if len(info) >= INFO_BYTES:
            (port, _), (unread,) = PORTS.unpack_from(body, PORTS_AT), struct.unpack_from("=I", body, QUEUE_AT)
            received, sent, again = (struct.unpack_from("=Q", info, n)[0] for n in (RECEIVED_AT, SENT_AT, SENT_AGAIN_AT))
            yield Closed(port, received, unread, sent - again)


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    try:
        listener.bind((0, DESTROYED_IPV4 | DESTROYED_IPV6))
        with contextlib.suppress(OSError):  # for the administrator only; else the usual size
            listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    except OSError:
        listener.close()
        raise
    return listener


@functools.cache
def available() -> bool:
    """Whether this kernel sends the counters: tried with a connection of this program's own."""
    try:
        with _listen() as listener:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = int(server.getsockname()[1])
                with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
                    client.sendall(b"x" * 100)
                    accepted.recv(100, socket.MSG_WAITALL)
            deadline = time.monotonic() + TRY_SECONDS
            while select.select([listener], [], [], max(0.0, deadline - time.monotonic()))[0]:
                if any(one.port == port and one.received >= 100 for one in parse(listener.recv(1 << 16))):
                    return True
    except OSError:
        pass
    return False


class Counter:
    """Sums what the sockets at one port have moved, from when it is made until close()."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._moved = Moved(0, 0, 0, 0)
        self._lost = False  # the kernel had more to say than the buffer could hold, or than could be read
        self._changed = threading.Condition()
        self._listener = _listen() if available() else None
        self._ending, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._read, daemon=True)
        if self._listener:
            self._thread.start()

    def _read(self) -> None:
        try:
            while self._read_some():
                pass
        except OSError:
            self._lost = True

    def _read_some(self) -> bool:
        """False: it is to end."""
        assert self._listener
        ready, _, _ = select.select([self._listener, self._end], [], [])
        if self._end in ready:
            return False
        try:
            data = self._listener.recv(1 << 16)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self._lost = True
            return True
        for one in parse(data):
            if one.port == self._port and (one.received > 1 or one.sent):
                self._add(one)
        return True

    def _add(self, one: Closed) -> None:
        with self._changed:
            m = self._moved
            self._moved = Moved(
                m.connections + (one.received > 1), m.received + one.received, m.unread + one.unread, m.sent + one.sent
            )  # fmt: skip
            self._changed.notify_all()

    def moved(self, connections: int) -> Moved | None:
        """When so many connections are closed, or some time later. None: this kernel does not say, or not all of it."""
        if not self._listener:
            return None
        with self._changed:
            self._changed.wait_for(lambda: self._moved.connections >= connections, CLOSED_SECONDS)
            return None if self._lost else self._moved

    def close(self) -> None:
        self._ending.close()  # wakes the thread
        if self._listener:
            self._thread.join()
            self._listener.close()
        self._end.close()
