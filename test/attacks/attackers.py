"""Owns: who attacks: connections that send what an attack says, and note what the server says to it."""
import collections
import contextlib
import functools
import multiprocessing
import os
import random
import re
import select
import socket
import ssl
import struct
import threading
import time

from attack import TIMEOUT
from attacks import ATTACKS

ATTACKERS = 10
CODES = ["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
         "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"]  # fmt: skip
RST_STREAM, GOAWAY, CLOSE = 3, 7, 0x88
STATUS = re.compile(rb"HTTP/1\.1 ([45]\d\d) ")


# --- what the server says: readers return (codes, bytes that are not whole yet) ---


def read_http2(data):
    codes, at = [], 0
    while len(data) - at >= 9:
        size = int.from_bytes(data[at : at + 3], "big")
        if len(data) - at < 9 + size:
            break
        kind, payload = data[at + 3], data[at + 9 : at + 9 + size]
        if kind == GOAWAY and payload[4:8] != b"\0\0\0\0":
            codes.append("GOAWAY " + CODES[payload[7]])
        elif kind == RST_STREAM and payload != b"\0\0\0\0":
            codes.append("RST_STREAM " + CODES[payload[3]])
        at += 9 + size
    return codes, data[at:]


def read_http1(data):
    """Statuses that refuse."""
    found = list(STATUS.finditer(data))
    return [one[1].decode() for one in found], data[max(len(data) - 12, found[-1].end() if found else 0) :]


def read_websocket(data):
    """Codes of close frames, behind the head of the 101; statuses that refuse the handshake."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not data.startswith(b"HTTP/1.1 "[: len(data)]):
        return read_frames(data)
    if not end:
        return [], data
    return read_frames(rest) if head.startswith(b"HTTP/1.1 101") else ([head[9:12].decode()], b"")


def read_frames(data):
    codes, at = [], 0
    while len(data) - at >= 2:
        size, start = data[at + 1], at + 2
        if size >= 126:
            start += 2 if size == 126 else 8
            size = int.from_bytes(data[at + 2 : start], "big")
        if len(data) < start + size:
            break
        if data[at] == CLOSE and size >= 2:
            codes.append("close %d" % int.from_bytes(data[start : start + 2], "big"))
        at = start + size
    return codes, data[at:]


READERS = {"http1": read_http1, "tls": read_http1, "websocket": read_websocket, "http2": read_http2}


# --- connections ---


class Line:
    """A connection. `open`: the server has not ended it; `full`: it takes no more."""

    def __init__(self, address, attack):
        self.attack, self.pending = attack, b""
        self.open, self.full, self.heard = True, False, False
        self.socket = socket.socket()
        try:
            self.connect(address)
        except OSError:
            self.socket.close()
            raise

    def connect(self, address):
        if not self.attack.reads or self.attack.sip < 1024:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if self.attack.sip < 1024:  # segments of the loopback are so large that a narrow window waits for timers of the kernel
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        if self.attack.sources:
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            number = random.randrange(self.attack.sources) + 1  # 127.1.0.0 is nobody's
            self.socket.bind(("127.%d.%d.%d" % (1 + (number >> 16), number >> 8 & 255, number & 255), 0))
        self.socket.settimeout(TIMEOUT + 1)
        self.socket.connect(address)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """b"" at the end."""
        return self.socket.recv(self.attack.sip)

    def wait(self, seconds, note):
        """Reads; or notices only that the server has gone."""
        try:
            if self.attack.reads:
                self.read(seconds, note)
            elif seconds:
                poll = select.poll()
                poll.register(self.socket, select.POLLRDHUP)
                self.open = not poll.poll(seconds * 1000)
        except OSError:
            self.open = False

    def read(self, seconds, note):
        while self.open and select.select([self.socket], [], [], seconds)[0]:
            data = self.receive()
            self.open = bool(data)
            if data:
                self.heard = True
                codes, self.pending = READERS[self.attack.protocol](self.pending + data)
                note(codes)
            if self.attack.sip < 1024:
                break
            seconds = 0

    def close(self, how="close"):
        if how == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)


@functools.cache
def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class SecureLine(Line):
    """In TLS, in records of the attack's size."""

    def connect(self, address):
        super().connect(address)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = trusting().wrap_bio(self.incoming, self.outgoing, server_hostname="a")
        while not self.greet():
            data = self.socket.recv(1 << 16)
            if not data:
                raise OSError("the server has ended the handshake")
            self.incoming.write(data)

    def greet(self):
        done = True
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            done = False
        self.socket.sendall(self.outgoing.read())
        return done

    def send(self, data):
        for at in range(0, len(data), self.attack.records):
            self.tls.write(data[at : at + self.attack.records])
        self.socket.sendall(self.outgoing.read())

    def receive(self):
        data = super().receive()
        self.incoming.write(data)
        plain = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while one := self.tls.read(1 << 16):
                plain += one
        return plain or (data and b" ")  # a record that is not whole yet, or has no bytes of the protocol


