"""Owns: the verb `baseline`: keep the last run's records, show what is kept, grade figures against the standard's floors."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import audit, repository
from uvhttp_bench.commands.run import HEADS, reasons, row
from uvhttp_bench.exits import FINE, REGRESSION, BenchError, MissingError
from uvhttp_bench.model import collection, database, floors
from uvhttp_bench.model.record import UNSTABLE, VOID, Record
from uvhttp_bench.output import tables
from uvhttp_bench.summary import ScenarioSummary, by_scenario

HELP = "set: keep the last run's records; show: what is kept; grade: against the standard's floors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("set", "show", "grade"))
    parser.add_argument(
        "file", type=Path, nargs="?", help="show, grade: a collection (default: newest kept; grade: last run)"
    )
    parser.add_argument("--kind", choices=collection.KINDS, default="baseline")
    parser.add_argument("--session", help="set: of which run (default: the last)")
    parser.add_argument(
        "--allow-unstable", action="store_true", help="set: keep runs of a restless machine; void ones never"
    )
    parser.add_argument("--data", type=Path, default=repository.DATA, help="default %(default)s")
    database.add_argument(parser)


def _session_records(args: argparse.Namespace) -> list[Record]:
    with database.opened(args.database) as store:
        name = args.session or store.last_session()
        records = store.records(session=name) if name is not None else []
    if not records:
        raise MissingError(f"{args.database}: no run{f' {args.session}' if args.session else ''}: uvhttp-bench run")
    return records


def _set(args: argparse.Namespace) -> int:
    records = _session_records(args)
    void = sorted({r.test_scenario.name for r in records if r.status == VOID})
    if void:
        raise BenchError(f"{', '.join(void)}: void runs are not kept: mend what the checks say, and run again")
    unstable = sorted({r.test_scenario.name for r in records if r.status == UNSTABLE})
    if unstable and not args.allow_unstable:
        raise BenchError(f"{', '.join(unstable)}: measured on a restless machine: run again, or --allow-unstable")
    dirty = any(r.configuration.dirty for r in records)
    if dirty:
        raise BenchError("the run was of sources that differ from their commit: commit, build and run again")
    path = args.data / records[0].timestamp[:10] / f"{args.kind}.json"
    with database.opened(args.database) as store:
        left = audit.left_in(store, records)
    collection.write(path, args.kind, records, left, "this session was kept by `baseline set`")
    tables.show(
        args.format, ("file", "records"), [(str(path), str(len(records)))], {"file": str(path), "records": len(records)}
    )
    return FINE


def _kept(args: argparse.Namespace) -> list[Record]:
    path = args.file or collection.newest(args.data, args.kind)
    if path is None:
        raise MissingError(f"{args.data}: no {args.kind} is kept: uvhttp-bench run, then uvhttp-bench baseline set")
    return collection.read(path)


def _show(args: argparse.Namespace) -> int:
    summaries = by_scenario(_kept(args))
    tables.show(args.format, HEADS, [row(s) for s in summaries], summaries, reasons(summaries))
    return FINE


def grade_rows(summaries: Sequence[ScenarioSummary]) -> list[tuple[str, ...]]:
    n = tables.number
    rows: list[tuple[str, ...]] = []
    for s in summaries:
        floor = floors.FLOORS.get(s.scenario)
        if not floor:
            continue
        for name, levels, value, digits in (
            ("req/s", floor.requests_per_second, s.requests_per_second.median, 0),
            ("mean ms", floor.latency_avg_ms, s.latency_avg_ms, 3),
            ("P99 ms", floor.latency_p99_ms, s.latency_p99_ms, 3),
        ):
            minimum, recommended, reached = (n(level, digits) for level in levels)
            rows.append((s.scenario, name, minimum, recommended, reached, n(value, digits), s.grade or s.status))
    return rows


def _grade(args: argparse.Namespace) -> int:
    summaries = by_scenario(_kept(args) if args.file else _session_records(args))
    rows = grade_rows(summaries)
    if not rows:
        raise MissingError("no run of low, medium or high, which have floors: uvhttp-bench run")
    heads = ("scenario", "figure", "minimum", "recommended", "standard's own", "measured", "grade")
    tables.show(args.format, heads, rows, [dict(zip(heads, r, strict=True)) for r in rows])
    return REGRESSION if any(s.grade == floors.BELOW for s in summaries) else FINE


def run(args: argparse.Namespace) -> int:
    return {"set": _set, "show": _show, "grade": _grade}[args.action](args)
