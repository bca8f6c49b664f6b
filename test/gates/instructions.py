#!/usr/bin/env python3
"""Instructions per request in user space, counted by callgrind: the difference of two runs with a different number of
requests, so that start and stop drop out. On epoll, because valgrind knows no io_uring; what is above src/io is
the same. The bounds are what was counted with gcc 12 -O2 and 10 %."""
import pathlib
import re
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

FEW, MANY = 100, 1100
# Of a browser that goes to a page: 12 fields.
BROWSER = b"\r\n".join((
    b"GET / HTTP/1.1", b"Host: 127.0.0.1:8080", b"Connection: keep-alive", b"Cache-Control: max-age=0",
    b'sec-ch-ua: "Chromium";v="124", "Google Chrome";v="124", "Not-A.Brand";v="99"', b"sec-ch-ua-mobile: ?0",
    b'sec-ch-ua-platform: "Linux"', b"Upgrade-Insecure-Requests: 1",
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
    b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    b"Sec-Fetch-Site: none", b"Accept-Encoding: gzip, deflate, br, zstd", b"Accept-Language: en-US,en;q=0.9", b"", b""))
# (request, its name, requests per write, bound): counted 2038, 1036, 2510 and 3067 (a body that fills the wire)
BOUNDS = ((gate.GET, "GET", 1, 2242), (gate.GET, "GET", 16, 1140), (BROWSER, "12 fields", 16, 2761),
          (gate.GET_LARGE, "100 KB", 1, 3750))

# With metrics, as above: counted 2230 and 1167
METRICS_BOUNDS = ((gate.GET, "GET", 1, 2453), (gate.GET, "GET", 16, 1284))


