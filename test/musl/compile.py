#!/usr/bin/env python3
"""Owns: the check that all of src/, tools/ and examples/ compiles with musl, warnings being errors: compile.py BUILD LIBRARIES. It needs the
headers of libraries only, so that what is never linked with musl here (TLS, compression, ...) is compiled as well. BUILD has generated
headers; LIBRARIES is what libraries.py has made."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The other TLS library has no headers here, and the other processor another compiler.
LEFT_OUT = ("mbedtls_*.c", "scan_neon.c")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
INSTRUCTIONS = {"scan_avx2.c": ["-mavx2"], "scan_sse42.c": ["-msse4.2"]}


def command_of(source, build, libraries):
    inside = ["-Wconversion"] if source.is_relative_to(ROOT / "src") else []
    folders = [ROOT / "src", ROOT / "tools", ROOT / "include", build / "generated/include", build / "generated"]
    return ["musl-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", *WARNINGS, *inside, *INSTRUCTIONS.get(source.name, []),
            *(f"-I{folder}" for folder in folders), "-isystem", libraries / "root/include", "-isystem", libraries / "headers", source]  # fmt: skip


def main():
    build, libraries = map(pathlib.Path, sys.argv[1:])
    sources = sorted(path for pattern in ("src/*/*.c", "tools/*/*.c", "examples/*.c") for path in ROOT.glob(pattern) if not any(map(path.match, LEFT_OUT)))

    def compile_one(source):
        return subprocess.run(command_of(source, build, libraries), check=False).returncode == 0

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(compile_one, sources))
    print(f"musl: {sum(good)} of {len(sources)} files compile")
    sys.exit(0 if sources and all(good) else 1)


main()
