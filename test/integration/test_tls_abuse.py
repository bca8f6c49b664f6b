"""What peers get that do not keep to TLS, are slow, greedy, or gone."""
import contextlib
import json
import os
import ssl
import threading
import time

import pytest

from harness import HOST, free_port, poll
from pki import VERSIONS, ByHand, Pki, TlsConnection
from wire import Closed, Connection, request


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.issue("a", "/CN=a.test", ["a.test"])
    return made


@pytest.fixture
def https(serve, pki):
    def start(*arguments, **options):
        port = free_port()
        server = serve("http_test_server", "--tls-listen", f"{HOST}:{port}", *pki.use("a"), *arguments, **options)
        server.tls = (HOST, port)
        return server

    return start


def alive(server, pki):
    with TlsConnection(server.tls, pki.context()) as connection:
        assert connection.get("/").body == b"Hello, World!"


def alive_again(server, pki):
    """With little time for a handshake a busy machine may need a second one."""

    def responses():
        with contextlib.suppress(Closed, OSError):  # ssl.SSLError is one
            alive(server, pki)
            return True

    poll(responses, seconds=60)


def hello_bytes(server, pki, version=VERSIONS[-1]):
    with ByHand(server.tls, pki.context(version=version)) as client:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.do_handshake()
        return client.outgoing.read()


# --- not TLS ---


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"P", b"OPTIONS * HTTP/1.1\r\n"])
def test_plain_http_is_notified_that_this_is_https(https, pki, line):
    server = https()
    with Connection(server.tls) as client:
        client.send(line)
        response = client.response()
        assert response.status == 400 and response.text == "This port speaks HTTPS.\n"
        assert response.header("Connection") == "close"
        client.assert_closed()
    server.wait_counter("rejected_tls_plain_http", 1)
    alive(server, pki)
    assert server.new_stderr() == ""


@pytest.mark.parametrize("data", [b"\x00", b"\x80\x2e\x01\x00\x02", b"\x17\x03\x03\x00\x01x", bytes(range(128, 256)) * 600])
def test_what_is_not_tls_is_closed(https, pki, data):
    server = https()
    with Connection(server.tls) as client:
        client.send_anyway(data)
        client.assert_closed()
    server.wait_counter("rejected_tls_not_tls", 1)
    alive(server, pki)
    assert server.new_stderr() == ""


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff" + bytes(20000), b"\x16\x03\x03\x00\x04\x01\x00\x00\x00", b"\x16HTTP/1.1"])
def test_broken_handshakes_are_closed(https, pki, data):
    server = https()
    with Connection(server.tls) as client:
        client.send(data + bytes(100))
        client.rest()
    poll(lambda: sum(value for name, value in server.counters().items() if name.startswith("rejected_tls")) == 1)
    alive(server, pki)
    assert server.new_stderr() == ""


def test_a_client_that_does_not_trust_us_is_counted(https, pki):
    server = https()
    with ByHand(server.tls, ssl.create_default_context()) as client:
        with pytest.raises(ssl.SSLCertVerificationError):
            client.handshake()
        client.flush()  # the alert
        client.raw.rest()
    server.wait_counter("rejected_tls_alert", 1)


# --- cut and slow ---


@pytest.mark.parametrize("version", VERSIONS)
def test_byte_at_a_time(https, pki, version):
    server = https()
    with ByHand(server.tls, pki.context(version=version)).handshake(step=1) as client:
        for byte in request(target="/"):
            client.tls.write(bytes([byte]))  # a record each
            client.flush(step=7)
        client.read_until(b"Hello, World!")


@pytest.mark.parametrize("version", VERSIONS)
def test_ends_at_every_point_of_the_handshake(https, pki, version):
    server = https()
    first = hello_bytes(server, pki, version)
    for size in [*range(0, 8), *range(8, len(first), 41), len(first)]:
        for how in ("close", "reset", "half_close"):
            with Connection(server.tls) as client:
                client.send(first[:size])
                getattr(client, how)()
                if how == "half_close":
                    client.rest()
    poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1)
    alive(server, pki)


@pytest.mark.parametrize("version", VERSIONS)
def test_ends_inside_the_second_flight(https, pki, version):
    server = https()
    for cut in (1, 5, 6, 40, 60):
        with ByHand(server.tls, pki.context(version=version)) as client:
            for _ in range(2):
                with contextlib.suppress(ssl.SSLWantReadError):
                    client.tls.do_handshake()
                data = client.outgoing.read()
                if _ == 0:
                    client.raw.send(data)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        while client.pull():
                            client.tls.do_handshake()
                            break
                else:
                    client.raw.send(data[:cut])
            client.raw.reset()
    alive(server, pki)
    poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1)


