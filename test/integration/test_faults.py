"""System calls that fail while a server is under load: every byte that it sends is still the right one, nothing leaks, and
what does not pass ends in a decided way. faults/run.py does the same for as long as one likes."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import harness
from harness import BUILD_DIR, ENGINE, TEST_PROGRAMS

RUN = pathlib.Path(__file__).parent / "faults" / "run.py"

pytestmark = pytest.mark.skipif(not (TEST_PROGRAMS / "pattern_server").exists(), reason="this build has no server whose calls fail")
uring_only = pytest.mark.skipif(ENGINE != "uring", reason="io_uring's call")
epoll_only = pytest.mark.skipif(ENGINE != "epoll", reason="calls of the epoll backend")
needs_strace = pytest.mark.skipif(
    not shutil.which("strace") or bool(harness.sanitizer()), reason="no strace, or a sanitizer is in this build: LeakSanitizer does not work under it"
)


def run(*args, responses=2000, kinds="crp"):
    command = [sys.executable, RUN, "--build", BUILD_DIR, "--engine", ENGINE, "--responses", str(responses), "--kinds", kinds, *args]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


# --- the real thing, by strace ---


@uring_only
@needs_strace
@pytest.mark.parametrize("error", ["EAGAIN", "EBUSY", "ENOMEM", "EINTR", "EPERM"])
def test_a_refused_submission_sends_no_foreign_byte(error):
    result = run("--strace", f"io_uring_enter:error={error}:when=40+3", responses=1000, kinds="crpf")
    assert result["engine_refusals"] > 5, "it was not tested"
    assert result["broken"] == 0, "no client loses its connection"


@epoll_only
@needs_strace
@pytest.mark.parametrize(
    "injection",
    ["recvfrom:error=EINTR", "sendto:error=EAGAIN", "sendto:error=EINTR", "sendmsg:error=EAGAIN", "sendfile:error=EINTR", "epoll_wait:error=EINTR"],
)
def test_a_call_that_may_be_made_again_is(injection):
    assert run("--strace", f"{injection}:when=40+3", responses=1000, kinds="crpf")["broken"] == 0


@epoll_only
@needs_strace
@pytest.mark.parametrize("call", ["recvfrom", "sendto", "sendmsg", "sendfile", "accept4"])
def test_lack_of_memory_costs_connections_and_no_wrong_byte(call):
    run("--strace", f"{call}:error=ENOMEM:when=5+29", responses=1000, kinds="crpf")


# --- more of it, by what the linker has put in place of the calls ---


@uring_only
@pytest.mark.parametrize("every", [3, 7, 200])
def test_many_refused_submissions(every):
    rule = f"io_uring_enter:EAGAIN+ENOMEM+EINTR+EBUSY+PARTIAL+EPERM:{every}"
    result = run("--rule", rule, "--threads", "2", responses=10000, kinds="crpf")
    assert result["broken"] == 0


@epoll_only
def test_many_failing_calls_of_the_epoll_backend():
    rules = ["epoll_wait:EAGAIN+ENOMEM+EINTR+EPERM:3", "epoll_ctl:ENOMEM+ENOSPC:7", "recv:EINTR+EAGAIN:3", "send:EAGAIN+EINTR:3"]
    rules += ["sendmsg:EINTR+EAGAIN:3", "sendfile:EAGAIN+EINTR:3", "accept4:ECONNABORTED+ENOMEM+EMFILE+EPERM+EPROTO:3:2"]
    run(*(word for rule in rules for word in ("--rule", rule)), responses=5000, kinds="crpf")


# TLS encrypts into memory of its own, and a WebSocket's frames go out by other ways than responses: both have to keep
# what the kernel has not taken.
@pytest.mark.parametrize("args", [("--tls", "--kinds", "crpf"), ("--kinds", "w"), ("--tls", "--kinds", "w")], ids=["tls", "websocket", "wss"])
def test_failing_calls_below_tls_and_websockets(args):
    rules = ["io_uring_enter:EAGAIN+ENOMEM+EINTR+EBUSY+PARTIAL:3"]
    if ENGINE != "uring":
        rules = ["epoll_wait:EAGAIN+EINTR:3", "recv:EINTR+EAGAIN:3", "send:EAGAIN+EINTR:3", "sendmsg:EINTR+EAGAIN:3"]
    result = run(*(word for rule in rules for word in ("--rule", rule)), *args, responses=1500)
    assert result["broken"] == 0


# --- what does not pass ---


def start(tmp_path):
    """A pattern_server that a test may see die."""
    address = (harness.HOST, harness.free_port())
    command = [TEST_PROGRAMS / "pattern_server", "--listen", f"{address[0]}:{address[1]}"]
    return harness.Server(command, address, tmp_path / "faults_stderr").wait_ready()


def attach(server, injection):
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={injection.split(':')[0]}", "-e", f"inject={injection}", "-p", str(server.process.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = tracer.stderr.readline()
    if "attached" not in line:
        tracer.wait()
        server.kill()
        pytest.skip(f"strace cannot attach: {line.strip()}")
    return tracer


def cpu_seconds(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@uring_only
@needs_strace
@pytest.mark.parametrize("stop", [False, True], ids=["serving", "stopping"])
def test_io_uring_that_is_forbidden_in_mid_run_ends_the_server(tmp_path, stop):
    server = start(tmp_path)
    connection = server.connect()
    connection.get("/copy/1/100")
    tracer = attach(server, "io_uring_enter:error=EPERM")
    try:
        if stop:
            server.signal()
        status = server.wait(20)
    finally:
        tracer.kill()
        tracer.wait()
        server.kill()
    assert status == 1
    said = server.stderr()
    assert said.count("ERROR io:") == 1 and "io_uring_enter" in said and "Operation not permitted" in said
    with pytest.raises(OSError):
        connection.get("/copy/2/100")
    connection.close()


@epoll_only
@needs_strace
def test_a_permanent_accept_error_backs_off_says_so_once_and_recovers(tmp_path):
    server = start(tmp_path)
    tracer = attach(server, "accept4:error=EPERM")
    try:
        connection = server.connect()
        harness.poll(lambda: "connections cannot be accepted (Operation not permitted)" in server.stderr())
        before, then = cpu_seconds(server.process.pid), time.monotonic()
        time.sleep(1)  # the time in which it must not spin
        used = (cpu_seconds(server.process.pid) - before) / (time.monotonic() - then)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
    assert used < 0.25, f"{used:.0%} of a CPU"
    assert len(re.findall("cannot be accepted", server.stderr())) == 1
    assert connection.get("/copy/3/100").status == 200
    assert server.counter("accept_errors") > 16 and server.counter("accept_paused") >= 1
    connection.close()
    server.stop()
