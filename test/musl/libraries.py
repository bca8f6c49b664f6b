#!/usr/bin/env python3
"""Owns: what the build with musl needs: libraries.py DIRECTORY. Debian's sources of some libraries are built with musl-gcc into
DIRECTORY/root, and DIRECTORY/headers leads to the headers of all others; nothing is installed. What an earlier run has built stays."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/tools"))
from apt_suite import AptSuite, own_suite  # noqa: E402

# Headers of the kernel, which are the same for each C library, and of libraries; those for musl's own names are musl's.
SYSTEM = pathlib.Path("/usr/include")
TRIPLET = SYSTEM / "x86_64-linux-gnu"
KERNEL_HEADERS = {"linux": SYSTEM / "linux", "asm-generic": SYSTEM / "asm-generic", "asm": TRIPLET / "asm"}
LIBRARY_HEADERS = ("brotli", "hiredis", "mimalloc.h", "yaml.h", "zconf.h", "zlib.h")
# Two functions in assembler, which know no C library.
BOOST_CONTEXT = "/usr/lib/x86_64-linux-gnu/libboost_context.a"


def by_cmake(*options, folder="."):
    def build(source, root, jobs):
        command = ["cmake", "-S", source / folder, "-B", source / "musl", "-DCMAKE_C_COMPILER=musl-gcc", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_INSTALL_PREFIX={root}", "-DCMAKE_INSTALL_LIBDIR=lib", f"-DCMAKE_C_FLAGS=-isystem {root}/include",
                   "-DBUILD_SHARED_LIBS=ON", "-DBUILD_TESTING=OFF", *options]  # fmt: skip
        run(command)
        run(["cmake", "--build", source / "musl", "-j", jobs])
        run(["cmake", "--install", source / "musl"])

    return build


def by_configure(source, root, jobs):
    environment = {**os.environ, "CFLAGS": f"-O2 -isystem {root}/include"}
    run(["./configure", f"--prefix={root}", "--cc=musl-gcc"], cwd=source, env=environment)
    run(["make", "-C", "src", "-j", jobs], cwd=source, env=environment)
    run(["make", "install"], cwd=source, env=environment)


LIBRARIES = {
    "libuv1": by_cmake(),
    "xxhash": by_cmake("-DXXHASH_BUILD_XXHSUM=OFF", folder="cmake_unofficial"),
    "cmocka": by_cmake("-DWITH_EXAMPLES=OFF"),
    "liburing": by_configure,
    "nghttp2": by_cmake("-DENABLE_LIB_ONLY=ON"),
}


def run(command, **options):
    subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL, **options)


def lead(link, path):
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(path)


def lead_to_headers(directory):
    for name, path in KERNEL_HEADERS.items():
        lead(directory / "root/include" / name, path)
    for name in LIBRARY_HEADERS:
        lead(directory / "headers" / name, SYSTEM / name)
    for path in [*(SYSTEM / "openssl").iterdir(), *(TRIPLET / "openssl").iterdir()]:
        lead(directory / "headers/openssl" / path.name, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory.absolute()
    root, sources = directory / "root", directory / "sources"
    lead_to_headers(directory)
    missing = [name for name in LIBRARIES if not (directory / f"{name}.built").exists()]
    if not missing:
        return
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir(parents=True)
    (root / "lib").mkdir(exist_ok=True)
    shutil.copy(BOOST_CONTEXT, root / "lib")
    AptSuite(directory / "apt", own_suite(), "deb-src").source(missing, sources)
    for name in missing:
        (description,) = sources.glob(f"{name}_*.dsc")
        run(["dpkg-source", "--no-check", "-x", description, sources / name])
        LIBRARIES[name](sources / name, root, os.cpu_count())
        (directory / f"{name}.built").touch()
    shutil.rmtree(sources)


main()