def test_a_handshake_has_a_deadline(https, pki):
    server = https("--handshake-timeout", "1")
    first = hello_bytes(server, pki)
    with Connection(server.tls) as silent, Connection(server.tls) as half, Connection(server.tls) as started:
        half.send(first[:50])
        started.send(first)
        silent.assert_closed()
        half.assert_closed()
        started.rest()
    server.wait_counter("timeouts_handshake", 3)
    alive_again(server, pki)


def test_many_half_handshakes_do_not_keep_others_waiting(https, pki):
    server = https("--handshake-timeout", "2")
    first = hello_bytes(server, pki)
    clients = [Connection(server.tls) for _ in range(300)]
    for i, client in enumerate(clients):
        client.send(first[: 1 + i % len(first)])
    alive_again(server, pki)
    for client in clients:
        with contextlib.suppress(OSError):
            client.rest()
        client.close()
    poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1)
    assert server.new_stderr() == ""


def test_an_iteration_computes_few_handshakes(https, pki):
    """A ClientHello brings a signature. Forty lie in the sockets of connections that were accepted before; four an iteration."""
    server = https()
    hello = hello_bytes(server, pki)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connection(server.tls)) for _ in range(40)]
        poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1 + len(clients))
        before = server.counter("engine_iterations")
        with server.standing_still():
            for client in clients:
                client.send(hello)
        for client in clients:
            assert client.socket.recv(1) == b"\x16"
        assert server.counter("engine_iterations") - before >= len(clients) // 4
    alive(server, pki)


@pytest.mark.parametrize("begun", [b"\x15\x03\x03\x00\x02\x01\x00", b"nonsense"], ids=["alert", "no-tls"])
def test_who_floods_behind_a_failed_handshake_is_not_waited_for(https, pki, begun):
    """What comes behind the end is read at the rate that it is in clear."""
    server = https()
    flood = bytes(1 << 20)

    def flooded():
        with Connection(server.tls) as one, contextlib.suppress(ConnectionError):
            one.send(begun)
            for _ in range(256):
                one.send(flood)
        return server.counter("closing_floods") > 0

    poll(flooded)
    alive(server, pki)
    assert server.new_stderr() == ""


def test_a_flood_of_handshakes_serves_everybody(https, pki):
    server = https()
    context, errors = pki.context(), []

    def work():
        try:
            for _ in range(15):
                with TlsConnection(server.tls, context) as connection:
                    assert connection.get("/").status == 200
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    assert server.counter("tls_handshakes") == 120


# --- after the handshake ---


@pytest.mark.parametrize("version", VERSIONS)
def test_a_changed_record_ends_the_connection_with_an_alert(https, pki, version):
    server = https()
    with ByHand(server.tls, pki.context(version=version)).handshake() as client:
        client.tls.write(request())
        data = bytearray(client.outgoing.read())
        data[-1] ^= 1
        client.raw.send(data)
        with pytest.raises(ssl.SSLError, match="(?i)bad.record.mac"):
            client.read(1)
    server.wait_counter("rejected_tls_record", 1)
    assert server.new_stderr() == ""


def test_garbage_behind_the_handshake(https, pki):
    server = https()
    for data in (os.urandom(3000), b"\x17\x03\x03\xff\xff" + bytes(3000), b"\x15\x03\x03\x00\x02\x02\x28", b"\x14\x03\x03\x00\x01\x01" * 50):
        with ByHand(server.tls, pki.context()).handshake() as client:
            client.raw.send(data)
            client.raw.rest()
    poll(lambda: server.counter("rejected_tls_record") + server.counter("rejected_tls_alert") >= 3)
    alive(server, pki)


def test_a_body_that_is_cut_off_is_no_end(https, pki):
    server = https()
    with TlsConnection(server.tls, pki.context()) as connection:
        connection.send(request("POST", "/body", body=None, headers=[("Content-Length", 100)]) + b"half")
        server.sync()
        connection.half_close()
        server.wait_counter("rejected_tls_truncated", 1)
    with TlsConnection(server.tls, pki.context()) as connection:  # with close_notify it is the client's decision
        connection.send(request("POST", "/body", body=None, headers=[("Content-Length", 100)]) + b"half")
        server.sync()
        with contextlib.suppress(ssl.SSLError, OSError):
            connection.socket.unwrap()
    server.wait_counter("rejected_http_body_incomplete", 1)
    assert server.counter("rejected_tls_truncated") == 1


