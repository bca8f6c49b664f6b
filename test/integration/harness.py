"""Owns: starting the programs under test, asking them things, and stopping them.

A program listens on a loopback address that belongs to this test process alone (127.x.y.z made from its pid), so a port
that is free there stays free, whatever else runs on the machine."""
import collections
import contextlib
import functools
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import httpx

import neutral
import wire

BUILD_DIR = pathlib.Path(os.environ.get("UVHTTP_BUILD_DIR", "build")).absolute()
ENGINE = os.environ.get("UVHTTP_ENGINE", "auto")
EXAMPLES = BUILD_DIR / "dist" / "bin"
TEST_PROGRAMS = BUILD_DIR / "test" / "bin"
VERSION = re.search(r'define UVHTTP_VERSION "(.*)"', pathlib.Path(__file__).parents[2].joinpath("include/uvhttp/version.h").read_text())[1]
START_SECONDS = 60  # bounds a hang: under a sanitizer, on a busy machine, a start may take 20 s
STOP_SECONDS = 20
# Clients that a test has not reached yet are silent for longer than the default on a busy machine, and for minutes on an emulated one.
RATE_GRACE = int(os.environ.get("UVHTTP_TEST_RATE_GRACE", "60"))
WATCHDOG = re.compile(r"http: (.* blocked loop \d+|loop \d+ was blocked) for ")
REPORT = re.compile(r"Sanitizer|runtime error:|Assertion .* failed|double free|corrupted")


def own_host():
    pid = os.getpid()
    host = f"127.{1 + (pid >> 16) % 200}.{(pid >> 8) % 256}.{pid % 256}"
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
        return host
    except OSError:
        return "127.0.0.1"


HOST = own_host()


given_ports = collections.deque(maxlen=1000)


