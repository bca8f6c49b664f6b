#!/usr/bin/env python3
"""Owns: the rules of style that a program can check: what a file opens with, lengths, banned functions, leftovers."""
import re
import sys

from source_text import ROOT, c_files, code_lines, report

LINES_MAX = 800
LIBRARY_LINES_MAX = 600
# Lines of a function of src/, from its type to its last brace: the middle one, nine tenths, the longest.
FUNCTION_MEDIAN_MAX, FUNCTION_P90_MAX, FUNCTION_MAX = 8, 20, 60
MEMORY = "use uvhttp__malloc, uvhttp__calloc, uvhttp__realloc, uvhttp__free of base/alloc.h"
SIZED = "use a function that knows the size of its destination (memcpy, snprintf)"
PARSE = "use a parser that reports errors and overflow"
LOCALE = "depends on the locale, where i may be the small letter of another I: base/str.h, base/chars.h"
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
    "tolower": LOCALE, "toupper": LOCALE, "isalpha": LOCALE, "isdigit": LOCALE, "isalnum": LOCALE, "isspace": LOCALE, "isxdigit": LOCALE,
    "isupper": LOCALE, "islower": LOCALE, "isprint": LOCALE, "isgraph": LOCALE, "iscntrl": LOCALE, "ispunct": LOCALE,
    "strcasecmp": LOCALE, "strncasecmp": LOCALE, "strcasestr": LOCALE,
    "aligned_alloc": MEMORY, "posix_memalign": MEMORY,
}  # fmt: skip
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# The declaration of a public function says which thread may call it (types.h).
EXPORTED = re.compile(r"^UVHTTP_EXPORT\s+(?!UVHTTP_(?:ANY|OWNER|LOOP|WORKER|SETUP|BLOCKING)_THREAD\b|UVHTTP_IN_COROUTINE\b)", re.M)
# The decimal point of a locale is what the program has set.
FLOATING = re.compile(r"%[-+ #0]*[0-9*]*(?:\.[0-9*]+)?[fg](?![a-z])")
LOCALE_PRINTF = re.compile(r"(?<!\w)v?snprintf\s*\(|\bUVHTTP_LOG_\w+\(")
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
    lines_max = LIBRARY_LINES_MAX if path.startswith("src/") else LINES_MAX
    if len(lines) > lines_max:
        problems.append(f"{path}:{lines_max}: {len(lines)} lines, at most {lines_max}: split it by what it owns")
    for number, line in enumerate(lines, 1):
        if LEFTOVER.search(line):
            problems.append(f"{path}:{number}: finish it, or write an issue: {line.strip()}")
    for match in FLOATING.finditer(text) if path.startswith("src/") else ():
        statement = re.split(r"[;{}]\s*\n", text[: match.start()])[-1]
        if LOCALE_PRINTF.search(statement):
            number = text.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{number}: {match[0]}: the decimal point is the locale's here: uvhttp__format() of base/format.h")
    for match in EXPORTED.finditer(text) if path.startswith("include/") else ():
        number = text.count("\n", 0, match.start()) + 1
        problems.append(f"{path}:{number}: UVHTTP_EXPORT is followed by the thread that may call the function, such as UVHTTP_ANY_THREAD")
    if in_library:
        for number, line in enumerate(code_lines(text), 1):
            for name in CALL.findall(line):
                if not (path == ALLOCATOR and BANNED[name] is MEMORY or path.endswith(".hpp") and name == "sleep"):
                    problems.append(f"{path}:{number}: {name}: {BANNED[name]}")
    return problems


def functions(text):
    """(line, lines) of each function that a C file defines."""
    depth, first, is_function = 0, None, False
    continued = False
    for number, line in enumerate(code_lines(text), 1):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.rstrip().endswith("\\")
        if directive:
            continue
        if depth == 0 and first is None and line.strip():
            first, statement = number, ""
        for c in line:
            if c == "{":
                if depth == 0:
                    is_function = statement.rstrip().endswith(")")
                    if 'extern ""' in statement:
                        first = None
                        break
                depth += 1
            elif c == "}" and depth > 0:
                depth -= 1
                if depth == 0 and is_function:
                    yield first, number - first + 1
                    first, is_function = None, False
            elif c == ";" and depth == 0:
                first = None
            elif depth == 0 and first is not None:
                statement += c
        if depth == 0 and first is not None:
            statement += " "


def lengths(files):
    """(lines, path, line) of each function, the shortest first."""
    return sorted((lines, path, at) for path, text in files for at, lines in functions(text))


def at_share(found, share):
    """The length that this share of the functions does not exceed."""
    return found[int(share * (len(found) - 1))][0] if found else 0


def check_functions(files):
    """The lengths of all functions together, and each that is too long."""
    found = lengths(files)
    problems = [f"{path}:{at}: a function of {lines} lines, at most {FUNCTION_MAX}" for lines, path, at in found if lines > FUNCTION_MAX]
    for name, share, most in (("median", 0.5, FUNCTION_MEDIAN_MAX), ("90th percentile", 0.9, FUNCTION_P90_MAX)):
        lines = at_share(found, share)
        if lines > most:
            problems.append(f"src/: the {name} of the functions' lengths is {lines} lines, at most {most}")
    return problems


def main():
    library = [(path, text) for path, text in c_files(ROOT, "src") if path.endswith((".c", ".h"))]
    files = c_files(ROOT, "src", "include", "tools", "examples", "test", "bench")
    found, longest = lengths(library), max(len(text.splitlines()) for _, text in library)
    print(f"src/: {len(library)} files, the longest of {longest} lines; {len(found)} functions, the median {at_share(found, 0.5)}, "
          f"90th percentile {at_share(found, 0.9)}, the longest {found[-1][0]} lines")
    return report("style", [problem for path, text in files for problem in check_file(path, text)] + check_functions(library))


if __name__ == "__main__":
    sys.exit(main())
