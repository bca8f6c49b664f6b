"""What proxies say about clients: header fields and the PROXY protocol, from peers that are trusted and others."""
import contextlib
import json
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time

import pytest

from harness import HOST, free_port, poll
from pki import ByHand, Pki
from wire import Closed, Connection, request

needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def v2(command, family, body):
    return SIGNATURE + struct.pack(">BBH", command, family, len(body)) + body


def inet(source, port):
    return v2(0x21, 0x11, socket.inet_aton(source) + socket.inet_aton("198.51.100.1") + struct.pack(">HH", port, 443))


def inet6(source, port, more=b""):
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, "2001:db8::2")
    return v2(0x21, 0x21, addresses + struct.pack(">HH", port, 443) + more)


def echo(connection, **headers):
    return json.loads(connection.get("/echo", headers=[(name.replace("_", "-"), value) for name, value in headers.items()]).body)


@pytest.fixture
def serve_proxied(serve):
    """A server with two addresses: a plain one, and one where the PROXY protocol is due."""

    def start(*args, trust=("127.0.0.0/8",), settings=None, **options):
        plain, proxied = (HOST, free_port()), (HOST, free_port())
        listen = [f"{plain[0]}:{plain[1]}", f"{proxied[0]}:{proxied[1]} proxy_protocol"]
        words = [word for one in trust for word in ("--trust", one)]
        server = serve("http_test_server", *words, *args, address=plain, listen=listen, settings=settings, **options)
        server.proxied = proxied
        return server

    return start


# --- header fields ---


def test_nobody_is_believed_by_default(server):
    with server.connect() as connection:
        seen = echo(connection, X_Forwarded_For="192.0.2.7", Forwarded="for=192.0.2.7;proto=https", X_Forwarded_Proto="https")
    assert seen["client"] == seen["peer_address"]
    assert seen["client_scheme"] == "http" and seen["client_host"] == "test"


ALL = {"proxy_fields": "for,proto,host"}


def test_a_trusted_proxy_is_believed(serve):
    server = serve("http_test_server", "--trust", "127.0.0.0/8", "--forwarded", "x", settings=ALL)
    with server.connect() as connection:
        seen = echo(connection, X_Forwarded_For="198.51.100.9, 192.0.2.7", X_Forwarded_Proto="https", X_Forwarded_Host="a.example")
        assert (seen["client"], seen["client_scheme"], seen["client_host"]) == ("192.0.2.7", "https", "a.example")
        assert seen["peer_address"].startswith("127.")
        # Each request of a connection has a client of its own, and the other field is not read.
        seen = echo(connection, Forwarded="for=192.0.2.7")
        assert seen["client"] == seen["peer_address"]
        before = server.counter("forwarded_ignored")
        assert echo(connection, X_Forwarded_For="junk")["client"] == seen["peer_address"]
    assert server.counter("forwarded_ignored") == before + 1


def test_the_standard_field_with_ipv6_in_quotes(serve):
    server = serve("http_test_server", "--trust", "127.0.0.0/8", "--forwarded", "standard", settings=ALL)
    with server.connect() as connection:
        seen = echo(connection, Forwarded='for=x;host=evil, for="[2001:db8::7]:4711";proto=https;host=a.example')
    assert (seen["client"], seen["client_scheme"], seen["client_host"]) == ("2001:db8::7", "https", "a.example")


@pytest.mark.parametrize(
    ("fields", "client", "scheme", "host"),
    [
        (None, "192.0.2.7", "http", "test"),
        ("for", "192.0.2.7", "http", "test"),
        ("for,proto", "192.0.2.7", "https", "test"),
        ("host,for", "192.0.2.7", "http", "evil"),
        ("proto", None, "https", "test"),
    ],
)
def test_a_header_that_the_proxy_does_not_set_is_not_believed(serve, fields, client, scheme, host):
    """A proxy that sets only X-Forwarded-For passes the others on as the client wrote them."""
    server = serve("http_test_server", "--trust", "127.0.0.0/8", "--forwarded", "x", settings={"proxy_fields": fields} if fields else None)
    with server.connect() as connection:
        seen = echo(connection, X_Forwarded_For="192.0.2.7", X_Forwarded_Proto="https", X_Forwarded_Host="evil")
    assert (seen["client"], seen["client_scheme"], seen["client_host"]) == (client or seen["peer_address"], scheme, host)


