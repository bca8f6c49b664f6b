"""Owns: the verb `list`."""

import argparse

from uvhttp_bench.exits import FINE
from uvhttp_bench.output import tables
from uvhttp_bench.scenarios import catalog

HELP = "the scenarios that run knows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="*", help="names, groups or patterns such as 'static-*' (default: all)")


def _request(scenario: catalog.Scenario) -> str:
    if scenario.scheme in ("http", "https"):
        return f"{scenario.method} {scenario.path}"
    return f"{scenario.message_bytes} bytes"


def run(args: argparse.Namespace) -> int:
    chosen = catalog.choose(args.scenario or ["all"])
    heads = ("scenario", "group", "request", "scheme", "connections", "threads", "seconds", "repeats", "about")
    rows = [
        (
            s.name, s.group, _request(s), s.scheme,
            str(s.connections), str(s.threads), f"{s.seconds:g}", str(s.repeats), s.about,
        )
        for s in chosen
    ]  # fmt: skip
    data = [dict(zip(heads, row, strict=True)) for row in rows]
    tables.show(args.format, heads, rows, data)
    return FINE
