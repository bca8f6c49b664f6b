#!/usr/bin/env python3
"""Owns: the check that src/, tools/ and examples/ compile with musl, warnings being errors: compile.py BUILD. It needs the headers of libraries
only, so that what is not linked with musl (TLS, compression, ...) is compiled as well. BUILD has generated headers."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

from headers import KERNEL_HEADERS, LIBRARY_HEADERS, OPENSSL_HEADERS, lead_to_headers

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The other TLS library has no headers here, and the other processor another compiler.
LEFT_OUT = ("mbedtls_*.c", "scan_neon.c")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
INSTRUCTIONS = {"scan_avx2.c": ["-mavx2"], "scan_sse42.c": ["-msse4.2"]}


def command_of(source, build):
    inside = ["-Wconversion"] if source.is_relative_to(ROOT / "src") else []
    folders = [ROOT / "src", ROOT / "tools", ROOT / "include", build / "generated/include", build / "generated"]
    return ["musl-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", *WARNINGS, *inside, *INSTRUCTIONS.get(source.name, []),
            *(f"-I{folder}" for folder in folders), "-isystem", build / "musl-headers", source]  # fmt: skip


def main():
    build = pathlib.Path(sys.argv[1]).absolute()
    lead_to_headers(build / "musl-headers", {**KERNEL_HEADERS, **LIBRARY_HEADERS, **OPENSSL_HEADERS})
    sources = sorted(path for pattern in ("src/*/*.c", "tools/*/*.c", "examples/*.c") for path in ROOT.glob(pattern) if not any(map(path.match, LEFT_OUT)))

    def compiles(source):
        return subprocess.run(command_of(source, build), check=False).returncode == 0

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(compiles, sources))
    print(f"musl: {sum(good)} of {len(sources)} files compile")
    sys.exit(0 if sources and all(good) else 1)


main()
