"""Owns: the server that is attacked, and what the others notice of it: fifty connections at a fixed rate."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

from attack import TIMEOUT

SERVED, RATE = 50, 2000
WARM_UP = 0.5  # seconds, of the generator, while the attack is under way
START_SECONDS = 60
FILES = "FILES"  # stands for a directory with a file in the arguments of a server
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[1 % len(CPUS)]
URLS = {"http1": "http://%s:%d/n/1", "http2": "http://%s:%d/n/1", "tls": "https://%s:%d/n/1", "websocket": "ws://%s:%d/tls/ws"}


class Gone(Exception):
    """The server has ended, or does not respond any more."""


def free_addresses(count):
    """Each is held until all are found: they differ."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname() for probe in probes]


class Server:
    def __init__(self, build, backend, settings=None, arguments=(), with_attackers=False):
        self.addresses = dict(zip(("plain", "tls"), free_addresses(2)))
        self.directory = tempfile.TemporaryDirectory()
        (pathlib.Path(self.directory.name) / "large").write_bytes(bytes(1 << 20))
        command = [build / "test/bin/http_test_server", "--listen", "%s:%d" % self.addresses["plain"], "--tls-listen", "%s:%d" % self.addresses["tls"]]
        command += ["--development", "yes", "--handshake-timeout", TIMEOUT]
        command += [self.directory.name if word == FILES else word for word in arguments]
        timeouts = {"connection_timeout": TIMEOUT, "body_timeout": TIMEOUT, "write_timeout": TIMEOUT}
        for name, value in {"io_threads": 1, **timeouts, **(settings or {})}.items():
            command += ["--set", f"{name}={value}"]
        cpu = CLIENT_CPU if with_attackers else SERVER_CPU
        prefix = ["taskset", "-c", cpu, *(["chrt", "-i", 0] if with_attackers else [])]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in [*prefix, *command]], stderr=self.log, env={**os.environ, "UVHTTP_ENGINE": backend})

    def __enter__(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask("/counters")
                return self
            time.sleep(0.02)
        self.log.seek(0)
        said = self.log.read().decode(errors="replace")
        self.__exit__()
        raise RuntimeError(f"the server has not started: {said}")

    def __exit__(self, *unused):
        self.process.terminate()
        try:
            self.process.wait(TIMEOUT + 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.directory.cleanup()

    def ask(self, target):
        connection = http.client.HTTPConnection(*self.addresses["plain"], timeout=10)
        try:
            connection.request("GET", target)
            return connection.getresponse().read()
        finally:
            connection.close()

    def counters(self):
        """Those that are not zero."""
        try:
            return {name: value for name, value in json.loads(self.ask("/counters")).items() if value}
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Gone(f"no counters: {error!r}") from error

    def cpu_seconds(self):
        fields = self.proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self, field):
        """VmRSS or VmHWM, in KiB."""
        return int(self.proc("status").split(field + ":")[1].split()[0])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def proc(self, name):
        if self.process.poll() is not None:
            raise Gone(f"the server has ended with {self.process.returncode}")
        return pathlib.Path(f"/proc/{self.process.pid}/{name}").read_text()


def measure(build, server, protocol, seconds):
    """What fifty connections see, at a fixed rate, and how busy the server is; latencies count from when a request was due."""
    url = URLS[protocol] % server.addresses["tls" if protocol == "tls" else "plain"]
    command = [build / "dist/bin/uvhttp-load", *["--h2"] * (protocol == "http2"), "-c", SERVED, "-t", 1, "-R", RATE, "-d", f"{seconds}s",
               "-w", f"{WARM_UP}s", "-j", "-", url]  # fmt: skip
    used, since = server.cpu_seconds(), time.monotonic()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds + 60)
    cpu = (server.cpu_seconds() - used) / (time.monotonic() - since)
    if not done.stdout:
        raise Gone(f"the generator has no result: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    if not result["latency"]["count"]:
        raise Gone("the others had no response")
    return {
        "cpu": cpu,
        "p99": result["latency"]["p99"] / 1e6,
        "late": result["generator"]["late_p99_ns"] / 1e6,
        "rate": result["latency"]["count"] / seconds,
        "failed": result["results"]["errors"]["total"] + result["results"]["unanswered"],
    }
