#!/usr/bin/env python3
"""Owns: the mutation score: changes one token of a source file at a time and sees whether a unit test notices.

    test/tools/mutate.py src/http1/*.c --max 150
    test/tools/mutate.py src/io/io_out.c:20-160 --tests io --tests exchange/outgoing --max 100

A mutant is compiled next to a build that has the unit tests, which stays as it is, and linked in front of the library: the
tree is never changed. The programs of test/unit/<folder of the file>/ run until one fails or takes too long: the mutant
is killed. A mutant whose object code is that of the original is none. Prints the survivors and the score."""
import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

from build_objects import Objects
from source_text import ROOT, TOKEN

SKIPPED = 77
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+=": "-=", "-=": "+=",
         "++": "--", "--": "++", "+": "-", "-": "+", "true": "false", "false": "true"}
WORD = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uUlL]*|\d[\w.]*|<<=|>>=|->|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|\S")
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")
VALUE_END = re.compile(r"[\w)\]]$")  # what a binary operator follows
CALL_OR_ASSIGNMENT = re.compile(r"(?:\(void\)\s*!?)?[A-Za-z_*(][^=;{}?]*(?:\([^;{}]*\)|(?:[-+|&^*/]|<<|>>)?=(?!=)[^;{}]*|\+\+|--)$|"
                                r"(?:\+\+|--)[^;{}]*$")
DECLARATION = re.compile(r"(?:static |const |struct |enum |unsigned |extern |register )|[A-Za-z_]\w*(?: \**|\** )[A-Za-z_]\w*\s*(?:\[|=|;|$|,)")
NOT_DROPPED = re.compile(r"(?:return|goto|break|continue|case|default|else|if|for|while|do|switch|static_assert|assert)\b")


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    line: int
    start: int
    end: int
    text: str  # in place of [start, end)
    what: str


# --- making mutants ---


def blank(text):
    """C text of the same length with comments, literals and preprocessor lines blank."""
    plain = TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match[0][0] == "/" else '"' + "_" * (len(match[0]) - 2) + '"', text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match[0]), plain, flags=re.M)


