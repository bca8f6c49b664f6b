"""Owns: the verb `trend`."""

import argparse

from uvhttp_bench.exits import FINE, REGRESSION, MissingError, UsageError
from uvhttp_bench.history import POINTS_MAX, Series, series_of
from uvhttp_bench.model import database
from uvhttp_bench.output import tables
from uvhttp_bench.stats.change_points import SEGMENT_MIN
from uvhttp_bench.stats.verdict import METRICS

HELP = "where figures have changed their level over the history in the database"
HEADS = ("scenario", "server", "figure", "sessions", "first", "now", "change", "from", "to", "at", "revisions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="*", help="names (default: all)")
    parser.add_argument("--figure", choices=[m.name for m in METRICS], action="append", help="default: all")
    parser.add_argument("--kind", default="run", help="of the sessions: run or peers (default run)")
    parser.add_argument("--minimum", type=float, default=2, metavar="PERCENT", help="a change that is told (default 2)")
    parser.add_argument("--fail", action="store_true", help="3 if the newest level of a figure is worse than the one before")
    database.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    if not 0 < args.minimum < 100:
        raise UsageError(f"--minimum {args.minimum:g}: allowed is above 0 and below 100 (per cent)")
    if not args.database.exists():
        raise MissingError(f"{args.database}: no history yet: uvhttp-bench run")
    with database.opened(args.database) as store:
        records = store.records(kind=args.kind)
    known = {record.test_scenario.name for record in records}
    strange = [name for name in args.scenario if name not in known]
    if not records or strange:
        what = f"no run of {strange[0]}" if strange else f"no session of kind {args.kind}"
        raise MissingError(f"{args.database}: {what}: uvhttp-bench run")
    chosen = [r for r in records if not args.scenario or r.test_scenario.name in args.scenario]
    metrics = [m for m in METRICS if not args.figure or m.name in args.figure]
    found = series_of(chosen, metrics, args.minimum / 100)
    short = [s for s in found if len(s.points) < 2 * SEGMENT_MIN]
    notes = [f"at most {POINTS_MAX} sessions are looked at; another machine is another series"]
    if short:
        notes.append(
            f"{len(short)} of {len(found)} series have fewer than {2 * SEGMENT_MIN} sessions: no change can be told"
        )
    tables.show(args.format, HEADS, [row for series in found for row in rows(series)], found, notes)
    worse = [s for s in found if s.changes and s.changes[-1].worse]
    return REGRESSION if args.fail and worse else FINE


def rows(series: Series) -> list[tuple[str, ...]]:
    """A line for each change, or one that has none."""
    n = tables.number
    head = (
        series.scenario, series.target, series.metric, str(len(series.points)), n(series.points[0].value),
        n(series.points[-1].value),
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
