"""Owns: what is particular to HTTP/2: its scenarios, who speaks it, the probe, the counts and the cross-check."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
from test_agree import rounds
from test_gates import good

from uvhttp_bench import agreement, counts, http2, session
from uvhttp_bench.agreement import H2LOAD, OURS
from uvhttp_bench.exits import UsageError
from uvhttp_bench.loads import h2load, uvhttp_load
from uvhttp_bench.loads.base import Job, Outcome
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.sockets import Moved
from uvhttp_bench.targets import crates, peers
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.command import Command

PORTS = Ports(1001, 1002)
CLEAR, TLS = ("h2-one", "h2-low", "h2-medium", "h2-static-10kb"), ("h2-low-tls", "h2-medium-tls")


def scenario(name: str) -> Scenario:
    return choose([name])[0]


@pytest.fixture
def made(tmp_path: Path) -> Workspace:
    (tmp_path / "static").mkdir()
    return Workspace(tmp_path)


# --- scenarios, generators, servers ---


def test_scenarios_say_how_many_connections_and_streams() -> None:
    found = {one.name: (one.connections, one.pipeline, one.scheme) for one in choose(["http2"])}
    assert set(found) == {*CLEAR, *TLS}
    assert (found["h2-low"], found["h2-medium-tls"]) == ((10, 32, "http"), (50, 100, "https"))
    assert all(one.http2 for one in choose(["h2-*"])) and not scenario("medium").http2


def test_generators_get_the_option_to_speak_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h2load, "find", lambda program, package: program)
    monkeypatch.setattr(uvhttp_load.UvhttpLoad, "_program", lambda self: Path("uvhttp-load"))
    job = Job("http://127.0.0.1:1/", 2, 10, 1, (), pipeline=32, workspace=tmp_path)
    for load, words in ((h2load.H2load(), ["-m", "32"]), (uvhttp_load.UvhttpLoad(), ["--h2", "-m", "32"])):
        over = load.command(replace(job, http2=True))
        assert over[over.index(words[0]) :][: len(words)] == words and "--h1" not in over and "-p" not in over
        assert ("--h1" in load.command(job)) == (load.name == "h2load") and "--h2" not in load.command(job)


def test_wrk_does_not_speak_it_and_h2load_is_the_cross_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for load in (session.Wrk, session.H2load):
        monkeypatch.setattr(load, "missing", lambda self: None)
    assert session.load_for(scenario("h2-low"), "h2load").name == "h2load"
    with pytest.raises(UsageError, match="--tool h2load is the cross-check"):
        session.load_for(scenario("h2-low"), "wrk")
    with pytest.raises(UsageError, match="h2load has no --rate"):
        session.load_for(scenario("h2-low"), "h2load", 100)


def test_servers_serve_it_where_they_speak_it() -> None:
    known = peers.known()
    speakers = {name for name, one in known.items() if one.serves(scenario("h2-low")) and not name.endswith("-copy")}
    assert speakers == {"uvhttp-uring", "uvhttp-libuv", "h2o", "libh2o", "nghttpd", "nginx", "go", "node", "hyper"}
    assert {name for name in speakers if not known[name].serves(scenario("h2-low-tls"))} == {"hyper"}
    assert not known["nghttpd"].serves(scenario("medium")) and not known["node"].serves(scenario("h2-static-10kb"))
    assert not Command("mine", "mine {port}", {"/"}).serves(scenario("h2-one"))


def test_servers_get_the_option_to_speak_it(made: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crates, "rust_server", lambda name, package: Path(package))
    known = peers.known()
    for name, words in (("medium", ["http1"]), ("h2-low", ["h2"])):
        for server in ("node", "hyper"):
            assert [str(word) for word in known[server].command(scenario(name), PORTS, made)][-1:] == words
    known["nginx"].command(scenario("h2-low"), PORTS, made)
    assert "listen 127.0.0.1:1001 http2;" in (made.path / "nginx.conf").read_text()
    assert "listen 127.0.0.1:1002 ssl http2;" in (made.path / "nginx.conf").read_text()
    known["nginx"].command(scenario("medium"), PORTS, made)
    assert "http2" not in (made.path / "nginx.conf").read_text()


def test_nghttpd_has_one_port(made: Workspace) -> None:
    nghttpd = peers.known()["nghttpd"]
    clear, secure = (
        [str(word) for word in nghttpd.command(scenario(name), PORTS, made)] for name in ("h2-low", "h2-low-tls")
    )
    assert clear[-2:] == ["--no-tls", "1001"] and secure[-3:] == ["1002", str(made.key), str(made.certificate)]
    assert (made.path / "index.html").read_bytes() == b"Hello, World!"


# --- the probe ---


def respond(connection: h2.connection.H2Connection, stream: int) -> None:
    connection.send_headers(stream, [(":status", "200"), ("x", "y")])
    connection.send_data(stream, b"Hello, World!", end_stream=True)


@contextmanager
def stub(respond: Callable[[h2.connection.H2Connection, int], None] | bytes) -> Iterator[int]:
    """A server of one connection; bytes are all that it sends."""

    def serve() -> None:
        peer, _ = listener.accept()
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        with peer:
            if isinstance(respond, bytes):
                peer.sendall(respond)
                peer.recv(1 << 16)
                return
            connection.initiate_connection()
            while data := peer.recv(1 << 16):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.DataReceived):
                        connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    if isinstance(event, h2.events.StreamEnded):
                        respond(connection, event.stream_id)
                peer.sendall(connection.data_to_send())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(30)


def ask(port: int, body: bytes = b"") -> tuple[int, bytes]:
    return http2.ask("127.0.0.1", port, "http", "/", "POST" if body else "GET", body, [("X-A", "b")])


def test_the_probe_reads_a_response() -> None:
    for body in (b"", b"x" * 200_000):
        with stub(respond) as port:
            assert ask(port, body) == (200, b"Hello, World!")


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (lambda connection, stream: connection.reset_stream(stream, 8), "ends the stream"),
        (lambda connection, stream: connection.close_connection(11), "ends the stream"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP/1 here"),
        (b"\0\0\0\0\0\0\0\0\0", "does not speak HTTP/2 well"),
        (b"", "closes the connection"),
    ],
)
def test_the_probe_says_what_is_wrong(response: bytes, words: str) -> None:
    with stub(response) as port, pytest.raises(OSError, match=words):
        ask(port)


# --- counts and cross-check ---


def test_the_frames_that_begin_a_connection_are_no_second_response() -> None:
    job = Job("http://127.0.0.1:1/", 1, 1, 1, (), http2=True)
    results = replace(good(), total_requests=1000, bytes_received=35 * 1000)
    said = counts.of_load(job, Outcome(results, "", "", 1, 1))
    settings = 100
    assert counts.counts([said], Moved(1, 20_000, 0, 35 * 1000 + settings), 1000)[0].passed
    assert not counts.counts([said], Moved(1, 20_000, 0, 35 * 990), 1000)[0].passed
    wrong = counts.counts([said], Moved(1, 20_000, 0, 2 * 35 * 1000), 1000)[0]
    assert not wrong.passed and "bytes of responses" in wrong.detail
    assert not counts.counts([said], Moved(1, 20_000, 0, 35 * 1000), 2000)[0].passed
    assert uvhttp_load.sizes_of(job) == (None, None)


def test_without_wrk_h2load_is_the_judge() -> None:
    runs = [run for run in rounds() if run.tool in (OURS, H2LOAD)]
    found = agreement.findings(runs)
    assert {finding.other for finding in found} == {H2LOAD}
    assert {finding.figure: finding.verdict for finding in found}["requests/s"] == agreement.AGREES
