"""Owns: the verb `trend`."""

import argparse
from pathlib import Path

from uvhttp_bench import history, repository
from uvhttp_bench.exits import FINE, REGRESSION, MissingError, UsageError
from uvhttp_bench.history import POINTS_MAX, Series, series_of
from uvhttp_bench.model import database
from uvhttp_bench.model.codec import write_text
from uvhttp_bench.model.record import Record
from uvhttp_bench.output import tables, trend_picture
from uvhttp_bench.stats.change_points import SEGMENT_MIN
from uvhttp_bench.stats.verdict import METRICS

HELP = "where figures have changed their level over the sessions that are committed or in the database"
HEADS = (
    "scenario", "server", "figure", "environment", "sessions", "dates", "first", "now", "change", "from", "to", "at", "revisions",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="*", help="names (default: all)")
    parser.add_argument("--figure", choices=[m.name for m in METRICS], action="append", help="default: all")
    parser.add_argument("--kind", default="run", help="of the sessions: run or peers (default run)")
    parser.add_argument(
        "--minimum", type=float, default=2, metavar="PERCENT", help="smaller changes are not shown (default 2)"
    )
    parser.add_argument("--fail", action="store_true", help="3 if the newest level of a figure is worse than the one before")
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help=f"SVG of one --figure over time, of up to {trend_picture.SERIES_MAX} series",
    )
    parser.add_argument("--data", type=Path, default=repository.DATA, help="committed sessions (default %(default)s)")
    database.add_argument(parser)


def _records(args: argparse.Namespace) -> list[Record]:
    """A database that is not there yet is not made by looking at it."""
    more: list[Record] = []
    if not isinstance(args.database, Path) or args.database.exists():
        with database.opened(args.database) as store:
            more = store.records(kind=args.kind)
    return history.gathered(args.data, args.kind, more)


def run(args: argparse.Namespace) -> int:
    if not 0 < args.minimum < 100:
        raise UsageError(f"--minimum {args.minimum:g}: allowed is above 0 and below 100 (per cent)")
    if args.picture and len(args.figure or ()) != 1:
        raise UsageError("--picture shows one figure: name it with --figure")
    records = _records(args)
    known = {record.test_scenario.name for record in records}
    strange = [name for name in args.scenario if name not in known]
    if not records or strange:
        what = f"no run of {strange[0]}" if strange else f"no session of kind {args.kind}"
        raise MissingError(f"{args.data}, {args.database}: {what}: uvhttp-bench run")
    chosen = [r for r in records if not args.scenario or r.test_scenario.name in args.scenario]
    metrics = [m for m in METRICS if not args.figure or m.name in args.figure]
    found = series_of(chosen, metrics, args.minimum / 100)
    short = [s for s in found if len(s.points) < 2 * SEGMENT_MIN]
    notes = [f"the last {POINTS_MAX} sessions; another environment is another series"]
    if short:
        notes.append(
            f"{len(short)} of {len(found)} series have fewer than {2 * SEGMENT_MIN} sessions: too few to find a change in"
        )
    if args.picture:
        write_text(args.picture, trend_picture.svg(found, args.figure[0]))
    tables.show(args.format, HEADS, [row for series in found for row in rows(series)], found, notes)
    worse = [s for s in found if s.changes and s.changes[-1].worse]
    return REGRESSION if args.fail and worse else FINE


def rows(series: Series) -> list[tuple[str, ...]]:
    """A line for each change, or one that has none."""
    n = tables.number
    first, last = series.points[0], series.points[-1]
    head = (
        series.scenario, series.target, series.metric, series.environment[:8], str(len(series.points)),
        "..".join(dict.fromkeys((first.timestamp[:10], last.timestamp[:10]))), n(first.value), n(last.value),
    )  # fmt: skip
    if not series.changes:
        return [(*head, "none", "", "", "", "")]
    return [
        (
            *head, f"{100 * (change.ratio - 1):+.1f} %" + (" worse" if change.worse else ""), n(change.before),
            n(change.after), change.timestamp, f"{change.revision_before[:9]}..{change.revision[:9]}",
        )
        for change in series.changes
    ]  # fmt: skip
