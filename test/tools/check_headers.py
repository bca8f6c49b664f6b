#!/usr/bin/env python3
"""Owns: the check that each public header compiles alone, without a warning, in each language that a program may include it
from."""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
MODES = {".h": ("c99", "c11", "c17", "c++17", "c++20"), ".hpp": ("c++20",)}


def headers(include):
    """(name as a program includes it, language) of each header and mode."""
    for path in sorted(include.rglob("*.h*")):
        for standard in MODES.get(path.suffix, ()):
            yield path.relative_to(include).as_posix(), standard


def compile_alone(directory, includes, name, standard, compilers):
    """What the compiler says; "" if nothing."""
    language = "c++" if standard.startswith("c++") else "c"
    source = directory / f"{name.replace('/', '_')}-{standard}.{language}"
    source.write_text(f"#include <{name}>\nstruct not_empty;\n")
    command = [compilers[language], "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only"]
    result = subprocess.run([*command, *(f"-I{path}" for path in includes), source], capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def check(include, more, compilers):
    """The complaints, and how many were compiled."""
    found = list(headers(include))
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda one: compile_alone(pathlib.Path(directory), [include, *more], *one, compilers), found)
        complaints = [f"{name} as {standard}:\n{words}" for (name, standard), words in zip(found, said) if words]
    return complaints, len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("include", type=pathlib.Path, help="folder of the public headers")
    parser.add_argument("more", type=pathlib.Path, nargs="*", help="folders of headers that CMake has written")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    complaints, count = check(options.include.resolve(), [path.resolve() for path in options.more], {"c": options.cc, "c++": options.cxx})
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if count == 0:
        complaints.append("no header")
    print(f"headers alone: {count} compiled, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
