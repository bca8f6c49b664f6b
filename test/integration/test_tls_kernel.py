"""kernel_tls: files arrive whole whoever encrypts them. Which of the two it was, the counters say; which it has to be, the
kernel (./dev ktls runs this file on one that can)."""
import contextlib
import os
import socket
import ssl
import subprocess

import pytest

from harness import HOST, free_port, poll
from pki import TlsConnection, needs_openssl, root_with_large_file, serve_root
from wire import request

pytestmark = needs_openssl

SIZE = 3_000_001
SUITES = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
TCP_ULP = 31


def kernel_can():
    with socket.create_server((HOST, 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
            return True
        except OSError:
            return False


CAN = kernel_can()


@pytest.fixture(scope="module")
def data():
    return os.urandom(SIZE)


@pytest.fixture
def https(serve, pki, data, tmp_path):
    root = root_with_large_file(tmp_path, data)
    (root / "small.bin").write_bytes(data[:60_000])
    return serve_root(serve, pki, root, "on")


def connect(server, pki, version=ssl.TLSVersion.TLSv1_3, **options):
    return TlsConnection(server.tls, pki.context(version=version), **options)


def expect_kernel_tls(server, connections, refusals=1):
    """So many connections have asked for a large file. Whoever is refused once is not asked again."""
    expected = (connections, 0) if CAN else (0, min(connections, refusals))
    counters = server.counters()
    assert (counters["tls_kernel"], counters["tls_kernel_refused"]) == expected


class Client:
    """openssl s_client: it chooses the cipher suite, and sends key updates."""

    def __init__(self, server, *arguments):
        command = ["openssl", "s_client", "-connect", "{}:{}".format(*server.tls), "-servername", "a.test", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def send(self, data):
        self.process.stdin.write(data)

    def read(self):
        part = os.read(self.process.stdout.fileno(), 1 << 16)
        self.got = (self.got + part).replace(b"read R BLOCK\n", b"")  # its word for an incomplete record
        return part

    def wait(self, end):
        while end not in self.got:
            assert self.read(), self.got[-1000:]

    def rest(self):
        while self.read():
            pass
        return self.got


@pytest.mark.parametrize("suite", SUITES)
def test_a_file_arrives_whole(https, data, suite):
    with Client(https, "-quiet", "-ciphersuites", suite) as client:
        client.send(request(target="/tls/files/large.bin", headers=[("Connection", "close")]))
        assert client.rest().endswith(b"\r\n\r\n" + data)
    expect_kernel_tls(https, 1)


@pytest.mark.parametrize("where", ["/tls/files/large.bin", "/file?path={root}/large.bin"])
def test_everything_behind_it_arrives_too(https, pki, data, where):
    large = where.format(root=https.root)
    with connect(https, pki) as client:
        assert client.get("/").body == b"Hello, World!"
        for _ in range(2):
            assert client.get(large).body == data
            assert client.get("/").body == b"Hello, World!"
            assert client.get("/tls/files/small.bin").body == data[:60_000]
            assert client.get("/body", method="POST", body=data[:300_000]).body == data[:300_000]
            assert client.get("/missing").status == 404
    expect_kernel_tls(https, 1)


def test_ranges(https, pki, data):
    with connect(https, pki) as client:
        for text, part in (("bytes=0-0", data[:1]), ("bytes=16383-1000000", data[16383:1_000_001]), ("bytes=-70000", data[-70000:])):
            response = client.get("/tls/files/large.bin", [("Range", text)])
            assert response.status == 206 and response.body == part, text
        response = client.get("/tls/files/large.bin", [("Range", "bytes=1-3, 1000000-1200000")])
        assert response.status == 206 and data[1:4] in response.body and data[1_000_000:1_200_001] in response.body
    expect_kernel_tls(https, 1)


def test_pipelined_and_mixed_responses_keep_their_order(https, pki, data):
    wanted = [("/", b"Hello, World!"), ("/tls/files/small.bin", data[:60_000]), ("/tls/files/large.bin", data), ("/", b"Hello, World!"),
              (f"/file?path={https.root}/large.bin&offset=5&size=900000", data[5:900_005]), ("/tls/files/small.bin", data[:60_000])]  # fmt: skip
    with connect(https, pki) as client:
        for _ in range(3):
            client.send(b"".join(request(target=target) for target, _ in wanted))
            for target, body in wanted:
                assert client.response().body == body, target
    expect_kernel_tls(https, 1)


def test_a_slow_client(https, pki, data):
    with connect(https, pki, receive_buffer=8192) as client:
        client.send(request(target="/tls/files/large.bin") + request() + request(target="/tls/files/large.bin"))
        assert client.response_head().status == 200
        with connect(https, pki) as other:
            assert other.get("/tls/files/large.bin").body == data
        assert client._take(SIZE) == data
        assert client.response().body == b"Hello, World!"
        assert client.response().body == data
    expect_kernel_tls(https, 2, refusals=1)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_clients_that_leave(https, pki, data, how):
    for _ in range(4):
        client = connect(https, pki, receive_buffer=8192)
        client.send(request(target="/tls/files/large.bin"))
        assert client.response_head().status == 200
        client.socket.recv(100_000)
        getattr(client, how)()
    poll(lambda: https.counter("connections_accepted") - https.counter("connections_closed") == 1)
    with connect(https, pki) as client:
        assert client.get("/tls/files/large.bin").body == data
    expect_kernel_tls(https, 5)


@pytest.mark.parametrize("receive_buffer", [None, 8192])
@pytest.mark.parametrize("target", ["/tls/files/large.bin", "/"])
def test_the_end_is_announced(https, pki, data, target, receive_buffer):
    with connect(https, pki, receive_buffer=receive_buffer) as client:
        assert client.get("/tls/files/large.bin").body == data
        client.send(request(target=target, headers=[("Connection", "close")]))
        assert client.response_head().status == 200
        got = bytes(client.buffer)
        while part := client.socket.recv(1 << 16):  # SSLEOFError: FIN without close_notify
            got += part
        assert got == (b"Hello, World!" if target == "/" else data)
    expect_kernel_tls(https, 1)


def test_an_idle_connection_is_closed_with_notice(serve, pki, data, tmp_path):
    (tmp_path / "large.bin").write_bytes(data)
    port = free_port()
    options = ["--tls-listen", f"{HOST}:{port}", *pki.use("a"), "--tls-static", tmp_path, "--kernel-tls", "on"]
    server = serve("http_test_server", *options, settings={"keepalive_timeout": 1})
    with TlsConnection((HOST, port), pki.context(version=ssl.TLSVersion.TLSv1_3)) as client:
        assert client.get("/tls/files/large.bin").body == data
        assert client.ended_with_notify()
    assert server.counter("timeouts_keepalive") == 1
    expect_kernel_tls(server, 1)


def test_a_bad_record_gets_an_alert(https, pki, data):
    client = connect(https, pki)
    with client:
        assert client.get("/tls/files/large.bin").body == data
        with socket.socket(fileno=os.dup(client.socket.fileno())) as raw:
            raw.sendall(bytes([23, 3, 3, 0, 40]) + bytes(40))
        with pytest.raises(ssl.SSLError, match="(?i)bad.record.mac"):
            client.socket.recv(100)
    https.wait_counter("rejected_tls_record", 1)
    expect_kernel_tls(https, 1)


def test_a_client_that_asks_for_new_keys_gets_what_it_was_owed(https, data):
    """In the middle of a file, and of one whose response has not begun."""
    with Client(https) as client:
        client.wait(b"Verify return code")
        client.send(request(target="/tls/files/large.bin"))
        client.wait(b"\r\n\r\n" + data[:1000])
        client.send(b"K\n")
        client.wait(data[-100_000:])
        if CAN:
            client.wait(b"closed")
            https.wait_counter("tls_kernel_ended", 1)
    with Client(https) as client:
        client.wait(b"Verify return code")
        client.send(request(target="/tls/files/large.bin"))
        client.wait(data[-100_000:])
        client.got = b""
        deferred = https.counter("deferred")  # files that were not in the cache among them
        client.send(request(target="/later?ms=1000"))
        https.wait_counter("deferred", deferred + 1)
        client.send(b"K\n")
        client.wait(b"later")
        if CAN:
            client.wait(b"closed")
            assert b"Connection: close" in client.got
            https.wait_counter("tls_kernel_ended", 2)


def test_a_client_that_asks_for_new_keys(https, data):
    """The kernel cannot give them: the connection ends, in order. The process can."""
    with Client(https) as client:
        client.wait(b"Verify return code")
        client.send(request(target="/tls/files/large.bin"))
        client.wait(data)
        client.send(b"K\n")
        if CAN:
            client.wait(b"closed")  # what s_client says of close_notify
            https.wait_counter("tls_kernel_ended", 1)
        else:
            client.wait(b"KEYUPDATE")
            client.got = b""
            client.send(request(headers=[("Connection", "close")]))
            client.wait(b"Hello, World!")
            assert https.counter("tls_kernel_ended") == 0
    expect_kernel_tls(https, 1)


def test_new_keys_before_the_file(https, data):
    """The process has changed them: the kernel is not asked."""
    with Client(https) as client:
        client.wait(b"Verify return code")
        client.send(b"K\n")
        client.wait(b"KEYUPDATE")
        client.send(request())
        client.wait(b"Hello, World!")
        client.send(request(target="/tls/files/large.bin"))
        client.wait(data)
    expect_kernel_tls(https, 0)


def test_a_client_that_wants_small_records_stays_in_the_process(https, data):
    with Client(https, "-quiet", "-maxfraglen", "1024") as client:
        client.send(request(target="/tls/files/large.bin", headers=[("Connection", "close")]))
        assert client.rest().endswith(b"\r\n\r\n" + data)
    expect_kernel_tls(https, 0)


def test_tls_1_2_and_small_files_stay_in_the_process(https, pki, data):
    with connect(https, pki, version=ssl.TLSVersion.TLSv1_2) as client:
        assert client.get("/tls/files/large.bin").body == data
    with connect(https, pki) as client:
        for _ in range(3):
            assert client.get("/tls/files/small.bin").body == data[:60_000]
    expect_kernel_tls(https, 0)


def test_without_the_option_nothing_is_asked(serve, pki, data, tmp_path):
    (tmp_path / "large.bin").write_bytes(data)
    port = free_port()
    server = serve("http_test_server", "--tls-listen", f"{HOST}:{port}", *pki.use("a"), "--tls-static", tmp_path)
    with TlsConnection((HOST, port), pki.context(version=ssl.TLSVersion.TLSv1_3)) as client:
        assert client.get("/tls/files/large.bin").body == data
    expect_kernel_tls(server, 0)


def test_what_the_kernel_refuses_is_asked_again_after_a_reload(https, pki, data):
    for _ in range(2):
        for _ in range(3):
            with connect(https, pki) as client:
                assert client.get("/tls/files/large.bin").body == data
        assert https.get("/tls/reload", method="POST").status == 200
    expect_kernel_tls(https, 6, refusals=2)


@pytest.mark.parametrize("program", ["performance_test", "uvhttp"])
def test_the_programs_have_the_option(serve, program, data, tmp_path):
    (tmp_path / "large.bin").write_bytes(data)
    port = free_port()
    ports = {"performance_test": ["--https-port", port, "--static", tmp_path, "--kernel-tls"], "uvhttp": [tmp_path, "--tls", "--kernel-tls"]}
    server = serve(program, *ports[program], wait=False, says_start=False)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = (HOST, port) if program == "performance_test" else server.address
    target = "/static/large.bin" if program == "performance_test" else "/large.bin"

    def response():
        with contextlib.suppress(OSError), TlsConnection(address, context) as client:
            return client.get(target).body

    assert poll(response) == data
