"""Owns: one server that is tortured: its start, one scenario with one failure, and what has to be true afterwards."""
import contextlib
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import time

import clients
import collector
import harness
import readers
import scenarios
import wire
from control import Control
from service import Service
from test_redis import Redis

SETTINGS = {
    "connection_timeout": 1, "body_timeout": 1, "write_timeout": 1, "tls_handshake_timeout": 1, "drain_timeout": 2,
    "worker_threads": 2, "spool_memory": 4096,
}  # fmt: skip
FILES = 400
REST_SECONDS = 20  # a wait that is over when nothing is left; so are the others but SETTLE_SECONDS
SETTLE_SECONDS = 0.3
END_SECONDS = 20
SPAN_SECONDS = 30
LOG_LINE = re.compile(r"\S+ \S+ .*\bpattern: line [0-4] of 5 for \d+")
LOG_LINE_OR_REPORT = r"\S+ \S+ .*\bpattern: line [0-4] of 5 for \d+|\S+ (?:WARN |ERROR) .*|uvhttp .* listening on .*|(?:uvhttp|pattern_server): .*"
TIMER = "anon_inode:[timerfd]"
LINE = re.compile(r'(127\.\d+\.\d+\.\d+|unknown) - - \[[^]]+\] "(GET /\S* HTTP/1\.1|-|uvhttp: \d+ requests dropped here)" \d+ (\d+|-)')


