"""Owns: the verb `soak`: one server under load for a long time; does its memory grow."""

import argparse
import platform
import time
from dataclasses import replace

from uvhttp_bench import measure, mixed_soak, repository, session
from uvhttp_bench.commands.run import add_storage_arguments, add_target_arguments, check_numbers, check_tree, exit_code
from uvhttp_bench.exits import FINE, REGRESSION, UNSTABLE, BenchError, UsageError
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.model import database
from uvhttp_bench.model.record import Record
from uvhttp_bench.output import soak_page, tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.targets.base import serve, workspace
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "one server under load for half an hour, or as long as you say: does its memory grow"
MINUTES_MIN = 0.5  # less cannot tell a leak from a server that warms up
MIXED = "mixed"  # everything at once
SLICES, SLICE_MIN = 60, 5.0  # runs of each of its generators, of a minute or less; seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="?", default="medium", help="default: medium; mixed: everything at once")
    parser.add_argument("--minutes", type=float, default=30.0, help="the standard knows 30, 60 and 240 (default 30)")
    parser.add_argument("--allow-dirty", action="store_true", help="measure sources that differ from their commit")
    parser.add_argument("--warm-up", type=float, default=measure.WARM_UP_SECONDS, help="seconds (default 1)")
    add_target_arguments(parser)
    add_storage_arguments(parser)
    parser.set_defaults(seconds=None)


def run(args: argparse.Namespace) -> int:
    check_numbers(args)
    if not MINUTES_MIN <= args.minutes <= 1440:
        raise UsageError(f"--minutes {args.minutes:g}: allowed is {MINUTES_MIN:g}..1440")
    if args.scenario == MIXED:
        return mixed(args)
    chosen = catalog.under_each(catalog.choose([args.scenario]), args.congestion_control)
    if len(chosen) != 1 or chosen[0].scheme == "tcp":
        raise UsageError(f"'{args.scenario}': soak runs one scenario of performance_test at a time")
    check_tree(args.allow_dirty)
    allow_many_files()
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    load = session.load_for(chosen[0], args.tool)
    target = Uvhttp(args.engine, args.io_threads)
    plan = measure.plan_for(
        target, load, cpus, measure.measure_bandwidth(), "soak", measure.session_name(), args.warm_up
    )  # fmt: skip
    kept: list[Record] = []
    scenario = replace(chosen[0], raw_name=f"soak_{chosen[0].name}")
    with database.opened(args.database) as store, Steps(1) as steps:
        steps.say(f"{scenario.name}: {args.minutes:g} minutes")
        planned = session.ScenarioRun(scenario, args.minutes * 60, 1)
        session.execute([planned], lambda _: plan, store, args.results, steps.begin, steps.done, kept.append)
    if not kept:
        raise BenchError(f"{scenario.name}: the server does not have it")
    return show(args.format, kept[0])


def mixed(args: argparse.Namespace) -> int:
    check_tree(args.allow_dirty)
    allow_many_files()
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    target = Uvhttp(args.engine, args.io_threads)
    missing = target.missing()
    if missing:
        raise BenchError(missing)
    scenario = catalog.Scenario(MIXED, "everything at once", "soak", scheme="https")
    seconds = args.minutes * 60
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    with (
        workspace() as made,
        workspace() as of_others,
        Steps(1) as steps,
        serve(target, scenario, made, cpus.server) as running,
    ):
        steps.say(f"{MIXED}: {args.minutes:g} minutes")
        soak = mixed_soak.Mixed(running, cpus.generator, seconds, max(SLICE_MIN, min(60.0, seconds / SLICES))).run(
            lambda: mixed_soak.drain_once(target, scenario, of_others, cpus.server, cpus.generator), steps.say
        )
    if not soak.samples or not all(soak.slices.values()):
        raise BenchError("; ".join(soak.faults) or "nothing was seen: let it run longer")
    about = [
        f"{started}, revision {repository.revision()}{', with changes' if repository.dirty() else ''}",
        f"{platform.system()} {platform.release()}, CPUs {cpus.server} for the server, {cpus.generator} for its clients, which are not alone",
        f"engine {args.engine}, {args.io_threads} loops",
    ]
    args.results.mkdir(parents=True, exist_ok=True)
    name = args.results / f"soak_mixed_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}"
    name.with_suffix(".json").write_text(mixed_soak.data(soak))
    text = mixed_soak.page(soak, seconds, about)
    name.with_suffix(".md").write_text(text)
    print(text, end="")
    return REGRESSION if mixed_soak.faults(soak) else FINE


def show(form: str, record: Record) -> int:
    failed = [f"{c.name}: {c.detail}" for c in record.checks if not c.passed]
    tables.show(form, soak_page.HEADS, [soak_page.row(record)], record, [*failed, f"session {record.session}"])
    if soak_page.grows(record):
        return REGRESSION
    code = exit_code([record])
    return FINE if code == UNSTABLE else code
