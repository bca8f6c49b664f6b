#!/usr/bin/env python3
"""Owns: unit tests and integration tests on kernels that this machine does not run: Debian's, under QEMU, which emulates the
machine. Nothing of this machine is needed but packages: the guest's files are those that the programs and Python need
here, in an initramfs; /tmp is on a disk with ext4.

  ./dev kernel                        the jobs 6.1 (io_uring) and 5.10 (epoll)
  ./dev kernel ktls                   kernel TLS, on 6.1 with both backends
  ./dev kernel 6.1 --engine epoll     the other backend
  ./dev kernel 5.10 --unit io --file static    unit tests by folder, integration tests by file
  ./dev kernel ktls -k new_keys       integration tests by name, as for pytest
  ./dev kernel 5.10 --deb FILE        another kernel: a package linux-image-*, downloaded before"""
import argparse
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import threading

import jobs
from archive import PYTHON, Archive

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/tools"))
from apt_suite import AptSuite  # noqa: E402

WORK = ROOT / "build" / "kernel"
META_PACKAGE = "linux-image-cloud-amd64"  # small: drivers of virtual machines alone
TOOLS = ("cat", "curl", "mkfifo", "modprobe", "mv", "openssl", "prlimit", "rm", "sh", "sleep", "taskset", "true")
MODULES = ("kernel/drivers/virtio", "kernel/drivers/block", "kernel/net/tls", "kernel/crypto", "kernel/lib/crypto", "kernel/lib/libcrc32c.ko",
           "kernel/arch/x86/crypto")  # fmt: skip
ACCOUNTS = {"passwd": "root:x:0:0::/tmp:/sbin/sh\nnobody:x:65534:65534::/tmp:/sbin/sh\n", "group": "root:x:0:\nnogroup:x:65534:\n",
            "hostname": "guest\n", "hosts": "127.0.0.1 localhost\n::1 localhost\n"}  # fmt: skip
# Without what QEMU emulates slowly: wide registers, and copies byte by byte.
PROCESSOR = "max,-avx,-avx2,-erms"
DISK_MIB = 2048
SECONDS = 5400  # of one guest, until it is switched off from here
GOOD = "guest: all good"


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, **options)


# --- the kernel ---


def unpacked(archive):
    """The directory of a package: boot/vmlinuz-* and lib/modules/*."""
    directory = WORK / archive.name.partition("_")[0]
    if not directory.exists():
        shutil.rmtree(WORK / "unpacking", ignore_errors=True)
        run("dpkg-deb", "-x", archive, WORK / "unpacking")
        (WORK / "unpacking").rename(directory)
    return directory


def fetched(suite):
    """The same of a release of Debian; the one of an earlier run is as good."""
    known = WORK / f"{suite}.txt"
    if not known.exists():
        apt = AptSuite(WORK / "apt" / suite, suite)
        archive = apt.download(apt.first_dependency(META_PACKAGE, r"linux-image-\S+"), WORK)
        known.write_text(unpacked(archive).name, encoding="utf-8")
        archive.unlink()
    return WORK / known.read_text(encoding="utf-8")


# --- the guest ---


def add_modules(archive, kernel, version):
    source = kernel / "lib/modules" / version
    run("depmod", "-b", kernel, version)
    for path in sorted(source.glob("modules.*")):
        archive.copy(path, f"/lib/modules/{version}/{path.name}")
    for part in MODULES:
        if (source / part).exists():
            archive.copy(source / part, f"/lib/modules/{version}/{part}")


