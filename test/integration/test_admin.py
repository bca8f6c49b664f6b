"""The admin listener: endpoints, who may reach them, and that it responds whatever the server does."""
import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess

import httpx
import pytest

import harness
from harness import EXAMPLES, HOST, free_port, poll

pytestmark = pytest.mark.threads

TOKEN = "correct-horse-battery-staple"
JSON = {"Content-Type": "application/json"}
HISTORY = 120  # points, UVHTTP__ADMIN_HISTORY
EVENTS_MAX = 16


class Admin:
    """A client of the admin listener of a server."""

    def __init__(self, server, port):
        self.server = server
        self.http = httpx.Client(base_url=f"http://{HOST}:{port}", timeout=20)

    def get(self, path, status=200, **options):
        response = self.http.get(path, **options)
        assert response.status_code == status, response.text
        return response.json()

    def is_healthy(self):
        """At this moment: a loop that the machine does not run for half a second does not respond."""
        return self.http.get("/health").json()["healthy"]


@pytest.fixture
def start(serve):
    """start(setting=value...) is a server with an admin listener on a loopback port."""
    clients = []

    def begin(program="http_test_server", *arguments, env=None, **settings):
        port = free_port()
        settings = {"admin": f"{HOST}:{port}", "io_threads": 1, **settings}
        if program == "http_test_server":
            server = serve(program, *arguments, env=env, settings=settings)
        else:
            server = serve(program, *arguments, *(word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)), env=env)
        clients.append(Admin(server, port))
        return clients[-1]

    yield begin
    for client in clients:
        client.http.close()


def events(response, count):
    """(type, data) of the next events of an open stream."""
    found, kind = [], None
    if not hasattr(response, "lines"):
        response.lines = response.iter_lines()
    for line in response.lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            found.append((kind, json.loads(line.removeprefix("data: "))))
            if len(found) == count:
                return found
    raise AssertionError(f"the stream has ended after {found}")


def ticks_until(response, reached):
    """The data of the ticks up to the first with which reached(ticks) is true. Those that were sent before the call come first, however
    many seconds that were."""
    ticks = []
    for _ in range(30):
        ticks += [data for kind, data in events(response, 1) if kind == "tick"]
        if reached(ticks):
            return ticks
    raise AssertionError(f"not within 30 events: {ticks}")


# --- endpoints ---


def test_health_asks_every_loop(start):
    admin = start(io_threads=3)
    poll(lambda: admin.get("/ready") == {"ready": True, "state": "running"})
    # A loop that has not run for half a second does not respond: on a busy machine that is the truth.
    good = {"healthy": True, "state": "running", "loops": [{"index": i, "responds": True} for i in range(3)]}
    poll(lambda: admin.http.get("/health").json() == good)


