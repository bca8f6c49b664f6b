"""Owns: the verb `publish`."""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import audit, publication, repository, supplements
from uvhttp_bench.exits import FINE, BenchError, MissingError
from uvhttp_bench.model import collection, database, self_check
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.model.record import Record
from uvhttp_bench.model.self_check import SelfCheck
from uvhttp_bench.output import section, tables

HELP = "what is committed: the last run, peers, self-check, experiment and soak as data, reports, and the READMEs' sections made of them"
KINDS = {"run": publication.RUN, "peers": publication.PEERS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    more = "may be repeated: a later one takes the place of what it measured again"
    parser.add_argument("--run", metavar="SESSION", action="append", help=f"default: the last run; {more}")
    parser.add_argument("--peers", metavar="SESSION", action="append", help="default: the last comparison; may be repeated")
    parser.add_argument("--self-check", type=Path, metavar="FILE", help="default: the last one of the same revision")
    supplements.add_arguments(parser)
    parser.add_argument("--again", action="store_true", help="no new data: reports and pages from what is kept")
    parser.add_argument(
        "--allow-unstable", action="store_true", help="also runs of a noisy machine, marked as such; discarded ones never"
    )
    parser.add_argument(
        "--because", default="", metavar="TEXT", help="why other runs of the same scenarios at this revision are left out"
    )
    parser.add_argument(
        "--without",
        default="",
        metavar="SCENARIO,...",
        help="scenarios of these sessions that the report only lists (--because)",
    )
    parser.add_argument("--page", type=Path, action="append", help="instead of README.md and README.zh-CN.md (English)")
    parser.add_argument("--directory", type=Path, default=repository.REPORTS.parent, help="default %(default)s")
    parser.add_argument("--database", type=Path, default=repository.DATABASE, help="SQLite (default %(default)s)")


def _sessions(args: argparse.Namespace) -> dict[str, list[Record]]:
    if not args.database.exists():
        raise MissingError(f"{args.database}: nothing measured yet: uvhttp-bench run")
    found: dict[str, list[Record]] = {}
    without = {name.strip() for name in args.without.split(",") if name.strip()}
    with database.opened(args.database) as store:
        for kind, name in KINDS.items():
            last = store.last_session(kind)
            sessions = getattr(args, kind) or ([last] if last else [])
            records: list[Record] = []
            for session in sessions:
                more = store.records(session=session, kind=kind)
                if not more:
                    raise MissingError(f"{args.database}: no session {session} of {kind}")
                records = publication.joined(records, more)
            records = [r for r in records if r.test_scenario.name not in without]
            if records:
                found[name] = records
    if not found:
        raise MissingError(f"{args.database}: nothing to publish: uvhttp-bench run")
    return found


def _self_check(asked: Path | None, revisions: Sequence[str]) -> SelfCheck | None:
    if asked:
        return self_check.read(asked)
    found = (self_check.read(path) for path in sorted(repository.SELF_CHECKS.glob("*.json"), reverse=True))
    return next((check for check in found if check.configuration.revision in revisions), None)


def _keep(args: argparse.Namespace) -> list[Path]:
    """New data; nothing is written unless all of it may be."""
    sessions = _sessions(args)
    for records in sessions.values():
        publication.refuse(collection.gathered(records), args.allow_unstable)
        audit.recomputed(records)
    revisions = [r.configuration.revision for records in sessions.values() for r in records if r.configuration.revision]
    check = _self_check(args.self_check, revisions)
    if check:
        publication.refuse_check(check, args.allow_unstable)
        revisions.append(check.configuration.revision)
    more = supplements.chosen(args, revisions)
    more.refuse(args.allow_unstable)
    publication.one_revision([*revisions, *more.revisions])
    for records in sessions.values():
        audit.of_revision(records)
    with database.opened(args.database) as store:
        left = {name: audit.left_in(store, records) for name, records in sessions.items()}
    for name, records in sessions.items():
        audit.chosen_because(left[name], records, args.because)
    written = []
    for name, records in sessions.items():
        written.append(args.directory / "data" / records[0].timestamp[:10] / f"{name}.json")
        collection.write(written[-1], name, records, left[name], args.because)
    if check:
        written.append(args.directory / "data" / check.timestamp[:10] / f"{publication.SELF_CHECK}.json")
        write_text(written[-1], dump(check))
    return [*written, *more.write(args.directory)]


def run(args: argparse.Namespace) -> int:
    pages = dict.fromkeys(args.page, "en") if args.page else publication.PAGES
    for page in pages:
        section.replaced(page, "")  # a page without its marks is an error before anything changes
    written: Sequence[Path] = [] if args.again else _keep(args)
    kept = publication.kept(args.directory)
    for path in (kept.run, kept.peers):
        if path:
            audit.verify(collection.load(path), str(path))
    if not any((kept.run, kept.peers, kept.self_check)):
        raise BenchError(f"{args.directory}: nothing is kept: uvhttp-bench publish, without --again")
    made = [*publication.reports(kept), *publication.charts(kept), *publication.sections(kept, pages)]
    for path, text in made:
        write_text(path, text)
    removed = publication.outdated(kept, [path for path, _ in made])
    for path in removed:
        path.unlink()
        with contextlib.suppress(OSError):  # not empty
            path.parent.rmdir()
    files = [*written, *(path for path, _ in made)]
    rows = [(str(path), f"{path.stat().st_size / 1000:.0f} KB") for path in files]
    rows += [(str(path), "removed") for path in removed]
    data = {"files": [str(path) for path in files], "removed": [str(path) for path in removed]}
    tables.show(args.format, ("file", "size"), rows, data)
    return FINE
