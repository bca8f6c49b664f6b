"""The first process of the guest: sets up what the tests need, runs them, and switches the machine off."""
import concurrent.futures
import ctypes
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
import traceback

WORK = "/work"
PROGRAM_SECONDS = 1800  # of a unit program; where QEMU emulates and its machine is busy everything takes long
PYTEST_SECONDS = 3600
PROGRAMS_AT_ONCE = 3  # most of them wait
PYTESTS_AT_ONCE = 2
GOOD = "guest: all good"
SKIPPED = 77


def say(text):
    print(f"guest: {text}", flush=True)


def set_up(orders):
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(kind, source, where):
        if libc.mount(source.encode(), where.encode(), kind.encode(), 0, None) != 0:
            raise OSError(ctypes.get_errno(), where)

    os.environ.update(PATH="/sbin:/usr/bin", HOME="/tmp", PYTHONPATH="/site", UVHTTP_LOG_LEVEL="warn",
                      UVHTTP_BUILD_DIR=f"{WORK}/build", UVHTTP_KERNEL_TLS="on" if orders["kernel_tls"] else "off",
                      UVHTTP_KERNEL_AUTOMATIC=orders["automatic"], UVHTTP_TEST_RATE_GRACE="600")  # fmt: skip
    for kind, where in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")):
        mount(kind, kind, where)
    for module in ("virtio_pci", "virtio_blk", *(["tls"] if orders["kernel_tls"] else [])):
        subprocess.run(["modprobe", module], check=True)
    while not os.path.exists("/dev/vda"):  # a second at most; without it the guest's time ends
        time.sleep(0.01)
    mount("ext4", "/dev/vda", "/tmp")
    os.mkdir("/dev/shm")
    mount("tmpfs", "tmpfs", "/dev/shm")
    os.chmod("/tmp", 0o1777)
    os.mkdir("/var")
    os.symlink("/tmp", "/var/tmp")
    os.symlink("/sbin", "/bin")  # system(3) starts /bin/sh
    import fcntl
    import socket
    import struct

    with socket.socket() as one:  # SIOCSIFFLAGS: UP and RUNNING
        fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))  # the default of max_connections needs half
    os.chdir(WORK)


def records_sent():
    """Connections that the kernel has encrypted for, all in software, from boot on."""
    with open("/proc/net/tls_stat") as lines:
        return int(dict(line.split() for line in lines)["TlsTxSw"])


def run_unit_test(name):
    """(name, status, tests that passed, tests that were skipped, seconds, output)"""
    command = [f"{WORK}/build/test/bin/{name}"]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PROGRAM_SECONDS, check=False)
        status, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        status, output = "no end", ((late.stdout or b"") + (late.stderr or b"")).decode(errors="replace")
    passed = sum(map(int, re.findall(r"\[  PASSED  \] (\d+) test", output)))
    skipped = sum(map(int, re.findall(r"\[  SKIPPED \] (\d+) test", output)))
    return name, status, passed, skipped, time.monotonic() - start, output


def run_unit_tests(names):
    all_passed = all_skipped = 0
    bad = []
    names = sorted(names, key=lambda name: "failing" not in name)  # those take longest, and would keep the others waiting at the end
    with concurrent.futures.ThreadPoolExecutor(PROGRAMS_AT_ONCE) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_unit_test, name) for name in names]):
            name, status, passed, skipped, seconds, output = done.result()
            say(f"{name}: status {status}, {passed} passed, {skipped} skipped, {seconds:.0f} s")
            if status not in (0, SKIPPED):
                bad.append(name)
                print(output, flush=True)
            all_passed += passed
            all_skipped += skipped
    say(f"unit tests: {len(names)} programs, {all_passed} tests passed, {all_skipped} skipped, {len(bad)} programs failed {' '.join(bad)}")
    return not bad


def run_pytest(engine, orders):
    chosen = ["-k", orders["tests"]] if orders["tests"] else []
    command = [sys.executable, "-m", "pytest", "-v", "-n", str(PYTESTS_AT_ONCE), "--dist", "loadfile", "--color=no", "-rsf", "--durations=15",
               "-p", "no:cacheprovider", "-m", "not serial", "-o", "timeout=600", *chosen, *orders["integration_tests"]]  # fmt: skip
    status = subprocess.run(command, env={**os.environ, "UVHTTP_ENGINE": engine}, timeout=PYTEST_SECONDS, check=False).returncode
    say(f"integration tests, {engine}: status {status}")
    return status == 0


def run_tests(orders):
    parts = [lambda: run_unit_tests(orders["unit_tests"])] if orders["unit_tests"] else []
    parts += [lambda engine=engine: run_pytest(engine, orders) for engine in orders["engines"] if orders["integration_tests"]]
    good = True
    for part in parts:
        before = records_sent() if orders["kernel_tls"] else 0
        good = part() and good
        if orders["kernel_tls"]:
            used = records_sent() - before
            say(f"{used} connections encrypted by the kernel")
            good = good and used > 0
    return good


def main():
    with open("/orders.json") as file:
        orders = json.load(file)
    set_up(orders)
    say(f"Linux {platform.release()}")
    if run_tests(orders):
        print(GOOD, flush=True)


try:
    main()
except BaseException:
    traceback.print_exc()
finally:
    sys.stdout.flush()
    os.sync()
    ctypes.CDLL(None).reboot(0x4321FEDC)  # power off