# --- slow readers, greedy writers ---


@pytest.mark.parametrize("target", ["/static?size=32000000", "/ref?size=32000000", "file"])
def test_a_slow_reader_does_not_make_us_encrypt_ahead(https, pki, tmp_path, target):
    server = https()
    path = tmp_path / "file"
    if target == "file":
        with open(path, "wb") as out:
            out.truncate(200 << 20)
        target = f"/file?path={path}"
    alive(server, pki)
    growth = server.memory_growth()
    clients = []
    for _ in range(10):
        client = TlsConnection(server.tls, pki.context(), receive_buffer=8192)
        client.send(request(target=target))
        assert client.response_head().status == 200
        clients.append(client)
    for _ in range(20):
        server.sync()
    alive(server, pki)
    growth.stays_below((24 << 20) + (32 << 20) * ("/ref" in target) * 10)
    total = len(clients[0].buffer)
    while total < 20_000_000:
        part = clients[0].socket.recv(1 << 18)
        assert part
        total += len(part)
    for client in clients:
        client.reset()
    poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1)


def test_a_slow_reader_gets_everything(https, pki):
    server = https()
    with TlsConnection(server.tls, pki.context(), receive_buffer=4096) as connection:
        connection.send(request(target="/static?size=3000000") * 3)
        for _ in range(3):
            body = connection.response().body
            assert len(body) == 3000000 and body[:26] == b"abcdefghijklmnopqrstuvwxyz"


def test_who_does_not_read_responses_is_not_read(https, pki):
    server = https()
    growth = server.memory_growth()
    with TlsConnection(server.tls, pki.context(), receive_buffer=4096) as connection:
        connection.socket.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError, ssl.SSLWantWriteError):
            while sent < 200 << 20:
                sent += connection.socket.send(request(target="/static?size=1000") * 200)
        assert sent < 100 << 20
        alive(server, pki)
        growth.stays_below(16 << 20)


def test_requests_behind_a_deferred_one_wait_in_the_kernel(https, pki):
    server = https()
    growth = server.memory_growth()
    with TlsConnection(server.tls, pki.context()) as connection:
        connection.send(request(target="/later?key=held"))
        poll(lambda: server.counter("deferred") == 1)
        connection.socket.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError, ssl.SSLWantWriteError):
            while sent < 100 << 20:
                sent += connection.socket.send(request() * 500)
        assert sent < 64 << 20
        growth.stays_below(8 << 20)
        server.ask("/release?key=held")
        connection.socket.settimeout(20)
        assert connection.response().text == "later"
        for _ in range(100):
            assert connection.response().text == "Hello, World!"


@pytest.mark.parametrize("target", ["/static?size=5000000", "/later?ms=50", "/pieces?count=1000&size=10000", "/"])
def test_clients_that_leave(https, pki, target):
    server = https()
    for how in ("reset", "close"):
        for _ in range(5):
            connection = TlsConnection(server.tls, pki.context())
            connection.send(request(target=target))
            getattr(connection, how)()
    poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1)
    alive(server, pki)


def test_max_connections_counts_handshakes_too(https, pki):
    server = https("--handshake-timeout", "2", settings={"max_connections": 3})
    first = hello_bytes(server, pki)
    waiting = [Connection(server.tls) for _ in range(3)]
    for client in waiting:
        client.send(first[:10])
    alive_again(server, pki)  # it waits in the backlog, or in line, until a handshake has timed out
    for client in waiting:
        client.close()


def test_ticket_of_garbage_is_a_full_handshake(https, pki):
    server = https()
    with pytest.raises((Closed, ssl.SSLError, OSError)), Connection(server.tls) as client:
        data = bytearray(hello_bytes(server, pki))
        data[60:90] = os.urandom(30)
        client.send(data)
        client.response()
    alive(server, pki)


# --- resets, and eviction ---

RESETS = ["resets_idle", "resets_reading", "resets_writing", "resets_closing"]


def open_tls(server, pki):
    connection = TlsConnection(server.tls, pki.context(), receive_buffer=4096)
    assert connection.get("/").status == 200
    return connection


def reset_idle(server, pki):
    return open_tls(server, pki)


def reset_in_a_handshake(server, pki):
    connection = Connection(server.tls)
    connection.send(hello_bytes(server, pki)[:50])
    return connection


def reset_in_a_head(server, pki):
    connection = open_tls(server, pki)
    connection.send(b"GET / HTTP/1.1\r\nHost:")
    return connection