class Torture:
    """What scenarios call `run`. needs: "redis", "log", "upstream", "collector", "service", "nobody" (a service that drops its
    privileges), "access pipe" and "log pipe" (lines go to a pipe) and "listener" (which it inherits), for scenarios that want more than
    the server."""

    def __init__(self, directory, backend, needs=()):
        self.directory, self.backend, self.needs = pathlib.Path(directory), backend, needs
        self.program = harness.TEST_PROGRAMS / "pattern_server"
        self.seeds = clients.Seeds()
        self.outcomes = {}
        self.files = self.starts = self.lines_due = 0
        self.server = self.redis = self.upstream = None
        self.known = None
        self.most = []
        self.around = contextlib.ExitStack()
        self.collector = self.around.enter_context(collector.collector()) if "collector" in needs else None
        self.service = self.around.enter_context(contextlib.closing(Service(directory))) if "service" in needs else None
        self.log = self.directory / "access.log"
        self.pipe = self.around.enter_context(contextlib.closing(self.make_pipe())) if needs and needs[0].endswith(" pipe") else None
        self.listener = self.around.enter_context(socket.create_server((harness.HOST, 0))) if "listener" in needs else None
        self.uploads = self.folder("uploads")
        self.static = self.folder("static")
        self.folder("spool")
        body = clients.pattern(clients.SEEDS * 4, 40000)
        (self.static / "body").write_bytes(body)
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.context2 = ssl.create_default_context()
        self.context2.check_hostname, self.context2.verify_mode = False, ssl.CERT_NONE
        self.context2.set_alpn_protocols(["h2"])

    def make_pipe(self):
        return readers.Pipe(self.directory / "pipe", LINE.pattern if "access pipe" in self.needs else LOG_LINE_OR_REPORT)

    def folder(self, name):
        path = self.directory / name
        path.mkdir(exist_ok=True)
        return path

    def new_file(self):
        """A name that the server has no file open for."""
        self.files += 1
        name = f"{self.files}.bin"
        with contextlib.suppress(FileNotFoundError):
            (self.static / f"{self.files - FILES}.bin").unlink()
        os.link(self.static / "body", self.static / name)
        return name

    def note(self, outcome):
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    # --- the server ---

    def make(self):
        """A server that has not been waited for; its control can be asked before to let its start fail."""
        self.starts += 1
        self.lines_due = 0
        self.control = Control(self.directory / f"control-{self.starts}", self.known)
        self.address, self.tls_address = (harness.HOST, harness.free_port()), (harness.HOST, harness.free_port())
        text = "%s:%d"
        settings = dict(SETTINGS)
        if "nobody" not in self.needs:  # who may not write below the test's directory
            settings["spool_directory"] = self.directory / "spool"
        environment = {"FAIL_CALLS_CONTROL": str(self.control.path), "UVHTTP_ENGINE": self.backend}
        if self.collector:
            self.collector.bodies.clear()
            settings |= {"trace": "on", "trace_endpoint": self.collector.url, "trace_delay_ms": 1}
        if self.service:
            self.service.control = self.control.path
            settings |= self.service.settings("nobody" in self.needs)
            environment |= self.service.environment()
        if self.listener:
            self.address = self.listener.getsockname()
        listen = "systemd" if self.listener else text % self.address
        command = [self.program, "--listen", listen, "--tls-listen", text % self.tls_address, "--directory", self.static]
        command += ["--uploads", self.uploads] + (["--service", "on"] if self.service else [])
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        if "redis" in self.needs:
            self.redis = self.redis or Redis(self.directory).start()
            command += ["--redis", self.redis.address]
        if "log" in self.needs:
            command += ["--access-log", self.log]
        if "access pipe" in self.needs:
            command += ["--access-log", self.pipe.path]
        if "log pipe" in self.needs:
            command = ["sh", "-c", 'exec "$@" 2> "$0"', self.pipe.path, *command]
        if self.listener:
            command = [sys.executable, "-c", readers.ACTIVATE, self.listener.fileno(), *command]
        if "upstream" in self.needs:
            command += ["--upstream", text % self.start_upstream()]
        return command, environment

    def start_upstream(self):
        if not self.upstream:
            address = (harness.HOST, harness.free_port())
            command = [self.program, "--listen", "%s:%d" % address]
            self.upstream = harness.Server(command, address, self.directory / "upstream.err", {"UVHTTP_ENGINE": self.backend}).wait_ready()
        return self.upstream.address

    def launch(self, command, environment):
        options = {"pass_fds": [self.listener.fileno()]} if self.listener else {}
        path = self.directory / f"server-{self.starts}.err"
        self.server = harness.Server(command, self.address, path, environment, "log pipe" not in self.needs, **options)
        return self.server

    def start(self):
        self.launch(*self.make()).wait_ready()
        self.known = self.control.names
        self.control.relieve()
        return self

    def disarm(self):
        self.control["call"], self.control["fail_first"] = -1, 0

    def close(self):
        if self.server and not self.server.stopped:
            self.server.kill()
        if self.service and self.service.control:
            self.service.kill_all()
        self.around.close()
        if self.upstream:
            self.upstream.kill()
        if self.redis:
            self.redis.stop()

    # --- one run ---

    def probe(self):
        """Nothing fails now: a new client gets what it asks for."""
        seed = self.seeds.next()
        with wire.Connection(self.address, timeout=clients.SECONDS) as client:
            response = client.get(f"/copy/{seed}/1000")
        if response.status != 200 or response.body != clients.pattern(seed, 1000):
            raise clients.Fault(f"not served afterwards: {response.status}")
        if self.service:
            self.service.check_admin()

    def open_connections(self):
        seen = self.server.counters()
        return seen["connections_accepted"] - seen["connections_closed"] - 1  # the one that asks

    def descriptors(self):
        """All but what a loop makes for itself when it is first needed."""
        found = []
        for path in pathlib.Path(f"/proc/{self.server.pid()}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(path))
        if TIMER in found:  # the loop's own, made when it is needed first
            found.remove(TIMER)
        return sorted(name.rstrip("0123456789[]") for name in found)

    def rest(self):
        """Waits until no connection is open, and no descriptor more than at first."""
        deadline = time.monotonic() + REST_SECONDS
        while (left := self.open_connections()) or len(self.descriptors()) > len(self.before):
            if self.server.process.poll() is not None:
                return
            if time.monotonic() > deadline:
                more = [name for name in self.descriptors() if name not in self.before]
                raise clients.Fault(f"left behind: {left} connections, descriptors {len(self.descriptors())}/{len(self.before)} {more}")
            time.sleep(0.002)

    def warm(self, scenario):
        """Makes what is made once: threads, pools, the files that stay open."""
        for _ in range(4):
            scenario(self)
        self.look_around()
        self.most = self.before
        self.outcomes = {}

    def look_around(self):
        """Before the first failure. A server that has not been warmed may come to hold as much as one that has."""
        self.server.counters()
        if self.collector:  # the exporter makes its loop in a thread of its own: it is there when a span has arrived
            harness.poll(lambda: self.collector.bodies, SPAN_SECONDS, message="no span arrives")
        self.before = max(self.descriptors(), self.most, key=len)
        self.rest()

    def settle(self):
        """Without a request, which could fail itself: until what the clients have left is closed, or that takes longer."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.server.process.poll() is None and len(self.descriptors()) > len(self.before) and time.monotonic() < deadline:
            time.sleep(0.0005)

    def count(self, scenario):
        """What the scenario calls, and how often."""
        self.control.relieve()
        scenario(self)
        self.settle()
        return self.control.counts()

    def fail(self, scenario, call, number, error, until=None, may_end=False):
        """Runs the scenario with one failure. Returns whether it was reached; raises Fault. may_end: a server that cannot continue
        after it ends in order."""
        self.control.fail(call, number, error, until)
        closed = None
        try:
            scenario(self)
            self.settle()
        except (OSError, wire.Closed) as problem:
            if not may_end:
                raise
            closed = problem
        finally:
            reached = self.control.has_failed
            self.disarm()
        if reached and may_end:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.server.process.wait(END_SECONDS)
        if self.server.process.poll() is not None:
            return reached
        if closed:
            raise closed
        self.probe()
        self.rest()
        return reached

    def end(self, statuses=(0,)):
        """Stops it: the exit status, nothing that was allocated is left, and no report of a sanitizer."""
        if not self.server.stop_requested and self.server.process.poll() is None:
            if self.collector:
                self.look_at_spans()
            if self.lines_due:
                self.look_at_lines()
            self.server.close_control()
            self.server.signal()
        status = self.server.wait(END_SECONDS)
        if status not in statuses:
            raise clients.Fault(f"exit status {status}: {self.server.stderr()[-2000:]}")
        if "log" in self.needs:
            self.look_at_log()
        if self.pipe:
            self.pipe.check()
        if self.control["live"]:
            raise clients.Fault(f"{self.control['live']} blocks of memory are left, {self.control['live_bytes']} bytes")
        return status

    def look_at_spans(self):
        """Each is exported, failed or dropped, and those that count as exported have arrived."""

        def settled():
            found = self.server.counters()
            ends = sum(found[f"trace_spans_{end}"] for end in ("exported", "failed", "dropped"))
            return found if ends >= found["trace_spans"] - 1 else None  # the one of this request

        counters = harness.poll(settled, SPAN_SECONDS, message="spans wait for ever")
        arrived = {span.span_id for span in self.collector.all_spans()}
        if counters["trace_spans_exported"] > len(arrived):
            raise clients.Fault(f"{counters['trace_spans_exported']} spans count as exported, and {len(arrived)} have arrived")

    def lines(self):
        """Those of the log that were written, and how many say that others were lost."""
        text = self.server.stderr()
        written = [line for line in text.splitlines() if "pattern: " in line]
        lost = sum(map(int, re.findall(r" log: (\d+) lines? (?:was|were) (?:lost|dropped) here", text)))
        return written, lost

    def lines_are_settled(self):
        written, lost = self.lines()
        return len(written) + lost >= self.lines_due

    def look_at_lines(self):
        """Each is written whole, or counted as lost in a later line."""
        self.control.relieve()  # nothing fails now: the scenario waits for its lines
        scenarios.log_lines(self)
        written, lost = self.lines()
        wrong = [line for line in written if not LOG_LINE.fullmatch(line)]
        if wrong:
            raise clients.Fault(f"lines of the log: {wrong[:3]}")
        if len(written) + lost < self.lines_due:
            raise clients.Fault(f"{self.lines_due} lines were logged, {len(written)} are there, and {lost} count as lost")

    def look_at_log(self):
        """Lines are complete, and those of requests, whatever becomes of some of them."""
        wrong = [line for line in self.log.read_text().splitlines() if not LINE.fullmatch(line)]
        if wrong:
            raise clients.Fault(f"lines of the access log: {wrong[:3]}")
