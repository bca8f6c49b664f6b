"""Header compression against stories that are told at test time: PyPI hpack and Node encode for our decoder, PyPI hpack and
libnghttp2 decode what our encoder writes. Field lists and dynamic tables must agree after each block.

UVHTTP_HPACK_STORIES: how many stories each test tells. UVHTTP_HPACK_SEED: which one is the first. A failure names its seed."""
import json
import os
import random
import shutil
import socket
import struct
import subprocess

import hpack
import hyperframe.frame as frames
import pytest

import harness
from harness import BUILD_DIR, HOST

pytestmark = pytest.mark.skipif(harness.ENGINE == "uring", reason="no engine takes part in it: once is enough")

STORIES = int(os.environ.get("UVHTTP_HPACK_STORIES", "150"))
FIRST = int(os.environ.get("UVHTTP_HPACK_SEED", "1"))
TABLE_MAX = 4096

NAMES = [":method", ":path", ":scheme", ":authority", "accept", "accept-encoding", "cookie", "user-agent", "x", "x-request-id",
         "content-type", "content-length", "authorization", "te", "priority", "referer", "x-" + "long-name" * 20]
VALUES = ["", "GET", "POST", "/", "/index.html", "https", "gzip, deflate", "text/html", "*/*", "trailers", "u=1, i", "a=1; b=2", "0"]
LETTERS = [bytes(range(32, 127)), b"0123456789", b"aeiost", bytes(range(256))]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        self.at += 4
        return struct.unpack_from("<i", self.data, self.at - 4)[0]

    def string(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at]

    def fields(self):
        return [(self.string(), self.string(), bool(self.number())) for _ in range(self.number())]

    def table(self):
        size = self.number()
        return size, [field[:2] for field in self.fields()]


