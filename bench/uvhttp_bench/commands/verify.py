"""Owns: the verb `verify`."""

import argparse
from pathlib import Path

from uvhttp_bench import audit, publication, repository
from uvhttp_bench.exits import FINE, MissingError
from uvhttp_bench.model import collection
from uvhttp_bench.output import tables

HELP = "whether published records are what was measured: hashes, chain, figures and checks computed again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="*", help="collections of records (default: the newest that are kept)")


def run(args: argparse.Namespace) -> int:
    kept = publication.kept(repository.REPORTS.parent)
    files = args.file or [path for path in (kept.run, kept.peers) if path]
    if not files:
        raise MissingError(f"{repository.DATA}: nothing is kept: uvhttp-bench publish")
    rows, notes = [], []
    for path in files:
        found = collection.load(path)
        notes_of_file = audit.verify(found, str(path))
        notes += [*notes_of_file, *(f"left out: {line}" for line in audit.left_lines(found))]
        if found.because:
            notes.append(f"{path.name}: because {found.because}")
        rows.append((str(path), str(len(found.records)), str(len(found.left)), "in part" if notes_of_file else "all"))
    heads = ("file", "records", "left out", "checked")
    tables.show(args.format, heads, rows, [dict(zip(heads, row, strict=True)) for row in rows], notes)
    return FINE
