"""Owns: pipes that a tortured server writes its lines to, whose reader is slow or gone, and the scenarios with them."""
import contextlib
import errno
import fcntl
import os
import re
import time

from clients import Client, Fault, pattern

import wire

PIPE_SIZE = 4096  # bytes that a pipe holds: some lines
BATCH = 8  # requests at a time
SECONDS = 20  # until a line of the last request has come, if nothing has failed


class Pipe:
    """A FIFO and its reader, which reads when a scenario asks it to."""

    def __init__(self, path, pattern_of_line):
        self.path, self.line = path, re.compile(pattern_of_line)
        os.mkfifo(path)
        self.reader = None
        self.came_back = False
        self.text = b""
        self.come()

    def come(self):
        self.reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def leave(self):
        """What the pipe holds is lost; the next reader may get the rest of a line."""
        self.check(gone=True)
        os.close(self.reader)
        self.reader, self.text, self.came_back = None, b"", True

    def close(self):
        if self.reader is not None:
            os.close(self.reader)

    def read(self):
        """Returns what has come since the reader came."""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.reader, 65536):
                self.text += part
        return self.text

    def check(self, gone=False):
        """Lines are whole, and the server's. gone: the reader does not wait for the rest of the last one."""
        lines = self.read().decode(errors="replace").split("\n")
        rest = lines.pop()
        wrong = [line for line in lines[self.came_back :] if not self.line.fullmatch(line)]
        if wrong or (rest and not gone):
            raise Fault(f"lines in a pipe: {wrong[:3]} {rest!r}")


def ask_all(run, route, count):
    """Requests in one go: their lines are more than the pipe holds."""
    seeds = [run.seeds.next() for _ in range(count)]
    client = Client(run)
    data = b"".join(wire.request("GET", f"/{route}/{seed}/100") for seed in seeds)
    client.expect([(data, [])], [(pattern(seed, 100), seed, "GET", {500, 503}, (200,)) for seed in seeds])
    client.finish()
    return seeds[-1]


def lines_to_a_pipe(run, route, count):
    """Its reader is slow: requests are served all the same. Then it goes, comes back, and gets lines again."""
    pipe = run.pipe
    for _ in range(2):
        ask_all(run, route, count)
        pipe.read()
    pipe.leave()
    ask_all(run, route, BATCH)
    pipe.come()
    deadline = time.monotonic() + SECONDS
    while b"\n" not in pipe.read() and not run.control.has_failed:
        if time.monotonic() > deadline:
            raise Fault("no line comes to a reader that has come back")
        ask_all(run, route, BATCH)
        time.sleep(0.002)  # lines go in batches


def access_log_pipe(run):
    lines_to_a_pipe(run, "copy", 64)


def log_pipe(run):
    lines_to_a_pipe(run, "log", 16)


# --- an inherited listener ---

ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def activated(run):
    """A client waits in the backlog when the server starts on a listener that it inherits: it is served, or the server says why it ends,
    and the listener is left to the next one."""
    seed = run.seeds.next()
    client = Client(run)
    client.send(wire.request("GET", f"/copy/{seed}/500"))
    run.launch(*run.armed)
    run.server.says_start = False
    client.socket.setblocking(False)
    deadline = time.monotonic() + 10
    while run.server.process.poll() is None and not has_come(client.socket):
        if time.monotonic() > deadline:
            raise Fault(f"silence: {run.server.stderr()}")
        time.sleep(0.001)
    client.socket.settimeout(4)
    if run.server.process.poll() is not None:
        client.close()
        empty_backlog(run.listener)
        if run.server.process.returncode not in (1, 2) or not run.server.stderr().strip():
            raise Fault(f"it ended with {run.server.process.returncode}: {run.server.stderr()!r}")
        run.note("error")
        return
    client.read(pattern(seed, 500), seed, "GET", {500, 503}, (200,))
    client.finish()
    run.disarm()
    with contextlib.suppress(OSError, wire.Closed):
        run.probe()
        return
    if run.server.process.wait(2) != 1:
        raise Fault(f"it ended with {run.server.process.returncode}: {run.server.stderr()!r}")


def empty_backlog(listener):
    """Of clients that nobody has served."""
    listener.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()


def has_come(sock):
    try:
        return sock.recv(1, wire.socket.MSG_PEEK) is not None
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK)
