#!/usr/bin/env python3
"""Owns: the check that every link in a document leads somewhere: its file is in the tree, its anchor is a heading of that
file, and every page below docs/ is reached from docs/README.md."""
import posixpath
import re
import sys

from check_names import FENCE, read_files
from source_text import report

INDEX = "docs/README.md"
GENERATED = "docs/performance/reports"  # uvhttp-bench publish makes these pages; a link to the folder reaches them
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HTML = re.compile(r'<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"')
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


def without_fences(text):
    return FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    seen = {}
    for heading in HEADING.findall(without_fences(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        yield f"{slug}-{seen[slug]}" if seen[slug] else slug


def links(text):
    """(line, target) of every link and picture of a page; code is no link."""
    plain = CODE.sub("", without_fences(text))
    for pattern in (LINK, HTML):
        for match in pattern.finditer(plain):
            yield plain.count("\n", 0, match.start()) + 1, match[1]


class Links:
    """files: {path: text} of the project."""

    def __init__(self, files):
        self.files = files
        self.pages = {path: text for path, text in files.items() if path.endswith(".md")}
        self.folders = {posixpath.dirname(path) for path in files}
        self.folders |= {"/".join(folder.split("/")[:at]) for folder in self.folders for at in range(folder.count("/") + 1)}

    @staticmethod
    def target(page, link):
        """(path, anchor) of a relative link, or None for one that leads out of the tree."""
        if EXTERNAL.match(link):
            return None
        path, _, anchor = link.partition("#")
        return (posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page), anchor

    def check_page(self, page):
        for line, link in links(self.pages[page]):
            target = self.target(page, link)
            if not target:
                continue
            path, anchor = target
            if path not in self.files and path not in self.folders:
                yield f"{page}:{line}: there is no file {path}"
            elif anchor and path in self.pages and anchor not in anchors(self.pages[path]):
                yield f"{page}:{line}: {path} has no heading #{anchor}"

    def reached(self):
        found, waiting = set(), [INDEX]
        while waiting:
            page = waiting.pop()
            if page == GENERATED:
                waiting += [path for path in self.pages if path.startswith(GENERATED + "/")]
            elif page in self.pages and page not in found:
                found.add(page)
                targets = (self.target(page, link) for _, link in links(self.pages[page]))
                waiting += [target[0] for target in targets if target]
        return found

    def problems(self):
        for page in sorted(self.pages):
            yield from self.check_page(page)
        for page in sorted(set(self.pages) - self.reached()):
            if page.startswith("docs/"):
                yield f"{page}: no chain of links leads from {INDEX} to this page"


def main():
    return report("links", list(Links(read_files()).problems()))


if __name__ == "__main__":
    sys.exit(main())
