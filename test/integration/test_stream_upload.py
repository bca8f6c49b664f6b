"""Bodies of any size through examples/stream_upload.c: curl, httpx, h11, and clients that send a byte at a time."""
import functools
import os
import shutil
import subprocess

import h11
import httpx
import pytest

from harness import poll
from wire import chunked, head, request

pytestmark = pytest.mark.neutral
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
MIB = 1 << 20


@functools.cache
def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


SMALL = bytes(i * 7 & 255 for i in range(200_000))


@pytest.fixture
def upload(serve):
    return serve("stream_upload")


def expected(data, files=0):
    return {"size": len(data), "hash": fnv(data), "files": files}


def curl(server, *args, path="/hash", stdin=None):
    command = server.curl(*args, server.url(path))
    result = subprocess.run(command, capture_output=True, check=False, input=stdin)
    assert result.returncode == 0, result.stderr
    return httpx.Response(200, content=result.stdout).json()


@needs_curl
@pytest.mark.parametrize("how", [[], ["-H", "Expect: 100-continue"], ["-H", "Expect:"], ["--limit-rate", "400k"]])
def test_curl_uploads_a_file(upload, tmp_path, how):
    path = tmp_path / "file"
    path.write_bytes(SMALL)
    assert curl(upload, *how, "-T", str(path)) == expected(SMALL)


@needs_curl
def test_curl_sends_chunks_from_a_pipe(upload):
    assert curl(upload, "-T", "-", stdin=SMALL) == expected(SMALL)


@needs_curl
def test_curl_sends_a_form(upload, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(SMALL)
    assert curl(upload, "-F", "note=hello", "-F", f"file=@{path}", path="/form") == expected(SMALL, files=1)


def test_256_mib_take_no_memory(upload):
    block = b"x" * MIB
    growth = upload.memory_growth(highest=True)

    def blocks():
        for _ in range(256):
            yield block

    with upload.httpx(timeout=120) as client:
        response = client.put("/hash", content=blocks())
    assert response.json()["size"] == 256 * MIB
    growth.stays_below(8 * MIB)


def test_httpx_streams_and_uses_the_connection_again(upload):
    with upload.httpx(timeout=30) as client:
        for _ in range(3):
            pieces = (SMALL[at : at + 1000] for at in range(0, len(SMALL), 1000))
            assert client.put("/hash", content=pieces).json() == expected(SMALL)
            files = {"file": ("a.bin", SMALL), "other": ("b.bin", b"")}
            assert client.post("/form", files=files, data={"x": "y"}).json() == expected(SMALL, files=2)


@pytest.mark.http1("a client without HTTP/2")
def test_h11_with_trailers_and_a_second_request(upload):
    with upload.connect() as connection:
        for _ in range(2):
            client = h11.Connection(h11.CLIENT)
            fields = [("Host", "a"), ("Transfer-Encoding", "chunked")]
            connection.send(client.send(h11.Request(method="PUT", target="/hash", headers=fields)))
            connection.send(client.send(h11.Data(data=b"hello ")))
            connection.send(client.send(h11.Data(data=b"world")))
            connection.send(client.send(h11.EndOfMessage(headers=[("X-Check", "1")])))
            body = b""
            while True:
                event = client.next_event()
                if event is h11.NEED_DATA:
                    client.receive_data(connection.socket.recv(65536))
                elif isinstance(event, h11.Response):
                    assert event.status_code == 200
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    break
            assert httpx.Response(200, content=body).json() == expected(b"hello world")


@pytest.mark.http1("bytes of requests")
def test_a_byte_at_a_time_with_pipelined_requests_behind(upload):
    first = head("PUT", "/hash", [("Transfer-Encoding", "chunked")]) + chunked(b"abc", b"de", trailer=b"X-A: 1\r\n")
    with upload.connect() as connection:
        for byte in first + request("PUT", "/hash", body=b"second"):
            connection.send(bytes([byte]))
        assert httpx.Response(200, content=connection.response().body).json() == expected(b"abcde")
        assert httpx.Response(200, content=connection.response().body).json() == expected(b"second")


def test_a_form_beyond_the_limit_of_its_route_is_refused_before_it_is_sent(upload):
    with upload.connect() as connection:
        fields = [("Content-Type", "multipart/form-data; boundary=b"), ("Content-Length", str((10 << 30) + 1))]
        asked = connection.start("/form", [*fields, ("Expect", "100-continue")], method="POST", more=True)
        assert asked.response().status == 413


def test_an_upload_ends_when_the_server_drains(serve, protocol):
    cpu = min(os.sched_getaffinity(0))  # one loop: that it refuses connections says that it drains
    upload = serve("stream_upload", prefix=["taskset", "--cpu-list", str(cpu)])
    with upload.connect() as connection:
        asked = connection.start("/hash", [("Content-Length", "6")], method="PUT", more=True)
        asked.send(b"123")
        with upload.connect() as other:  # the loop has seen the first one
            assert other.get("/hash", method="PUT", body=b"").status == 200
        upload.signal()
        poll(lambda: refused(upload))
        asked.send(b"456")
        asked.end()
        response = asked.response()
        assert response.header("Connection") == ("close" if protocol == "http1" else None)
        assert httpx.Response(200, content=response.body).json() == expected(b"123456")
    assert upload.wait() == 0


def refused(server):
    try:
        server.connect().close()
        return False
    except OSError:
        return True
