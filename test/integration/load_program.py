"""Owns: uvhttp-load as tests run it, and servers of threads that send what no good server would."""
import contextlib
import json
import socket
import subprocess
import threading
import time

import pytest

from harness import ENGINE, EXAMPLES, HOST

LOAD = EXAMPLES / "uvhttp-load"
help_text = subprocess.run([LOAD, "--help"], capture_output=True, text=True, check=True).stdout if LOAD.exists() else ""
tls = pytest.mark.skipif("https://" not in help_text, reason="built without OpenSSL")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def command(*args):
    return [str(word) for word in (LOAD, "--engine", ENGINE, "--json", "-", *args)]


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.json = json.loads(out) if out.startswith("{") else None

    def __getattr__(self, name):
        return self.json["results"][name]

    def seconds(self, percentile, histogram="latency"):
        return self.json[histogram][percentile] / 1e9

    def count(self, histogram="latency"):
        buckets = self.json[histogram]["buckets"]
        assert buckets == sorted(buckets)
        assert sum(count for _, count in buckets) == self.json[histogram]["count"]
        return self.json[histogram]["count"]


def load(*args, code=0):
    for _ in range(20):
        done = subprocess.run(command(*args), capture_output=True, text=True, timeout=60)
        if code or "uvhttp-load: 0 responses in the time given" not in done.stderr:
            break  # else the machine has stood still for all of it
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == (0 if code in (0, 130) else 1), done.stderr
    return Outcome(code, done.stdout, done.stderr)


def read_to_the_end(peer):
    """Closing with bytes that nobody has read would be a reset, and take away what was sent before it."""
    peer.settimeout(10)
    peer.shutdown(socket.SHUT_WR)
    while peer.recv(65536):
        pass


class Stub:
    """A server of threads. `response(path, number)` gives the bytes for the n-th request of all, or None to close; what it
    gives may be a list of pieces, of which numbers are seconds to wait and None closes."""

    def __init__(self, response):
        self.response = response
        self.lock = threading.Lock()
        self.paths = []
        self.connections = 0
        self.requests = []
        self.listener = socket.create_server((HOST, 0), backlog=128)
        self.url = f"http://{HOST}:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        kept = b""
        with peer, contextlib.suppress(OSError):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                while b"\r\n\r\n" not in kept:
                    piece = peer.recv(65536)
                    if not piece:
                        return
                    kept += piece
                head, _, kept = kept.partition(b"\r\n\r\n")
                if head.count(b" ") < 2:  # the preface of HTTP/2 has an empty line within
                    read_to_the_end(peer)
                    return
                with self.lock:
                    number = len(self.paths)
                    self.paths.append(head.split(b" ")[1].decode())
                    self.requests.append(head)
                response = self.response(self.paths[number], number)
                if response is None:
                    return
                for piece in response if isinstance(response, list) else [response]:
                    if piece is None:
                        return
                    if isinstance(piece, bytes):
                        peer.sendall(piece)
                    else:
                        time.sleep(piece)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Peer:
    """A listener whose connections are each given to `talk` in a thread."""

    def __init__(self, talk):
        self.listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self.listener.getsockname()[1]}"
        self.talk = talk
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                with peer, contextlib.suppress(OSError):
                    self.talk(peer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextlib.contextmanager
def stubs():
    """A function that starts a Stub."""
    started = []

    def start(response):
        started.append(Stub(response if callable(response) else lambda path, number: response))
        return started[-1]

    yield start
    for one in started:
        one.close()
