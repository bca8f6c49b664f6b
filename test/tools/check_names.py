#!/usr/bin/env python3
"""Owns: the check that what documents and comments name is there: files, functions, types and options of the library, tests, and in
a row that names both the function in its file. A row of a promise names tests that hold it. The tables of docs/internals/
list every source file of the library. Something counts each counter."""
import fnmatch
import pathlib
import re
import subprocess
import sys

from source_text import ROOT, TOKEN, report

FENCE = re.compile(r"^```.*?^```", re.S | re.M)
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w*-][\w*.-]*(?:/[\w*.-]+)*\.(?:c|h|hpp|py|sh)")
TEST = re.compile(rf"({FILE.pattern})::(\w+)")
SOURCE = re.compile(r"[\w/.-]*\w\.c\b")
INTERNAL = re.compile(r"\buvhttp__\w+")
PUBLIC = re.compile(r"\b(?:uvhttp_[a-z]\w*|UVHTTP_[A-Z]\w*)")
COUNTERS = "src/obs/counters.h"
COUNTER = re.compile(r"^    X\(([a-z]\w*), [A-Z_]+, ", re.M)
# Written by CMake, read by the program of a reader, or of a history.
ELSEWHERE = ("admin_page.h", "build_identity.h", "build_info.h", "app.c", "server.c")
HISTORY = ("CHANGELOG.md", "docs/migration.md")
ANY = ("uvhttp__x", "uvhttp_x")  # stand for all of them


class Names:
    """files: {path: text} of the project."""

    def __init__(self, files):
        self.files = files
        self.ends = {"/".join(path.split("/")[at:]) for path in files for at in range(path.count("/") + 1)}
        self.words = set()
        self.public = set()
        for path, text in files.items():
            if not path.endswith(".md"):
                self.public.update(PUBLIC.findall(text))
            if path.startswith(("src/", "include/", "test/", "tools/")) and path.endswith((".c", ".h", ".py")):
                self.words.update(INTERNAL.findall(text))

    def is_file(self, name):
        name = name.removeprefix("./")
        if "*" in name:
            return any(pathlib.PurePath(path).match(name) for path in self.files)
        return name in self.ends or name in ELSEWHERE

    def paths_of(self, name):
        return [path for path in self.files if path == name or path.endswith("/" + name)]

    def check_row(self, where, line):
        """A row of a table that says which function is in which file: each is in one of them."""
        codes = CODE.findall(line)
        sources = [path for code in codes if FILE.fullmatch(code) for path in self.paths_of(code) if path.startswith("src/")]
        for function in (code for code in codes if re.fullmatch(r"\w+", code)):
            if sources and not any(re.search(rf"\b{function}\b", self.files[path]) for path in sources):
                yield f"{where}: {function} is in none of {', '.join(sources)}"

    def is_test(self, name, test):
        """Whether pytest or cmocka runs it: a function in a C file is listed too."""
        for path in self.paths_of(name):
            if path.startswith("test/") and path.endswith(".py") and re.search(rf"^def {test}\(", self.files[path], re.M):
                return True
            if path.startswith("test/unit/") and len(re.findall(rf"\b{test}\b", self.files[path])) > 1:
                return True
        return False

    def check_promise(self, where, line):
        """A row of a table whose last column says which tests hold it."""
        held_by = CODE.findall(line.rstrip(" |").rsplit("|", 1)[-1])
        if not any(TEST.fullmatch(code) or FILE.fullmatch(code) for code in held_by):
            yield f"{where}: no test holds this"

    def check_document(self, path, text):
        plain = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
        of_functions = of_promises = False
        for number, line in enumerate(plain.splitlines(), 1):
            where = f"{path}:{number}"
            for code in CODE.findall(line):
                if FILE.fullmatch(code) and not self.is_file(code):
                    yield f"{where}: there is no file {code}"
                test = TEST.fullmatch(code)
                if test and not self.is_test(test[1], test[2]):
                    yield f"{where}: there is no test {code}"
                for name in INTERNAL.findall(code):
                    if name not in self.words and name not in ANY and not name.endswith("_"):
                        yield f"{where}: there is no {name}"
                for name in PUBLIC.findall(code):
                    if name not in self.public and name not in ANY and not name.endswith("_"):
                        yield f"{where}: there is no {name}"
            of_functions = line.startswith("|") and (of_functions or "| file | function |" in line)
            if of_functions:
                yield from self.check_row(where, line)
            if of_promises and line.startswith("| "):
                yield from self.check_promise(where, line)
            of_promises = line.startswith("|") and (of_promises or line.endswith("| held by |"))

    def check_comments(self, path, text):
        for match in TOKEN.finditer(text):
            if match[0][0] != "/":
                continue
            for name in SOURCE.findall(match[0]):
                if not self.is_file(name):
                    yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: there is no file {name}"

    def listed(self):
        """Patterns of paths: what the tables "| file | owns |" of docs/internals/ name. A name without a folder is in the folder
        of the page's name."""
        for path, text in self.files.items():
            if path.startswith("docs/internals/") and path.endswith(".md"):
                for table in re.findall(r"^\| file \| owns \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
                    for name in CODE.findall("\n".join(row.split("|")[1] for row in table.splitlines())):
                        name = name.removeprefix("src/")
                        yield "src/" + (name if "/" in name else f"{pathlib.PurePath(path).stem}/{name}")

    def check_tables(self):
        patterns = list(self.listed())
        for path in sorted(self.files):
            if path.startswith("src/") and path.endswith(".c") and not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                yield f"{path}: no table of files in docs/internals/ lists it"

    def check_counters(self):
        """HTTP/2 has a list of its own, of names without their prefix."""
        sources = [text for path, text in self.files.items() if path.startswith("src/") and path != COUNTERS]
        for name in COUNTER.findall(self.files.get(COUNTERS, "")):
            used = re.compile(rf"(?:\b|COUNTER_){name}\b|\bX\({name.removeprefix('http2_')}\)")
            if not any(used.search(text) for text in sources):
                yield f"{COUNTERS}: nothing counts {name}"

    def problems(self):
        yield from self.check_tables()
        yield from self.check_counters()
        for path, text in sorted(self.files.items()):
            if path.endswith(".md") and path not in HISTORY:
                yield from self.check_document(path, text)
            elif path.startswith(("src/", "include/", "tools/", "test/", "examples/", "bench/")) and path.endswith((".c", ".h", ".hpp")):
                yield from self.check_comments(path, text)


def read_files():
    """What git knows, or will: {path: text}."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [path for path in listed.stdout.split("\n") if path and (ROOT / path).is_file()]
    return {path: (ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths}


def main():
    return report("names", list(Names(read_files()).problems()))


if __name__ == "__main__":
    sys.exit(main())
