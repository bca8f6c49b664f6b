"""Large bodies by TLS, both ways: files of a static mount and of a handler (read by threads), ranges, clients that are slow
or leave, uploads that the handler holds back, forms."""
import contextlib
import json
import os
import ssl

import pytest

from harness import HOST, free_port, poll
from pki import TlsConnection, root_with_large_file, serve_root
from wire import request

SIZE = 12_000_000  # more than sockets and queues hold


@pytest.fixture(scope="module")
def data():
    return os.urandom(SIZE)


@pytest.fixture
def https(serve, pki, data, tmp_path):
    root = root_with_large_file(tmp_path, data)
    return serve_root(serve, pki, root, os.environ.get("UVHTTP_KERNEL_TLS", "off"))  # on: ./dev ktls


def connect(server, pki, **options):
    return TlsConnection(server.tls, pki.context(), **options)


@pytest.fixture(params=["mount", "handler"])
def large(request, https):
    """Where the large file is."""
    return "/tls/files/large.bin" if request.param == "mount" else f"/file?path={https.root}/large.bin"


def all_closed(server):
    poll(lambda: server.counter("connections_accepted") - server.counter("connections_closed") == 1)


def test_a_large_file_and_its_ranges(https, pki, data):
    with connect(https, pki) as connection:
        response = connection.get("/tls/files/large.bin")
        assert response.status == 200 and response.body == data
        tag = response.header("ETag")
        for text, part in (("bytes=0-0", data[:1]), ("bytes=16383-16384", data[16383:16385]), ("bytes=5000000-", data[5_000_000:]), ("bytes=-70000", data[-70000:])):
            response = connection.get("/tls/files/large.bin", [("Range", text)])
            assert response.status == 206 and response.body == part, text
        response = connection.get("/tls/files/large.bin", [("Range", "bytes=1-3, 9000000-9200000")])
        assert response.status == 206 and data[1:4] in response.body and data[9_000_000:9_200_001] in response.body
        assert connection.get("/tls/files/large.bin", [("Range", f"bytes={SIZE}-")]).status == 416
        assert connection.get("/tls/files/large.bin", [("If-None-Match", tag)]).status == 304
        head = connection.get("/tls/files/large.bin", method="HEAD")
        assert head.header("Content-Length") == str(SIZE) and not head.body


def test_a_slow_reader_of_a_file_costs_a_bounded_share(https, pki, large, data):
    connect(https, pki).close()
    growth = https.memory_growth()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(https, pki, receive_buffer=8192)) for _ in range(8)]
        for client in clients:
            client.send(request(target=large))
            assert client.response_head().status == 200
        for _ in range(20):
            https.sync()
        growth.stays_below(24 << 20)  # not the 96 MB of eight files
        with connect(https, pki) as other:
            assert other.get("/").body == b"Hello, World!"
        got = bytes(clients[0].buffer)
        while len(got) < SIZE:
            got += clients[0].socket.recv(1 << 18)
        assert got == data


def test_files_of_handlers_come_in_order(https, pki, data):
    (https.root / "small.txt").write_bytes(b"small")
    (https.root / "empty.txt").write_bytes(b"")
    wanted = [("large.bin", "", data), ("small.txt", "", b"small"), ("empty.txt", "", b""), ("large.bin", "&offset=100&size=5000000", data[100:5_000_100])] * 2
    with connect(https, pki) as client:
        client.send(b"".join(request(target=f"/file?path={https.root}/{name}{rest}") for name, rest, _ in wanted))
        for _, _, body in wanted:
            assert client.response().body == body
        assert client.get(f"/file?path={https.root}/large.bin", method="HEAD").header("Content-Length") == str(SIZE)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_clients_that_leave_in_the_middle_of_a_file(https, pki, large, how):
    for _ in range(6):
        client = connect(https, pki, receive_buffer=8192)
        client.send(request(target=large))
        assert client.response_head().status == 200
        client.socket.recv(100_000)
        getattr(client, how)()
    all_closed(https)
    with connect(https, pki) as client:
        assert client.get("/").status == 200


def test_a_file_that_becomes_shorter_ends_before_its_size(https, pki, large):
    with connect(https, pki, receive_buffer=8192) as client:
        client.send(request(target=large))
        assert client.response_head().status == 200
        os.truncate(https.root / "large.bin", 1000)
        got = len(client.buffer)
        with contextlib.suppress(ssl.SSLEOFError):
            while part := client.socket.recv(1 << 18):
                got += len(part)
        assert got < SIZE


def test_an_upload_is_held_back_until_the_handler_continues(https, pki, data):
    with connect(https, pki) as client:
        growth = https.memory_growth()
        client.send(request("PUT", "/tls/sum?hold=1", body=None, headers=[("Content-Length", SIZE * 2)]))
        client.socket.settimeout(0.5)
        sent, whole = 0, memoryview(data * 2)
        with contextlib.suppress(TimeoutError, ssl.SSLWantWriteError):
            while sent < len(whole):
                sent += client.socket.send(whole[sent : sent + 16384])
        assert sent < len(whole), "nobody has taken it"
        growth.stays_below(8 << 20)
        assert https.ask("/counters").status == 200
        assert https.get("/tls/proceed", method="POST").status == 204
        client.socket.settimeout(20)
        client.socket.sendall(whole[sent:])
        assert json.loads(client.response().body) == {"bytes": 2 * SIZE, "sum": 2 * sum(data), "parts": 0}


def test_an_upload_that_is_given_up(https, pki):
    for how in ("close", "reset"):
        client = connect(https, pki)
        client.send(request("PUT", "/tls/sum", body=None, headers=[("Content-Length", SIZE)]) + bytes(300_000))
        getattr(client, how)()
    all_closed(https)


def test_a_multipart_upload(https, pki, data):
    part = data[:3_000_000]
    body = b"--cut\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nsmall\r\n"
    body += b"--cut\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n" + part + b"\r\n--cut--\r\n"
    with connect(https, pki) as client:
        response = client.get("/tls/form", [("Content-Type", "multipart/form-data; boundary=cut")], method="POST", body=body)
        assert json.loads(response.body) == {"bytes": len(part) + 5, "sum": sum(part) + sum(b"small"), "parts": 2}
        assert client.get("/").status == 200