def test_health_names_the_loop_that_a_handler_blocks(start, tmp_path):
    admin = start()
    entered, go = tmp_path / "entered", tmp_path / "go"
    with admin.server.connect() as connection:
        connection.send(f"GET /block?entered={entered}&go={go} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        poll(entered.exists)
        health = admin.get("/health", status=503)
        assert health["healthy"] is False and health["loops"] == [{"index": 0, "responds": False}]
        assert admin.get("/connections")["loops_missing"] == [0]
        assert admin.get("/ready")["ready"] is True  # blocked, but not draining
        go.touch()
        assert connection.response().status == 200
    poll(admin.is_healthy)


def test_config_tells_value_origin_and_enforcement(start, tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("# first line\nbacklog: 77\n")
    admin = start("performance_test", "--config", file, keepalive_timeout=61)
    config = admin.get("/config")
    settings = {one["name"]: one for one in config["settings"]}
    assert settings["backlog"]["value"] == "77" and settings["backlog"]["origin"] == f"{file}:2"
    assert settings["keepalive_timeout"]["origin"] == "option" and settings["keepalive_timeout"]["default"] == "60"
    assert settings["max_connections"]["origin"] == "default" and settings["max_connections"]["is_default"] is True
    assert settings["max_connections"]["expected"] == "1..10000000" and "connections_evicted" in settings["max_connections"]["enforced_by"]
    assert settings["log_level"]["group"] == "performance" and settings["log_level"]["live"] is True
    assert settings["log_level"]["origin"] == "UVHTTP_LOG_LEVEL"
    if harness.ENGINE != "auto":
        assert settings["engine"]["origin"] == "UVHTTP_ENGINE" and settings["engine"]["value"] == harness.ENGINE
    assert config["engine"] == {"uring": "io_uring", "epoll": "epoll"}.get(harness.ENGINE, config["engine"])
    assert config["version"] == harness.VERSION


def test_config_is_that_of_the_last_reload(start, tmp_path):
    """But for fields that need a restart. What a reload does not name any more is the default again."""
    file = tmp_path / "server.yaml"
    file.write_text("backlog: 77\ntls_handshake_timeout: 11\nperformance:\n  log_level: error\n")
    admin = start("performance_test", "--config", file, env={"UVHTTP_LOG_LEVEL": None})

    def setting(name):
        one = {one["name"]: one for one in admin.get("/config")["settings"]}[name]
        return one["value"], one["default"], one["origin"]

    built_in = setting("log_level")[1]
    assert setting("log_level") == ("error", built_in, f"{file}:4") and built_in in ("warn", "info")
    file.write_text("backlog: 78\n\ntls_handshake_timeout: 12\n")
    admin.server.signal(signal.SIGHUP)
    poll(lambda: setting("tls_handshake_timeout") == ("12", "10", f"{file}:3"))
    assert setting("backlog") == ("77", "4096", f"{file}:1")
    poll(lambda: admin.get("/log-level")["level"] == built_in)
    assert setting("log_level") == (built_in, built_in, "default")


def test_connections_are_listed_busy_ones_first(start):
    admin = start(io_threads=2)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(admin.server.connect()) for _ in range(7)]
        for client in clients[:3]:
            assert client.get("/").status == 200
        clients[6].send(b"GET / HTTP/1.1\r\nHost: ")
        mine = {"%s:%d" % client.socket.getsockname(): number for number, client in enumerate(clients)}

        def listed():
            """All of them, when the server has read what they have sent, and what was sent to them is acknowledged. The kernel counts
            what it has received, read or not."""
            found = admin.get("/connections")
            rows = {mine[one["peer"]]: one for one in found["connections"] if one["peer"] in mine}
            settled = len(rows) == 7 and rows[6]["state"] != "idle" and all(rows[i]["bytes_acknowledged"] for i in range(3))
            return (found, rows) if settled and found["loops_missing"] == [] else None

        listed, rows = poll(listed)
        assert sorted(rows) == list(range(7)) and listed["total"] >= 7
        assert {rows[i]["state"] for i in range(3)} == {"idle"} and {rows[i]["protocol"] for i in range(3)} == {"http/1"}
        assert rows[6]["state"] == "reading" and rows[6]["bytes_received"] == len(b"GET / HTTP/1.1\r\nHost: ")
        assert rows[0]["bytes_acknowledged"] > 0 and rows[0]["tls"] is False and 0 <= rows[0]["age_s"] < 60
        one = poll(lambda: (found := admin.get("/connections?limit=1"))["loops_missing"] == [] and found)  # one for each loop
        assert one["total"] == listed["total"] and len(one["connections"]) <= 2
    for limit in "0", "1001", "-1", "x", "":
        assert "1..1000" in admin.get(f"/connections?limit={limit}", status=400)["error"]


def test_an_upgraded_connection_and_http2_are_named(start):
    admin = start("performance_test")
    with contextlib.ExitStack() as stack:
        websocket = stack.enter_context(admin.server.connect())
        websocket.send(b"GET /ws HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                       b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
        assert websocket.response().status == 101
        h2 = stack.enter_context(httpx.Client(http1=False, http2=True, base_url=admin.server.url("")))
        assert h2.get("/").http_version == "HTTP/2"
        poll(lambda: {"upgraded", "h2"} <= {one["protocol"] for one in admin.get("/connections")["connections"]})


def test_the_log_level_changes_while_the_server_runs(start):
    admin = start()
    assert admin.get("/log-level") == {"level": "warn"}
    response = admin.http.put("/log-level", json={"level": "debug"})
    assert (response.status_code, response.json()) == (200, {"level": "debug"})
    assert admin.server.get("/").status == 200
    poll(lambda: "DEBUG conn:" in admin.server.stderr())
    assert admin.http.put("/log-level", json={"level": "warn"}).json() == {"level": "warn"}
    for body in b"", b"{}", b'{"level": "loud"}', b'{"level": "debug"} x', b'{"level": "debug\0"}', b"x" * 4000:
        assert admin.http.put("/log-level", content=body, headers=JSON).status_code == 400, body
    assert admin.http.put("/log-level", content=b"x" * 5000, headers=JSON).status_code == 413
    assert admin.get("/log-level") == {"level": "warn"}


def test_metrics_are_those_of_the_server_and_not_of_the_listener(start):
    admin = start()
    before = admin.server.counter("requests")
    for _ in range(5):
        text = admin.http.get("/metrics").text
    assert re.search(r"^# TYPE ", text, re.M)
    assert admin.server.counter("requests") == before + 1  # the question itself


def test_events_bring_the_history_and_then_every_second(start):
    admin = start()
    for _ in range(3):
        assert admin.server.get("/").status == 200
    with admin.http.stream("GET", "/events") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        (first, history), (second, tick) = events(stream, 2)
        # A point that is late, because the machine had more to do, makes the time to the next one shorter.
        last = ticks_until(stream, lambda ticks: 900 <= ticks[-1]["point"]["t"] - ([tick] + ticks)[-2]["point"]["t"] < 20000)[-1]
    assert (first, second) == ("history", "tick") and history["version"] == harness.VERSION
    assert len(history["points"]) <= HISTORY and HOST in history["addresses"]
    assert tick["state"] == "running" and [loop["index"] for loop in last["loops"]] == [0]
    assert last["totals"]["requests"] >= 3 and last["totals"]["2xx"] >= 3
    assert len(tick["point"]["status"]) == 4 and tick["point"]["rss"] > 0
    with admin.http.stream("GET", "/events") as stream:  # what was seen is part of the history now
        ((_, history),) = events(stream, 1)
    assert {tick["point"]["t"], last["point"]["t"]} <= {point["t"] for point in history["points"]}


def test_a_point_counts_the_requests_of_its_second(start):
    admin = start()
    with admin.http.stream("GET", "/events") as stream, admin.server.connect() as client:
        sent, seen, heat = 0, 0.0, 0
        then = events(stream, 2)[1][1]["point"]["t"]
        for _ in range(2):
            for _ in range(50):
                assert client.get("/").status == 200
                sent += 1
            # Most often one tick has them all; a second may end among them.
            for tick in ticks_until(stream, lambda ticks: heat + sum(sum(one["point"]["heat"] or []) for one in ticks) >= sent):
                point = tick["point"]
                seen += point["rate"] * (point["t"] - then) / 1000
                heat += sum(point["heat"] or [])
                then = point["t"]
    assert heat == sent and seen == pytest.approx(sent, rel=0.5)  # rates are per second, and `t` is not the moment that they count to


def test_event_streams_are_limited(start):
    admin = start()
    with contextlib.ExitStack() as stack:
        for _ in range(EVENTS_MAX):
            stream = stack.enter_context(admin.http.stream("GET", "/events"))
            assert stream.status_code == 200
        response = admin.http.get("/events")
        assert response.status_code == 503 and response.headers["Retry-After"]
        assert admin.get("/ready")["ready"] is True
    poll(lambda: admin.http.stream("GET", "/events").__enter__().status_code == 200)


# --- who may do what ---


def test_the_public_address_has_none_of_it(start):
    admin = start("performance_test")  # whose own paths are others
    for path in "/health", "/ready", "/events", "/drain", "/log-level", "/connections":
        assert admin.server.get(path).status == 404
    assert b"uvhttp</title>" not in admin.server.get("/").body


def test_a_page_of_another_site_changes_nothing(start):
    admin = start()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers in {}, form, {"Content-Type": "text/plain"}, {**JSON, "Sec-Fetch-Site": "cross-site"}, {"X-Uvhttp-Admin": "1", "Sec-Fetch-Site": "same-site"}:
        assert admin.http.post("/drain", headers=headers).status_code == 403, headers
        assert admin.http.put("/log-level", content=b'{"level": "debug"}', headers=headers).status_code == 403, headers
    preflight = admin.http.options("/drain", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    assert admin.get("/ready")["ready"] is True and admin.get("/log-level") == {"level": "warn"}


def test_a_page_of_another_site_holds_no_stream_and_asks_no_loop(start):
    """It cannot read the response of its GET, but the response could be kept open. A person may follow a link."""
    admin = start()
    foreign = {"Sec-Fetch-Site": "cross-site"}
    for kind in {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}, {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, {}:
        for path in "/events", "/connections", "/metrics":
            assert admin.http.get(path, headers={**foreign, **kind}).status_code == 403, (path, kind)
    link = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for headers in {**foreign, **link}, {**link, "Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}:
        assert admin.http.get("/metrics", headers=headers).status_code == 200, headers
    assert admin.http.post("/drain", headers={**JSON, **foreign, **link}).status_code == 403


def test_a_loopback_listener_refuses_other_hosts(start):
    admin = start()
    for path in "/", "/config", "/health", "/events":
        assert admin.http.get(path, headers={"Host": "evil.example"}).status_code == 421
    assert admin.http.post("/drain", headers={**JSON, "Host": "evil.example"}).status_code == 421
    assert admin.get("/config", headers={"Host": "localhost:1"})["version"] == harness.VERSION


def test_the_page_is_one_file_that_may_do_little(start):
    admin = start()
    response = admin.http.get("/")
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", policy)
    assert len(response.content) <= 40960
    assert not re.search(r"(?:src|href)=\"(?!data:|metrics|health|config)", response.text) and " on" + "click=" not in response.text
    assert admin.http.get("/config").headers["Cache-Control"] == "no-store"


def test_the_token_is_asked_for(start):
    admin = start(admin_token=TOKEN)
    for path in "/config", "/connections", "/events", "/metrics", "/log-level":
        for credentials in None, "Bearer wrong-horse-battery-staple", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}":
            response = admin.http.get(path, headers={"Authorization": credentials} if credentials else {})
            assert response.status_code == 401 and response.headers["WWW-Authenticate"].startswith("Bearer"), path
    assert admin.http.post("/drain", headers=JSON).status_code == 401
    assert admin.get("/health")["healthy"] is True and admin.get("/ready")["ready"] is True  # for probes
    assert admin.http.get("/").status_code == 200  # shows nothing by itself
    with_token = {"Authorization": f"Bearer {TOKEN}"}
    settings = {one["name"]: one for one in admin.get("/config", headers=with_token)["settings"]}
    assert settings["admin_token"]["value"] == "***"
    assert TOKEN not in admin.http.get("/config", headers=with_token).text and TOKEN not in admin.server.stderr()
    assert admin.http.post("/drain", headers={**JSON, **with_token}).status_code == 202
    assert admin.server.wait() == 0


def refused_start(*arguments):
    """What a start says that fails."""
    command = [EXAMPLES / "performance_test", "--address", HOST, "--port", str(free_port()), *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "UVHTTP_ENGINE": harness.ENGINE})
    assert run.returncode != 0
    return run.stderr


def test_a_token_without_an_address_is_pointed_out(serve):
    server = serve("performance_test", "--admin-token", TOKEN)
    assert "admin_token is set, and there is no admin listener" in server.stderr() and TOKEN not in server.stderr()


def test_an_address_that_others_reach_needs_a_token(start, serve):
    for address in f"0.0.0.0:{free_port()}", f"*:{free_port()}", f"[::]:{free_port()}", f"unix:@uvhttp-test-{os.getpid()}":
        message = refused_start("--admin", address)
        assert "set admin_token" in message and address in message
    for token, why in ("short", "fewer than 16"), (TOKEN + " x", "a character other than"), ("x" * 513, "more than 512"):
        message = refused_start("--admin", f"{HOST}:{free_port()}", "--admin-token", token)
        assert f"admin_token has {why}" in message and token not in message
    assert "expected host:port or unix:/path" in refused_start("--admin", "nonsense")
    port = free_port()
    with socket.socket() as other:
        other.bind((HOST, port))
        other.listen()
        assert "in use" in refused_start("--admin", f"{HOST}:{port}")
    port = free_port("0.0.0.0")  # at every address of the machine, that is
    server = serve("performance_test", "--admin", f"0.0.0.0:{port}", "--admin-token", TOKEN)
    response = httpx.get(f"http://{HOST}:{port}/config", headers={"Authorization": f"Bearer {TOKEN}", "Host": "any.example"})
    assert response.status_code == 200 and f"admin on http://0.0.0.0:{port}/" in server.stderr()


def test_a_unix_socket_is_for_its_owner(serve, tmp_path):
    path = tmp_path / "admin.sock"
    server = serve("performance_test", "--admin", f"unix:{path}")
    assert stat.S_ISSOCK(path.stat().st_mode) and stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://any.example") as client:
        poll(lambda: client.get("/ready").json() == {"ready": True, "state": "running"})
        assert client.get("/health").status_code == 200
    run = subprocess.run(["curl", "-sS", "--max-time", "20", "--unix-socket", path, "-X", "POST", "-H", "X-Uvhttp-Admin: 1", "http://localhost/drain"],
                         capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["state"] in ("draining", "stopped")  # nobody is there to wait for
    assert server.wait() == 0 and "drain, requested by unix:" in server.stderr()


def test_an_inherited_socket_is_judged_by_where_it_listens(serve):
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(16)
        serve("performance_test", "--admin", f"fd:{listener.fileno()}", pass_fds=[listener.fileno()])
        host, port = listener.getsockname()
        poll(lambda: httpx.get(f"http://{host}:{port}/ready").json()["ready"] is True)


# --- whatever the server does ---


def test_it_responds_while_the_server_is_full(start):
    admin = start(max_connections=2, io_threads=2)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(admin.server.connect()) for _ in range(2)]
        for client in clients:  # busy, so that nobody is evicted when the third comes
            client.send(b"GET / HTTP/1.1\r\nHost: ")
        poll(lambda: [one["state"] for one in admin.get("/connections")["connections"]] == ["reading"] * 2)
        clients.append(stack.enter_context(admin.server.connect()))
        clients[2].send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        for _ in range(3):
            poll(lambda: admin.is_healthy() and admin.get("/connections")["total"] == 2)
        with admin.http.stream("GET", "/events") as stream:
            ticks_until(stream, lambda ticks: ticks and ticks[-1]["point"]["connections"] == 2)
        for client in clients[:2]:
            client.send(b"test\r\nConnection: close\r\n\r\n")
            assert client.response().status == 200
        assert clients[2].response().status == 200


def test_it_responds_while_the_server_drains_and_ends_with_it(start):
    admin = start(drain_timeout=20)
    with admin.server.connect() as client, admin.http.stream("GET", "/events") as stream:
        events(stream, 1)
        client.send(b"GET /never HTTP/1.1\r\nHost: test\r\nX: ")
        poll(lambda: [one for one in admin.get("/connections")["connections"] if one["state"] == "reading"])
        response = admin.http.post("/drain", headers=JSON)
        assert response.status_code == 202 and response.json()["state"] == "draining"
        assert admin.get("/ready", status=503) == {"ready": False, "state": "draining"}
        poll(admin.is_healthy)
        assert admin.http.post("/drain", headers=JSON).status_code == 202  # again changes nothing
        ticks_until(stream, lambda ticks: ticks and ticks[-1]["state"] == "draining")
        with pytest.raises(OSError):
            poll(lambda: admin.server.connect().close())  # until the loops have closed their listeners
        client.send(b"x\r\n\r\n")
        assert client.response().status == 404
        list(stream.lines)  # the stream ends
    assert admin.server.wait() == 0


def test_it_takes_no_second_to_stop_with_the_page_open(start):
    admin = start("performance_test")
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            events(stack.enter_context(admin.http.stream("GET", "/events")), 1)
        admin.server.signal()
        assert admin.server.wait(10) == 0


def test_uvhttp_serve_has_it(serve, tmp_path):
    (tmp_path / "site").mkdir()
    port = free_port()
    server = serve("uvhttp", tmp_path / "site", "--admin", f"{HOST}:{port}")
    poll(lambda: httpx.get(f"http://{HOST}:{port}/ready").json() == {"ready": True, "state": "running"})
    assert f"admin on http://{HOST}:{port}/" in server.stderr()