class Attacker(threading.Thread):
    def __init__(self, addresses, attack, stop):
        super().__init__(daemon=True)
        self.address = addresses["tls" if attack.protocol == "tls" else "plain"]
        self.attack, self.stop = attack, stop
        self.codes = collections.Counter()
        self.connections = 0

    def run(self):
        while not self.stop.is_set():
            self.once()

    def once(self):
        lines = []
        try:
            for _ in range(self.attack.width):
                with contextlib.suppress(OSError):
                    lines.append((SecureLine if self.attack.secure else Line)(self.address, self.attack))
            self.connections += len(lines)
            if not lines:
                self.stop.wait(0.01)  # refused: a machine that does nothing else has no CPU for a loop here
            self.send(lines)
            self.stay(lines)
        finally:
            for line in lines:
                line.close(self.attack.leaves)

    def each(self, lines, act):
        """On those that are still open."""
        for line in lines:
            if line.open and not self.stop.is_set():
                try:
                    act(line)
                except TimeoutError:
                    line.full = True
                except OSError:
                    line.wait(0, self.codes.update)  # what the server has said before it closed
                    line.open = False

    def send(self, lines):
        parts = [self.attack.first, *self.attack.parts]
        for number, part in enumerate(parts):
            if self.stop.is_set() or not any(line.open and not line.full for line in lines):
                return
            self.each(lines, lambda line, part=part: line.full or line.send(part))
            if number:  # right behind the first comes the next
                self.wait(lines, self.attack.pause)

    def wait(self, lines, seconds):
        """One connection is waited for; of many each is looked at, in a time that they share."""
        if len(lines) > 1 and seconds:
            self.stop.wait(seconds)
        self.each(lines, lambda line: line.wait(seconds if len(lines) == 1 else 0, self.codes.update))

    def stay(self, lines):
        if self.attack.leaves == "half_close":
            self.each(lines, Line.half_close)
        seconds = 60 if self.attack.hold else 0.2
        if self.attack.leaves in ("close", "reset") and not self.attack.heard:
            seconds = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.stop.is_set() and any(line.open for line in lines):
            if self.attack.heard and all(line.heard for line in lines):
                break
            self.wait(lines, 0.1)


def attack_until_stopped(addresses, attack, compete, pipe):
    """The process of the attackers: tells that it has begun, and in the end what has come back."""
    if not compete:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    stop = threading.Event()
    attackers = [Attacker(addresses, attack, stop) for _ in range(ATTACKERS)]
    for one in attackers:
        one.start()
    pipe.send("started")
    pipe.recv()
    stop.set()
    for one in attackers:
        one.join(TIMEOUT + 2)
    pipe.send((sum(one.connections for one in attackers), sum((one.codes for one in attackers), collections.Counter())))


@contextlib.contextmanager
def attacked(addresses, attack, compete=False):
    """The results are in the list when the block has ended."""
    results = []
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=attack_until_stopped, args=(addresses, attack, compete, theirs), daemon=True)
    process.start()
    try:
        ours.recv()
        yield results
        ours.send("stop")
        results.extend(ours.recv())
        process.join()
    finally:
        process.kill()
