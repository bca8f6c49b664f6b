#!/usr/bin/env python3
"""Owns: the libraries of the build with musl: libraries.py DIRECTORY. Debian's sources are built with musl-gcc into DIRECTORY/root; nothing is
installed. What an earlier run has built stays."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/tools"))
from apt_suite import AptSuite, own_suite  # noqa: E402

from headers import KERNEL_HEADERS, lead_to_headers  # noqa: E402

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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory.absolute()
    root, sources = directory / "root", directory / "sources"
    missing = [name for name in LIBRARIES if not (directory / f"{name}.built").exists()]
    if not missing:
        return
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir(parents=True)
    (root / "lib").mkdir(parents=True, exist_ok=True)
    lead_to_headers(root / "include", KERNEL_HEADERS)
    shutil.copy(BOOST_CONTEXT, root / "lib")
    AptSuite(directory / "apt", own_suite(), "deb-src").source(missing, sources)
    for name in missing:
        (description,) = sources.glob(f"{name}_*.dsc")
        run(["dpkg-source", "--no-check", "-x", description, sources / name])
        LIBRARIES[name](sources / name, root, os.cpu_count())
        (directory / f"{name}.built").touch()
    shutil.rmtree(sources)


main()
