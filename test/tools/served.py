"""Owns: a program under test for the scripts that have a tool of somebody else look at it (autobahn, redbot, tls_scan)."""
import contextlib
import os
import socket
import subprocess
import time

HOST = "127.0.0.1"
START_SECONDS, STOP_SECONDS = 10, 60


def free_ports(count):
    """So many, all different."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def served(command, port, log, engine=None):
    """Runs the program, whose output goes to the file `log`, while it takes connections on `port`. RuntimeError: it has
    not started, or has ended otherwise than by the SIGTERM at the end and with 0."""
    environment = dict(os.environ, UVHTTP_ENGINE=engine) if engine else None
    with open(log, "wb") as output:
        program = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env=environment)
    try:
        for _ in range(20 * START_SECONDS):
            if program.poll() is not None:
                raise RuntimeError(f"the server has not started: {log}")
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
                break
            time.sleep(0.05)
        yield
        early = program.poll() is not None
    finally:
        program.terminate()
        status = program.wait(STOP_SECONDS)
    if early or status != 0:
        raise RuntimeError(f"the server has ended with {status}{' too early' if early else ''}: {log}")
