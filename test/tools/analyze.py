#!/usr/bin/env python3
"""Owns: gcc -fanalyzer, clang-tidy and cppcheck over src/: analyze.py BUILD [SOURCE...], all of it or some folders and files. The commands
are those of a build (compile_commands.json), with asserts: what is asserted is known to the analyzers, and checked by the tests under
ASan. A finding fails unless ACCEPTED has it with a reason; an entry of ACCEPTED that finds nothing any more fails, too."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from source_text import ROOT, report

FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error|performance|portability): (.*?)\s*\[([\w.,=-]+)\]$", re.M)
# What can be wrong, not what could be written otherwise. Left out, for each finding so far was about a habit and not about a fault:
# Annex K instead of memcpy, results of snprintf and its kind (docs/internals/system_calls.md has those of system calls), texts of a
# protocol that end without '\\0', arrays of pointers, tagged pointers, recursion, constants that are products, getenv and readdir;
# for conversions the build has -Wconversion.
TIDY_CHECKS = (
    "-*,clang-analyzer-*,bugprone-*,cert-*,concurrency-*,misc-*,performance-*,portability-*,"
    "-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling,-bugprone-easily-swappable-parameters,"
    "-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions,-bugprone-not-null-terminated-result,"
    "-bugprone-sizeof-expression,-cert-err33-c,-concurrency-mt-unsafe,-misc-no-recursion,-performance-no-int-to-ptr"
)


@dataclasses.dataclass(frozen=True)
class Finding:
    tool: str
    check: str
    path: str
    line: int
    message: str


@dataclasses.dataclass(frozen=True)
class Accepted:
    """A finding that is wrong. `code`: a part of its line, so that it moves with the line and ends with it."""

    tool: str
    check: str
    path: str
    code: str
    reason: str


GCC_FIELDS = "the caller's loop fills all UVHTTP__ENTRY_FIELD_COUNT of them; gcc 12 forgets them at its end"
ARRAY_IN_LITERAL = "an array in a compound literal is its address; cppcheck 2.10 takes it for a value that is read"

ACCEPTED = (
    Accepted("gcc", "-Wanalyzer-use-of-uninitialized-value", "src/middleware/access_log_format.c", "fields[field]", GCC_FIELDS),
    Accepted("cppcheck", "legacyUninitvar", "src/exec/file_reader.c", "(struct iovec){scratch", ARRAY_IN_LITERAL),
    Accepted("cppcheck", "legacyUninitvar", "src/http2/head_response.c", "(uvhttp_str_t){digits", ARRAY_IN_LITERAL),
    Accepted("clang-tidy", "clang-analyzer-core.UndefinedBinaryOperatorResult", "src/handler/static_file.c", "S_ISREG(its.st_mode)",
             "open_path returns 200 only after fstat; the status of an error is status_of's, which has no 200 for a negative errno"),
    Accepted("clang-tidy", "clang-analyzer-core.uninitialized.Branch", "src/message/response_stream.c", "field += strlen(field) + 1",
             "the list ends with an empty name, and a pointer never passes it; clang knows no strlen of a part of a literal"),
    Accepted("clang-tidy", "misc-redundant-expression", "src/config/config_file.c", "YAML_DOCUMENT_START_EVENT",
             "next() reads one event further each time"),
    Accepted("clang-tidy", "cert-fio38-c,misc-non-copyable-objects", "src/exchange/deferred_handle.c", "sizeof locks",
             "the size of an array of mutexes; nothing is copied"),
)  # fmt: skip


def commands(build, chosen):
    """(path, directory, arguments) of each file of the library that the build compiles; chosen: folders and files of src/, or all."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["file"])
        name = path.relative_to(ROOT / "src").as_posix() if path.is_relative_to(ROOT / "src") else ""
        if name and (not chosen or name in chosen or path.parent.name in chosen):
            given = shlex.split(entry["command"])
            yield path, entry["directory"], [word for word in given if word not in ("-DNDEBUG", "-Werror", "-g")]


def findings_in(tool, text):
    for path, line, message, check in FINDING.findall(text):
        # Of gcc's warnings those of its analyzer; a header may have a finding, but not one of somebody else.
        if (tool != "gcc" or check.startswith("-Wanalyzer")) and pathlib.Path(path).resolve().is_relative_to(ROOT):
            yield Finding(tool, check, pathlib.Path(path).resolve().relative_to(ROOT).as_posix(), int(line), message)


def run(tool, arguments, directory):
    """What it has found. A tool that could not do its work is an error, not a file without findings."""
    done = subprocess.run(arguments, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return set(findings_in(tool, done.stdout + done.stderr))


def gcc(arguments, directory):
    output = arguments.index("-o") + 1
    return run("gcc", [*arguments[:output], "/dev/null", *arguments[output + 1 :], "-fanalyzer"], directory)


def clang_tidy(path, arguments, directory):
    flags = [word for word in arguments[1:] if word not in ("-c", str(path))]
    at = flags.index("-o")
    return run("clang-tidy", ["clang-tidy", "--quiet", f"--checks={TIDY_CHECKS}", str(path), "--", *flags[:at], *flags[at + 2 :]],
               directory)  # fmt: skip


def cppcheck(files):
    """All files at once: it has its own processes. Its view of system headers is its own, too."""
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder) / "compile_commands.json"
        entries = [{"directory": directory, "file": str(path), "command": shlex.join(arguments)} for path, directory, arguments in files]
        project.write_text(json.dumps(entries), encoding="utf-8")
        return run("cppcheck", ["cppcheck", "-q", f"-j{os.cpu_count()}", f"--project={project}",
                                "--enable=warning,performance,portability", "-DUV_VERSION_MAJOR=1", "-DUV_VERSION_MINOR=44",
                                "--template={file}:{line}:{column}: {severity}: {message} [{id}]"], folder)  # fmt: skip


def analyze(files):
    findings = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(gcc, arguments, directory) for _, directory, arguments in files]
        jobs += [pool.submit(clang_tidy, path, arguments, directory) for path, directory, arguments in files]
        for job in jobs:
            findings |= job.result()
    return findings | cppcheck(files)


def problems_of(findings, accepted, sources):
    """`sources`: the lines of each file, by its path."""
    unused = set(accepted)
    for finding in sorted(findings, key=lambda f: (f.path, f.line, f.tool)):
        code = sources(finding.path)[finding.line - 1]
        fits = [a for a in accepted if (a.tool, a.check, a.path) == (finding.tool, finding.check, finding.path) and a.code in code]
        unused -= set(fits)
        if not fits:
            yield f"{finding.path}:{finding.line}: {finding.message} [{finding.tool} {finding.check}]"
    for entry in sorted(unused, key=lambda a: a.path):
        yield f"{entry.path}: nothing is found any more at '{entry.code}': delete it from ACCEPTED [{entry.tool} {entry.check}]"


def main():
    build, chosen = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    files = list(commands(build, chosen))
    if not files or chosen - {name for path, _, _ in files for name in (path.parent.name, f"{path.parent.name}/{path.name}")}:
        sys.exit(f"analyze: there is nothing to analyze in {build} for: {' '.join(sorted(chosen)) or 'src/'}")
    paths = {path.relative_to(ROOT).as_posix() for path, _, _ in files}
    accepted = [entry for entry in ACCEPTED if entry.path in paths]
    print(f"analyze: {len(files)} files")
    sources = {}

    def lines_of(path):
        return sources.setdefault(path, (ROOT / path).read_text(encoding="utf-8").splitlines())

    return report("analyze", list(problems_of(analyze(files), accepted, lines_of)))


if __name__ == "__main__":
    sys.exit(main())
