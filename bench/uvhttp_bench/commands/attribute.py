"""Owns: the verb `attribute`."""

import argparse
from pathlib import Path

from uvhttp_bench import attribution, measure, network
from uvhttp_bench.attribution import ROUNDS_MIN, Cost, Options
from uvhttp_bench.exits import ERROR, FINE, UNSTABLE, MissingError, UsageError
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.model import database
from uvhttp_bench.model.codec import write_text
from uvhttp_bench.model.record import VALID, Record
from uvhttp_bench.output import layers_picture, tables
from uvhttp_bench.output.progress import Steps

HELP = "what each layer costs: bare loop, TCP, parsing, server, routes, middleware, TLS, files"
HEADS = ("layer", "on", "us CPU/req", "user", "system", "added us", "interval", "what it adds", "records")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=("uring", "epoll"), default="uring")
    parser.add_argument(
        "--rounds", type=int, default=10, help=f"in turn (default 10; below {ROUNDS_MIN} intervals say little)"
    )
    parser.add_argument("--seconds", type=int, default=2, help="of each run (default 2)")
    parser.add_argument("--connections", type=int, default=50, help="default 50")
    parser.add_argument("--pipeline", type=int, choices=(1, 16), default=1, help="16 makes the part of the kernel small")
    parser.add_argument("--picture", type=Path, help="SVG file to write")
    parser.add_argument("--server-cpus", help="as in 0 or 0,2-3 (default: the first)")
    network.always_default(parser)
    parser.add_argument("--generator-cpus", help="default: the others")
    database.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    if min(args.rounds, args.seconds, args.connections) < 1:
        raise UsageError("--rounds, --seconds and --connections are at least 1")
    for _, target, _ in attribution.targets(args.engine):
        reason = target.missing()
        if reason:
            raise MissingError(reason)
    allow_many_files()
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    options = Options(args.engine, args.rounds, args.seconds, args.connections, args.pipeline, cpus)
    kept: dict[str, list[Record]] = {name: [] for name, _, _ in attribution.targets(args.engine)}
    with database.opened(args.database) as store, Steps(0) as steps:
        try:
            attribution.run(options, store, steps.say, lambda name, record: kept[name].append(record))
        except KeyboardInterrupt:
            show(args.format, kept)
            raise
    found = show(args.format, kept)
    if args.picture and found:
        write_text(args.picture, layers_picture.svg(found))
    records = [record for of_layer in kept.values() for record in of_layer]
    if not all(record.holds("cpu") for record in records):
        return ERROR
    steady = all(record.status == VALID for record in records)
    return FINE if steady and len(found) == len(kept) else UNSTABLE


def show(form: str, kept: dict[str, list[Record]]) -> list[Cost]:
    found = attribution.costs(kept)
    failed = {f"{n}: {c.name}: {c.detail}": None for n, rs in kept.items() for r in rs for c in r.checks if not c.passed}
    tables.show(form, HEADS, [row(cost) for cost in found], found, list(failed)[:10])
    return found


def row(cost: Cost) -> tuple[str, ...]:
    n, added = tables.number, cost.added_us
    return (
        cost.layer, cost.beneath, n(cost.total_us), n(cost.user_us), n(cost.system_us), n(added.middle) if added else "",
        f"{added.low:+.2f}..{added.high:+.2f}" if added else "", cost.about, f"{cost.records[0]} and {len(cost.records) - 1}",
    )  # fmt: skip
