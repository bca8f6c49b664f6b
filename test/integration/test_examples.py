"""The examples do what their opening comments say."""
import asyncio
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import httpx
import pytest
import websockets.sync.client

from harness import EXAMPLES, HOST, VERSION, free_port, poll
from wire import request


def test_hello(serve):
    server = serve("hello")
    response = server.get("/")
    assert response.status == 200 and response.body == b"Hello, World!"
    assert server.get("/other").status == 404


def test_readiness_as_its_deployment_runs_it(serve):
    manifest = pathlib.Path(__file__).parents[2].joinpath("examples/kubernetes.yaml").read_text()
    env = dict(re.findall(r'- name: (UVHTTP_\w+)\n +value: "(.*)"', manifest))
    assert set(env) == {"UVHTTP_DRAIN_GRACE_MS", "UVHTTP_DRAIN_TIMEOUT"}
    assert int(re.search(r"terminationGracePeriodSeconds: (\d+)", manifest)[1]) > int(env["UVHTTP_DRAIN_GRACE_MS"]) / 1000 + int(env["UVHTTP_DRAIN_TIMEOUT"])
    ready, alive = re.findall(r"path: (/\w+)", manifest)
    server = serve("readiness", env={**env, "UVHTTP_DRAIN_GRACE_MS": "3600000", "UVHTTP_DRAIN_IDLE_MS": "0"})
    assert server.get(ready).status == server.get(alive).status == 200
    server.signal()
    poll(lambda: server.get(ready).status == 503)
    assert server.get(alive).status == server.get("/").status == 200
    server.signal()  # ends the grace period, for which no test waits
    assert server.wait() == 0


# --- rest_api ---


def api(server, method, path, value=None):
    body = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    response = server.get(path, method=method, body=body)
    return response.status, json.loads(response.body) if response.body else None


def test_rest_api_keeps_items(serve):
    server = serve("rest_api")
    assert api(server, "GET", "/api/items") == (200, {"items": []})
    assert api(server, "POST", "/api/items", {"name": "tea"}) == (201, {"id": 1, "name": "tea"})
    assert server.get("/api/items", method="POST", body=b'{"name":"milk"}').header("Location") == "/api/items/2"
    assert api(server, "GET", "/api/items/1") == (200, {"id": 1, "name": "tea"})
    assert api(server, "PUT", "/api/items/1", {"name": "green tea"}) == (200, {"id": 1, "name": "green tea"})
    assert api(server, "GET", "/api/items") == (200, {"items": [{"id": 1, "name": "green tea"}, {"id": 2, "name": "milk"}]})
    assert api(server, "GET", "/api/items?after=1&limit=10") == (200, {"items": [{"id": 2, "name": "milk"}]})
    assert api(server, "GET", "/api/items?limit=1") == (200, {"items": [{"id": 1, "name": "green tea"}]})
    assert api(server, "DELETE", "/api/items/1") == (204, None)
    assert api(server, "GET", "/api/items/1")[0] == 404
    assert api(server, "GET", "/api/items") == (200, {"items": [{"id": 2, "name": "milk"}]})


def test_rest_api_refuses_what_is_wrong(serve):
    server = serve("rest_api")
    for body in (b"", b"tea", b'{"name":""}', b'{"name":"a"', b'{"name":"a\\n"}', b'{"name":"' + b"a" * 101 + b'"}', b'{"name":"a"}x'):
        status, response = api(server, "POST", "/api/items", body)
        assert status == 400 and "error" in response, body
    for path in ("/api/items/1", "/api/items/x", "/api/items/-1", "/api/items/99999999999999999999"):
        assert api(server, "GET", path)[0] == 404
        assert api(server, "DELETE", path)[0] == 404
    assert api(server, "GET", "/api/items?limit=0")[0] == 400
    assert server.get("/api/items", method="PATCH").status == 405
    assert server.get("/nothing").status == 404
    assert api(server, "POST", "/api/items", b' { "name" : "a" } ')[0] == 201


