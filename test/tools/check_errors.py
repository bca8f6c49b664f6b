#!/usr/bin/env python3
"""Owns: the check that the comment of a public function names the error codes that it returns: those of its definition, and of the
functions of the library whose results it returns or keeps. Codes that come through a pointer to a function are followed by the name
of the field."""
import re
import sys

from source_text import ROOT, c_files, code_lines, report

CODE = re.compile(r"UVHTTP_E_[A-Z0-9_]+\*?")
RETURNED = re.compile(r"(?<![=!]=)(?<![=!]= )(?<!case )\bUVHTTP_E_[A-Z0-9_]+")
DEFINITION = re.compile(r"^(?:[A-Za-z_][\w *]*?[ *])?(\w+)\(([^;{}]*?)\) *\{", re.M)
CALL = re.compile(r"(->|\.)?(\w+)\(")
KEPT = re.compile(r"\breturn\b(.*)|(?<![=!<>])=(?!=)(.*)", re.S)
FIELD = re.compile(r"\.(\w+) = (\w+)[,}\s]")
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "defined"}
COMMENT = re.compile(r"/\*.*?\*/", re.S)
BRACES = re.compile(r"\{[^{}]*\}")
DECLARATION = re.compile(r"(\bint\s+)?\b(uvhttp_[a-z]\w*)\(")
# References to the comment of another function.
LIKE = re.compile(r"\b(?:[Aa]s|codes? of|those of|what)\s+(uvhttp_\w+)(?:(?:,\s+(uvhttp_\w+))?\s+(?:or|and)\s+(uvhttp_\w+))?")
# A comment that is valid for what follows it, not for one function.
SCOPE = re.compile(r"Rules for all functions|[Ff]unctions (?:below|that (?:are given|take))")
# Which a function whose name ends in _sized returns to a newer program: docs/guide/compatibility.md.
NEWER = "UVHTTP_E_UNSUPPORTED"

# Codes that a function gets and does not return: {(file, function): {code: what it does instead}}
KEPT_BACK = {
    ("src/conn/inherit.c", "uvhttp__inherited_add"): {"UVHTTP_E_NO_DESCRIPTORS": "the socket is there"},
    ("src/exec/coro_fd.c", "uvhttp_coro_read"): {"UVHTTP_E_AGAIN": "waits"},
    ("src/exec/coro_fd.c", "uvhttp_coro_write"): {"UVHTTP_E_AGAIN": "waits"},
    ("src/exchange/coroutine_wait.c", "uvhttp__coroutine_wait_capacity"): {"UVHTTP_E_TIMEOUT": "waits without a limit"},
    ("src/exchange/events.c", "post"): {"UVHTTP_E_STATE": "UVHTTP_E_ABORTED: the stream has ended"},
    ("src/exchange/events.c", "uvhttp_events_open_sized"): {"UVHTTP_E_ABORTED": "0: on_close follows"},
    ("src/handler/websocket_send.c", "uvhttp_ws_end"): {
        "UVHTTP_E_AGAIN": "the frame that ends a message has no high watermark",
        "UVHTTP_E_LIMIT": "and no maximum",
    },
    ("src/message/multipart.c", "find_boundary"): {"UVHTTP_E_EOF": "the last parameter was read"},
    ("src/message/multipart_header.c", "parse_disposition"): {"UVHTTP_E_EOF": "the last parameter was read"},
    ("src/server/tls_config.c", "prepare_all"): {"UVHTTP_E_UNSUPPORTED": "a build without TLS has nothing to prepare"},
    ("src/tls/load.c", "uvhttp__tls_read_file"): {"UVHTTP_E_IO": "UVHTTP_E_TLS_CERTIFICATE, with a text"},
    ("src/tls/tls.c", "uvhttp_tls_reload"): {"UVHTTP_E_CONFIG": "the options were accepted before, and are the same"},
}  # fmt: skip


