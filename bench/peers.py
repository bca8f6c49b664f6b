#!/usr/bin/env python3
"""CPU time per request of performance_test and of other servers, in the same run: HTTPS keep-alive, static files, a large
body, WebSocket echo. Rounds in turn, a fresh process each; server on one CPU, load generator on another; every first
answer is checked. Peers are Debian's nginx, libmicrohttpd-dev and libwebsockets-dev; one that is not installed is named
and left out."""
import argparse
import hashlib
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

import rounds
from rounds import BUILD, ROOT, void

SIZES = {"10kb.bin": 10 << 10, "100kb.bin": 100 << 10, "1mb.bin": 1 << 20, "10mb.bin": 10 << 20, "100mb.bin": 100 << 20}
WS_SIZE = 64
# case: (scheme, path, bytes of the body or message)
CASES = {
    "hello": ("http", "/", 13),
    "https": ("https", "/", 13),
    "static-10kb": ("http", "/static/10kb.bin", 10 << 10),
    "static-1mb": ("http", "/static/1mb.bin", 1 << 20),
    "static-10mb": ("http", "/static/10mb.bin", 10 << 20),
    "static-100mb": ("http", "/static/100mb.bin", 100 << 20),
    "body-100kb": ("http", "/large/100kb", 100 << 10),
    "https-100kb": ("https", "/large/100kb", 100 << 10),
    "websocket": ("ws", "/ws", WS_SIZE),
}


# A large file has to be finished within a run: (connections, seconds at least).
LARGE = {"static-10mb": (8, 3), "static-100mb": (2, 5)}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def prepare(directory):
    """Files to serve and a certificate for all."""
    (directory / "static").mkdir()
    for name, size in SIZES.items():
        block = hashlib.sha256(name.encode()).digest() * 2048
        (directory / "static" / name).write_bytes((block * (size // len(block) + 1))[:size])
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=localhost", "-keyout", directory / "key.pem", "-out",
                    directory / "certificate.pem"], check=True, capture_output=True)


class Peers:
    """Commands by name, as functions of (port, tls_port)."""

    def __init__(self, directory, server):
        self.directory = directory
        self.known = {"uvhttp-uring": self.uvhttp(server, "uring"), "uvhttp-libuv": self.uvhttp(server, "libuv"),
                      "nginx": self.nginx, "libmicrohttpd": self.microhttpd, "libwebsockets": self.websockets}

    def uvhttp(self, server, engine):
        return lambda port, tls_port: [
            server, "--port", port, "--https-port", tls_port, "--io-threads", 1, "--engine", engine, "--static",
            self.directory / "static", "--certificate", self.directory / "certificate.pem", "--key",
            self.directory / "key.pem"]

    def nginx(self, port, tls_port):
        program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
        if not program:
            return None
        text = (ROOT / "bench/peers/nginx.conf.in").read_text()
        for name, value in (("DIR", self.directory), ("TLS_PORT", tls_port), ("PORT", port)):
            text = text.replace(f"@{name}@", str(value))
        (self.directory / "nginx.conf").write_text(text)
        return [program, "-p", self.directory, "-c", self.directory / "nginx.conf"]

    def compiled(self, name, header, *libraries):
        if not pathlib.Path("/usr/include", header).exists():
            return None
        return rounds.build_c(ROOT / "bench/peers" / f"{name}.c", *libraries)

    def microhttpd(self, port, tls_port):
        program = self.compiled("mhd_server", "microhttpd.h", "-lmicrohttpd")
        return program and [program, port, tls_port, self.directory / "static", self.directory / "certificate.pem",
                            self.directory / "key.pem"]

    def websockets(self, port, _):
        program = self.compiled("lws_echo", "libwebsockets.h", "-lwebsockets")
        return program and [program, port]


def serves(name, case):
    """nginx and libmicrohttpd know no WebSocket, libwebsockets is here for nothing else; ws_load speaks no TLS."""
    return (CASES[case][0] == "ws") == (name == "libwebsockets") or name.startswith("uvhttp")


def wait_until_ready(process, port):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    void(f"{process.args} did not start:\n{process.stderr.read() if process.poll() is not None else ''}")


def check_body(url, size):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        got = len(answer.read())
    if got != size:
        void(f"{url}: {got} bytes instead of {size}")


def measure(args, command, case, tools):
    """{case: (user, system)} of one fresh process."""
    port, tls_port = free_ports(2)
    scheme, path, size = CASES[case]
    process = subprocess.Popen(rounds.pinned(args.server_cpu, command(port, tls_port)), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        wait_until_ready(process, port)
        target = tls_port if scheme == "https" else port
        url = f"{scheme}://127.0.0.1:{target}{path}"

        conns, seconds_min = LARGE.get(case, (args.conns, 1))

        def load(seconds):
            if scheme == "ws":
                run = subprocess.run(rounds.pinned(args.client_cpu, [tools["ws_load"], port, path, conns, seconds,
                                                                      size]), capture_output=True, text=True)
                if run.returncode != 0:
                    void(run.stderr)
                return int(run.stdout)
            return rounds.wrk(args.client_cpu, url, conns, max(seconds, seconds_min))

        if scheme != "ws":
            check_body(url, size)
        load(1)
        figures = {case: rounds.cost(process.pid, lambda: load(args.seconds))}
        if process.poll() is not None:
            void(f"{process.args} has ended")
        return figures
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def options():
    parser = argparse.ArgumentParser(prog="bench/peers.py", description=__doc__)
    parser.add_argument("case", nargs="*", help=f"default: all of {', '.join(CASES)}")
    parser.add_argument("--servers", default="uvhttp-uring,uvhttp-libuv,nginx,libmicrohttpd,libwebsockets",
                        help="separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--conns", type=int, default=50)
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--client-cpu", type=int, default=1)
    args = parser.parse_args()
    for case in args.case:
        if case not in CASES:
            parser.error(f"case {case!r}: known are {', '.join(CASES)}")
    args.case = args.case or list(CASES)
    if args.rounds < 1 or args.seconds < 1 or args.conns < 1:
        parser.error("--rounds, --seconds and --conns are at least 1")
    rounds.check_cpus(parser, args)
    return args


def main():
    args = options()
    server = BUILD / "dist/bin/performance_test"
    if not server.exists():
        void(f"{server} is not there: ./dev build")
    tools = {"ws_load": rounds.build_c(ROOT / "bench/ws_load.c")}
    with tempfile.TemporaryDirectory(prefix="uvhttp-peers-") as directory:
        directory = pathlib.Path(directory)
        prepare(directory)
        peers = Peers(directory, server)
        names = []
        for name in args.servers.split(","):
            if name not in peers.known:
                void(f"server {name!r}: known are {', '.join(peers.known)}")
            if peers.known[name](1, 2) is None:
                print(f"{name}: not installed, left out", file=sys.stderr)
            else:
                names.append(name)
        for case in args.case:
            able = [name for name in names if serves(name, case)]
            done = rounds.take_turns(able, args.rounds, lambda name: measure(args, peers.known[name], case, tools))
            rounds.table_head(able[0])
            rounds.table(done, case, case)


if __name__ == "__main__":
    main()