def closing(text, opening):
    """Where the parenthesis at `opening` ends."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return opening


def token_mutants(text):
    before = ""
    for token in WORD.finditer(text):
        word, swap = token[0], SWAPS.get(token[0])
        number = NUMBER.match(word)
        if number:
            value = int(number[1], 8 if re.match(r"0\d", word) else 0)
            yield *token.span(), str(value + 1) + number[2]
            if value > 1:
                yield *token.span(), str(value - 1) + number[2]
        elif swap and (word not in "+-" or VALUE_END.search(before) and before not in ("return", "case")):
            yield *token.span(), swap
        before = word


def condition_mutants(text):
    for match in re.finditer(r"\b(?:if|while) (\()", text):
        end = closing(text, match.start(1))
        yield match.start(1), end + 1, "(!" + text[match.start(1) : end + 1] + ")"


def return_mutants(text):
    for match in re.finditer(r"\breturn\s+([^;]+);", text):
        value = match[1].strip()
        yield *match.span(1), "1" if value in ("0", "false", "NULL") else "0"


def statement_mutants(text):
    for match in re.finditer(r"(?<=[;{})])\s*([^;{}]+);|\belse\s+([^;{}]+);", text):
        group = 1 if match[1] is not None else 2
        statement, start, end = match[group], *match.span(group)
        control = re.match(r"(?:else\s+)?(?:if|while|for) \(", statement)
        if control:  # what it governs
            end_of_control = closing(text, start + control.end() - 1) + 1
            if end_of_control >= end:
                continue
            start = end_of_control + len(text[end_of_control:end]) - len(text[end_of_control:end].lstrip())
            statement = text[start:end]
        if statement.count("(") == statement.count(")") and not NOT_DROPPED.match(statement):
            if CALL_OR_ASSIGNMENT.match(statement) and not DECLARATION.match(statement):
                yield start, end, ""


def body_of_functions(text):
    """Blanks what is outside of functions: types, tables and signatures."""
    inside = re.compile(r"^(?!typedef|enum|struct|static const|const)[^\n;{}#]*(?:\n[^\n;{}#]+)?\) \{\n(.*?)^\}", re.S | re.M)
    spans = [match.span(1) for match in inside.finditer(text)]
    kept = [" " if character != "\n" else "\n" for character in text]
    for start, end in spans:
        kept[start - 2 : end + 1] = text[start - 2 : end + 1]
    return "".join(kept)


def mutants_of(argument):
    path, _, lines = argument.partition(":")
    first, last = map(int, lines.split("-")) if lines else (1, sys.maxsize)
    path = pathlib.Path(path).resolve().relative_to(ROOT).as_posix()
    source = (ROOT / path).read_text(encoding="utf-8")
    code = body_of_functions(blank(source))
    seen = set()
    for make in (token_mutants, condition_mutants, return_mutants, statement_mutants):
        for start, end, replacement in make(code):
            line = source.count("\n", 0, start) + 1
            if make is condition_mutants:  # with its literals
                replacement = "(!" + source[start:end] + ")"
            if not first <= line <= last or (start, end, replacement) in seen:
                continue
            seen.add((start, end, replacement))
            was = " ".join(source[start:end].split())
            what = f"without {was}" if make is statement_mutants else f"{was} -> {' '.join(replacement.split())}"
            yield Mutant(path, line, start, end, replacement, what)


# --- running them ---


def sources_of(test):
    """Those of a folder of test/unit, or the one of folder/name."""
    folder, _, name = test.partition("/")
    found = sorted((ROOT / "test/unit" / folder).glob(f"test_{name or '*'}.c"))
    return found or sys.exit(f"mutate: no tests {test}")


class Build(Objects):
    """A build directory with the unit tests."""

    def __init__(self, folder, tests):
        super().__init__(folder)
        sources = (path for test in tests for path in sources_of(test))
        sources = (path for path in sources if path.relative_to(ROOT).as_posix() in self.commands)  # of this configuration
        programs = [f"test_{path.parent.name}_{path.stem.removeprefix('test_')}" for path in sources]
        subprocess.run(["cmake", "--build", folder, "-j2", "--target", *programs], check=True, stdout=subprocess.DEVNULL)
        self.environment = os.environ | {"UVHTTP_LOG_LEVEL": "warn"}
        self.times = {}
        for program in programs:
            started = time.monotonic()
            code = self.run(folder / "test/bin" / program, 120)
            if code not in (0, SKIPPED):
                sys.exit(f"mutate: {program} fails without a mutation")
            if code == 0:
                self.times[program] = time.monotonic() - started

    def run(self, program, seconds):
        """The exit code; 1 after so many seconds. What it has started ends with it."""
        with subprocess.Popen([program], cwd=ROOT, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return 1
            finally:
                try:
                    os.killpg(process.pid, 9)
                except ProcessLookupError:
                    pass


class Runner:
    def __init__(self, build, scratch, seconds):
        self.build, self.scratch, self.seconds = build, scratch, seconds
        self.lock = threading.Lock()
        self.kills = collections.Counter()
        self.originals = {}

    def original(self, path):
        """The object code without a mutation, from the same file name."""
        with self.lock:
            if path not in self.originals:
                folder = self.scratch / "original"
                folder.mkdir(exist_ok=True)
                self.originals[path] = self.object(path, (ROOT / path).read_text(encoding="utf-8"), folder).read_bytes()
            return self.originals[path]

    def object(self, path, text, folder):
        source, target = folder / os.path.basename(path), folder / "mutant.o"
        source.write_text(text, encoding="utf-8")
        return target if self.build.compile(path, source, target) else None

    def order(self):
        """Those that kill the most in the least time first."""
        with self.lock:
            return sorted(self.build.times, key=lambda program: self.build.times[program] / (1 + self.kills[program]))

    def outcome(self, mutant):
        """(killed, survived, equal or invalid; the program that killed it)."""
        original = self.original(mutant.path)
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = pathlib.Path(name)
            mutated = self.object(mutant.path, text[: mutant.start] + mutant.text + text[mutant.end :], folder)
            if not mutated:
                return "invalid", ""
            if mutated.read_bytes() == original:
                return "equal", ""
            for program in self.order():
                self.build.link(program, [mutated], folder / program)
                if self.build.run(folder / program, min(5 + 5 * self.build.times[program], self.seconds)) != 0:
                    with self.lock:
                        self.kills[program] += 1
                    return "killed", program
                (folder / program).unlink()
        return "survived", ""


def select(arguments, seed, most):
    """All mutants in an order that the seed makes; `most` bounds those that are compiled and differ."""
    found = [mutant for argument in arguments for mutant in mutants_of(argument)]
    random.Random(seed).shuffle(found)
    return found, min(most or len(found), len(found))


def parse_arguments():
    parser = argparse.ArgumentParser(description="The share of mutations that the unit tests notice.")
    parser.add_argument("files", nargs="+", metavar="FILE[:FIRST-LAST]", help="C files, of which only these lines are changed")
    parser.add_argument("--build", default="build", type=pathlib.Path, help="of a preset, with UVHTTP_BUILD_TESTS (%(default)s)")
    parser.add_argument("--tests", action="append", metavar="FOLDER[/NAME]",
                        help="of test/unit, without test_ (the folders of the files)")
    parser.add_argument("--max", default=0, type=int, help="mutants that count (all)")
    parser.add_argument("--seed", default=1, type=int, help="says which (%(default)s)")
    parser.add_argument("--seconds", default=120, type=float, help="a program that takes longer hangs (%(default)s)")
    parser.add_argument("-j", dest="jobs", default=2, type=int, help="mutants at a time (%(default)s)")
    parser.add_argument("-v", dest="verbose", action="store_true", help="those that are killed too")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    folders = sorted({pathlib.Path(file.partition(":")[0]).resolve().parent.name for file in arguments.files})
    mutants, most = select(arguments.files, arguments.seed, arguments.max)
    build = Build(arguments.build.resolve(), arguments.tests or folders)
    mutants = [mutant for mutant in mutants if mutant.path in build.commands]
    counts, survivors = collections.Counter(), []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runner = Runner(build, pathlib.Path(scratch), arguments.seconds)
        left = iter(mutants)
        while counts["killed"] + counts["survived"] < most:
            batch = [mutant for _, mutant in zip(range(most - counts["killed"] - counts["survived"]), left)]
            if not batch:
                break
            for mutant, (outcome, program) in zip(batch, pool.map(runner.outcome, batch)):
                counts[outcome] += 1
                if outcome == "survived":
                    survivors.append(mutant)
                if outcome == "survived" or arguments.verbose:
                    print(f"{mutant.path}:{mutant.line}: {outcome}: {mutant.what} {program}", flush=True)
    total = counts["killed"] + counts["survived"]
    print(f"mutate: {counts['killed']} of {total} killed, of {len(mutants)} mutants; "
          f"{counts['equal']} had the same object code, {counts['invalid']} did not compile")


if __name__ == "__main__":
    main()
