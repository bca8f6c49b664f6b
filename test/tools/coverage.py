#!/usr/bin/env python3
"""Owns: what gcov's counters of a build say about src/: coverage.py BUILD [--parsers] [--missing]. Lines and branches by folder, or by
file for the parsers: the code that reads what a client sends. --missing: the lines that were not run, and those with a branch that
was not accepted. A condition of && and || is a branch of its own."""
import argparse
import collections
import concurrent.futures
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from source_text import ROOT

# All files of a folder, or those that are named.
PARSERS = (
    "http1/chunked.c", "http1/scan_syntax.c", "http1/scan_scalar.c", "http1/request.c", "http1/response_read.c",
    "http2/field.c", "http2/frames.c", "http2/head_any.c", "http2/head_request.c", "http2/head_response.c", "http2/head_trailer.c",
    "http2/headers.c", "http2/hpack_decode.c", "http2/hpack_huffman.c", "http2/hpack_table.c", "http2/read.c", "http2/settings.c",
    "websocket/", "message/accept_encoding.c", "message/cookie.c", "message/form.c", "message/forwarded.c", "message/multipart.c",
    "message/multipart_header.c", "message/request_path.c", "message/request_query.c", "base/chars.c", "base/date.c", "base/ip.c",
    "base/uri.c", "conn/proxy_protocol.c",
)  # fmt: skip


class File:
    """Counters of one file: those of all programs are summed up by gcov, those of functions in headers here."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.Counter()

    def add(self, lines):
        for line in lines:
            self.lines[line["line_number"]] += line["count"]
            for number, branch in enumerate(b for b in line["branches"] if not b["throw"]):
                self.branches[line["line_number"], number] += branch["count"]


def read_counters(path):
    """(path of a source below src/, its lines) of one object."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["gcov", "--json-format", "--branch-probabilities", str(path)], cwd=folder, check=True, capture_output=True)
        for report in pathlib.Path(folder).glob("*.gcov.json.gz"):
            data = json.loads(gzip.decompress(report.read_bytes()))
            for file in data["files"]:
                name = pathlib.Path(data["current_working_directory"], file["file"])  # ccache makes names relative
                if name.resolve().is_relative_to(ROOT / "src"):
                    yield name.resolve().relative_to(ROOT / "src").as_posix(), file["lines"]


def read(build):
    files = collections.defaultdict(File)
    objects = sorted((build / "CMakeFiles/uvhttp_objects.dir").rglob("*.gcno"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda path: list(read_counters(path)), objects):
            for name, lines in found:
                files[name].add(lines)
    return files


def is_parser(name):
    return any(name == parser or (parser.endswith("/") and name.startswith(parser)) for parser in PARSERS)


def share(counters):
    """`reached of all`, in per cent."""
    counters = list(counters)
    reached = sum(count > 0 for count in counters)
    return f"{reached} of {len(counters)}".rjust(16) + (f"{100 * reached / len(counters):8.1f} %" if counters else " " * 10)


def print_table(rows):
    print(f"{'':32}{'lines':>16}{'':10}{'branches':>16}")
    for name, files in rows:
        print(f"{name:32}{share([c for f in files for c in f.lines.values()])}{share([c for f in files for c in f.branches.values()])}")


def print_missing(name, file):
    text = (ROOT / "src" / name).read_text(encoding="utf-8").splitlines()
    for line in sorted(file.lines):
        branches = [count for (at, _), count in file.branches.items() if at == line]
        missed = sum(count == 0 for count in branches)
        if file.lines[line] == 0 or missed:
            what = "not run" if file.lines[line] == 0 else f"{missed} of {len(branches)} branches"
            print(f"src/{name}:{line}: {what}: {text[line - 1].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--parsers", action="store_true")
    parser.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    files = read(options.build.resolve())
    if not any(count for file in files.values() for count in file.lines.values()):
        sys.exit(f"coverage: nothing was run in {options.build}")
    chosen = {name: file for name, file in sorted(files.items()) if not options.parsers or is_parser(name)}
    rows = collections.defaultdict(list)
    for name, file in chosen.items():
        rows[name if options.parsers else name.split("/")[0]].append(file)
    print_table([*rows.items(), ("all", list(chosen.values()))])
    if options.missing:
        for name, file in chosen.items():
            print_missing(name, file)


if __name__ == "__main__":
    main()