# The symbols of the Huffman code that have 5, 6 and 7 bits, in the order of their codes (RFC 7541 appendix B).
HUFFMAN = ("012aceiost", " %-./3456789=A_bdfghlmnpru", ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz")
QUESTION_MARK = "1111111100"
H2_PER_WRITE = 32
# What a browser sends with each request of a page, but for path and cookies.
SAME_FIELDS = (("sec-ch-ua-platform", "linux"), ("user-agent", "Mozilla/5.0 Chrome/124.0.0.0 Safari/537.36"),
               ("sec-ch-ua-mobile", "none"), ("accept", "image/avif/image/webp/image/apng"),
               ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image"),
               ("referer", "http://127.0.0.1:8080/"), ("accept-encoding", "gzip deflate br"), ("accept-language", "en-US en"))
def callgrind(run, arguments=()):
    """The instructions of a server, to which `run` gets a client."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "callgrind"
        prefix = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}"]
        with gate.server("epoll", prefix=prefix, arguments=arguments) as (_, port):
            with gate.connect(port) as client:
                run(client)
        total = re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.M)
        return int(total[1])


def http1(client, rounds, request, per_write):
    gate.lock_step([client], rounds, gate.response_size(client, request), request, per_write)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def huffman(text):
    codes, code = {"?": QUESTION_MARK}, 0
    for bits, symbols in enumerate(HUFFMAN, 5):
        codes |= {c: f"{code + i:0{bits}b}" for i, c in enumerate(symbols)}
        code = 2 * (code + len(symbols))
    bits = "".join(codes[c] for c in text)
    bits += "1" * (-len(bits) % 8)
    return bytes((0x80 | len(bits) // 8,)) + int(bits, 2).to_bytes(len(bits) // 8, "big")


def plain(text):
    return bytes((len(text),)) + text


def first_block():
    return b"\x82\x86\x84\x41" + plain(b"127.0.0.1:8080") + b"\x7a" + plain(b"gate of uvhttp") + b"\x53" + plain(b"*/*")


def same_block(number):
    """6 fields: of the first request :authority, user-agent and accept come into the table; later ones name them there."""
    return first_block() if number == 0 else b"\x82\x86\x84\xc0\xbf\xbe"


def other_block(number):
    """The same with a path that 1,000 requests do not repeat, and a cookie that none repeats: literals in Huffman code that
    the table does not take, which is how nghttp2 sends them."""
    if number == 0:
        return first_block()
    path, cookie = huffman(f"/?item={number % 1000 + 100}"), huffman(f"session={number + 100000}")
    return b"\x82\x86\xc0\x04" + path + b"\xbf\xbe\x1f\x11" + cookie


class Browser:
    """17 fields: all but :path come into the table, as Chromium sends them. The new cookie of each request pushes out the
    oldest fields, which come again."""

    STATIC = {":authority": 1, "accept-encoding": 16, "accept-language": 17, "accept": 19, "cookie": 32, "referer": 51,
              "user-agent": 58}

    def __init__(self):
        self.table = []  # the newest first

    def field(self, name, value):
        if (name, value) in self.table:
            index = 62 + self.table.index((name, value))
            return bytes((0x80 | index,)) if index < 127 else bytes((0xff, index - 127))
        names = [entry[0] for entry in self.table]
        self.table.insert(0, (name, value))
        while sum(32 + len(n) + len(v) for n, v in self.table) > 4096:
            self.table.pop()
        if name in self.STATIC:
            return bytes((0x40 | self.STATIC[name],)) + huffman(value)
        index = 62 + names.index(name) if name in names else 0
        return (b"\x40" + huffman(name) if not index else bytes((0x7f, index - 63))) + huffman(value)

    def block(self, number):
        path = huffman(f"/?item={number % 1000 + 100}")
        cookies = (("cookie", "theme=dark"), ("cookie", f"session={number + 100000}"))
        fields = (*SAME_FIELDS, *cookies, ("priority", "u=1"))
        return (b"\x82" + self.field(":authority", "127.0.0.1:8080") + b"\x86\x04" + path
                + b"".join(self.field(*field) for field in fields))


# (its name, what makes the writer of header blocks, bound): counted 1224, 1604 and 2815
H2_BOUNDS = (("HTTP/2 GET", lambda: same_block, 1347), ("HTTP/2 GET, 1000 paths, new cookies", lambda: other_block, 1752),
             ("HTTP/2 GET of a browser, 1000 paths, new cookies", lambda: Browser().block, 3084))


def read_ends(client, count, rest):
    """Frames until `count` streams have ended. Returns the bytes behind them."""
    while count > 0:
        data = client.recv(65536)
        if not data:
            sys.exit("BROKEN  the server closed the connection")
        rest += data
        at = 0
        while at + 9 <= len(rest):
            head, flags, _ = struct.unpack_from(">IBI", rest, at)
            if at + 9 + (head >> 8) > len(rest):
                break
            if head & 0xff in (3, 7):
                sys.exit(f"BROKEN  frame of type {head & 0xff}: {rest[at:at + 9 + (head >> 8)].hex()}")
            count -= head & 0xff in (0, 1) and flags & 1
            at += 9 + (head >> 8)
        rest = rest[at:]
    return rest


def http2(client, rounds, block):
    window = frame(8, 0, 0, struct.pack(">I", 2 ** 31 - 1 - 65535))
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + window + frame(1, 5, 1, block(0)))
    rest = read_ends(client, 1, b"")
    client.sendall(frame(4, 1, 0))  # a server that runs slowly would stop waiting for it
    for first in range(1, rounds * H2_PER_WRITE, H2_PER_WRITE):
        numbers = range(first, first + H2_PER_WRITE)
        client.sendall(b"".join(frame(1, 5, 2 * number + 1, block(number)) for number in numbers))
        rest = read_ends(client, H2_PER_WRITE, rest)


def main():
    if not shutil.which("valgrind"):
        gate.skip("valgrind is not installed")
    for request, name, per_write, bound in BOUNDS:
        few, many = (callgrind(lambda client: http1(client, rounds, request, per_write)) for rounds in (FEW, MANY))
        gate.check(f"epoll, c=1, {name}, {per_write} per write: instructions per request",
                   (many - few) / ((MANY - FEW) * per_write), bound)
    for request, name, per_write, bound in METRICS_BOUNDS:
        few, many = (callgrind(lambda client: http1(client, rounds, request, per_write), ("--metrics", "on"))
                     for rounds in (FEW, MANY))
        gate.check(f"epoll, c=1, {name} with metrics, {per_write} per write: instructions per request",
                   (many - few) / ((MANY - FEW) * per_write), bound)
    for name, blocks, bound in H2_BOUNDS:
        few, many = (callgrind(lambda client: http2(client, rounds, blocks())) for rounds in (FEW, MANY))
        gate.check(f"epoll, c=1, {name}, {H2_PER_WRITE} per write: instructions per request",
                   (many - few) / ((MANY - FEW) * H2_PER_WRITE), bound)
    gate.finish()


main()
