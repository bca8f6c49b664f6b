"""The frame layer of HTTP/2 against PyPI h2: frame_sequences makes sequences of frames from seeds and tells what our core makes of
each frame; h2 as a server gets the same. Requests, bodies, ends, errors and their codes, acknowledgements, responses and windows
must agree, but for the differences in http2_differences_h2.py. libnghttp2 is the other oracle (test/fuzz/fuzz_http2_nghttp2.c).

UVHTTP_HTTP2_SEQUENCES: how many. UVHTTP_HTTP2_SEED: which one is the first. A failure names its seed."""
import collections
import os
import struct
import subprocess

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest

import harness
from harness import BUILD_DIR
from http2_differences_h2 import ENDS, Difference, explain

pytestmark = pytest.mark.skipif(harness.ENGINE == "uring", reason="no engine takes part in it: once is enough")

SEQUENCES = int(os.environ.get("UVHTTP_HTTP2_SEQUENCES", "600"))
FIRST = int(os.environ.get("UVHTTP_HTTP2_SEED", "1"))

# As in test/fuzz/http2_log.h.
(METHOD, PATH, FIELDS, BODY, END, PEER_RESET, PEER_GOAWAY, SENT_RESET, SENT_GOAWAY, SENT_HEAD, SENT_DATA, SENT_WINDOW, SENT_ACK,
 SENT_PONG) = range(14)  # fmt: skip
KINDS = ["method", "path", "fields", "body", "end", "reset", "goaway", "RST_STREAM", "GOAWAY", "head sent", "data sent",
         "WINDOW_UPDATE", "SETTINGS ack", "PING ack"]  # fmt: skip
# As in test/fuzz/http2_ours.h.
RESPONDS_WITH_HEAD, NEVER_RESPONDS, RESPONDS_EARLY, RESPONDS_WITH_BODY = range(4)
BODY_SIZE = 1000


def hashed(value, data):
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3 + 1) & 0xFFFFFFFFFFFFFFFF
    return value


def fields_hashed(fields):
    value = 0
    for name, text in fields:
        value = hashed(value, struct.pack("<QQ", len(name), len(text)) + name + text)
    return value


def is_compared(name):
    return not name.startswith(b":") and name not in (b"cookie", b"host")


class Ours:
    """What a sequence says of one frame."""

    def __init__(self, frame):
        self.frame = frame
        self.log, self.streams = collections.Counter(), {}
        self.head_code, self.windows = 0, None
        self.credit = {}  # of WINDOW_UPDATE

    def add(self, words):
        if words[0] == "log":
            kind, stream, value = map(int, words[1:])
            if kind == SENT_WINDOW:
                self.credit[stream] = value
            else:
                self.log[kind, stream, value] += 1
        elif words[0] == "head":
            self.head_code = int(words[1])
        elif words[0] == "windows":
            self.windows = tuple(map(int, words[1:]))
        else:
            self.streams[int(words[1])] = [None if word == "-" else int(word) for word in words[2:]]


def sequences(first, count):
    """(seed, rules, stream window, connection window), and what is said of each frame."""
    text = subprocess.run([BUILD_DIR / "test/bin/frame_sequences", str(first), str(count)], capture_output=True, text=True, check=True).stdout
    steps = None
    for line in text.splitlines():
        words = line.split()
        if words[0] == "sequence":
            if steps:
                yield head, steps
            head, steps = tuple(map(int, words[1:])), []
        elif words[0] == "frame":
            steps.append(Ours(bytes.fromhex(words[1])))
        else:
            steps[-1].add(words)
    yield head, steps


