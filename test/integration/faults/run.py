#!/usr/bin/env python3
"""Lets system calls of a server fail and checks every byte of what it sends, for as long as you like.

    test/integration/faults/run.py --rule io_uring_enter:EAGAIN+ENOMEM+EINTR:3 --responses 350000
    test/integration/faults/run.py --strace io_uring_enter:error=EAGAIN:when=40+3 --responses 5000

--rule: see fail_calls.c. --strace: an --inject of strace instead, which is the real thing and slow. Exit status: 0, 1 (a
byte was wrong, the server did not end with 0, or connections were left), 77 (strace cannot trace here)."""
import argparse
import atexit
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build directory")
    parser.add_argument("--server", help="another pattern_server than the build's")
    parser.add_argument("--engine", default="uring", choices=["uring", "epoll"])
    parser.add_argument("--rule", action="append", default=[], help="FAIL_CALLS of fail_calls.c")
    parser.add_argument("--strace", action="append", default=[], metavar="INJECT", help="--inject of strace")
    parser.add_argument("--responses", type=int, default=10000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1, help="loops of the server")
    parser.add_argument("--kinds", default="crp", help="letters of copy, ref, pieces, file; or w: echoes of a WebSocket")
    parser.add_argument("--tls", action="store_true", help="encrypted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    return parser.parse_args()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, target):
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.settimeout(20)
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while piece := connection.recv(65536):
            data += piece
    return data.partition(b"\r\n\r\n")[2]


def counters(port):
    for _ in range(50):  # the fault may hit this request as well
        try:
            return json.loads(get(port, "/counters"))
        except (OSError, ValueError):
            time.sleep(0.02)
    raise SystemExit("the server does not answer any more")


def start(options, port, tls_port, report):
    programs = pathlib.Path(options.build).absolute() / "test" / "bin"
    env = {**os.environ, "UVHTTP_ENGINE": options.engine}
    command = [options.server or programs / "pattern_server", "--listen", f"127.0.0.1:{port}", "--threads", str(options.threads)]
    if tls_port:
        command += ["--tls-listen", f"127.0.0.1:{tls_port}"]
    if options.rule:
        env |= {"FAIL_CALLS": ",".join(options.rule), "FAIL_CALLS_REPORT": report}
    process = subprocess.Popen([str(word) for word in command], env=env, stderr=subprocess.PIPE, text=True)
    atexit.register(process.kill)  # whatever else goes wrong, it does not stay
    lines = [process.stderr.readline()]
    while lines[-1] and "listening on" not in lines[-1]:  # the certificate is a line of its own
        lines.append(process.stderr.readline())
    if not lines[-1]:
        raise SystemExit(f"the server did not start: {''.join(lines)}")
    return process, programs


def attach(process, injections):
    """strace on a running server: its start is not meant to fail."""
    calls = ",".join(injection.split(":")[0] for injection in injections)
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={calls}", "-p", str(process.pid)]
    for injection in injections:
        command += ["-e", f"inject={injection}"]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = tracer.stderr.readline()
    if "attached" not in line:
        print(f"strace cannot attach: {line.strip()}", file=sys.stderr)
        process.kill()
        raise SystemExit(77)
    return tracer


def main():
    options = parse()
    if options.strace and not shutil.which("strace"):
        print("no strace", file=sys.stderr)
        raise SystemExit(77)
    port = options.port or free_port()
    with tempfile.TemporaryDirectory() as directory:
        report = os.path.join(directory, "report")
        tls_port = free_port() if options.tls else 0
        process, programs = start(options, port, tls_port, report)
        tracer = attach(process, options.strace) if options.strace else None
        words = [tls_port or port, options.connections, options.responses, options.seed, options.kinds]
        client = subprocess.run(
            [programs / "verify_client", "127.0.0.1", *(str(word) for word in words), *(["tls"] if options.tls else [])],
            stdout=subprocess.PIPE,
            text=True,
        )
        if client.returncode == 77:
            process.kill()
            process.wait()
            raise SystemExit(77)
        result = json.loads(client.stdout)
        if tracer:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
        deadline = time.monotonic() + 20
        while True:  # the one that asks is open
            seen = counters(port) if process.poll() is None else {}
            left = seen.get("connections_accepted", 0) - seen.get("connections_closed", 0) - 1
            if left <= 0 or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        result |= {"connections_left": max(left, 0), "exit_status": status, "engine_refusals": seen.get("engine_refusals")}
        if os.path.exists(report):
            result["calls"] = pathlib.Path(report).read_text().split("\n")[:-1]
    print(json.dumps(result))
    good = result["wrong"] == 0 and client.returncode == 0 and status == 0 and result["connections_left"] == 0
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