def test_rest_api_is_full_at_some_point_and_counts(serve):
    server = serve("rest_api")
    with server.connect() as connection:
        connection.send(request("POST", "/api/items", body=b'{"name":"a"}') * 1001)
        statuses = [connection.response().status for _ in range(1001)]
        assert statuses == [201] * 1000 + [507]
        assert connection.get("/api/items/500", method="DELETE").status == 204
        assert connection.get("/api/items", method="POST", body=b'{"name":"b"}').status == 201
        assert len(json.loads(connection.get("/api/items?limit=1000").body)["items"]) == 1000
        poll(lambda: json.loads(server.ask("/stats").body)["responded"] >= 1004)


# --- embed_in_uv_loop ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_embed_in_uv_loop_ticks_and_ends(serve, number):
    server = serve("embed_in_uv_loop")
    first = int(server.get("/").text.split()[0])
    poll(lambda: int(server.get("/").text.split()[0]) > first)
    with server.connect() as idle:
        idle.get("/")
        server.signal(number)
        assert server.wait() == 0


# --- worker ---


def test_worker_blocks_writes_and_counts(serve):
    server = serve("worker")
    connections = [server.connect() for _ in range(100)]

    def all_at_once():
        start = time.monotonic()
        for connection in connections:
            connection.send(request("GET", "/sleep"))
        for connection in connections:
            assert connection.response().text == "slept\n"
        return time.monotonic() - start < 5

    # Two at a time would take 10 s, on any machine: to have been quicker once is proof.
    poll(all_at_once, seconds=60)
    for connection in connections[:20]:
        connection.send(request("POST", "/accounts/7/deposit"))
    for connection in connections[:20]:
        assert connection.response().text == "done\n"
    for connection in connections:
        connection.close()
    assert server.get("/accounts/7").text == "20\n", "never two at once for one account"
    assert server.get("/lines").text == "".join(f"line {i}\n" for i in range(1, 6))
    with server.connect() as connection:
        connection.send(request("GET", "/page"))
        hints = connection.response_head()
        assert (hints.status, hints.header("Link")) == (103, "</style.css>; rel=preload; as=style")
        assert connection.response().text == "<link rel=stylesheet href=/style.css>A page\n"
    body = b"x" * 3_000_000
    assert server.get("/upload", method="PUT", body=body).text == "3000000 bytes\n"
    poll(lambda: int(server.get("/beats").text) > 1)


# --- save_upload ---


def test_uploads_are_saved_whole_or_not_at_all(serve, tmp_path):
    directory = tmp_path / "uploads"
    directory.mkdir()
    server = serve("save_upload", directory)
    data = bytes(range(256)) * 16_000
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x/a.bin"\r\n\r\n' + data + b"\r\n"
    headers = [("Content-Type", "multipart/form-data; boundary=b")]
    post = lambda body: server.get("/form", method="POST", body=body, headers=headers)
    assert post(part + part + b"--b--\r\n").text == "a.bin: 4096000 bytes\na-1.bin: 4096000 bytes\n"
    assert post(part + part).status == 400
    response = server.get("/body", method="PUT", body=data)
    assert (response.status, response.text) == (201, "upload: 4096000 bytes\n")
    assert sorted(path.name for path in directory.iterdir()) == ["a-1.bin", "a.bin", "upload"]
    assert all(path.read_bytes() == data for path in directory.iterdir())


# --- deferred_reply ---


@pytest.mark.serial
def test_deferred_reply_responds_later_and_in_parallel(serve):
    server = serve("deferred_reply")
    assert server.get("/work?ms=0").text == "done after 0 ms\n"

    def seconds():
        connections = [server.connect() for _ in range(20)]
        start = time.monotonic()
        for connection in connections:
            connection.send(request("GET", "/work?ms=100"))
        for connection in connections:
            assert connection.response().text == "done after 100 ms\n"
            connection.close()
        return time.monotonic() - start

    # Four workers take 500 ms. One takes 2 s or more, on any machine: to have been quicker once is proof.
    poll(lambda: seconds() < 1.5, seconds=60)
    for wrong in ("x", "-1", "10001", "99999999999999"):
        assert server.get(f"/work?ms={wrong}").status == 400


