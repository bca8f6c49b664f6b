"""Owns: a report as one HTML file that needs no other: styles and pictures are in it, and it asks no network for anything."""

import re
from pathlib import Path

from uvhttp_bench.exits import MissingError
from uvhttp_bench.report_blocks import Block, Report

TEMPLATES = Path(__file__).with_name("templates")


def _kind(block: Block) -> str:
    return type(block).__name__


def _marked(text: str) -> str:
    """The two marks that our texts use: `code` and **strong**. Everything else is text."""
    from markupsafe import escape

    safe = str(escape(text))
    safe = re.sub(r"`([^`]*)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*([^*]*)\*\*", r"<strong>\1</strong>", safe)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def html(report: Report, data: str) -> str:
    try:
        import jinja2
    except ImportError as error:
        raise MissingError("pages need jinja2: ./dev bench installs it") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["kind"] = _kind
    environment.filters["marked"] = _marked
    environment.filters["slug"] = _slug
    return environment.get_template("report.html").render(report=report, data=data)
