#!/usr/bin/env python3
"""Kernel TLS on a kernel that has it: Debian's cloud kernel under QEMU, which emulates the machine (a KVM inside of a virtual
machine may fail in the middle). In the guest, on both engines: test_tls_kernel.py and test_tls_bodies.py with kernel_tls, and the unit tests that reach the
kernel; a test that found no TLS in the kernel there fails. Nothing of the machine is needed but the packages: the guest's
files are those that the programs and Python need here, in an initramfs.

  ./dev ktls                      everything, some 10 minutes
  ./dev ktls --engine epoll       one engine
  ./dev ktls -k new_keys          tests by name, as for pytest"""
import argparse
import gzip
import json
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "ktls"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
PROGRAMS = ["test/bin/http_test_server", "dist/bin/performance_test", "dist/bin/uvhttp"]
UNIT_TESTS = ["test/bin/test_tls_openssl_ktls", "test/bin/test_exec_feed_passing"]
# With what they need; Python's own modules are named by what they are here.
TOOLS = ["openssl", "modprobe", "sh"]
MODULES = ("kernel/net/tls", "kernel/crypto", "kernel/lib/crypto", "kernel/lib/libcrc32c.ko", "kernel/arch/x86/crypto")
LEFT_OUT = re.compile(r"__pycache__|site-packages|dist-packages|test|idlelib|tkinter|ensurepip|lib2to3|config-3.*|pip|setuptools|pkg_resources")
PYTHON = os.path.realpath(sys.executable)
SECONDS = 3600  # until the machine is switched off from here
GOOD = "ktls guest: all good"


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, **options)


# --- the kernel ---


def fetch_kernel():
    """The directory of the unpacked package: boot/vmlinuz-* and lib/modules/*."""
    shown = run("apt-cache", "depends", "--no-recommends", "--no-suggests", KERNEL_PACKAGE, capture_output=True, text=True).stdout
    package = re.search(r"Depends: (linux-image-\S+)", shown)[1]
    unpacked = WORK / package
    if not unpacked.exists():
        run("apt-get", "-q", "download", package, cwd=WORK)
        (archive,) = WORK.glob(f"{package}_*.deb")
        run("dpkg-deb", "-x", archive, WORK / "unpacking")
        (WORK / "unpacking").rename(unpacked)
        archive.unlink()
    return unpacked


# --- what the guest has ---


class Archive:
    """A cpio archive (newc), which is what an initramfs is."""

    def __init__(self, path):
        self.out = gzip.open(path, "wb", compresslevel=1)
        self.seen = set()

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        self.seen.add(name)
        encoded = name.encode() + b"\0"
        fields = (len(self.seen), mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        for part in (b"070701" + b"".join(b"%08x" % field for field in fields) + encoded, data):
            self.out.write(part + bytes(-len(part) % 4))

    def directory(self, name):
        name = name.strip("/")
        if not name or name in self.seen:
            return
        self.directory(os.path.dirname(name))
        self._entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o755):
        name = name.strip("/")
        if name in self.seen:
            return
        self.directory(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | mode, data)

    def device(self, name, major, minor):
        self.directory(os.path.dirname(name))
        self._entry(name.strip("/"), stat.S_IFCHR | 0o600, device=(major, minor))

    def copy(self, path, name=None):
        """A file, or a folder with all that is in it, by its own name; links become what they lead to."""
        path = pathlib.Path(path)
        name = str(name or path)
        if not path.is_dir():
            self.file(name, path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
            return
        for child in sorted(path.iterdir()):
            if not LEFT_OUT.fullmatch(child.name):
                self.copy(child, f"{name}/{child.name}")

    def program(self, path, name=None):
        self.copy(path, name)
        for library in libraries(path):
            self.copy(library)

    def close(self):
        self._entry("TRAILER!!!", 0)
        self.out.close()


def libraries(path):
    shown = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", shown)


def add_python(archive):
    archive.program(PYTHON)
    standard = pathlib.Path(sysconfig.get_path("stdlib"))
    archive.copy(standard)
    for module in standard.glob("lib-dynload/*.so"):
        for library in libraries(module):
            archive.copy(library)
    site = next((ROOT / "build/venv/lib").glob("python3*/site-packages"))
    archive.copy(site, "/site")


def add_modules(archive, kernel, version):
    source = kernel / "lib/modules" / version
    run("depmod", "-b", kernel, version)
    for path in sorted(source.glob("modules.*")):
        archive.copy(path, f"/lib/modules/{version}/{path.name}")
    for part in MODULES:
        if (source / part).exists():
            archive.copy(source / part, f"/lib/modules/{version}/{part}")


def make_guest(kernel, version, path, orders):
    archive = Archive(path)
    for name in ("proc", "sys", "dev", "tmp", "run", "work"):
        archive.directory(name)
    archive.device("dev/console", 5, 1)
    archive.copy(pathlib.Path(__file__).with_name("guest.py"), "/guest.py")
    archive.file("/orders.json", json.dumps(orders).encode())
    add_python(archive)
    for tool in TOOLS:
        archive.program(shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"), f"/sbin/{tool}")
    archive.copy("/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
    for modules in pathlib.Path("/usr/lib").glob("*-linux-gnu/ossl-modules"):
        archive.copy(modules)
    for program in PROGRAMS + UNIT_TESTS:
        archive.program(ROOT / "build" / program, f"/work/build/{program}")
    archive.copy(ROOT / "test/integration", "/work/test/integration")
    add_modules(archive, kernel, version)
    archive.close()


# --- the run ---


def boot(vmlinuz, initramfs, seconds):
    log = WORK / "console.log"
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "2048", "-smp", "2", "-nodefaults", "-no-user-config", "-display", "none",
               "-no-reboot", "-serial", "stdio", "-kernel", vmlinuz, "-initrd", initramfs,
               "-append", " ".join(["console=ttyS0", "quiet", "panic=-1", "mitigations=off", f"rdinit={PYTHON}", "--", "/guest.py"])]  # fmt: skip
    with open(log, "w") as output, subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as qemu:
        too_long = threading.Timer(seconds, qemu.kill)
        too_long.start()
        try:
            good = False
            for line in qemu.stdout:
                output.write(line)
                print(line, end="", flush=True)
                good = good or line.strip() == GOOD
            return good and qemu.wait() == 0
        finally:
            too_long.cancel()
            qemu.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("uring", "epoll"), action="append", help="one engine only")
    parser.add_argument("-k", metavar="NAMES", help="only these tests")
    arguments = parser.parse_args()
    if platform.machine() != "x86_64":
        sys.exit("ktls: the guest runs the programs of this machine, and is made for x86-64 alone")
    WORK.mkdir(parents=True, exist_ok=True)
    kernel = fetch_kernel()
    (vmlinuz,) = (kernel / "boot").glob("vmlinuz-*")
    version = vmlinuz.name.removeprefix("vmlinuz-")
    orders = {"engines": arguments.engine or ["uring", "epoll"], "tests": arguments.k}
    make_guest(kernel, version, WORK / "initramfs", orders)
    print(f"ktls: Linux {version}", flush=True)
    sys.exit(0 if boot(vmlinuz, WORK / "initramfs", SECONDS) else "ktls: FAILED, build/ktls/console.log has it all")


main()
