"""The first process of the guest: sets up what the tests need, runs them, and switches the machine off."""
import ctypes
import json
import os
import subprocess
import sys
import traceback

WORK = "/work"
SECONDS = 1500  # of one program; where QEMU emulates and its machine is busy everything takes long
TESTS = ("test/integration/test_tls_kernel.py", "test/integration/test_tls_bodies.py")
UNIT_TESTS = ("test_tls_openssl_ktls", "test_exec_feed_passing")
GOOD = "ktls guest: all good"


def set_up():
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, where in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")):
        if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None) != 0:
            raise OSError(ctypes.get_errno(), where)
    os.environ.update(PATH="/sbin:/usr/bin", HOME="/tmp", PYTHONPATH="/site", PYTHONDONTWRITEBYTECODE="1",
                      UVHTTP_BUILD_DIR=f"{WORK}/build", UVHTTP_KERNEL_TLS="on")  # fmt: skip
    import fcntl
    import socket
    import struct

    with socket.socket() as one:  # SIOCSIFFLAGS: UP and RUNNING
        fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
    subprocess.run(["modprobe", "tls"], check=True)
    os.chdir(WORK)


def records_sent():
    """Connections that the kernel has sent for, all in software, from boot on."""
    with open("/proc/net/tls_stat") as lines:
        return int(dict(line.split() for line in lines)["TlsTxSw"])


def passed(name, command, **environment):
    print(f"ktls guest: {name}", flush=True)
    before = records_sent()
    status = subprocess.run(command, env={**os.environ, **environment}, timeout=SECONDS, check=False).returncode
    used = records_sent() - before
    print(f"ktls guest: {name}: status {status}, {used} connections sent by the kernel", flush=True)
    return status == 0 and (used > 0 or "passing" in name)


def run_tests(engines, tests):
    good = True
    for test in () if tests else UNIT_TESTS:
        good = passed(test, [f"{WORK}/build/test/bin/{test}"]) and good
    chosen = ["-k", tests] if tests else []
    for engine in engines:
        command = [sys.executable, "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", "-o", "timeout=600", *chosen, *TESTS]
        good = passed(engine, command, UVHTTP_ENGINE=engine) and good
    return good


def main():
    with open("/orders.json") as file:
        orders = json.load(file)
    set_up()
    if run_tests(**orders):
        print(GOOD, flush=True)


try:
    main()
except BaseException:
    traceback.print_exc()
finally:
    sys.stdout.flush()
    os.sync()
    ctypes.CDLL(None).reboot(0x4321FEDC)  # power off
