"""HTTP/2 over TLS as Chromium speaks it: many images, events, WebSockets (RFC 8441) and uploads on one connection, and servers
that stop while a page is busy. Both ends tell what they have seen: the server's counters and access log, Chromium's network
log."""
import json
import socket
import struct

import pytest
from harness import HOST

IMAGES = 100
WIDTH, HEIGHT = 400, 250  # 300 KB each


def picture(number):
    """A BMP of one shade of green."""
    size = WIDTH * HEIGHT * 3
    head = b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + size, 0, 54, 40, WIDTH, HEIGHT, 1, 24, 0, size, 2835, 2835, 0, 0)
    return head + bytes([number, 100 + number, number]) * (WIDTH * HEIGHT)


class Site:
    """Servers that follow each other on one listening socket, as a restart without a gap has them."""

    def __init__(self, serve, folder, listener):
        self.serve, self.folder, self.listener = serve, folder, listener
        self.url = "https://%s:%d" % listener.getsockname()
        self.logs = []
        (folder / "site").mkdir()
        for number in range(IMAGES):
            (folder / "site" / f"{number}.bmp").write_bytes(picture(number))

    def page(self, text):
        (self.folder / "site" / "page.html").write_text('<!doctype html><title>t</title><link rel="icon" href="data:,">' + text)
        return f"{self.url}/tls/files/page.html"

    def start(self):
        number = self.listener.fileno()
        self.logs.append(self.folder / f"access-{len(self.logs)}.log")
        options = ["--tls-listen", f"fd:{number}", "--development", "yes", "--tls-static", self.folder / "site"]
        return self.serve("http_test_server", *options, "--access-log", f"json:{self.logs[-1]}", pass_fds=[number])

    def seen(self, log):
        """Path and status of what a server that has ended was asked."""
        lines = map(json.loads, log.read_text().splitlines())
        return [(line["target"], line["status"]) for line in lines if line["target"].startswith("/tls")]


@pytest.fixture
def site(serve, tmp_path):
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(128)
        yield Site(serve, tmp_path, listener)


def has_one_connection(server):
    """Beside those of the test itself, which are in clear and HTTP/1."""
    counters = server.counters()
    return counters["http2_connections"] == 1 and counters["tls_handshakes"] == 1


def sessions(events, site):
    return [one for one in events["HTTP2_SESSION"] if one["host"] == site.url.removeprefix("https://")]


def protocols(page, kind):
    return page.evaluate("kind => performance.getEntriesByType(kind).map(entry => entry.nextHopProtocol)", kind)


def test_a_hundred_images_share_one_connection(site, record):
    server = site.start()
    page = record.open(site.page("".join(f"<img width=40 height=25 src={number}.bmp>" for number in range(IMAGES))), ignore_https_errors=True)
    loaded = page.evaluate("[...document.images].filter(one => one.complete && one.naturalWidth === %d).length" % WIDTH)
    assert loaded == IMAGES
    assert protocols(page, "navigation") == ["h2"] and protocols(page, "resource") == ["h2"] * IMAGES
    assert has_one_connection(server) and server.counter("http2_connection_errors") == 0
    assert len(sessions(record.events(), site)) == 1


EVENTS = """<p id=seen></p><script>
const numbers = [], opened = [];
const source = new EventSource("/trickle?events=1&ms=5");
source.onopen = () => opened.push(numbers.length);
source.onmessage = event => { numbers.push(Number(event.data)); document.getElementById("seen").innerText = numbers.join(" "); };
</script>"""


def test_events_continue_where_they_were_when_the_server_was_replaced(site, record):
    first = site.start()
    page = record.open(site.page(EVENTS), ignore_https_errors=True)
    page.wait_for_function("numbers.length >= 20")
    assert has_one_connection(first)
    second = site.start()
    first.stop()
    page.wait_for_function("opened.length === 2 && numbers.length >= opened[1] + 20")
    numbers, opened = page.evaluate("source.close(), [numbers, opened]")
    assert numbers == list(range(1, len(numbers) + 1)) and opened[0] == 0 and len(opened) == 2
    assert has_one_connection(second)
    events = record.events()
    assert len(sessions(events, site)) == 2
    goaways = [(one["last_accepted_stream_id"], one["error_code"]) for one in events["HTTP2_SESSION_RECV_GOAWAY"]]
    assert goaways[0] == (2**31 - 1, "0 (NO_ERROR)")  # Chromium, which has no stream left, may go before the second


