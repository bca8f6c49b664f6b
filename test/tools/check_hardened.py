#!/usr/bin/env python3
"""Owns: what is hardened, read out of what was built: check_hardened.py BUILD. Programs and the shared library: PIE, RELRO, no lazy
binding, no memory that can be written and run, no relocation of code, the checks of the C library. With UVHTTP_HARDEN=FULL also the
stack protector, and on x86 a landing place at each function that a pointer may call (CET). And what hardening must not change: which
system calls the simulation, and the tests of failing calls, can put others in the place of."""
import pathlib
import re
import subprocess
import sys

from source_text import report


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def problems_of(path, full):
    """Of a program or a shared library."""
    segments, dynamic, head = readelf("-l", path), readelf("-d", path), readelf("-h", path)
    imports = readelf("--dyn-syms", path)
    if "Type:                              DYN" not in head:
        yield "its addresses are fixed: no PIE"
    if "GNU_RELRO" not in segments:
        yield "no RELRO"
    if not re.search(r"BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "functions are bound when they are called first: no -z now"
    if not re.search(r"GNU_STACK +(?:0x\w+ +){5}RW ", segments):
        yield "the stack can be run"
    if re.search(r"LOAD +(?:0x\w+ +){5}RWE", segments):
        yield "a segment can be written and run"
    if re.search(r"TEXTREL", dynamic):
        yield "code is relocated"
    if full and "__stack_chk_fail" not in imports:
        yield "no stack protector"
    if not re.search(r"\b__\w+_chk\b(?!_fail)", imports.replace("__stack_chk_fail", "")):
        yield "no checks of the C library (_FORTIFY_SOURCE)"


def replaced_calls(path):
    """A buffer whose size the compiler does not know makes recv to __recv_chk, which nobody replaces."""
    symbols = subprocess.run(["nm", "-A", path], capture_output=True, text=True, check=True).stdout
    for name, call in re.findall(r"([^:\n]+): +U __(read|pread|pread64|readlink|readlinkat|recv|recvfrom|poll|ppoll)_chk\b", symbols):
        yield f"{name}: {call} is called as __{call}_chk, which no test replaces: let the compiler see that its size is right"


def problems_of_archive(path):
    """CET is asked of the objects: a program has it only if the libraries that it is linked with do, too."""
    if "X86-64" not in readelf("-h", path):
        return
    for part in readelf("-n", path).split("File: ")[1:]:
        if not re.search(r"x86 feature:.*IBT.*SHSTK", part):
            yield f"{part.splitlines()[0]}: no CET"


def main():
    build = pathlib.Path(sys.argv[1])
    full = "UVHTTP_HARDEN=FULL" in (build / "generated/build_info.h").read_text(encoding="utf-8")
    dist = build / "dist"
    files = [path for path in sorted((dist / "bin").iterdir()) if is_elf(path)]
    files += [path for path in sorted((dist / "lib").glob("*.so")) if is_elf(path)]
    if len(files) < 2:
        sys.exit(f"check_hardened: nothing is built in {dist}")
    problems = [f"{path}: {problem}" for path in files for problem in problems_of(path, full)]
    for path in sorted((dist / "lib").glob("*.a")):
        problems += [f"{path}: {problem}" for problem in (*replaced_calls(path), *(problems_of_archive(path) if full else ()))]
    return report("check_hardened", problems)


if __name__ == "__main__":
    sys.exit(main())