def test_a_parameter_of_the_standard_field_needs_its_address(serve):
    server = serve("http_test_server", "--trust", "127.0.0.0/8", "--forwarded", "standard", settings={"proxy_fields": "proto"}, wait=False)
    assert server.wait() != 0
    assert "fields is 2 without UVHTTP_PROXY_FOR" in server.stderr()


def test_others_are_not_believed(serve):
    server = serve("http_test_server", "--trust", "10.0.0.0/8", "--trust", "unix:", "--forwarded", "x")
    with server.connect() as connection:
        seen = echo(connection, X_Forwarded_For="192.0.2.7", X_Forwarded_Proto="https")
    assert seen["client"] == seen["peer_address"] and seen["client_scheme"] == "http"


def test_a_proxy_at_a_unix_socket(serve, tmp_path):
    path = str(tmp_path / "s")
    server = serve("http_test_server", "--trust", "unix:", "--forwarded", "x", address=path, listen=[f"unix:{path}"])
    with server.connect() as connection:
        assert echo(connection, X_Forwarded_For="192.0.2.7")["client"] == "192.0.2.7"
        assert echo(connection)["client"] == "unix:"


# --- the PROXY protocol ---

HEADERS = [
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n", "192.0.2.7"),
    (b"PROXY TCP6 2001:db8::7 2001:db8::2 50000 443\r\n", "2001:db8::7"),
    (b"PROXY UNKNOWN\r\n", None),
    (inet("192.0.2.7", 50000), "192.0.2.7"),
    (inet6("2001:db8::7", 50000), "2001:db8::7"),
    (inet6("2001:db8::7", 50000, b"\x04\x00\x01\x00" * 500), "2001:db8::7"),
    (v2(0x20, 0, b""), None),
    (v2(0x21, 0x31, bytes(216)), "unix:"),
]


@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_headers_of_both_versions(serve_proxied, pieces):
    server = serve_proxied()
    for header, client in HEADERS:
        data = header + request(target="/echo")
        if pieces == 1000 and len(data) > 1000:
            continue
        with Connection(server.proxied) as connection:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            step = -(-len(data) // pieces)
            for at in range(0, len(data), step):
                connection.socket.sendall(data[at : at + step])
            seen = json.loads(connection.response().body)
            assert seen["client"] == (client or seen["peer_address"])
            assert seen["peer_address"].startswith("127.")
            # It holds for the connection.
            assert echo(connection)["client"] == seen["client"]


def test_a_source_that_is_trusted_itself_may_speak_for_others(serve_proxied):
    server = serve_proxied("--forwarded", "x", trust=("127.0.0.0/8", "192.0.2.0/24"))
    for source, expected in (("192.0.2.7", "203.0.113.5"), ("198.51.100.9", "198.51.100.9")):
        with Connection(server.proxied) as connection:
            connection.socket.sendall(inet(source, 1))
            assert echo(connection, X_Forwarded_For="203.0.113.5")["client"] == expected


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "missing"),
        (b"PROXY TCP4 192.0.2.7\r\n", "malformed"),
        (v2(0x21, 0x12, bytes(12)), "malformed"),
        (b"PROXY UNKNOWN " + b"x" * 200, "too_large"),
        (v2(0x20, 0, bytes(5000)), "too_large"),
    ],
)
def test_what_is_wrong_ends_the_connection_without_a_word(serve_proxied, data, reason):
    server = serve_proxied()
    before = server.counter(f"rejected_proxy_{reason}")
    with Connection(server.proxied) as connection:
        connection.socket.sendall(data)
        with pytest.raises((Closed, ConnectionResetError)):
            connection.response()
    server.wait_counter(f"rejected_proxy_{reason}", before + 1)
    assert server.new_stderr() == ""