def test_deferred_reply_notices_clients_that_go(serve):
    server = serve("deferred_reply")
    count = lambda: [int(number) for number in re.findall(r"\d+", server.ask("/stats").text)]

    def skips_one():
        before = sum(count()[:2])
        with server.connect() as connection, server.standing_still():  # that it goes is to be seen before the work is done
            connection.send(request("GET", "/work?ms=200"))
            connection.close()
        poll(lambda: sum(count()[:2]) > before)
        done, skipped, gone = count()
        assert skipped == gone
        return skipped > 0  # but for a machine on which the loop is kept waiting for so long

    poll(skips_one, seconds=60)


def test_deferred_reply_finishes_its_work_before_it_ends(serve):
    server = serve("deferred_reply")
    with server.connect() as connection:
        connection.send(request("GET", "/work?ms=400"))
        server.sync()
        server.signal()
        assert connection.response().text == "done after 400 ms\n"
    assert server.wait() == 0


def test_deferred_reply_bounds_its_queue(serve):
    server = serve("deferred_reply")
    connections = [server.connect() for _ in range(110)]
    for connection in connections:
        connection.send(request("GET", "/work?ms=10000"))
    refused = poll(lambda: [connection for connection in connections if not connection.quiet()])
    response = refused[0].response()
    assert response.status == 503 and response.header("Retry-After") == "1"
    for connection in connections:
        connection.close()
    server.kill()  # the workers sleep on


# --- WebSocket: the echo is test_websocket.py's ---

try:
    import websockets
except ImportError:
    websockets = None
needs_websocket = pytest.mark.skipif(not websockets or not (EXAMPLES / "websocket_chat").exists(), reason="built without WebSocket, or no package websockets")


