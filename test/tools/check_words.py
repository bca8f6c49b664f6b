#!/usr/bin/env python3
"""Owns: the check of words: prose and identifiers against docs/internals/glossary.md. codespell looks the words up in words/prose.dic
and words/names.dic; this program gives it the text of comments, messages, documents, names and commit subjects.

    check_words.py            the findings, and the terms that occur more often than words/left.txt says
    check_words.py --list [TERM] [FOLDER]   every finding, with its line
    check_words.py --table    findings per term and folder, as Markdown
    check_words.py --record   writes words/left.txt: to be done when a number has fallen"""
import collections
import fnmatch
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tokenize

from source_text import ROOT, TOKEN

WORDS = pathlib.Path(__file__).parent / "words"
# Subjects of commits after this one are checked. It is the last one before the number of findings became 0: two older subjects have words
# of the list, and a subject cannot be changed.
COMMITS_AFTER = "e46ce0f4"
C_SUFFIXES, SHELL_NAMES = (".c", ".h", ".hpp", ".cpp"), ("dev", "CMakeLists.txt")
# Lists of words, what others wrote, and what tells about the past.
SKIPPED = ("test/tools/words/*", "test/fuzz/corpus/*", "*/data/*", "docs/performance/*", "docs/internals/glossary.md", "docs/migration*.md", "CHANGELOG.md", "LICENSE")
ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.S)
FENCE, INLINE = re.compile(r"^\s*(```|~~~)"), re.compile(r"`[^`]*`")


class Text:
    """The prose and the names of one file, by line. A paragraph stands on the line on which it starts, so that a phrase
    is found across the ends of lines."""

    def __init__(self):
        self.prose, self.names = collections.defaultdict(list), collections.defaultdict(list)

    def paragraphs(self, first, lines):
        start, words = first, []
        for number, line in enumerate([*lines, ""], first):
            if line.strip():
                start = start if words else number
                words += line.split()
            elif words:
                self.prose[start].append(" ".join(words))
                words = []

    def comment(self, first, text):
        self.paragraphs(first, [re.sub(r"^[\s/*]+|[\s*/<]*\*/$", "", line) for line in text.splitlines()])

    def literal(self, first, text):
        self.prose[first].append(ESCAPE.sub(" ", text).replace("\n", " "))


def c_text(text, with_literals):
    it, line, at = Text(), 1, 0

    def code(upto):
        nonlocal line, at
        for n, part in enumerate(text[at:upto].split("\n")):
            line += n > 0
            if part.strip():
                it.names[line].append(part)

    for match in TOKEN.finditer(text):
        code(match.start())
        token = match.group(0)
        if token[0] == "/":
            it.comment(line, token)
        elif token[0] == '"' and re.search(r"#\s*include\s*$", text[text.rfind("\n", 0, match.start()) + 1 : match.start()]):
            it.names[line].append(token)
        elif token[0] == '"' and with_literals:
            it.literal(line, token)
        line += token.count("\n")
        at = match.end()
    code(len(text))
    return it


def python_text(text, with_literals):
    it, at_start = Text(), True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            it.comment(line, token.string.lstrip("#"))
        elif token.type == tokenize.STRING and at_start:
            it.paragraphs(line, re.sub("^[a-zA-Z]*[\"']+|[\"']+$", "", token.string).splitlines())
        elif token.type == tokenize.STRING and with_literals:
            it.literal(line, token.string)
        elif token.type == tokenize.NAME:
            it.names[line].append(token.string)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            at_start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return it


def markdown_text(text):
    it, fenced, block, first = Text(), False, [], 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if FENCE.match(line):
            fenced = not fenced
            line = ""
        elif fenced:
            it.names[number].append(line)
            line = ""
        it.names[number] += INLINE.findall(line)
        line = re.sub(r"\]\([^)]*\)|<[^>]*>", "]", INLINE.sub("`", line))
        if not line.strip() or line.lstrip().startswith(("|", "#", "-", "*")):
            it.paragraphs(first, block)
            block, first = [], number
        block.append(line)
    it.paragraphs(first, block)
    return it