def test_an_end_within_the_header_counts_and_one_before_it_does_not(serve_proxied):
    server = serve_proxied()
    Connection(server.proxied).close()
    with Connection(server.proxied) as connection:
        connection.socket.sendall(b"PROXY TC")
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.socket.recv(1) == b""
    server.wait_counter("rejected_proxy_malformed", 1)
    assert server.counter("rejected_proxy_missing") == 0


def test_who_is_not_trusted_is_not_let_in(serve_proxied):
    server = serve_proxied(trust=("192.0.2.1",))
    with Connection(server.proxied) as connection:
        with pytest.raises((Closed, ConnectionResetError, BrokenPipeError)):
            connection.socket.sendall(inet("203.0.113.5", 1) + request())
            connection.response()
    assert server.counter("rejected_proxy_untrusted") >= 1


def test_a_header_that_does_not_come_ends_in_time(serve_proxied):
    server = serve_proxied(settings={"connection_timeout": 1})
    begin = time.monotonic()
    with Connection(server.proxied) as connection:
        connection.socket.sendall(b"PROXY ")
        assert connection.socket.recv(1) == b""
        assert 0.9 < time.monotonic() - begin < 10
    server.wait_counter("rejected_proxy_timeout", 1)


def test_a_stop_does_not_wait_for_a_header(serve_proxied):
    server = serve_proxied()
    with Connection(server.proxied) as connection:
        connection.socket.sendall(b"PROXY ")
        server.sync()
        server.stop()


def refuses(address):
    try:
        Connection(address).close()
        return False
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it came just before the end of the listener
        return True


@pytest.mark.parametrize("asks", [False, True])
def test_a_stop_does_not_wait_for_a_request_behind_a_header(serve_proxied, asks):
    """The header had begun to come: it may end, and a request may follow within drain_idle_ms."""
    server = serve_proxied(settings={"drain_idle_ms": 1000, "drain_timeout": 60})
    with Connection(server.proxied) as connection:
        connection.socket.sendall(b"PROXY TCP4 ")
        server.sync()
        server.close_control()
        server.signal()
        poll(lambda: refuses(server.proxied))
        connection.socket.sendall(b"192.0.2.7 198.51.100.1 50000 443\r\n")
        begin = time.monotonic()
        if asks:
            assert connection.get("/n/2").header("Connection") == "close"
        connection.assert_closed()
        assert time.monotonic() - begin < 10
    assert server.wait() == 0


def test_without_trust_such_an_address_is_refused(serve):
    server = serve("http_test_server", listen=["127.0.0.1:0 proxy_protocol"], address=(HOST, 1), wait=False)
    assert server.wait() == 1
    assert "call uvhttp_server_trust_proxies before" in server.stderr()


def test_wrong_options_end_the_start(serve):
    server = serve("http_test_server", "--trust", "10.0.0.1/8", wait=False)
    assert server.wait() == 1
    assert 'trust_proxies: trusted[0] is "10.0.0.1/8": it has bits set behind its prefix' in server.stderr()


# --- the example ---


@needs_curl
def test_the_example_with_curl(serve):
    port = free_port()
    server = serve("behind_proxy", f"{HOST}:{port}")

    def ask(*options):
        return subprocess.run(["curl", "-sS", "--max-time", "20", *options], capture_output=True, text=True, check=True).stdout

    text = ask("-H", "X-Forwarded-For: 192.0.2.7", "-H", "X-Forwarded-Proto: https", server.url())
    assert re.match(r"192\.0\.2\.7 asked for https://127\.[\d.]+:\d+/, 127\.[\d.]+:\d+ has brought it here", text)
    text = ask("--haproxy-protocol", f"http://{HOST}:{port}/")
    assert re.match(r"127\.[\d.]+ asked for http://", text)


# --- in front of TLS ---