class Ours:
    """Both directions of one connection."""

    def __init__(self):
        self.process = subprocess.Popen([BUILD_DIR / "test/bin/hpack_stories"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0

    def ask(self, command, *arguments):
        text = command
        for argument in arguments:
            text += struct.pack("<I", argument) if isinstance(argument, int) else struct.pack("<I", len(argument)) + argument
        self.process.stdin.write(text)
        self.process.stdin.flush()
        size = struct.unpack("<I", self.process.stdout.read(4))[0]
        return Reader(self.process.stdout.read(size))

    def decode(self, block):
        """Code, fields with their flag, table."""
        reply = self.ask(b"B", block)
        return reply.number(), reply.fields(), reply.table()


def table_of(theirs):
    table = theirs.header_table
    entries = [(bytes(name), bytes(value)) for name, value in table.dynamic_entries]
    return sum(len(name) + len(value) + 32 for name, value in entries), entries


def random_text(rng, size_max):
    letters = rng.choice(LETTERS)
    return bytes(rng.choices(letters, k=min(size_max, int(rng.expovariate(1 / 12)))))


def random_field(rng, known):
    """Often one that came before, or its name with another value."""
    if known and rng.random() < 0.5:
        name, value = rng.choice(known)
        if rng.random() < 0.3:
            value = random_text(rng, 300)
    else:
        name = rng.choice(NAMES).encode() if rng.random() < 0.8 else b"x" + random_text(rng, 40)
        value = rng.choice(VALUES).encode() if rng.random() < 0.4 else random_text(rng, 5000 if rng.random() < 0.05 else 200)
        known.append((name, value))
    return name, value


# --- our decoder ---


def resize(rng, ours, encoder):
    """At most two changes between two blocks, the smaller one first. hpack writes each change, and RFC 7541 section 4.2 allows
    two updates, the smallest and the final size. A size that it has already makes hpack forget an update that is due."""
    sizes = [rng.choice([0, 32, 33, 100, 1000, 4095, TABLE_MAX, rng.randrange(TABLE_MAX + 1)]) for _ in range(rng.choice([1, 2]))]
    for size in sorted(set(sizes)):
        if size == encoder.header_table_size:
            continue
        if rng.random() < 0.7:
            ours.ask(b"L", size)  # SETTINGS
        else:
            ours.ask(b"L", TABLE_MAX)  # the encoder uses less than it may
        encoder.header_table_size = size


def tell_story(seed):
    rng = random.Random(seed)
    encoder, known = hpack.Encoder(), []
    changes = rng.choice([0, 0, 0.1, 0.5])
    indexing = rng.choice([0, 0.1, 0.9])
    with Ours() as ours:
        for block_number in range(rng.randrange(1, 30)):
            if rng.random() < changes:
                resize(rng, ours, encoder)
            fields = [(*random_field(rng, known), rng.random() < indexing) for _ in range(rng.randrange(12))]
            block = encoder.encode(fields, huffman=rng.random() < 0.6)
            code, seen, table = ours.decode(block)
            where = f"seed {seed}, block {block_number}: {block.hex()}"
            assert code == 0, where
            assert [field[:2] for field in seen] == [field[:2] for field in fields], where
            assert table == table_of(encoder), where
            check_flags(fields, seen, where)


def check_flags(fields, seen, where):
    """hpack writes a field that is in a table as an index, sensitive or not."""
    for sent, got in zip(fields, seen):
        assert sent[2] or not got[2], where


@pytest.mark.parametrize("part", range(10))
def test_stories_of_hpack_are_decoded(part):
    for seed in range(FIRST + part, FIRST + STORIES, 10):
        tell_story(seed)


def test_a_story_that_is_reported_wrong_is_noticed():
    """The comparison sees a table that has lost an entry."""
    encoder = hpack.Encoder()
    with Ours() as ours:
        ours.decode(encoder.encode([(b"a", b"b"), (b"c", b"d")]))
        encoder.header_table.dynamic_entries.pop()
        assert ours.decode(encoder.encode([(b"a", b"x")]))[2] != table_of(encoder)


# --- our encoder ---


OF_A_CONNECTION = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
LINES = [b"Cache-Control: no-cache", b"ETag: \"%d\"", b"Vary: Accept-Encoding", b"X-Request-Id: %d", b"Set-Cookie: id=%d; HttpOnly",
         b"Connection: close", b"Upgrade: x", b"Location: /%d", b"Last-Modified: Mon, 01 Jan 2024 00:00:%02d GMT", b"X-Empty:",
         b"Server: uvhttp", b"Content-Encoding: gzip", b"Access-Control-Allow-Origin: *"]
TYPES = [b"", b"text/plain; charset=utf-8", b"application/json", b"text/html", b"image/png"]


def random_lines(rng):
    lines = []
    for _ in range(rng.choice([0, 1, 2, 3, 8])):
        line = rng.choice(LINES)
        if b"%" in line:
            line %= rng.choice([1, rng.randrange(60)])
        if rng.random() < 0.1:
            line = b"X-Text: " + bytes(rng.choices(b"abcdefgh ijkl.,=%/", k=rng.choice([1, 20, 126, 127, 300, 5000]))).strip()
        lines.append(line)
    return lines


def expected_fields(status, kind, lines, length, date):
    fields = [(b":status", b"%d" % status)] if status else []
    fields += [(b"content-type", kind)] if kind else []
    fields += [(b"content-length", b"%d" % length)] if length is not None else []
    fields += [(b"date", date)] if date else []
    for line in lines:
        name, value = line.split(b":", 1)
        if name.lower() not in OF_A_CONNECTION:
            fields.append((name.lower(), value.strip()))
    return sorted(fields)


def hear_response(rng, ours, decoder, responses, where):
    if responses and rng.random() < 0.5:
        status, kind, lines, length, _ = rng.choice(responses)
    else:
        status = rng.choice([0, 100, 103, 200, 200, 200, 204, 206, 301, 304, 404, 418, 500, 999])
        kind, lines, length = rng.choice(TYPES), random_lines(rng), rng.choice([None, 0, 13, rng.randrange(1 << 31)])
    date = b"Mon, 01 Jan 2024 00:00:%02d GMT" % rng.randrange(3) if rng.random() < 0.7 else b""
    responses.append((status, kind, lines, length, date))
    reply = ours.ask(b"R", status, 0xffffffff if length is None else length, kind, b"".join(line + b"\r\n" for line in lines), date)
    block, table = reply.string(), reply.table()
    code, by_nghttp2, table_of_nghttp2 = reply.number(), reply.fields(), reply.table()
    by_hpack = decoder.decode(block, raw=True)
    where = f"{where}: {block.hex()}"
    assert code == 0, where
    seen = [(bytes(name), bytes(value)) for name, value in by_hpack]
    assert seen == [field[:2] for field in by_nghttp2], where
    assert [not field.indexable for field in by_hpack] == [field[2] for field in by_nghttp2], where
    assert sorted(seen) == expected_fields(status, kind, lines, length, date), where
    assert table == table_of(decoder) == table_of_nghttp2, where


def hear_story(seed):
    rng = random.Random(seed)
    decoder, responses, changes = hpack.Decoder(max_header_list_size=1 << 20), [], rng.choice([0, 0.1, 0.5])
    with Ours() as ours:
        for number in range(rng.randrange(1, 40)):
            for _ in range(rng.randrange(4) if rng.random() < changes else 0):
                size = rng.choice([0, 50, 300, 1000, TABLE_MAX, 65536])
                ours.ask(b"S", size)
                decoder.max_allowed_table_size = size
            hear_response(rng, ours, decoder, responses, f"seed {seed}, block {number}")


@pytest.mark.parametrize("part", range(10))
def test_stories_of_our_encoder_are_understood(part):
    for seed in range(FIRST + part, FIRST + STORIES, 10):
        hear_story(seed)


# --- Node ---


NODE = """
const http2 = require('http2');
const lists = JSON.parse(require('fs').readFileSync(0));
const session = http2.connect(process.argv[1]);
session.on('error', () => {});
let at = 0;
session.on('remoteSettings', () => {
  for (const end = Math.min(at + 10, lists.length); at < end; at++) {
    const fields = Object.assign(Object.create(null), lists[at]);
    if (at % 7 == 3) fields[http2.sensitiveHeaders] = ['x-secret'];
    session.request(fields, {endStream: true}).on('error', () => {});
  }
});
"""


def frames_of(connection):
    data = b""
    while True:
        while len(data) < 9:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        frame, size = frames.Frame.parse_frame_header(memoryview(data[:9]))
        while len(data) < 9 + size:
            data += connection.recv(65536)
        frame.parse_body(memoryview(data[9:9 + size]))
        data = data[9 + size:]
        yield frame


def node_requests(rng, count):
    lists = []
    for i in range(count):
        fields = {":method": rng.choice(["GET", "POST", "DELETE"]), ":path": f"/{rng.choice(['', 'a', i, 'x' * 200])}", ":authority": "test"}
        for name in rng.sample(["accept", "user-agent", "x-request-id", "cookie", "x-secret", "referer"], rng.randrange(6)):
            fields[name] = rng.choice(["1", f"{i}", "a" * rng.randrange(500), "text/html,*/*;q=0.8"])
        lists.append(fields)
    return lists


def hear_node(connection, sizes, lists):
    """Settings change after each ten requests; they hold for us from the frame on that acknowledges them."""
    settings = lambda size: frames.SettingsFrame(settings={1: size}).serialize()  # noqa: E731
    decoder, heard, waiting = hpack.Decoder(), 0, sizes[:1]
    connection.sendall(settings(sizes[0]))
    assert connection.recv(24, socket.MSG_WAITALL).startswith(b"PRI * HTTP/2.0")
    with Ours() as ours:
        for frame in frames_of(connection):
            if isinstance(frame, frames.SettingsFrame):
                if "ACK" in frame.flags:
                    ours.ask(b"L", waiting[0])
                    decoder.max_allowed_table_size = waiting.pop(0)
                else:
                    connection.sendall(frames.SettingsFrame(flags=["ACK"]).serialize())
            if not isinstance(frame, frames.HeadersFrame):
                continue
            assert "END_HEADERS" in frame.flags
            block = bytes(frame.data)
            code, fields, table = ours.decode(block)
            by_hpack = decoder.decode(block, raw=True)
            assert code == 0
            assert fields == [(bytes(one[0]), bytes(one[1]), not one.indexable) for one in by_hpack]
            assert table == table_of(decoder)
            seen = {name.decode(): value.decode() for name, value, _ in fields}
            assert {**seen, **lists[heard]} == seen
            heard += 1
            if heard == len(lists):
                return heard
            if heard % 10 == 0:
                waiting.append(sizes[heard // 10 % len(sizes)])
                connection.sendall(settings(waiting[-1]))
    return heard


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(3, STORIES // 50)))
def test_stories_of_node_are_decoded(seed):
    rng = random.Random(seed)
    lists = node_requests(rng, 100)
    sizes = [TABLE_MAX] + [rng.choice([0, 64, 500, 2000, TABLE_MAX]) for _ in range(9)]
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(60)
        address = f"http://{HOST}:{listener.getsockname()[1]}"
        node = subprocess.Popen(["node", "-e", NODE, address], stdin=subprocess.PIPE)
        try:
            node.stdin.write(json.dumps(lists).encode())
            node.stdin.close()
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(60)
                assert hear_node(connection, sizes, lists) == len(lists)
        finally:
            node.kill()
            node.wait()
