"""Owns: what the source checks share: finding files, and C text without its comments and string literals."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def c_files(root, *folders):
    """(path relative to root, text) of every C source and header below the folders, sorted."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".hpp", ".cpp"):
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def code_lines(text):
    """The lines of a C file with comments blank and literals empty, but for the operand of #include."""

    def blank(match):
        token = match.group(0)
        if token[0] == '"' and re.search(r"#\s*include\s*$", text[text.rfind("\n", 0, match.start()) + 1 : match.start()]):
            return token
        return ('""' if token[0] in "\"'" else " ") + "\n" * token.count("\n")

    return TOKEN.sub(blank, text).splitlines()


def report(name, problems):
    """Prints what was found; the exit code."""
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problem(s)" if problems else f"{name}: ok")
    return 1 if problems else 0