class Theirs:
    """A server on h2 with the application of http2_ours.h. It returns the credit that ours does, when ours does: h2 checks whether
    that is right, and both find the same DATA to be too much."""

    def __init__(self, rules, stream_window, connection_window):
        self.rules, self.messaging = rules, bool(rules & 0x80)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding=None, validate_inbound_headers=self.messaging, normalize_inbound_headers=False,
        ))  # fmt: skip
        self.h2.initiate_connection()
        codes = h2.settings.SettingCodes
        self.h2.update_settings({codes.INITIAL_WINDOW_SIZE: stream_window, codes.MAX_HEADER_LIST_SIZE: 1 << 17})
        if connection_window > 65535:
            self.h2.increment_flow_control_window(connection_window - 65535)
        self.h2.data_to_send()
        self.early_credit = 0  # what it has returned by itself, of DATA on closed streams
        self.left = {}
        self.log = collections.Counter()
        self.bodies = {}

    def behaviour(self, number):
        return self.rules >> (number >> 1) % 3 * 2 & 3

    def step(self, frame):
        """Returns the log, and what h2 has raised."""
        self.log, self.bodies = collections.Counter(), {}
        begun, ended, fault = [], [], None
        try:
            for event in self.h2.receive_data(frame):
                self.note(event, begun, ended)
        except Exception as error:  # also those that are none of its own
            fault = error
        for number, value in self.bodies.items():
            self.log[BODY, number, value] += 1
        if fault is None:
            self.act(begun, ended)
        self.flush()
        return self.log, fault

    def note(self, event, begun, ended):
        number = getattr(event, "stream_id", None)
        if isinstance(event, (h2.events.RequestReceived, h2.events.TrailersReceived)):
            fields = [(bytes(name), bytes(value)) for name, value in event.headers]
            self.note_fields(number, fields, isinstance(event, h2.events.RequestReceived))
            if isinstance(event, h2.events.RequestReceived):
                begun.append(number)
        elif isinstance(event, h2.events.DataReceived) and event.data:
            self.bodies[number] = hashed(self.bodies.get(number, 0), event.data)
        elif isinstance(event, h2.events.StreamEnded):
            self.log[END, number, 0] += 1
            ended.append(number)
        elif isinstance(event, h2.events.StreamReset) and event.remote_reset:
            self.log[PEER_RESET, number, int(event.error_code)] += 1
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.log[PEER_GOAWAY, 0, int(event.error_code)] += 1

    def note_fields(self, number, fields, is_request):
        if not self.messaging:
            self.log[FIELDS, number, fields_hashed(fields)] += 1
        elif is_request:
            known = dict(fields)
            self.log[FIELDS, number, fields_hashed([field for field in fields if is_compared(field[0])])] += 1
            self.log[METHOD, number, hashed(0, known[b":method"])] += 1
            if known[b":method"] != b"CONNECT":
                self.log[PATH, number, hashed(0, known[b":path"])] += 1

    # --- the application ---

    def respond(self, number, body):
        try:
            self.h2.send_headers(number, [(b":status", b"200")], end_stream=not body)
        except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
            return False  # it was reset meanwhile
        if body:
            self.left[number] = BODY_SIZE
        return True

    def act(self, begun, ended):
        for number in begun:
            if self.behaviour(number) == RESPONDS_EARLY and self.respond(number, False) and number not in ended:
                self.h2.reset_stream(number, 0)
        for number in ended:
            if self.behaviour(number) in (RESPONDS_WITH_HEAD, RESPONDS_WITH_BODY):
                self.respond(number, self.behaviour(number) == RESPONDS_WITH_BODY)
        for number in list(self.left):
            self.send_body(number)

    def send_body(self, number):
        try:
            while self.left[number] and (size := min(self.h2.local_flow_control_window(number), self.left[number])) > 0:
                size = min(size, self.h2.max_outbound_frame_size)
                self.left[number] -= size
                self.h2.send_data(number, bytes(size), end_stream=self.left[number] == 0)
            if self.left[number]:
                return
        except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
            pass  # the client has reset it
        del self.left[number]

    def flush(self):
        data, sizes = self.h2.data_to_send(), collections.Counter()
        while data:
            size, kind, flags, number = int.from_bytes(data[:3], "big"), data[3], data[4], int.from_bytes(data[5:9], "big")
            payload, data = data[9 : 9 + size], data[9 + size :]
            if kind == 0:
                sizes[number] += size + ((flags & 1) << 32)
            elif kind == 1:
                self.log[SENT_HEAD, number, 0] += 1
            elif kind == 3:
                self.log[SENT_RESET, number, int.from_bytes(payload, "big")] += 1
            elif kind == 4:
                self.log[SENT_ACK, 0, 1] += flags & 1
            elif kind == 6:
                self.log[SENT_PONG, 0, hashed(0, payload)] += 1
            elif kind == 7:
                self.log[SENT_GOAWAY, 0, int.from_bytes(payload[4:8], "big")] += 1
            elif kind == 8 and number == 0:
                self.early_credit += int.from_bytes(payload, "big")
        for number, value in sizes.items():
            self.log[SENT_DATA, number, value] += 1

    # --- windows ---

    def return_credit(self, credit):
        """As ours has. Raises if a window becomes larger than it may be."""
        for number, size in credit.items():
            if number == 0:
                early = min(self.early_credit, size)
                self.early_credit -= early
                if size > early:
                    self.h2.increment_flow_control_window(size - early)
            elif number in self.h2.streams and self.h2.streams[number].open:
                self.h2.increment_flow_control_window(size, number)
        self.h2.data_to_send()

    def check_windows(self, ours):
        sends, receives = ours.windows
        assert self.h2.outbound_flow_control_window == sends, "send windows differ"
        assert self.h2.inbound_flow_control_window == receives + self.early_credit, "receive windows differ"
        for number, (send, receive) in ours.streams.items():
            stream = self.h2.streams[number]
            assert send is None or stream.outbound_flow_control_window == send, f"send windows of stream {number} differ"
            assert receive is None or stream.inbound_flow_control_window == receive, f"receive windows of stream {number} differ"


def shown(log):
    return ", ".join(f"{number}: {KINDS[kind]} {value:x}" for (kind, number, value), count in sorted(log.items()) for _ in range(count))


def differ(theirs, ours):
    """None: they agree, or differ in something that leaves both in the same state. Else the name of what ends the comparison."""
    log, fault = theirs.step(ours.frame)
    difference = Difference(ours, +log, fault, theirs.messaging)
    verdict = explain(difference)
    if verdict is not None:
        return verdict
    text = f"ours: {shown(ours.log)}\ntheirs: {shown(log)}; {fault!r}\nhead code {ours.head_code}, frame {ours.frame[:200].hex()}"
    assert ours.log == +log and fault is None, text
    return None


def compare(seed, rules, stream_window, connection_window, steps, counts):
    theirs = Theirs(rules, stream_window, connection_window)
    for number, ours in enumerate(steps):
        where = f"seed {seed}, frame {number}"
        try:
            why = differ(theirs, ours)
            if why not in ENDS and ours.windows:
                theirs.return_credit(ours.credit)
                theirs.check_windows(ours)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        counts["frames"] += 1
        if why is not None:
            counts[why] += 1
        if why in ENDS:
            return
    counts["whole sequences"] += 1


def test_pypi_h2_makes_the_same_of_sequences_of_frames(record_property):
    counts = collections.Counter()
    for (seed, *settings), steps in sequences(FIRST, SEQUENCES):
        compare(seed, *settings, steps, counts)
    record_property("counts", str(dict(counts)))
    print(dict(counts))
    assert counts["frames"] > 4 * SEQUENCES, counts
    assert counts["whole sequences"] > SEQUENCES / 50, counts