@pytest.mark.parametrize("step", [None, 1, 700])
def test_a_header_stands_before_the_handshake(serve, tmp_path, step):
    pki = Pki(tmp_path)
    pki.issue("a", "/CN=a.test", ["a.test"])
    port = free_port()
    listen = ["--tls-listen", f"{HOST}:{port} proxy_protocol"]
    server = serve("http_test_server", "--trust", "127.0.0.0/8", *listen, *pki.use("a"))
    header = inet("192.0.2.7", 50000)
    with ByHand((HOST, port), pki.context()) as client:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.do_handshake()
        data = header + client.outgoing.read()  # the ClientHello may be in the same bytes
        for at in range(0, len(data), step or len(data)):
            client.raw.send(data[at : at + (step or len(data))])
        assert client.pull()
        client.handshake()
        client.tls.write(request(target="/echo"))
        client.flush()
        head = client.read_until(b"\r\n\r\n").decode()
        seen = json.loads(client.read(int(re.search(r"Content-Length: (\d+)", head)[1])))
    assert (seen["client"], seen["client_scheme"]) == ("192.0.2.7", "https")
    assert seen["peer_address"].startswith("127.")
    # Without a header the handshake does not begin.
    with ByHand((HOST, port), pki.context()) as client:
        with pytest.raises((AssertionError, ConnectionResetError, Closed)):
            client.handshake()
    server.wait_counter("rejected_proxy_missing", 1)


def test_a_handshake_behind_a_header_that_ends_in_a_drain_has_its_time(serve, tmp_path):
    pki = Pki(tmp_path)
    pki.issue("a", "/CN=a.test", ["a.test"])
    port = free_port()
    listen = ["--tls-listen", f"{HOST}:{port} proxy_protocol"]
    settings = {"drain_idle_ms": 300, "drain_timeout": 60}
    server = serve("http_test_server", "--trust", "127.0.0.0/8", *listen, *pki.use("a"), settings=settings)
    header = inet("192.0.2.7", 50000)
    with ByHand((HOST, port), pki.context()) as client:
        client.raw.send(header[:20])
        server.sync()
        server.close_control()
        server.signal()
        poll(lambda: refuses((HOST, port)))
        client.raw.send(header[20:])
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.do_handshake()
        hello = client.outgoing.read()
        client.raw.send(hello[:10])
        time.sleep(1)  # longer than drain_idle_ms: it has begun
        client.raw.send(hello[10:])
        client.handshake()
        client.tls.write(request(target="/echo"))
        client.flush()
        assert "Connection: close" in client.read_until(b"\r\n\r\n").decode()
    assert server.wait() == 0


# --- connections per address ---


def come_in(server, header):
    connection = Connection(server.proxied)
    connection.send(header)
    assert connection.get("/").status == 200
    return connection


def test_connections_are_counted_for_the_client_that_the_proxy_names(serve_proxied):
    server = serve_proxied(settings={"connections_per_address_max": 2, "io_threads": 1})
    groups = {
        "an IPv4 address": [inet("192.0.2.7", 1), inet("192.0.2.7", 2), inet("192.0.2.7", 3)],
        "a /64": [inet6("2001:db8:1:2::1", 1), inet6("2001:db8:1:2:ffff::9", 2), inet6("2001:db8:1:2:8000::3", 3)],
        "IPv4 within IPv6": [inet("192.0.2.8", 1), inet6("::ffff:192.0.2.8", 2), inet("192.0.2.8", 3)],
    }
    for name, (first, second, third) in groups.items():
        inside = [come_in(server, first), come_in(server, second)]
        before = server.counter("connections_refused_address")
        for _ in range(3):
            with pytest.raises((Closed, ConnectionError)):
                come_in(server, third)
        assert server.counter("connections_refused_address") == before + 3, name
        inside[0].close()
        server.sync()
        inside[0] = come_in(server, third)
        for connection in inside:
            assert connection.get("/").status == 200, name
    for header in (inet("192.0.2.9", 1), inet6("2001:db8:1:3::1", 1)):  # others, and the next network
        come_in(server, header)


def test_a_trusted_proxy_itself_has_no_limit_per_address(serve_proxied):
    server = serve_proxied(settings={"connections_per_address_max": 1})
    local = v2(0x20, 0, b"")  # it speaks for itself
    assert all(come_in(server, local) for _ in range(5))
    plain = [server.connect() for _ in range(5)]
    assert all(connection.get("/").status == 200 for connection in plain)
    assert server.counter("connections_refused_address") == 0
