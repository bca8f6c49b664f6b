#!/usr/bin/env python3
"""Owns: the check that includes follow the arrows of layers.txt and that only src/io/ touches an engine or a platform."""
import pathlib
import re
import sys

from graph import cycles
from source_text import ROOT, c_files, code_lines, report

LAYERS = pathlib.Path(__file__).with_name("layers.txt")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
ENGINE_HEADER = re.compile(r"^(uv\.h|uv/|liburing|linux/io_uring)")
ENGINE_CALL = re.compile(r"\b(uv_\w+|io_uring_\w+)\s*\(")
# Written by CMake; anybody may include them.
GENERATED = ("admin_page.h", "build_info.h", "build_identity.h", "uvhttp/features.h")
CONDITION = re.compile(r"^\s*#\s*(?:el)?if")
PLATFORM = re.compile(
    r"\b(__linux__|__linux|linux|__gnu_linux__|__APPLE__|__MACH__|_WIN32|_WIN64|__CYGWIN__|__unix__|__unix|__ANDROID__"
    r"|__FreeBSD__|__NetBSD__|__OpenBSD__|UVHTTP_WITH_URING)\b"
)


class Layering:
    """folders: {folder: folders, "(folder)" for its public functions only, or "*"}. headers: {public header: the folder that
    owns it}. implementers: {public header: all folders that implement functions of it}, if there are several."""

    def __init__(self):
        self.folders = {}
        self.headers = {}
        self.implementers = {}

    def allowed(self, folder, target):
        may = self.folders[folder]
        return target == folder or target in may or "*" in may

    def check_include(self, folder, quote, name):
        """The complaint about one include, or None."""
        if ENGINE_HEADER.match(name):
            if folder == "io":
                return None
            return f"{name} belongs to src/io/ only; use io/io.h, or add what is missing there"
        if name in GENERATED:
            return None
        if name == "uvhttp.h" or name.startswith("uvhttp/"):
            header = name.split("/", 1)[-1]
            if header not in self.headers:
                return f"<{name}> has no owner: add a line 'public {header} <folder>' to test/tools/layers.txt"
            target = self.headers[header]
        elif quote == "<":
            return None
        else:
            target = name.split("/")[0]
            if "/" not in name or target not in self.folders:
                return f'write "{folder}/{name}" or "<folder>/{name}": includes start at src/'
        if self.allowed(folder, target):
            return None
        may = " ".join(sorted(self.folders[folder])) or "nothing"
        return (
            f"{folder}/ may not include {name} of {target}/ (it may include: {may}). The way out: pass what is needed as an "
            f"argument or a callback, move the shared part down to a folder both may include, or bind the two in server/"
        )

    def check_file(self, path, text):
        parts = path.split("/")
        is_public = parts[0] == "include"
        folder = self.headers.get(parts[-1]) if is_public else parts[1]
        if folder not in self.folders:
            where = f"a line 'public {parts[-1]} <folder>'" if is_public else f"the folder {folder}"
            return [f"{path}:1: test/tools/layers.txt lacks {where}"]
        problems = []
        for number, line in enumerate(code_lines(text), 1):
            include = INCLUDE.match(line)
            complaint = self.check_include(folder, *include.groups()) if include else None
            if include and is_public and not complaint and include[1] == '"':
                complaint = f"a public header includes <uvhttp/...>, not \"{include[2]}\""
            if include and is_public and ENGINE_HEADER.match(include[2]):
                complaint = f"a public header does not pull in {include[2]}: declare the struct instead"
            if folder != "io" and CONDITION.match(line) and PLATFORM.search(line):
                complaint = "no #if on a platform or an engine outside src/io/: put the difference behind io/io.h"
            call = ENGINE_CALL.search(line)
            if folder != "io" and not include and call:
                complaint = f"{call[1]} is called in src/io/ only; use io/io.h, or add what is missing there"
            if complaint:
                problems.append(f"{path}:{number}: {complaint}")
        return problems


    def check_lines(self, paths):
        """The complaints about what the table names and what does not exist."""
        public = {path.split("/")[-1] for path in paths if path.startswith("include/")}
        inside = {path.split("/")[1] for path in paths if not path.startswith("include/")}
        named = [("folder", folder, folder in inside) for folder in self.folders]
        named += [("header", header, header in public) for header in self.headers]
        for folders in (*self.folders.values(), *self.implementers.values()):
            named += [("folder", folder, folder.strip("()") in self.folders) for folder in folders - {"*"}]
        gone = sorted({f"{kind} {name}" for kind, name, exists in named if not exists})
        return [f"test/tools/layers.txt: there is no {name}: drop it" for name in gone]


def read_layers(text):
    layering = Layering()
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "public":
            layering.headers[words[1]] = words[2]
            if words[3:]:
                layering.implementers[words[1]] = set(words[2:])
        else:
            layering.folders[words[0].rstrip(":")] = set(words[1:])
    return layering


def included(text):
    """What a file includes of the project, as paths from the root."""
    for line in code_lines(text):
        include = INCLUDE.match(line)
        if include:
            public = include[2].startswith("uvhttp")
            yield f"include/{include[2]}" if public else f"src/{include[2]}"


def check_cycles(files):
    """The complaints about files that include each other. (await.hpp is the second half of uvhttp.hpp.)"""
    edges = {path: set(included(text)) for path, text in files if not path.endswith(".hpp")}
    return [f"files that include each other: {' '.join(sorted(cycle))}" for cycle in cycles(edges)]


def main():
    layering = read_layers(LAYERS.read_text(encoding="utf-8"))
    files = list(c_files(ROOT, "src", "include", "tools"))
    problems = layering.check_lines([path for path, _ in files]) + check_cycles(files)
    return report("layering", problems + [problem for path, text in files for problem in layering.check_file(path, text)])


if __name__ == "__main__":
    sys.exit(main())