def plain_text(text):
    it = Text()
    for number, line in enumerate(text.splitlines(), 1):
        it.paragraphs(number, [line])
    return it


def text_of(path, text):
    """What is checked of a file, or None. Literals of tests are data, not messages."""
    name, with_literals = path.rsplit("/", 1)[-1], not path.startswith(("test/", "bench/tests/"))
    if any(fnmatch.fnmatch(path, skipped) for skipped in SKIPPED):
        return None
    if name.endswith(C_SUFFIXES):
        return c_text(text, with_literals)
    if name.endswith(".py"):
        return python_text(text, with_literals)
    if name.endswith(".md"):
        return markdown_text(text)
    return plain_text(text) if name.endswith((".sh", ".cmake", ".in", ".yaml")) or name in SHELL_NAMES else None


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("src", "test") and len(parts) > 2 else parts[0]


class Dictionary:
    """A file of codespell's format, "not->but": the words, and the groups of those that have the same replacement."""

    def __init__(self, path):
        self.path, self.advice, self.group, groups = path, {}, {}, {}
        for line in path.read_text(encoding="utf-8").splitlines():
            term, advice = line.split("->")
            self.advice[term] = advice.rstrip(",")
            self.group[term] = groups.setdefault(advice, term)

    def pattern(self):
        """What codespell takes as a word: a phrase of the dictionary, else letters, so that a name is split at each "_"."""
        phrases = sorted((re.escape(term) for term in self.advice if not term.isalpha()), key=len, reverse=True)
        return "(?i)(?<![a-z])(?:" + "|".join([*phrases, "[a-z]+"]) + ")(?![a-z])"


class Allowed:
    """words/allowed.txt: a line is a pattern of paths, a blank, and a pattern of text in which nothing is looked for."""

    def __init__(self, text):
        self.lines = []
        for line in text.splitlines():
            if line and not line.startswith("#"):
                where, what = line.split(" ", 1)
                self.lines.append((where, re.compile(what)))

    def blank(self, path, text):
        for where, what in self.lines:
            if fnmatch.fnmatch(path, where):
                text = what.sub(".", text)
        return text