def make_guest(path, kernel, version, orders):
    archive = Archive(path)
    for name in ("proc", "sys", "dev", "tmp", "run", "work"):
        archive.directory(name)
    archive.device("dev/console", 5, 1)
    for name, text in ACCOUNTS.items():
        archive.file(f"/etc/{name}", text.encode(), 0o644)
    archive.copy(pathlib.Path(__file__).with_name("guest.py"), "/guest.py")
    archive.file("/orders.json", json.dumps(orders).encode())
    archive.python(next((ROOT / "build/venv/lib").glob("python3*/site-packages")))
    for tool in TOOLS:
        archive.program(shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"), f"/sbin/{tool}")
    archive.copy("/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
    for providers in pathlib.Path("/usr/lib").glob("*-linux-gnu/ossl-modules"):
        archive.copy(providers)
    for program in (*jobs.PROGRAMS, *(f"test/bin/{name}" for name in orders["unit_tests"])):
        archive.program(ROOT / "build" / program, f"/work/build/{program}")
    for folder in ("include/uvhttp", "test/integration", "test/upgrade", "test/unit/support", "test/tools/layers.txt", "examples", "docs"):
        archive.copy(ROOT / folder, f"/work/{folder}")
    archive.copy(pathlib.Path(__file__).with_name("test_backend.py"), "/work/test/integration/test_backend.py")
    add_modules(archive, kernel, version)
    archive.close()


def make_disk(path):
    """With features of ext4 that old kernels know as well."""
    path.unlink(missing_ok=True)
    with open(path, "wb") as file:
        file.truncate(DISK_MIB << 20)
    run("mke2fs", "-q", "-t", "ext4", "-O", "none,extent,has_journal,dir_index,filetype", path)


def boot(vmlinuz, initramfs, disk, log):
    """Whether all was good. KVM is not used: inside of a virtual machine it may hang."""
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-m", "3072", "-smp", "2", "-nodefaults", "-no-user-config", "-display", "none",
               "-no-reboot", "-serial", "stdio", "-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={disk}",
               "-device", "virtio-blk-pci,drive=disk", "-kernel", vmlinuz, "-initrd", initramfs,
               "-append", " ".join(["console=ttyS0", "quiet", "panic=-1", "mitigations=off", "tsc=reliable", f"rdinit={PYTHON}", "--", "/guest.py"])]  # fmt: skip
    with open(log, "w") as output, subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as qemu:
        too_long = threading.Timer(SECONDS, qemu.kill)
        too_long.start()
        try:
            good = False
            for line in qemu.stdout:
                output.write(line)
                output.flush()
                print(line, end="", flush=True)
                good = good or line.strip() == GOOD
            return good and qemu.wait() == 0
        finally:
            too_long.cancel()
            qemu.kill()


def integration_tests(file, part):
    """What pytest is asked for."""
    path = f"test/integration/test_{file}.py"
    if part == jobs.ALL:
        return [path]
    return [f"{path}::test_{name}" for name in part.of(jobs.tests_of((ROOT / path).read_text(encoding="utf-8")))]


def orders_for(job, arguments):
    """What the guest is to do. Where anything was chosen, that alone."""
    chosen = arguments.unit or arguments.file or arguments.k
    folders = arguments.unit if chosen else job.folders
    files = dict.fromkeys(arguments.file or (job.files if arguments.k else ()), jobs.ALL) if chosen else job.files
    names = jobs.unit_tests(ROOT.glob("test/unit/*/test_*.c"), folders)
    return {
        "unit_tests": [name for name in names if (ROOT / "build/test/bin" / name).exists()],  # not those of features that are off
        "engines": arguments.engine or job.engines,
        "integration_tests": [test for file, part in files.items() for test in integration_tests(file, part)],
        "tests": arguments.k,
        "kernel_tls": job.kernel_tls,
        "automatic": job.automatic,
    }


def run_job(name, arguments):
    job = jobs.JOBS[name]
    kernel = unpacked(arguments.deb) if arguments.deb else fetched(job.suite)
    (vmlinuz,) = (kernel / "boot").glob("vmlinuz-*")
    version = vmlinuz.name.removeprefix("vmlinuz-")
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        initramfs, disk = pathlib.Path(directory) / "initramfs", pathlib.Path(directory) / "disk"
        make_guest(initramfs, kernel, version, orders_for(job, arguments))
        make_disk(disk)
        print(f"{name}: Linux {version}", flush=True)
        return boot(vmlinuz, initramfs, disk, WORK / f"{name}.log")


def main():
    parser = argparse.ArgumentParser(prog="./dev kernel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="*", help=", ".join(jobs.JOBS))
    parser.add_argument("--engine", choices=("uring", "epoll"), action="append", help="this one only, whatever the job says")
    parser.add_argument("--unit", metavar="FOLDER", action="append", default=[], help="these unit tests only: io, or io/listener")
    parser.add_argument("--file", metavar="NAME", action="append", default=[], help="these integration tests only: NAME of test_NAME.py")
    parser.add_argument("-k", metavar="NAMES", help="only these integration tests")
    parser.add_argument("--deb", type=pathlib.Path, metavar="FILE", help="the package of another kernel")
    arguments = parser.parse_args()
    names = arguments.job or ["6.1", "5.10"]
    if unknown := [name for name in names if name not in jobs.JOBS]:
        parser.error(f"there is no job {unknown[0]}; there are: {', '.join(jobs.JOBS)}")
    if platform.machine() != "x86_64":
        sys.exit("kernel: the guest runs the programs of this machine, and is made for x86-64 alone")
    WORK.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not run_job(name, arguments)]
    sys.exit(f"kernel: FAILED: {' '.join(failed)}; build/kernel/<job>.log has it all" if failed else 0)


main()