class Sources:
    """Which codes each function of the library can return."""

    def __init__(self, files, kept_back):
        """files: (path, text) of the sources."""
        self.kept_back = kept_back
        self.own, self.calls, self.fields, self.public = {}, {}, {}, {}
        bodies = {}
        for path, text in files:
            code = "\n".join(code_lines(text))
            for field, function in FIELD.findall(code):
                self.fields.setdefault(field, set()).add((path, function))
            for match in DEFINITION.finditer(code):
                if match[1] not in KEYWORDS:
                    bodies[path, match[1]] = body(code, match.end())
        for path, name in bodies:
            if name.startswith("uvhttp_"):
                self.public.setdefault(name, []).append((path, name))
        self.defined = set(bodies)
        for key, text in bodies.items():
            self.own[key], self.calls[key] = self.read(key[0], text)
        self.all = {key: set(codes) for key, codes in self.own.items()}
        self.close()

    def read(self, path, text):
        codes, calls = set(), set()
        for statement in re.split(r"[;{}]", text):
            for match in KEPT.finditer(statement):
                kept = match[1] or match[2] or ""
                codes.update(RETURNED.findall(kept))
                for through, name in CALL.findall(kept):
                    calls.update(self.fields.get(name, set()) & self.defined if through else self.found(path, name))
        return codes, calls

    def found(self, path, name):
        return [(path, name)] if (path, name) in self.defined else self.public.get(name, [])

    def close(self):
        changed = True
        while changed:
            changed = False
            for key, codes in self.all.items():
                more = set().union(*(self.all[called] for called in self.calls[key])) - codes - set(self.kept_back.get(key, ()))
                codes |= more
                changed = changed or bool(more)

    def of(self, name):
        """{code: the way to it}, for a public function."""
        return {code: self.way(key, code) for key in self.public.get(name, []) for code in self.all[key]}

    def way(self, key, code):
        ways, seen = [(key,)], {key}
        for way in ways:
            if code in self.own[way[-1]]:
                return " > ".join(f"{path.removeprefix('src/')}:{name}" for path, name in way[1:]) or "itself"
            fresh = [called for called in sorted(self.calls[way[-1]]) if called not in seen and code in self.all[called]]
            seen.update(fresh)
            ways += [(*way, called) for called in fresh]
        raise AssertionError(f"{key}: no way to {code}")


def body(code, at):
    depth, begin = 1, at
    while depth and at < len(code):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return code[begin:at]


class Comments:
    """Which codes the comments of the headers name for each function."""

    def __init__(self, files):
        self.texts = {}  # {function: its comments}
        self.returning = set()  # functions whose result is an int
        for _, text in files:
            self.add(text)

    def add(self, text):
        file = section = last = ""
        at = 0
        for comment in [*COMMENT.finditer(text), None]:
            code = text[at : comment.start() if comment else len(text)]
            while BRACES.search(code):
                code = BRACES.sub(";", code)
            for result, name in DECLARATION.findall(code):
                self.texts[name] = file + section + last
                if result:
                    self.returning.add(name)
            if not comment:
                return
            at, last = comment.end(), comment[0]
            if SCOPE.search(last):
                file += last
            elif last.startswith("/* ---"):
                section = last
            elif not last.startswith("/**"):
                section += last

    def of(self, name, seen=()):
        """The codes, of which one that ends with * is a beginning."""
        if name not in self.texts or name in seen:
            return set()
        text = re.sub(r"\s*\n[\s*]*", " ", self.texts[name])
        codes = set(CODE.findall(text))
        like = {one for found in LIKE.findall(text) for one in found if one}
        like |= {name.removesuffix("_str"), name.removesuffix("_sized")}
        return codes.union(*(self.of(one, (*seen, name)) for one in like))


def superfluous(sources):
    for (path, name), codes in sources.kept_back.items():
        reached = set().union(*(sources.all[called] for called in sources.calls.get((path, name), ())))
        for code in sorted(set(codes) - reached):
            yield f"{path}: {name} gets no {code}: leave it out of KEPT_BACK"


def undocumented(sources, comments):
    for name in sorted(comments.returning):
        named = comments.of(name)
        for code, way in sorted(sources.of(name).items()):
            if any(code.startswith(one[:-1]) if one.endswith("*") else code == one for one in named):
                continue
            if not (code == NEWER and name.endswith("_sized")):
                yield f"{name}: its comment does not name {code} ({way})"


def main():
    sources = Sources(list(c_files(ROOT, "src")), KEPT_BACK)
    comments = Comments([one for one in c_files(ROOT, "include") if one[0].endswith(".h")])
    return report("errors", [*undocumented(sources, comments), *superfluous(sources)])


if __name__ == "__main__":
    sys.exit(main())
