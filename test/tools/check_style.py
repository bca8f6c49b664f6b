#!/usr/bin/env python3
"""Owns: the rules of style that a program can check: what a file opens with, its length, banned functions, leftovers."""
import re
import sys

from source_text import ROOT, c_files, code_lines, report

LINES_MAX = 800
MEMORY = "use uvhttp__malloc, uvhttp__calloc, uvhttp__realloc, uvhttp__free of base/alloc.h"
SIZED = "use a function that knows the size of its destination (memcpy, snprintf)"
PARSE = "use a parser that reports errors and overflow"
FATAL = "the library never ends the process: return an error code"
BANNED = {
    "strcpy": SIZED, "strcat": SIZED, "strncpy": SIZED, "strncat": SIZED, "sprintf": SIZED, "vsprintf": SIZED,
    "gets": SIZED, "alloca": SIZED,
    "strtok": "keeps state between calls", "localtime": "not thread-safe", "gmtime": "not thread-safe: gmtime_r",
    "strerror": "not thread-safe: uvhttp_error_message, or strerror_r", "rand": "use a seeded generator",
    "atoi": PARSE, "atol": PARSE, "atoll": PARSE, "atof": PARSE, "sscanf": PARSE,
    "exit": FATAL, "_exit": FATAL, "abort": FATAL,
    "printf": "the library does not write to stdout: obs/log.h", "puts": "the library does not write to stdout: obs/log.h",
    "system": "starts a shell", "popen": "starts a shell", "signal": "use sigaction", "sleep": "blocks the loop",
    "usleep": "blocks the loop",
    "malloc": MEMORY, "calloc": MEMORY, "realloc": MEMORY, "free": MEMORY, "strdup": MEMORY, "strndup": MEMORY,
    "aligned_alloc": MEMORY, "posix_memalign": MEMORY,
}  # fmt: skip
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# In C++, sleep is uvhttp::sleep, which does not block.
# The one place where plain allocation is right: the default behind the allocator hook.
ALLOCATOR = "src/base/alloc.c"


def check_file(path, text):
    problems = []
    in_library = path.startswith(("src/", "include/"))
    opening = re.match(r"\s*/\*(.*?)\*/", text, re.S)
    if in_library and not (opening and "Owns:" in opening[1]):
        problems.append(f"{path}:1: a file opens with '/* Owns: what it is responsible for. May include: ... */'")
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        problems.append(f"{path}:{LINES_MAX}: {len(lines)} lines, at most {LINES_MAX}: split it by what it owns")
    for number, line in enumerate(lines, 1):
        if LEFTOVER.search(line):
            problems.append(f"{path}:{number}: finish it, or write an issue: {line.strip()}")
    if in_library:
        for number, line in enumerate(code_lines(text), 1):
            for name in CALL.findall(line):
                if not (path == ALLOCATOR and BANNED[name] is MEMORY or path.endswith(".hpp") and name == "sleep"):
                    problems.append(f"{path}:{number}: {name}: {BANNED[name]}")
    return problems


def main():
    files = c_files(ROOT, "src", "include", "tools", "examples", "test", "bench")
    return report("style", [problem for path, text in files for problem in check_file(path, text)])


if __name__ == "__main__":
    sys.exit(main())