def free_port(host=HOST):
    """One that it has not given lately: a server may be asked to listen on several."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        if port not in given_ports:
            given_ports.append(port)
            return port


@functools.cache
def sanitizer():
    """The sanitizers that the programs were built with, "" for none: by what a program says about itself."""
    info = subprocess.run([EXAMPLES / "performance_test", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"-fsanitize=(\S+)", info)
    return found[1] if found else ""


def protocols():
    """Those of neutral clients in this run. Sanitizers make tests slow: with them each protocol runs on one engine, since no
    code is both an engine's and a protocol's."""
    if sanitizer():
        return ["http2" if ENGINE == "uring" else "http1"]
    return list(neutral.PROTOCOLS)


def build_option(name):
    """An option of the build, as the programs know it."""
    info = subprocess.run([EXAMPLES / "performance_test", "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"\b{name}=(\S*)", info)[1]


def run_threads(threads, faults):
    """Runs them to their end; the first of the faults that they have noted is raised."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def poll(what, seconds=10.0, every=0.005, message=None):
    """Calls what() until it is true and returns its result; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        result = what()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(message or f"still false after {seconds} s, last result {result!r}")
        time.sleep(every)


class Server:
    """A running program. `address` is (host, port), or the path of a Unix socket."""

    protocol = "http1"  # that its clients speak; the fixture `protocol` chooses

    def __init__(self, command, address, stderr_path, env=None, says_start=True, **popen):
        self.address = address
        self.says_start = says_start  # one line when all is set up: listeners, then handlers of signals
        self.stderr_path = stderr_path
        self.started_with = None
        self.stopped = False
        self.stop_requested = False
        environment = {**os.environ, "UVHTTP_ENGINE": ENGINE, "UVHTTP_LOG_LEVEL": "warn", **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        with open(stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, env=environment, **popen
            )
        self.control = None

    # --- start and stop ---

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"ended at start with {self.process.returncode}: {self.stderr()}")
            with contextlib.suppress(OSError):
                wire.Connection(self.address).close()
                return True
            return False

        poll(ready, START_SECONDS, message=f"not ready: {self.address}")
        if self.says_start:
            poll(lambda: "listening on" in self.stderr(), START_SECONDS, message="no start line")
        # The connection of ready() has been accepted and that iteration is over: with the next ones it could be accepted in the
        # same, and their time would be counted from its begin, however long ago that is.
        poll(lambda: self.state() == "S", START_SECONDS, message="it does not come to rest")
        self.started_with = self.stderr()
        return self

    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def new_stderr(self):
        """What was written since the server was ready, except the lines of the stall detector: they tell of a machine that has more to
        do than CPUs, too. They are tested by unit tests, which know what keeps a loop."""
        lines = self.stderr()[len(self.started_with) :].splitlines(keepends=True)
        return "".join(line for line in lines if not WATCHDOG.search(line))

    def signal(self, number=signal.SIGTERM):
        self.stop_requested |= number in (signal.SIGTERM, signal.SIGINT)
        self.process.send_signal(number)

    def wait(self, seconds=None):
        """The exit status; the output has no report of a sanitizer. One that was never ready ends by itself: at its start."""
        seconds = seconds or (START_SECONDS if self.started_with is None else STOP_SECONDS)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            threads = self.threads()
            self.kill()
            raise AssertionError(f"still running after {seconds} s; stderr: {self.stderr()}\n{threads}") from None
        finally:
            self.stopped = True
            self.close_control()
        assert not REPORT.search(self.stderr()), self.stderr()
        return status

    def stop(self):
        """SIGTERM: it has to end with status 0."""
        if self.stopped:
            return
        self.close_control()
        if not self.stop_requested:  # a second signal could meet a program whose server has stopped, and end it
            self.signal()
        status = self.wait()
        assert status == 0, f"exit status {status}; stderr: {self.stderr()}"

    def threads(self):
        """What each thread of a server that does not respond is in: its state, CPU time, system call and place in the kernel."""
        lines = []
        for task in sorted(pathlib.Path(f"/proc/{self.pid()}/task").glob("*")):
            with contextlib.suppress(OSError):
                name, fields = (task / "stat").read_text().rsplit(")", 1)
                state, *fields = fields.split()
                call, place = ((task / file).read_text().strip() for file in ("syscall", "wchan"))
                lines.append(f"{name.split('(', 1)[1]} {task.name}: {state}, {fields[10]} + {fields[11]} ticks, {call.split()[0]} {place}")
        return f"{len(lines)} threads:\n" + "\n".join(lines[:30])

    def kill(self):
        self.stopped = True
        self.close_control()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def close_control(self):
        if self.control:
            self.control.close()
            self.control = None

    # --- clients ---

    def connect(self, **options):
        return neutral.PROTOCOLS[self.protocol](self.address, **options)

    def httpx(self, kind=httpx.Client, **options):
        """A client of PyPI's httpx that speaks the protocol."""
        options.setdefault("timeout", wire.TIMEOUT_SECONDS)
        return kind(base_url=self.url(""), http1=self.protocol == "http1", http2=self.protocol == "http2", **options)

    def curl(self, *arguments):
        """The start of a command line."""
        return ["curl", "-sS", "--max-time", "20", "--http1.1" if self.protocol == "http1" else "--http2-prior-knowledge", *arguments]

    def get(self, target, **options):
        """One request on a connection of its own."""
        with self.connect() as connection:
            return connection.get(target, **options)

    def url(self, target="/"):
        host, port = self.address[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{target}"

    def ask(self, target):
        """A request on a connection that is kept: shows that the loop has gone round, costs little."""
        for attempt in range(2):
            if not self.control:
                self.control = wire.Connection(self.address)
            try:
                return self.control.get(target)
            except (OSError, wire.Closed) as error:
                threads = self.threads() if isinstance(error, TimeoutError) else ""
                self.close_control()
                if attempt and threads:
                    raise AssertionError(f"{target}: no response; stderr: {self.stderr()}\n{threads}") from error
                if attempt:
                    raise

    def sync(self):
        """Returns when a server with one loop has seen what was sent before the call."""
        self.ask("/")

    def counters(self):
        return json.loads(self.ask("/counters").body)

    def counter(self, name):
        return self.counters()[name]

    def wait_counter(self, name, value, seconds=10.0):
        poll(lambda: self.counter(name) >= value, seconds, message=f"{name} did not reach {value}: {self.stderr()}")
        assert self.counter(name) == value, name

    # --- the process ---

    def pid(self):
        return self.process.pid

    @contextlib.contextmanager
    def standing_still(self):
        """What clients do meanwhile has all come before the server does anything about any of it."""
        self.process.send_signal(signal.SIGSTOP)
        poll(lambda: self.state() == "T")
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def count_before(self, connection, name, send):
        """How far a counter has come, because of what another client sends, when the server looks at a request that `connection` has sent
        behind it. The server stands still until both have sent, so that what it does first is its own choice."""

        def count():
            return json.loads(connection.response().body)[name]

        connection.send(wire.request(target="/counters"))
        before = count()
        with self.standing_still():
            send()
            connection.send(wire.request(target="/counters"))
        return count() - before

    def state(self):
        """As /proc tells it: R, S, T..."""
        return pathlib.Path(f"/proc/{self.pid()}/stat").read_text().rpartition(")")[2].split()[0]

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        return int(pathlib.Path(f"/proc/{self.pid()}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def resident_bytes_max(self):
        """The most that it ever was."""
        status = pathlib.Path(f"/proc/{self.pid()}/status").read_text()
        return int(re.search(r"^VmHWM:\s*(\d+) kB", status, re.M)[1]) * 1024

    def memory_growth(self, highest=False):
        """Measures from now; `highest`: what counts is the most that it ever held, not what it holds in the end."""
        return MemoryGrowth(self.resident_bytes_max if highest else self.resident_bytes)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid()}/fd"))

    def sockets(self):
        """Of its descriptors, those that no loop opens for itself while it starts."""
        count = 0
        for path in pathlib.Path(f"/proc/{self.pid()}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += os.readlink(path).startswith("socket:")
        return count


class MemoryGrowth:
    """What a program has come to hold since. A sanitizer keeps what was freed and holds shadows of it: there, no bound says
    anything about the program."""

    def __init__(self, measure):
        self.measure, self.before = measure, measure()

    def stays_below(self, size):
        grown = self.measure() - self.before
        assert sanitizer() or grown < size, f"{grown} bytes more than before"


numbers = itertools.count()


def make_serve(directory, servers):
    def serve(program="http_test_server", *args, settings=None, wait=True, address=None, listen=None, prefix=(), hosts=("test",), **options):
        """Starts a program and waits until it takes connections. The test server takes `settings` (fields of the
        configuration) and `listen` (addresses as it understands them; `address` is then where to connect). uvhttp with
        `listen` has them in a file of its own."""
        address = address or (HOST, free_port())
        text = f"{address[0]}:{address[1]}" if listen is None else ""
        if pathlib.Path(program).name == "http_test_server":  # also a copy, by its path
            command = [TEST_PROGRAMS / program]
            for item in [text] if listen is None else listen:
                command += ["--listen", item]
            for name, value in {"rate_grace": RATE_GRACE, **(settings or {})}.items():
                command += ["--set", f"{name}={value}"]
        elif program == "performance_test":
            command = [EXAMPLES / program, "--address", address[0], "--port", address[1], "--io-threads", 1]
        elif program == "uvhttp":
            command = [EXAMPLES / program, "serve"]
            if listen is None:
                command += ["--address", address[0], "--port", address[1]]
            for host in hosts:  # what the tests send as Host
                command += ["--host", host]
        else:
            command = [EXAMPLES / program, text]
        stderr_path = directory / f"{pathlib.Path(program).name}-{next(numbers)}.stderr"
        options.setdefault("says_start", program != "embed_in_uv_loop")  # an attached server says nothing
        server = Server([*prefix, *command, *args], address, stderr_path, **options)
        servers.append(server)
        return server.wait_ready() if wait else server

    return serve


def stop_all(servers):
    errors = []
    for server in servers:
        try:
            server.stop()
        except AssertionError as error:
            server.kill()
            errors.append(error)
    if errors:
        raise errors[0]