def run_async(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def chat(server, name, **options):
    origin = server.url("/").rstrip("/")
    return websockets.connect(origin.replace("http", "ws") + "/chat" + name, origin=origin, **options)


@needs_websocket
def test_websocket_chat_has_a_page_and_a_topic(serve):
    server = serve("websocket_chat")
    page = server.get("/")
    assert page.status == 200 and page.header("Content-Type").startswith("text/html") and "new WebSocket(" in page.text

    async def talk():
        async with chat(server, "?name=Ann") as ann:
            assert await ann.recv() == "Ann has come"
            async with chat(server, "?name=Be%C3%B1") as ben:
                assert [await ann.recv(), await ben.recv()] == ["Be\u00f1 has come"] * 2
                await ben.send("hello")
                assert [await ann.recv(), await ben.recv()] == ["Be\u00f1: hello"] * 2
            assert await ann.recv() == "Be\u00f1 has left"
            await ann.send(b"binary")
            with pytest.raises(websockets.ConnectionClosed):
                await ann.recv()
            assert ann.close_code == 1003
        async with chat(server, "?name=%ff") as nobody:
            with pytest.raises(websockets.ConnectionClosed):
                await nobody.recv()
            assert nobody.close_code == 1008
        for name in ("", "?name=", "?name=" + "x" * 33, "?name=a%00b"):
            with pytest.raises(websockets.InvalidStatus):
                await chat(server, name)

    run_async(talk())


@needs_websocket
def test_websocket_broadcast_ticks_for_everybody(serve):
    server = serve("websocket_broadcast")
    url = server.url("/ticks").replace("http", "ws")

    async def listen():
        async with websockets.connect(url) as slow, websockets.connect(url + "?fast") as first, websockets.connect(url + "?fast") as second:
            ticks = [json.loads(await first.recv())["tick"] for _ in range(12)]
            assert ticks == list(range(ticks[0], ticks[0] + 12))
            assert json.loads(await second.recv())["tick"] >= ticks[0] - 5
            assert json.loads(await slow.recv())["tick"] % 10 == 0

    run_async(listen())


# --- performance_test ---


def test_performance_test_serves_what_the_standard_measures(serve):
    server = serve("performance_test")
    with server.connect() as connection:
        home = connection.get("/")
        assert home.status == 200 and home.body == b"Hello, World!" and home.header("Content-Type").startswith("text/plain")
        response = connection.get("/api")
        assert response.header("Content-Type") == "application/json" and json.loads(response.body)
        for method in ("POST", "PUT"):
            response = connection.get("/api", method=method, body=b'{"test":"data"}', headers=[("Content-Type", "application/json")])
            assert response.status == 200 and response.body == b'{"test":"data"}'
            assert response.header("Content-Type") == "application/json"
        assert connection.get("/api", method="DELETE").status == 200
        for name, size in (("1kb", 1024), ("10kb", 10240), ("100kb", 102400), ("1mb", 1048576)):
            assert len(connection.get(f"/large/{name}").body) == size
        assert [connection.get("/count").text for _ in range(3)] == ["1", "2", "3"]
        assert connection.get("/nothing").status == 404
    assert server.new_stderr() == "", "no output on the request path"


def test_performance_test_reports_the_settings_in_force_wherever_they_come_from(serve):
    server = serve("performance_test", "--read-buffer-size", 1024, env={"UVHTTP_KEEPALIVE_TIMEOUT": "7"})
    found = json.loads(server.get("/config").body)
    changed = {name: field["value"] for name, field in found["settings"].items() if not field["default"]}
    assert changed["read_buffer_size"] == "1024" and changed["keepalive_timeout"] == "7"
    assert "backlog" in found["settings"] and "backlog" not in changed
    assert found["engine"] in ("io_uring", "epoll") and found["log_level"] == "warn"
    assert f"uvhttp {VERSION}\n{found['build_info']}" == run("--version").stdout


def run(*args, **options):
    return subprocess.run([EXAMPLES / "performance_test", *args], capture_output=True, text=True, timeout=20, **options)


@pytest.mark.parametrize(
    ("args", "name", "value"),
    [
        (["--port", "65536"], "--port", "65536"),
        (["--port", "-1"], "--port", "-1"),
        (["--port", "80x"], "--port", "80x"),
        (["--port", ""], "--port", "''"),
        (["--port="], "--port", "''"),
        (["--port"], "--port", "value"),
        (["--io-threads", "1025"], "--io-threads", "1025"),
        (["--io-threads=99999999999999999999"], "--io-threads", "99999999999999999999"),
        (["--engine", "poll"], "--engine", "poll"),
        (["--no-such"], "--no-such", "unknown"),
        (["8080"], "8080", "unknown"),
        (["--prot=1"], "--prot", "did you mean --port?"),
        (["--keepalive_timeout", "5"], "--keepalive_timeout", "did you mean --keepalive-timeout?"),
        (["--keepalive-timeout", "5m"], "--keepalive-timeout", "1..604800 seconds or never"),
        (["--keepalive-timeout"], "--keepalive-timeout", "needs a value"),
        (["--config"], "--config", "needs a value"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml", "No such file"),
    ],
)
def test_performance_test_refuses_bad_options_in_one_line(args, name, value):
    result = run(*args)
    assert result.returncode == 2 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and name in result.stderr and value in result.stderr


def test_performance_test_reports_how_it_is_used():
    result = run("--help")
    assert result.returncode == 0 and result.stderr == ""
    text = " ".join(result.stdout.split())  # without the ends of lines
    assert "default 127.0.0.1" in text and "default 8080" in text
    for option in ("--port", "--io-threads", "--engine", "--address", "--version", "--config", "--keepalive-timeout"):
        assert option in result.stdout


def free_address(tmp_path):
    return ["--address", f"unix:{tmp_path}/socket"]


with_yaml = pytest.mark.skipif("BUILD_WITH_YAML=ON" not in run("--version").stdout, reason="built without YAML")


@with_yaml
def test_a_wrong_configuration_file_is_reported_with_every_place(tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("io_threads: 1\nmax_conections: 5\nperformance:\n  log_level: loud\n", encoding="utf-8")
    result = run("--config", file)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.splitlines() == [
        f'performance_test: {file}:2:1: there is no field "max_conections", did you mean "max_connections"?',
        f'performance_test: {file}:4:14: log_level is "loud": expected debug, info, warn, error or none',
    ]


@with_yaml
def test_the_command_line_wins_over_the_environment_and_that_over_the_file(serve, tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("headers_size_max: 300\nrequest_line_max: 300\nheader_count_max: 3\nquiet: true\n", encoding="utf-8")
    env = {"UVHTTP_REQUEST_LINE_MAX": "400", "UVHTTP_HEADER_COUNT_MAX": "4"}
    server = serve("performance_test", "--header-count-max=5", "--config", file, env=env, says_start=False)
    assert server.stderr() == "", "quiet, by the file"

    def status(path_size, headers):
        return server.get("/".ljust(path_size, "x"), headers=[(f"x{i}", "y" * size) for i, size in enumerate(headers)]).status

    assert status(1, [310]) == 431 and status(1, [100]) == 200, "the file"
    assert status(350, []) == 404 and status(401, []) == 414, "the environment"
    assert status(1, [1] * 3) == 200 and status(1, [1] * 5) == 431, "the command line; Host is one"


def test_a_wrong_environment_is_reported(tmp_path):
    result = run(*free_address(tmp_path), env={**os.environ, "UVHTTP_BACKLOGS": "7", "UVHTTP_IO_THREADS": "many"})
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        'performance_test: environment: UVHTTP_IO_THREADS is "many": expected 0..1024',
        "performance_test: environment: there is no UVHTTP_BACKLOGS, did you mean UVHTTP_BACKLOG?",
    ]


def test_performance_test_takes_a_unix_socket(serve, tmp_path):
    path = str(tmp_path / "socket")
    server = serve("performance_test", "--address", f"unix:{path}", address=(HOST, 0), wait=False)
    server.address = path
    server.wait_ready()
    assert server.get("/").body == b"Hello, World!"


def test_examples_log_nothing_but_their_start(serve):
    for program in ("hello", "rest_api", "deferred_reply"):
        server = serve(program)
        server.get("/missing")
        with server.connect() as connection:
            connection.send(b"nonsense\r\n\r\n")
            assert connection.response().status == 400
        assert server.new_stderr() == ""
        assert len(server.started_with.splitlines()) == 1


def test_performance_test_serves_files_and_echoes_messages(serve):
    server = serve("performance_test")
    for name, size in (("1kb", 1024), ("10kb", 10240), ("100kb", 102400), ("1mb", 1 << 20)):
        assert server.get(f"/static/{name}.bin").body == server.get(f"/large/{name}").body
        assert len(server.get(f"/large/{name}").body) == size
    host, port = server.address
    with websockets.sync.client.connect(f"ws://{host}:{port}/ws") as socket:
        socket.send("a message")
        assert socket.recv() == "a message"
        socket.send(b"\0" * 100_000)
        assert socket.recv() == b"\0" * 100_000


def test_performance_test_makes_itself_a_certificate(serve):
    port = free_port()
    server = serve("performance_test", "--https-port", port)
    response = httpx.get(f"https://{server.address[0]}:{port}/", verify=False)
    assert (response.status_code, response.text) == (200, "Hello, World!")
    assert server.get("/").body == b"Hello, World!"


def test_performance_test_runs_the_workloads_of_the_thesis_in_each_way(serve):
    server = serve("performance_test")
    counts = [int(server.get(f"/count{way}").text) for way in ("", "/worker", "/coroutine")]
    assert counts == [1, 2, 3], "they count together"
    for way in ("", "/worker", "/coroutine"):
        begin = time.monotonic()
        assert server.get(f"/sleep200{way}").body == b"slept\n"
        assert time.monotonic() - begin >= 0.2
    for way in ("", "/worker", "/coroutine"):
        with server.connect() as connection:
            connection.send(request(target=f"/sleep200{way}"))
    assert server.get("/sleep200").status == 200, "those that have gone leave the others alone"


def test_performance_test_leaves_nothing_behind(serve, tmp_path):
    made = set(pathlib.Path("/tmp").glob("uvhttp-performance-*"))
    server = serve("performance_test")
    mine = set(pathlib.Path("/tmp").glob("uvhttp-performance-*")) - made
    assert mine  # others may start theirs at the same time
    server.stop()
    poll(lambda: any(not directory.exists() for directory in mine))
    server = serve("performance_test", "--static", tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    assert server.get("/static/mine.txt").body == b"mine"
    server.stop()
    assert (tmp_path / "mine.txt").exists()


def test_static_files_serves_a_directory(serve, tmp_path):
    (tmp_path / "app.3f2a9c81.js").write_text("1")
    (tmp_path / "page.html").write_text("<p>page")
    server = serve("static_files", tmp_path)
    assert b"page.html" in server.get("/").body
    page = server.get("/page.html")
    assert page.body == b"<p>page" and page.header("Cache-Control") == "no-cache"
    assert "immutable" in server.get("/app.3f2a9c81.js").header("Cache-Control")
    assert server.get("/missing").status == 404
