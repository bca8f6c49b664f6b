"""Owns: the verb `report`."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import audit, publication, regression, repository
from uvhttp_bench.exits import FINE, BenchError, MissingError
from uvhttp_bench.history import Series, series_of
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.chain import Entry
from uvhttp_bench.model.codec import FormatError, from_json, write_text
from uvhttp_bench.model.record import Record
from uvhttp_bench.output import tables
from uvhttp_bench.reporting import Material, build
from uvhttp_bench.stats.verdict import Verdict

HELP = "the standard's report of six sections as Markdown, and a page with pictures"
NAMES = {"run": "baseline", "compare": "compare", "peers": "peers"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", help="a collection of records (default: the last run in the database)")
    parser.add_argument("--session", help="of the database, instead of the last run")
    parser.add_argument("--kind", choices=tuple(NAMES), default="run", help="of the last session (default run)")
    parser.add_argument("--name", help="SCENARIO in the file names (default: baseline, compare or peers, as the kind is)")
    parser.add_argument("--verdicts", type=Path, help="of compare (default: of the same session, where there are some)")
    parser.add_argument("--directory", type=Path, default=repository.REPORTS.parent, help="default %(default)s")
    database.add_argument(parser)


def _records(args: argparse.Namespace) -> tuple[list[Record], list[Series]]:
    """The records, and the history of their scenarios up to them."""
    if args.file:
        return collection.read(args.file), []
    if not args.database.exists():
        raise MissingError(f"{args.database}: nothing measured yet: uvhttp-bench run")
    with database.opened(args.database) as store:
        name = args.session or store.last_session(args.kind)
        records = store.records(session=name) if name is not None else []
        if not records:
            raise MissingError(f"{args.database}: no session {args.session or f'of kind {args.kind}'}: uvhttp-bench run")
        older = [r for r in store.records(kind="run") if r.timestamp <= records[-1].timestamp]
    hashes = {record.environment.hash for record in records}
    names = {record.test_scenario.name for record in records}
    return records, series_of([r for r in older if r.environment.hash in hashes and r.test_scenario.name in names])


def _left_out(args: argparse.Namespace, records: Sequence[Record]) -> list[Entry]:
    if args.file:
        return list(collection.load(args.file).left)
    with database.opened(args.database) as store:
        return audit.left_in(store, records)


def _verdicts(path: Path | None, session: str) -> tuple[Verdict, ...]:
    path = path or repository.BUILD / "bench" / "compare" / f"{session}.json"
    if not path.exists():
        return ()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["verdicts"]
        return tuple(from_json(Verdict, item) for item in found)
    except (OSError, ValueError, KeyError, TypeError, FormatError) as error:
        raise BenchError(f"{path}: not what compare writes: {error}") from error


def run(args: argparse.Namespace) -> int:
    records, history = _records(args)
    judged = (
        args.file if args.file and args.file.stem == regression.KIND else None
    )  # `baseline check` keeps its verdicts there
    name = args.name or (regression.KIND if judged else NAMES.get(records[0].kind, records[0].kind))
    if not name.replace("-", "").replace("_", "").isalnum():
        raise BenchError(f"--name {name!r}: letters, digits, - and _ only: it becomes part of a file name")
    report = build(Material(tuple(records), name, _verdicts(args.verdicts or judged, records[0].session), tuple(history)))
    data = args.directory / "data" / report.date / f"{name}.json"
    if not (args.file and args.file.resolve() == data.resolve()):
        left = _left_out(args, records)
        collection.write(data, name, records, left, f"this session was chosen for the report {name}")
    folder = args.directory / "reports" / report.date
    relative = f"../../data/{report.date}/{name}.json"
    made = publication.files_of(report, folder / f"{report.file_name}.md", relative)
    for path, text in made:
        write_text(path, text)
    files = [str(path) for path, _ in made] + [str(data)]
    tables.show(args.format, ("file",), [(file,) for file in files], {"status": report.status, "files": files})
    return FINE