def reset_before_a_response(server, pki):
    connection = open_tls(server, pki)
    connection.send(request("GET", "/later?key=never-released"))
    return connection


@pytest.mark.parametrize(
    "how, phase",
    [(reset_idle, "idle"), (reset_in_a_handshake, "reading"), (reset_in_a_head, "reading"), (reset_before_a_response, "writing")],
)
def test_each_reset_is_counted_once(https, pki, how, phase):
    server = https(settings={"io_threads": 1})
    for number in range(1, 11):
        connection = how(server, pki)
        server.sync()  # it has been seen
        connection.reset()
        poll(lambda: server.counter(f"resets_{phase}") >= number, message=str(server.counters()))
    server.sync()
    counters = server.counters()
    assert {name: counters[name] for name in RESETS} == {**dict.fromkeys(RESETS, 0), f"resets_{phase}": 10}


def test_an_idle_connection_is_evicted_for_a_new_client(https, pki):
    server = https(settings={"max_connections": 4, "io_threads": 1})
    idle = [open_tls(server, pki) for _ in range(4)]
    for _ in range(4):
        new = open_tls(server, pki)
        new.send(b"GET / HTTP/1.1\r\n")  # its own place is in use now
        idle.append(new)
    poll(lambda: not any(connection.quiet() for connection in idle[:4]))
    for connection in idle[4:]:
        connection.send(b"Host: test\r\n\r\n")
        assert connection.response().status == 200


# --- fairness ---


@pytest.mark.serial  # the server stands still meanwhile
@pytest.mark.parametrize("version", VERSIONS)
def test_records_have_a_share_of_an_iteration(https, pki, version):
    """Requests in records of one byte: 256 records are decoded in an iteration, which is less than eight requests, and not the receive
    buffer that holds more than sixty of them."""
    server, data, count = https(), request(target="/n/1"), 200
    assert len(data) > 256 / 8
    with ByHand(server.tls, pki.context(version=version)) as greedy, server.connect() as connection:
        greedy.handshake()

        def send():
            for byte in data * count:
                greedy.tls.write(bytes([byte]))
            greedy.flush()

        for _ in range(3):
            exhausted = server.counter("budget_exhausted")
            assert server.count_before(connection, "requests", send) <= 1 + 2 * 8
            for _ in range(count):
                greedy.read_until(b"\r\n\r\n1")
            assert server.counter("budget_exhausted") - exhausted >= len(data) * count // 256


# --- eviction ---


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_has_sent_part_of_a_record_is_not_evicted(https, pki, version):
    """The socket is empty and no byte of the request can be seen yet: all that has come is inside of the session."""
    server = https(settings={"max_connections": 2, "io_threads": 1})
    body = b"x" * 12000
    with ByHand(server.tls, pki.context(version=version)) as sender, server.connect() as other:
        sender.handshake().tls.write(request("GET", "/"))
        sender.flush()
        assert sender.read_until(b"Hello, World!")
        time.sleep(0.2)  # more than two grains of the clock that tells idle connections apart

        def received():
            return json.loads(other.get("/counters").body)["bytes_received"]

        sender.tls.write(request("POST", "/body", [("Content-Length", str(len(body)))]) + body)
        record = sender.outgoing.read()
        before = received()
        sender.raw.send(record[:11000])
        poll(lambda: received() >= before + 11000)
        with server.connect() as new:
            assert new.get("/").body == b"Hello, World!"
            poll(lambda: not other.quiet())
            other.assert_closed()
            new.send(b"GET / HTTP/1.1\r\n")  # not idle
            sender.raw.send(record[11000:])
            assert sender.read_until(body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 16000])
def test_a_client_whose_records_had_to_wait_is_evicted_later(https, pki, version, size):
    """More requests than an iteration serves, more records than it decodes: they are given to the session in parts, and it is known all the
    time where one ends."""
    server = https(settings={"max_connections": 2, "io_threads": 1})
    data, count = request(target="/n/1"), 4000 if size > 1 else 200
    with ByHand(server.tls, pki.context(version=version)) as greedy, server.connect() as busy:
        greedy.handshake()
        for at in range(0, len(data) * count, size):
            greedy.tls.write((data * count)[at : at + size])
        greedy.flush()
        for _ in range(count):
            greedy.read_until(b"\r\n\r\n1")
        busy.send(b"GET / HTTP/1.1\r\n")
        with server.connect() as new:
            assert new.get("/").body == b"Hello, World!"
        greedy.raw.rest()  # to its end