SOCKETS = """<p id=seen></p><script>
const echoed = [], opened = [];
for (let i = 0; i < 4; i++) {
    const socket = new WebSocket("wss://" + location.host + "/tls/ws");
    socket.onopen = () => { opened.push(i); for (let j = 0; j < 50; j++) socket.send(i + "." + j); socket.send("x".repeat(300000)); };
    const own = [];
    echoed.push(own);
    socket.onmessage = event => { own.push(event.data); document.getElementById("seen").innerText = echoed.map(one => one.length); };
}
</script>"""


def test_websockets_are_streams_of_the_pages_connection(site, record):
    server = site.start()
    page = record.open(site.page(SOCKETS), ignore_https_errors=True)
    page.wait_for_function("echoed.every(own => own.length === 51)")
    echoed = page.evaluate("echoed")
    for i, own in enumerate(echoed):
        assert own[:50] == [f"{i}.{j}" for j in range(50)] and own[50] == "x" * 300000
    assert has_one_connection(server) and server.counter("upgrades") == 4
    heads = [one["headers"] for one in record.events()["HTTP2_SESSION_SEND_HEADERS"]]
    connects = [head for head in heads if ":method: CONNECT" in head]
    assert len(connects) == 4
    assert all(":protocol: websocket" in head and ":path: /tls/ws" in head for head in connects)


UPLOAD = """async size => {
    const data = new Uint8Array(size);
    let sum = 0;
    for (let i = 0; i < size; i++) sum += data[i] = (i * 7 + (i >> 8)) % 251;
    const response = await fetch("/tls/sum", {method: "PUT", body: data});
    const told = await response.json();
    document.body.append(`uploaded ${told.bytes}`);
    return [sum, told.sum, told.bytes];
}"""


def test_uploads_share_the_connection(site, open_page):
    server = site.start()
    page = open_page(site.page("<p>"), ignore_https_errors=True)
    size = 8 << 20
    for sent, received, length in page.evaluate(f"Promise.all([1, 2, 3].map(() => ({UPLOAD})({size})))"):
        assert (received, length) == (sent, size)
    assert protocols(page, "resource") == ["h2"] * 3
    assert has_one_connection(server) and server.counter("http2_windows_exceeded") == 0


# Twenty at a time. When thirty are there the test is told, and nobody waits for what it does then.
BUSY = """<p id=seen></p><script>
let next = 0, loaded = 0, failed = 0;
function more() {
    if (next === %d) return;
    const image = new Image(40, 25);
    image.onload = () => { loaded++; if (loaded === 30) thirty(); document.getElementById("seen").innerText = loaded; more(); };
    image.onerror = () => { failed++; more(); };
    image.src = next++ + ".bmp";
    document.body.append(image);
}
for (let i = 0; i < 20; i++) more();
</script>"""


def test_a_server_that_is_replaced_while_images_load_loses_none(site, record):
    first = site.start()
    replaced = []

    def replace():
        first.signal()
        replaced.append(site.start())

    page = record.open(site.page(BUSY % IMAGES), {"thirty": replace}, ignore_https_errors=True)
    page.wait_for_function(f"loaded + failed === {IMAGES}")
    assert page.evaluate("[loaded, failed]") == [IMAGES, 0]
    assert first.wait() == 0
    replaced[0].stop()
    by_first, by_second = map(site.seen, site.logs)
    assert len(by_first) >= 31 and len(by_second) > 0
    asked = sorted(path for path, status in by_first + by_second if status == 200)
    assert asked == sorted(["/tls/files/page.html", *(f"/tls/files/{number}.bmp" for number in range(IMAGES))])
    events = record.events()
    assert len(sessions(events, site)) == 2 and {one["error_code"] for one in events["HTTP2_SESSION_RECV_GOAWAY"]} == {"0 (NO_ERROR)"}
