"""Owns: a server under test: starting it pinned, waiting until it responds, and ending it. No port is guessed: the kernel chooses two, and a server that finds them in use is an error that says so. Nothing sleeps: readiness is a response."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import IO, Any, Protocol

from uvhttp_bench import processes
from uvhttp_bench.exits import BenchError
from uvhttp_bench.interrupt import held
from uvhttp_bench.loads.base import pinned
from uvhttp_bench.scenarios.catalog import STATIC_SIZES, Scenario

HOST = "127.0.0.1"
START_SECONDS = 15
STOP_SECONDS = 15


@dataclass(frozen=True)
class Workspace:
    """A directory of this run: files to serve, a certificate, the server's output."""

    path: Path

    @property
    def static(self) -> Path:
        return self.path / "static"

    @property
    def certificate(self) -> Path:
        return self.path / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.path / "key.pem"

    def for_load(self, place: int) -> "Workspace":
        """Of one of several servers that are alive at once: its load tool has files of its own; what is served is the same."""
        own = Workspace(self.path / f"{place}")
        own.path.mkdir(exist_ok=True)
        if not own.static.exists():
            own.static.symlink_to(self.static)
        return own


@dataclass(frozen=True)
class Ports:
    http: int
    https: int


class Target(Protocol):
    """One server. `build_info` is what it says about its own build, empty where it says nothing."""

    name: str

    def missing(self) -> str | None:
        """How to get it, or None when it is there."""

    def serves(self, scenario: Scenario) -> bool: ...

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]: ...

    def build_info(self) -> str: ...


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory(prefix="uvhttp-bench-") as name:
        made = Workspace(Path(name))
        made.static.mkdir()
        yield made


def make_files(made: Workspace, scenario: Scenario) -> None:
    """The file that a static scenario asks for: sparse would be cheating, so it is written."""
    for name, size, _ in STATIC_SIZES:
        path = made.static / f"{name}.bin"
        if scenario.path == f"/static/{path.name}" and not path.exists():
            block = bytes(range(256)) * 4096
            with path.open("wb") as file:
                for start in range(0, size, len(block)):
                    file.write(block[: size - start])


def make_certificate(made: Workspace) -> None:
    if made.certificate.exists():
        return
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(made.key), "-out", str(made.certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"no certificate for HTTPS: openssl: {error}; apt-get install openssl") from error


def free_ports() -> Ports:
    with socket.create_server((HOST, 0)) as one, socket.create_server((HOST, 0)) as two:
        return Ports(one.getsockname()[1], two.getsockname()[1])


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    bytes_total: int | None  # of head and body, as they came; None: not known, in chunks and over HTTP/2


class _Lines:
    """A file whose lines are counted."""

    def __init__(self, file: Any) -> None:
        self._file, self.bytes_read = file, 0

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self._file.readline(limit)
        self.bytes_read += len(line)
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Measured(HTTPResponse):
    """Knows how long its head was as it came: its fields do not show the blanks around their values."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.fp: Any = _Lines(self.fp)
        self.head_bytes = 0

    def begin(self) -> None:
        super().begin()
        self.head_bytes = self.fp.bytes_read


def send_request(
    connection: HTTPConnection, path: str, method: str, body: bytes, headers: Sequence[tuple[str, str]]
) -> None:
    given = {name.lower() for name, _ in headers}
    connection.putrequest(method, path, skip_host="host" in given, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    if body:
        if "content-type" not in given:
            connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)


def ask(
    scheme: str, port: int, path: str, method: str = "GET", body: bytes = b"", headers: Sequence[tuple[str, str]] = ()
) -> Response:
    """One request as wrk would send it. Any certificate will do: it is the one made for this run."""
    connection = HTTPConnection(HOST, port, timeout=30)
    if scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(HOST, port, timeout=30, context=context)
    connection.response_class = _Measured
    try:
        send_request(connection, path, method, body, headers)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    assert isinstance(response, _Measured)
    return Response(response.status, content, None if response.chunked else response.head_bytes + len(content))


@dataclass(frozen=True)
class Running:
    pid: int
    ports: Ports
    log: IO[bytes]
    process: "subprocess.Popen[bytes]"

    def port(self, scheme: str) -> int:
        return self.ports.https if scheme == "https" else self.ports.http

    def alive(self) -> bool:
        return self.process.poll() is None

    def log_bytes(self) -> int:
        return os.fstat(self.log.fileno()).st_size

    def log_tail(self) -> str:
        size = self.log_bytes()
        text = os.pread(self.log.fileno(), 2000, max(0, size - 2000)).decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "it printed nothing"


def ended(name: str, when: str, running: Running) -> BenchError:
    code, why = running.process.returncode, running.log_tail()
    if code == 0:
        why += "; a server that puts itself into the background cannot be measured: keep it in the foreground"
    return BenchError(f"{name} ended {when} (exit {code}): {why}")


def _wait_until_listening(running: Running, scheme: str, name: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not running.alive():
            raise ended(name, "while starting", running)
        with contextlib.suppress(OSError), socket.create_connection((HOST, running.port(scheme)), 1):
            return
        time.sleep(0.01)
    where = f"{HOST}:{running.port(scheme)}"
    raise BenchError(f"{name} does not listen on {where} after {seconds:.0f} s; its last line: {running.log_tail()}")


@contextlib.contextmanager
def serve(target: Target, scenario: Scenario, made: Workspace, cpus: Sequence[int]) -> Iterator[Running]:
    """The server, listening; it is gone when the block ends, however it ends."""
    make_files(made, scenario)
    if scenario.scheme == "https":
        make_certificate(made)
    ports = free_ports()
    command = pinned(cpus, target.command(scenario, ports, made))
    mark = uuid.uuid4().hex
    with tempfile.TemporaryFile() as log:
        process = None
        try:
            with held():
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    env={**os.environ, processes.MARK: mark},
                )  # fmt: skip
            running = Running(process.pid, ports, log, process)
            _wait_until_listening(running, scenario.scheme, target.name, getattr(target, "start_seconds", START_SECONDS))
            yield running
        finally:
            if process:
                with held():
                    end(process, getattr(target, "stop_seconds", STOP_SECONDS))
                    processes.kill_marked(mark)


def end(process: "subprocess.Popen[bytes]", seconds: float = STOP_SECONDS) -> None:
    """SIGTERM to the server, and SIGKILL to its process group when it has ended or the time is up."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ask_scenario(running: Running, scenario: Scenario) -> Response:
    scheme = "https" if scenario.scheme == "https" else "http"
    port, method, body = running.port(scheme), scenario.method, scenario.request_body
    if not scenario.http2:
        return ask(scheme, port, scenario.path, method, body, scenario.headers)
    from uvhttp_bench import http2  # not at the top: --help works without PyPI's h2

    status, content = http2.ask(HOST, port, scheme, scenario.path, method, body, scenario.headers)
    return Response(status, content, None)


def probe(running: Running, scenario: Scenario, name: str) -> Response:
    """One response, as it arrives."""
    try:
        return ask_scenario(running, scenario)
    except (OSError, HTTPException) as error:
        why = str(error) or type(error).__name__
        raise BenchError(f"{name} does not respond to {scenario.method} {scenario.path}: {why}") from error