def look_up(dictionary, texts, allowed):
    """(path, line, term) of each finding; texts: path -> {line: [text]}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, lines in texts.items():
            copy = pathlib.Path(folder, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            last = max(lines, default=0)
            text = "\n".join(" | ".join(lines.get(number, [])) for number in range(1, last + 1))
            copy.write_text(allowed.blank(path, text), encoding="utf-8")
        command = ["codespell", "-d", "-q", "3", "--uri-regex", "(?!)", "-D", str(dictionary.path), "-r", dictionary.pattern(), "."]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "HOME": folder})
    if done.returncode not in (0, 64, 65) or done.stderr.strip():
        sys.exit(f"codespell: {done.stderr}")
    for line in done.stdout.splitlines():
        path, number, rest = line.split(":", 2)
        yield path.removeprefix("./"), int(number), rest.split(" ==> ")[0].strip().lower()


def files():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for path in sorted(names):
        if (ROOT / path).is_file() and not (ROOT / path).is_symlink():
            yield path


def subjects():
    """The subjects of commits after COMMITS_AFTER, by position; none where the history does not reach so far back."""
    log = subprocess.run(["git", "log", "--no-merges", "--format=%s", f"{COMMITS_AFTER}..HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {number: [line] for number, line in enumerate(log.stdout.splitlines(), 1)} if log.returncode == 0 else {}


class Finding(collections.namedtuple("Finding", "path line term group advice")):
    def __str__(self):
        return f"{self.path}:{self.line}: \"{self.term}\": {self.advice}"


def line_of(lines, first, term):
    """The line of the paragraph that starts at `first` on which the term, or its first word, stands."""
    word = re.compile(r"(?<![a-z])" + re.escape(term.split(" ")[0]), re.I)
    for number in range(first, min(first + 40, len(lines)) + 1):
        if word.search(lines[number - 1]):
            return number
    return first


def search(sources, words=WORDS):
    """The findings in sources, path -> text; "commits" holds a subject per line."""
    allowed = Allowed((words / "allowed.txt").read_text(encoding="utf-8"))
    checked = {path: plain_text(text) if path == "commits" else text_of(path, text) for path, text in sources.items()}
    checked = {path: it for path, it in checked.items() if it}
    texts = {"prose.dic": {path: it.prose for path, it in checked.items()}, "names.dic": {path: it.names for path, it in checked.items()}}
    for path in sources:
        texts["names.dic"].setdefault(path, {}).setdefault(1, []).append(path if path != "commits" else "")
    for name, lines in texts.items():
        dictionary = Dictionary(words / name)
        for path, first, term in look_up(dictionary, lines, allowed):
            line = line_of(sources[path].splitlines(), first, term)
            yield Finding(path, line, term, dictionary.group[term], dictionary.advice[term])


def project():
    sources = {}
    for path in files():
        wanted = path.endswith((*C_SUFFIXES, ".py", ".md", ".sh", ".cmake", ".in", ".yaml")) or path.rsplit("/", 1)[-1] in SHELL_NAMES
        if wanted and not any(fnmatch.fnmatch(path, skipped) for skipped in SKIPPED):
            sources[path] = (ROOT / path).read_text(encoding="utf-8")
    sources["commits"] = "\n".join(line for (line,) in subjects().values())
    return sources


def counts(findings):
    return collections.Counter((folder_of(it.path), it.group) for it in findings)


def read_left(text):
    left = {}
    for line in text.splitlines():
        number, folder, term = line.split(" ", 2)
        left[folder, term] = int(number)
    return left


def compare(found, left):
    """What is wrong with the numbers that are found, given those that are left."""
    for folder, term in sorted(found.keys() | left.keys()):
        number, most = found.get((folder, term), 0), left.get((folder, term), 0)
        if number > most:
            yield f"{folder}: \"{term}\" {number} times, {most} are left: check_words.py --list \"{term}\" {folder}"
        elif number < most:
            yield f"{folder}: \"{term}\" {number} times, words/left.txt says {most}: check_words.py --record"


def table(found):
    folders = sorted({folder for folder, _ in found})
    terms = collections.Counter()
    for (_, term), number in found.items():
        terms[term] += number
    yield "| term | " + " | ".join(folders) + " | all |"
    yield "|---" * (len(folders) + 2) + "|"
    for term, number in terms.most_common():
        yield f"| {term} | " + " | ".join(str(found.get((folder, term), "")) for folder in folders) + f" | {number} |"
    totals = [sum(n for (where, _), n in found.items() if where == folder) for folder in folders]
    yield "| all | " + " | ".join(map(str, totals)) + f" | {sum(totals)} |"


def main(arguments):
    findings = sorted(search(project()))
    found = counts(findings)
    if arguments[:1] == ["--list"]:
        term, folder = [*arguments[1:], "", ""][:2]
        for it in findings:
            if term in ("", it.group) and (it.path + "/").startswith(folder):
                print(it)
        return 0
    if arguments == ["--table"]:
        print("\n".join(table(found)))
        return 0
    left_path = WORDS / "left.txt"
    if arguments == ["--record"]:
        left_path.write_text("".join(f"{number} {folder} {term}\n" for (folder, term), number in sorted(found.items())), encoding="utf-8")
        return 0
    problems = list(compare(found, read_left(left_path.read_text(encoding="utf-8")) if left_path.exists() else {}))
    for problem in problems:
        print(problem)
    print(f"words: {len(problems)} problem(s)" if problems else f"words: ok, {len(findings)} left")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
