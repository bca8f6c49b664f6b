#!/usr/bin/env python3
"""Owns: the check that code in the documents is code that is compiled and run.

A C, C++ or CMake block in a document must follow a line "<!-- snippet: path -->" and be a contiguous extract of that file
(indentation may be removed); other blocks may. "<!-- snippet: path whole -->" is the whole file but for the comment that
opens it, and "--update" rewrites those."""
import re
import sys
import textwrap

from source_text import ROOT, report

DOCUMENTS = ["README.md", "README.zh-CN.md", "CONTRIBUTING.md"]
BLOCK = re.compile(r"(?:<!-- snippet: (?P<path>\S+?)(?P<whole> whole)? -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.S | re.M)
MUST_QUOTE = {"c", "cpp", "cmake"}


def quotable(text):
    """A file as it is quoted: without the comment that opens it."""
    return re.sub(r"\A\s*/\*.*?\*/\n+", "", text, flags=re.S)


def is_extract(code, text):
    wanted = textwrap.dedent(code).strip("\n").splitlines()
    lines = text.splitlines()
    for start in range(len(lines) - len(wanted) + 1):
        part = textwrap.dedent("\n".join(lines[start : start + len(wanted)]))
        if part.splitlines() == wanted:
            return True
    return not wanted


def check_document(name, text, root=ROOT):
    problems = []
    for block in BLOCK.finditer(text):
        if block["language"] not in MUST_QUOTE and not block["path"]:
            continue
        where = f"{name}:{text.count(chr(10), 0, block.start()) + 1}"
        path = block["path"]
        if not path:
            problems.append(f"{where}: write '<!-- snippet: <file> -->' above the block: code in a document is tested code")
        elif not (root / path).is_file():
            problems.append(f"{where}: {path} does not exist")
        else:
            source = (root / path).read_text(encoding="utf-8")
            same = block["code"] == quotable(source) if block["whole"] else is_extract(block["code"], source)
            if not same:
                problems.append(f"{where}: differs from {path} (test/tools/check_snippets.py --update rewrites whole files)")
    return problems


def update(text, root=ROOT):
    def rewrite(block):
        if not block["whole"]:
            return block[0]
        code = quotable((root / block["path"]).read_text(encoding="utf-8"))
        return f"<!-- snippet: {block['path']} whole -->\n```{block['language']}\n{code}```"

    return BLOCK.sub(rewrite, text)


def documents():
    return [ROOT / name for name in DOCUMENTS] + sorted((ROOT / "docs").rglob("*.md"))


def main():
    problems = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if "--update" in sys.argv[1:] and update(text) != text:
            text = update(text)
            path.write_text(text, encoding="utf-8")
        problems += check_document(path.relative_to(ROOT).as_posix(), text)
    return report("snippets", problems)


if __name__ == "__main__":
    sys.exit(main())
