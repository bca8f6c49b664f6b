"""Owns: tables on stdout as text, Markdown or JSON. A blank is a figure that does not exist, never a zero."""

import json
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from uvhttp_bench.model.codec import to_json


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _is_number(text: str) -> bool:
    return text == "" or text.lstrip("-+")[:1].isdigit()


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(_width(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for cell, width, to_right in zip(cells, widths, right, strict=True):
            space = " " * (width - _width(cell))
            padded.append(space + cell if to_right else cell + space)
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, rows)]) + "\n"


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n" for cells in lines)


def show(form: str, heads: Sequence[str], rows: Sequence[Sequence[str]], data: Any, notes: Sequence[str] = ()) -> None:
    """`data` is what --format json prints."""
    if form == "json":
        text = json.dumps(to_json(data), indent=1, ensure_ascii=False) + "\n"
    else:
        text = markdown_table(heads, rows) if form == "md" else text_table(heads, rows)
        text += "".join(f"\n{note}" for note in notes) + ("\n" if notes else "")
    sys.stdout.write(text)
    sys.stdout.flush()
