"""Requests of HTTP/1 against PyPI h11 and httptools (Node's llhttp): streams of requests are made from seeds, many of them malformed,
and all three read the same bytes. Where we take a request, the others have to see the same one: method, target, fields and body, and
with that the place where the next one begins. Differences are in http1_differences.py, each with its reason.

UVHTTP_HTTP1_STREAMS: how many. UVHTTP_HTTP1_SEED: which one is the first. A failure names its seed."""
import collections
import os
import random
import subprocess

import h11
import httptools
import pytest

import harness
from harness import BUILD_DIR
from http1_differences import Request, explain

pytestmark = pytest.mark.skipif(harness.ENGINE == "uring", reason="no engine takes part in it: once is enough")

STREAMS = int(os.environ.get("UVHTTP_HTTP1_STREAMS", "20000"))
FIRST = int(os.environ.get("UVHTTP_HTTP1_SEED", "1"))

METHODS = [b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"get", b"M-SEARCH", b"PROPFIND", b"G@T"]
TARGETS = [b"/", b"/a?b=c", b"*", b"http://a/b", b"/%00", b"/a b", b"a", b"/\xc3\xa4", b"//", b"/a#b"]
VERSIONS = [b"HTTP/1.1"] * 12 + [b"HTTP/1.0"] * 3 + [b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.10", b"HTTP/ 1.1", b""]
FIELDS = [
    b"Host: a", b"Host: b:80", b"Host:", b"Accept: */*", b"X: \t y \t", b"X-Y:z", b": empty", b"X : blank", b" folded", b"\tfolded", b"X\x00: y",
    b"X: \x00", b"X: \xff\xfe", b"X: \x01", b"X: a\rb", b"Connection: close", b"Connection: keep-alive", b"Connection: x, close", b"Expect: 100-continue",
    b"Content-Length: 0", b"Content-Length: 3", b"Content-Length: 3, 3", b"Content-Length: +3", b"Content-Length: 0x3", b"Content-Length: -1",
    b"Content-Length: 03", b"Content-Length : 3", b"Content-Length: 99999999999999999999", b"Content-Length:\x0b3", b"Content_Length: 3", b"Content-Length: 3 ",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: CHUNKED", b"Transfer-Encoding:chunked", b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: chunked;q=1", b"Transfer-Encoding: \"chunked\"",
]  # fmt: skip
BODIES = [
    b"abc", b"abcd", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\n\r\n", b"3 \r\nabc\r\n0\r\n\r\n", b"03\r\nabc\r\n0\r\nT: v\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n",
    b"+3\r\nabc\r\n0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"3\nabc\n0\n\n", b"-1\r\n\r\n", b"3\r\nabc0\r\n\r\n", b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
    b"A\r\n0123456789\r\n00\r\n\r\n", b"10000000000000003\r\nabc\r\n0\r\n\r\n", b"3;\nabc\r\n0\r\n\r\n", b"3\r\r\nabc\r\n0\r\n\r\n", b"",
]  # fmt: skip
ENDS = [b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n"]
SPECIAL = b"\r\n\t :;,\x00\x0b\x7f\x80\xff0a\"/"


def request_of(rng):
    line = rng.choice(METHODS if rng.random() < 0.5 else METHODS[:2]) + rng.choice([b" "] * 20 + [b"  ", b"\t"])
    line += rng.choice(TARGETS if rng.random() < 0.4 else TARGETS[:2]) + rng.choice([b" "] * 20 + [b"  ", b""]) + rng.choice(VERSIONS)
    fields = [b"Host: a"] if rng.random() < 0.8 else []
    fields += rng.choices(FIELDS, k=rng.choice([0, 0, 1, 1, 2, 3]))
    framing = rng.random()
    if framing < 0.3:
        fields.append(b"Content-Length: 3")
    elif framing < 0.6:
        fields.append(b"Transfer-Encoding: chunked")
    rng.shuffle(fields)
    text = b"".join(part + rng.choice(ENDS) for part in [line, *fields]) + rng.choice(ENDS)
    return text + (rng.choice(BODIES) if rng.random() < 0.5 else BODIES[0] if framing < 0.3 else BODIES[2] if framing < 0.6 else b"")


def mutated(rng, text):
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        at = rng.randrange(len(text) + 1)
        how = rng.randrange(4)
        byte = bytes([rng.choice(SPECIAL)])
        if how == 0:
            text = text[:at] + byte + text[at:]
        elif how == 1:
            text = text[:at] + byte + text[at + 1:]
        elif how == 2:
            text = text[:at] + text[at + rng.randrange(1, 4):]
        else:
            text = text[:at] + text[rng.randrange(len(text) + 1):]
    return text


def stream_of(seed):
    rng = random.Random(seed)
    return mutated(rng, b"".join(request_of(rng) for _ in range(rng.choice([1, 2, 3]))))


def ours(streams):
    """Of each stream the requests, and how it ends: "end", "more" or the name of an error."""
    text = "".join(stream.hex() + "\n" for stream in streams)
    output = subprocess.run([BUILD_DIR / "test/bin/request_streams"], input=text, capture_output=True, text=True, check=True).stdout
    requests = []
    for line in output.splitlines():
        kind, *words = line.split()
        if kind != "request":
            yield requests, words[0] if words else kind
            requests = []
            continue
        texts = [b"" if word == "-" else bytes.fromhex(word) for word in [*words[:2], *words[4:]]]
        fields = [(name.lower(), value) for name, value in zip(texts[3::2], texts[4::2], strict=True)]
        requests.append(Request(texts[0], texts[1], int(words[2]), texts[2], fields, words[3] == "1"))


def of_h11(stream):
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=32768)
    connection.receive_data(stream)
    requests, request, body = [], None, b""
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return requests, "more" if request or connection.trailing_data[0] else "end"
            if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return requests, "end"
            if isinstance(event, h11.Request):
                request, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                fields = [(bytes(name), bytes(value)) for name, value in request.headers]
                requests.append(Request(bytes(request.method), bytes(request.target), int(request.http_version != b"1.0"), body, fields, True))
                request = None
                connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return requests, "end"
                connection.start_next_cycle()
    except h11.ProtocolError as error:
        return requests, str(error)


class Heard:
    """What httptools calls."""

    def __init__(self):
        self.requests, self.parser = [], None
        self.begin()

    def begin(self):
        self.target, self.body, self.fields, self.open, self.in_head = b"", b"", [], False, True

    def on_message_begin(self):
        self.begin()
        self.open = True

    def on_url(self, url):
        self.target += url

    def on_header(self, name, value):
        if self.in_head:  # trailers come here, too
            self.fields.append((name.lower(), value.rstrip(b" \t")))  # llhttp leaves the blanks behind a value

    def on_headers_complete(self):
        self.in_head = False

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        minor = int(self.parser.get_http_version() == "1.1")
        self.requests.append(Request(self.parser.get_method(), self.target, minor, self.body, self.fields, self.parser.should_keep_alive()))
        self.open = False


def of_httptools(stream):
    heard = Heard()
    heard.parser = httptools.HttpRequestParser(heard)
    try:
        heard.parser.feed_data(stream)
    except httptools.HttpParserUpgrade:
        return heard.requests, "end"
    except httptools.HttpParserError as error:
        return heard.requests, f"{type(error).__name__}: {error}"
    return heard.requests, "more" if heard.open else "end"


@pytest.mark.parametrize("read", [of_h11, of_httptools], ids=["h11", "httptools"])
def test_other_parsers_see_the_same_requests(read):
    reasons, unexplained = collections.Counter(), []
    seeds = range(FIRST, FIRST + STREAMS)
    streams = [stream_of(seed) for seed in seeds]
    for seed, stream, (requests, end) in zip(seeds, streams, ours(streams), strict=True):
        reason = explain(requests, end, *read(stream))
        reasons[reason] += 1
        if reason is None:
            unexplained.append((seed, stream, requests, end, read(stream)))
    print(*(f"{count:7} {reason}" for reason, count in reasons.most_common()), sep="\n")
    assert not unexplained, f"{len(unexplained)}: " + "\n".join(map(str, unexplained[:5]))
    assert reasons["the same"] > STREAMS / 10
