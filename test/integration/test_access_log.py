"""The access log: a line for every way in which a request can end, rotation, and what no client can do to it."""
import base64
import json
import os
import resource
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import neutral
from harness import poll
from wire import request

pytestmark = pytest.mark.neutral

COMBINED = re.compile(r'(\S+) - (\S+) \[(.+?)\] "((?:[^"\\]|\\.)*)" (\d+) (\S+) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"\n')


class Log:
    def __init__(self, serve, tmp_path, kind="json", **options):
        self.path = tmp_path / "access.log"
        self.server = serve("http_test_server", "--access-log", f"{kind}:{self.path}", **options)

    def lines(self, count):
        """All lines once there are so many with a target that is not ours."""

        def read():
            lines = self.path.read_text().splitlines(keepends=True)
            wanted = [line for line in lines if line.endswith("\n") and "/access_log/" not in line and "/counters" not in line]
            return wanted if len(wanted) >= count else None

        return poll(read, message=f"fewer than {count} lines")

    def objects(self, count):
        return [json.loads(line) for line in self.lines(count)]


@pytest.fixture
def version(protocol):
    return neutral.PROTOCOLS[protocol].version


def test_json_has_all_that_is_known(serve, tmp_path):
    log = Log(serve, tmp_path, "json")
    user = base64.b64encode(b"alice:secret").decode()
    headers = [("Authorization", f"Basic {user}"), ("Referer", "http://r.example/"), ("User-Agent", "test/1 \u00fc\"")]
    begin = time.time()
    with log.server.connect() as connection:
        assert connection.get("/private/page?x=1", headers=headers).status == 200
        identity = connection.get("/guarded/own").header("X-Request-Id")
        assert connection.get("/missing").status == 404
    page, guarded, missing = log.objects(3)
    assert page["client"].startswith("127.") and page["protocol"] == connection.version
    assert (page["method"], page["target"], page["user"], page["host"]) == ("GET", "/private/page?x=1", "alice", "test")
    assert (page["status"], page["bytes"]) == (200, len("private"))
    assert page["referer"] == "http://r.example/" and page["user_agent"] == 'test/1 \u00fc"'
    assert 0 <= page["duration_us"] < 20_000_000
    seconds = time.mktime(time.strptime(page["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert int(begin) - 1 <= seconds <= time.time() + 1
    assert guarded["request_id"] == identity and "user" not in guarded and "referer" not in guarded
    assert missing["status"] == 404 and missing["bytes"] > 0


def test_combined_and_common(serve, tmp_path, version):
    for kind in ("combined", "common"):
        (tmp_path / kind).mkdir()
        log = Log(serve, tmp_path / kind, kind)
        log.server.get("/n/7", headers=[("Referer", "r"), ("User-Agent", "u")])
        (line,) = log.lines(1)
        if kind == "common":
            line = line.replace("\n", ' "r" "u"\n')
        client, user, _, first, status, size, referer, agent = COMBINED.fullmatch(line).groups()
        assert client.startswith("127.") and user == "-" and first == f"GET /n/7 {version}"
        assert (status, referer, agent) == ("200", "r", "u") and int(size) > 0


def test_every_way_to_respond_is_a_line(serve, tmp_path, version):
    log = Log(serve, tmp_path)
    with log.server.connect() as connection:
        connection.get("/", method="HEAD")
        connection.get("/empty/204")
        pieces = len(connection.get("/guarded/pieces").body)
        later = len(connection.get("/later?ms=20").body)
        later_pieces = len(connection.get("/later?how=pieces&ms=1").body)
        connection.get("/nothing")
    lines = log.objects(6)
    seen = [(one["status"], one["bytes"]) for one in lines]
    assert seen[:5] == [(200, 0), (204, 0), (200, pieces), (200, later), (200, later_pieces)] and seen[5][0] == 500
    assert lines[3]["duration_us"] >= 19_000
    assert all(one["protocol"] == version and "aborted" not in one for one in lines)


@pytest.mark.http1("HTTP/1.0")
def test_http_1_0_is_shown(serve, tmp_path):
    log = Log(serve, tmp_path)
    with log.server.connect() as connection:
        connection.send(request(target="/", version="HTTP/1.0"))
        connection.response()
    assert log.objects(1)[0]["protocol"] == "HTTP/1.0"


def test_a_client_that_goes_before_its_response_is_499(serve, tmp_path):
    log = Log(serve, tmp_path)
    with log.server.connect() as connection:
        connection.start("/later?key=never", headers=[("User-Agent", "impatient")])
        log.server.sync()
    (one,) = [one for one in log.objects(2) if one["target"] == "/later?key=never"]
    assert (one["status"], one["bytes"], one["aborted"], one["user_agent"]) == (499, 0, True, "impatient")
    assert one["client"].startswith("127.")
    log.server.get("/release?key=never")


def test_no_client_can_forge_a_line(serve, tmp_path, version):
    log = Log(serve, tmp_path, "combined")
    evil = 'x" 200 1 "-" "-"\\'
    with log.server.connect() as connection:
        connection.get("/echo/%0d%0afake", headers=[("User-Agent", evil), ("Referer", "\x80\x9b31m\ttab")])
    (line,) = log.lines(1)
    first, status, _, referer, agent = COMBINED.fullmatch(line).groups()[3:]
    assert first == f"GET /echo/%0d%0afake {version}" and status == "200"
    assert agent == 'x\\" 200 1 \\"-\\" \\"-\\"\\\\' and referer == "\\x80\\x9b31m\\x09tab"
    assert line.isascii() and line.isprintable() is False and line[:-1].isprintable()


def test_no_client_can_forge_an_object(serve, tmp_path):
    """What would end a string, a line or an object of JSON, and bytes that are no UTF-8."""
    log = Log(serve, tmp_path, "json")
    evil = 'x","status":999,"forged":"\\"}{\x80\t'
    with log.server.connect() as connection:
        connection.get('/echo/%0d%0a%22%7d"}', headers=[("User-Agent", evil), ("Referer", "\\")])
    (line,) = log.lines(1)
    one = json.loads(line)
    assert (one["status"], one["target"], one["referer"]) == (200, '/echo/%0d%0a%22%7d"}', "\\") and "forged" not in one
    assert one["user_agent"].startswith('x","status":999,"forged":"\\"}{') and line[:-1].isprintable()


def test_a_log_that_was_renamed_is_begun_anew(serve, tmp_path):
    log = Log(serve, tmp_path)
    log.server.get("/n/1")
    log.lines(1)
    old = tmp_path / "access.log.1"
    log.path.rename(old)
    log.server.get("/n/2")
    assert log.server.get("/access_log/reopen").status == 200
    poll(lambda: json.loads(log.server.get("/access_log/stats").body)["reopened"] == 1)
    log.server.get("/n/3")
    assert [one["target"] for one in log.objects(1) if one["target"].startswith("/n/")] == ["/n/3"]
    assert '"/n/1"' in old.read_text() and '"/n/2"' in old.read_text() and '"/n/3"' not in old.read_text()
    assert oct(log.path.stat().st_mode & 0o777) in ("0o640", "0o600")


def test_all_is_there_when_the_server_has_stopped(serve, tmp_path):
    log = Log(serve, tmp_path, settings={"io_threads": 2})

    def ask(number):
        with log.server.connect() as connection:
            for i in range(200):
                connection.get(f"/n/{number * 1000 + i}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))  # raises what one of them has raised
    dropped = log.server.counters()["access_log_dropped"]
    log.server.stop()
    targets = sorted(json.loads(line)["target"] for line in log.path.read_text().splitlines() if "/n/" in line)
    asked = {f"/n/{number * 1000 + i}" for number in range(4) for i in range(200)}
    assert len(targets) + dropped == 800 and set(targets) <= asked and len(set(targets)) == len(targets)


def serve_into_full_pipe(serve, path):
    """A server whose log is a pipe that nobody reads, and full: its reader is returned, too."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    server = serve("http_test_server", "--access-log", f"json:{path}")
    with server.connect() as connection:
        for _ in range(20):
            for asked in [connection.start("/n/1", headers=[("User-Agent", "u" * 500)]) for _ in range(50)]:
                assert asked.response().status == 200
    return server, reader


def test_a_reader_that_does_not_read_stops_nobody(serve, tmp_path):
    """A pipe of 64 KiB, a ring of 64 KiB: the rest is dropped and counted, and the server ends all the same."""
    path = tmp_path / "pipe"
    server, reader = serve_into_full_pipe(serve, path)
    stats = json.loads(server.get("/access_log/stats").body)
    assert stats["dropped"] > 100
    assert server.counter("access_log_dropped") >= stats["dropped"]
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 15
    os.close(reader)


def test_a_pipe_without_a_reader_does_not_end_the_server(serve, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    server = serve("http_test_server", "--access-log", f"common:{path}")
    os.close(reader)
    for i in range(3):
        server.get(f"/n/{i}")
    poll(lambda: json.loads(server.get("/access_log/stats").body)["failed"] > 2)
    poll(lambda: server.new_stderr().count("access_log: cannot write") == 1)


def stats_of(server):
    return json.loads(server.get("/access_log/stats").body)


def test_a_fifo_without_a_reader_holds_up_neither_start_nor_rotation_nor_the_end(serve, tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    server = serve("http_test_server", "--access-log", f"json:{path}")
    assert f'the FIFO "{path}" has no reader' in server.stderr()
    server.get("/n/1")
    poll(lambda: stats_of(server)["failed"] > 0)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    poll(lambda: server.get("/n/2").status == 200 and stats_of(server)["lines"] > 0)
    os.close(reader)
    assert server.get("/access_log/reopen").status == 200
    poll(lambda: "this FIFO has no reader" in server.stderr() and server.get("/n/3").status == 200)
    server.stop()


def test_a_reader_that_does_not_read_does_not_hold_up_a_rotation(serve, tmp_path):
    """The old file is a full pipe; what comes after the reopening is in the new file, in whole lines."""
    path = tmp_path / "log"
    server, reader = serve_into_full_pipe(serve, path)
    path.unlink()
    assert server.get("/access_log/reopen").status == 200
    poll(lambda: stats_of(server)["reopened"] == 1)
    server.get("/n/2")
    server.stop()
    os.close(reader)
    objects = [json.loads(one) for one in path.read_text().splitlines()]
    assert any(one.get("target") == "/n/2" for one in objects)
    assert any("dropped" in one for one in objects)
    assert "requests were not logged, because lines come faster" in server.stderr()


def test_a_full_disk_leaves_whole_lines_and_exact_counts(serve, tmp_path):
    """RLIMIT_FSIZE stands for the full disk: a write that crosses it is cut in the middle of a line."""
    log = Log(serve, tmp_path)
    limit = 10_000
    for i in range(10):
        log.server.get(f"/n/{i}")
    log.lines(10)
    resource.prlimit(log.server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    poll(lambda: log.server.get("/n/full").status == 200 and stats_of(log.server)["failed"] > 20)
    assert log.path.stat().st_size == limit
    resource.prlimit(log.server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    written = stats_of(log.server)["lines"]
    poll(lambda: log.server.get("/n/again").status == 200 and stats_of(log.server)["lines"] > written)
    stats = stats_of(log.server)
    log.server.stop()
    text = log.path.read_text()
    lines = text.splitlines()
    for line in lines:
        json.loads(line) # none is half, none is two
    assert text.endswith("\n") and stats["lines"] <= len(lines)


def test_a_file_that_cannot_be_opened_ends_the_start(serve, tmp_path):
    server = serve("http_test_server", "--access-log", f"json:{tmp_path}/no/such", wait=False)
    assert server.wait() == 1
    assert "access_log: cannot open path" in server.stderr() and "No such file" in server.stderr()


@pytest.mark.http1("malformed requests")
def test_what_cannot_be_read_is_noted_too(serve, tmp_path):
    """One line for each refusal, with what its request line shows."""
    log = Log(serve, tmp_path, "json", settings={"body_size_max": 10, "connection_timeout": 1})
    refused = [
        (b"GET /x y z HTTP/1.1\r\n\r\n", 400, "GET", "/x"),
        (b"GET /two HTTP/2.0\r\n\r\n", 505, "GET", "/two"),
        (b"HEAD /head HTTP/1.1\r\n\r\n", 400, "HEAD", "/head"),
        (b"\x16\x03\x01", 400, None, None),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n", 414, "GET", None),
        (b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 413, "POST", "/body"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501, "CONNECT", "a:1"),
        (b"GET /late HTTP/1.1\r\nHos", 408, "GET", "/late"),
    ]
    for data, status, _, _ in refused:
        with log.server.connect() as connection:
            connection.send_anyway(data)
            assert connection.response(data[:4].decode("latin-1").strip()).status == status
    lines = log.objects(len(refused))
    assert [(line["status"], line.get("method"), line.get("target")) for line in lines] == [row[1:] for row in refused]
    assert all(line["client"].startswith("127.") for line in lines)
    assert [line.get("host") for line in lines] == [None, None, None, None, None, "a", "a:1", None]
    assert lines[2]["bytes"] == 0 and lines[0]["bytes"] > 0
    (tmp_path / "common").mkdir()
    log = Log(serve, tmp_path / "common", "common")
    with log.server.connect() as connection:
        connection.send_anyway(b"\x16\x03\x01")
        connection.response()
    assert ' "- - HTTP/1.1" 400 ' in log.lines(1)[0]
