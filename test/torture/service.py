"""Owns: what is around a tortured server that is a service: its manager, PID file, admin listener, and the processes that an
upgrade makes."""
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import pwd
import socket
import time

from clients import SECONDS, Fault

import harness
import wire

PR_SET_CHILD_SUBREAPER = 36
numbers = itertools.count()


class Service:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.pid_file = self.directory / "pid"
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.name = f"uvhttp-torture-{os.getpid()}-{next(numbers)}"
        self.manager.bind("\0" + self.name)
        self.manager.setblocking(False)
        self.admin = (harness.HOST, harness.free_port())
        self.control = None
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whoever replaces a server is a child of this process then

    def settings(self, drops_privileges):
        self.drops_privileges = drops_privileges and os.geteuid() == 0
        found = {"pid_file": self.pid_file, "admin": "%s:%d" % self.admin, "upgrade_timeout": 60, "drain_idle_ms": 0}
        return found | {"descriptor_limit": 4096, "umask": "022"} | ({"user": "nobody"} if self.drops_privileges else {})

    def environment(self):
        return {"NOTIFY_SOCKET": "@" + self.name}

    def close(self):
        self.manager.close()

    def forget(self):
        """What the manager has received before."""
        with contextlib.suppress(BlockingIOError):
            while self.manager.recv(4096):
                pass

    def received(self):
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self.manager.recv(4096).decode())
        return found

    def check(self, server):
        """Nothing fails any more, and the server serves: what it does for its manager and its user is done, or it says what not."""
        if self.pid_file.read_text() != f"{server.pid()}\n":
            raise Fault(f"PID file: {self.pid_file.read_text()!r}")
        self.check_manager(server)
        status = pathlib.Path(f"/proc/{server.pid()}/status").read_text()
        if self.drops_privileges and f"Uid:\t{pwd.getpwnam('nobody').pw_uid}\t" not in status:
            raise Fault("it has not dropped its privileges")
        self.check_admin()

    def check_manager(self, server):
        """It was notified, or the log says why not; the log has a thread of its own."""
        texts, deadline = self.received(), time.monotonic() + SECONDS
        while not any(text.startswith("READY=1") for text in texts) and "NOTIFY_SOCKET" not in server.stderr():
            if time.monotonic() > deadline:
                raise Fault("the manager does not know that it is ready")
            time.sleep(0.005)
            texts += self.received()

    def check_admin(self):
        with wire.Connection(self.admin, timeout=SECONDS) as client:
            client.send(wire.request("GET", "/ready", host="localhost"))
            response = client.response("GET")
        if response.status != 200 or json.loads(response.body) != {"ready": True, "state": "running"}:
            raise Fault(f"/ready: {response.status} {response.body}")

    def events(self):
        """An open event stream, of which something has come."""
        client = wire.Connection(self.admin, timeout=SECONDS)
        client.send(wire.request("GET", "/events", host="localhost"))
        if client.response_head().status != 200:
            raise Fault("no event stream")
        return client

    # --- processes ---

    def processes(self, but):
        """Those that were started with this control page."""
        wanted = f"FAIL_CALLS_CONTROL={self.control}".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted in (path / "environ").read_bytes().split(b"\0") and int(path.name) != but:
                    found.append(int(path.name))
        return found

    def reap(self, pid, seconds):
        """The exit status of a process that an upgrade has made."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended, status = (0, 0) if pathlib.Path(f"/proc/{pid}").exists() else (pid, 0)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                raise Fault(f"process {pid} does not end")
            time.sleep(0.003)

    def kill_all(self):
        for pid in self.processes(but=os.getpid()):
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, 9)
                self.reap(pid, 5)
