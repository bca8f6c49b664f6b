"""Owns: the verb `run`."""

import argparse
from pathlib import Path

from uvhttp_bench import measure, network, repository, session
from uvhttp_bench.exits import ERROR, FINE, UNSTABLE, UsageError
from uvhttp_bench.loads import fanned
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.measure import Plan
from uvhttp_bench.model import database
from uvhttp_bench.model.record import VALID, Record
from uvhttp_bench.output import tables, words
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.summary import ScenarioSummary, by_scenario
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "measure scenarios of the standard"
RATE_MAX = 100_000_000  # uvhttp-load's


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="*", help="names, groups, patterns, or all (default: basic; see `list`)")
    parser.add_argument("--quick", action="store_true", help="one second, one repeat each: everything in two minutes")
    parser.add_argument("--seconds", type=float, help="of each run, instead of the scenario's")
    parser.add_argument(
        "--extended-seconds", type=float, help="of each run that is neither basic nor sustained, instead of the scenario's"
    )
    parser.add_argument("--repeats", type=int, help="instead of the scenario's (basic 5, extended 3)")
    parser.add_argument(
        "--rate", type=int, metavar="N", help="open loop of uvhttp-load: N requests/s in total, each sent when it is due"
    )
    add_target_arguments(parser)
    parser.add_argument(
        "--warm-up", type=float, default=measure.WARM_UP_SECONDS, help="seconds (default 1; 0: system calls are not counted)"
    )
    add_storage_arguments(parser)
    fanned.add_arguments(parser)
    parser.add_argument(
        "--allow-dirty", action="store_true", help="measure sources that differ from their commit (--quick does)"
    )


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    session.add_tool_argument(parser)
    parser.add_argument("--engine", choices=("auto", "uring", "epoll"), default="auto", help="of the server")
    parser.add_argument("--io-threads", type=int, default=1, help="of the server (default 1: one CPU)")
    parser.add_argument("--server-cpus", help="as in 0 or 0,2-3 (default: the first)")
    parser.add_argument("--generator-cpus", help="default: the others")
    network.add_argument(parser)


def add_storage_arguments(parser: argparse.ArgumentParser) -> None:
    database.add_argument(parser)
    parser.add_argument("--results", type=Path, default=repository.RESULTS, help="raw results (default %(default)s)")


def check_numbers(args: argparse.Namespace) -> None:
    for name in ("seconds", "extended_seconds"):
        seconds = getattr(args, name, None)
        if seconds is not None and not 1 <= seconds <= 86400:
            raise UsageError(f"--{name.replace('_', '-')} {seconds:g}: allowed is 1..86400")
    if getattr(args, "repeats", None) is not None and not 1 <= args.repeats <= 1000:
        raise UsageError(f"--repeats {args.repeats}: allowed is 1..1000")
    if getattr(args, "rate", None) is not None and not 1 <= args.rate <= RATE_MAX:
        raise UsageError(f"--rate {args.rate}: allowed is 1..{RATE_MAX}")
    if not 0 <= args.warm_up <= 3600:
        raise UsageError(f"--warm-up {args.warm_up:g}: allowed is 0..3600")
    if not 1 <= args.io_threads <= 1024:
        raise UsageError(f"--io-threads {args.io_threads}: allowed is 1..1024")


def check_tree(allowed: bool) -> None:
    if repository.dirty() and not allowed:
        raise UsageError("the sources differ from their commit, so that nobody could repeat this: commit, or --allow-dirty")


def run(args: argparse.Namespace) -> int:
    check_numbers(args)
    if args.rate is not None and args.tool in ("wrk", "h2load"):
        raise UsageError("wrk has no --rate: leave one of them out")
    with fanned.opened(args, args.rate) as several:
        return _run(args, several)


def _run(args: argparse.Namespace, several: fanned.Fanned | None) -> int:
    chosen = catalog.under_each(catalog.choose(args.scenario or (["all"] if args.quick else [])), args.congestion_control)
    if args.rate is not None:
        chosen = [catalog.at_rate(scenario, args.rate) for scenario in chosen]
    todo = session.scenario_runs(chosen, args.quick, args.seconds, args.repeats, args.extended_seconds)
    if not todo:
        raise UsageError("--quick leaves out all of these scenarios: ask for them without it")
    check_tree(args.allow_dirty or args.quick)
    allow_many_files()
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    target = Uvhttp(args.engine, args.io_threads, address="0.0.0.0" if args.advertise else "")
    limit, name = measure.measure_bandwidth(), measure.session_name()
    plans: dict[str, Plan] = {}

    def plan_of(scenario: Scenario) -> Plan:
        if several and not several.speaks(scenario.scheme):
            raise UsageError(f"{scenario.name}: several load generators do not speak {scenario.scheme}")
        load = several or session.load_for(scenario, args.tool, args.rate)
        if load.name not in plans:
            plans[load.name] = measure.plan_for(target, load, cpus, limit, "run", name, args.warm_up)
        return plans[load.name]

    for planned in todo:  # what is missing is reported before anything takes time
        plan_of(planned.scenario)
    kept: list[Record] = []
    with database.opened(args.database) as store, Steps(sum(planned.repeats for planned in todo)) as steps:
        try:
            session.execute(todo, plan_of, store, args.results, steps.begin, steps.done, kept.append)
        except KeyboardInterrupt:
            steps.say(f"interrupted: {len(kept)} finished runs are kept in {args.results}")
            _show(args.format, kept, name)
            raise
    _show(args.format, kept, name)
    return exit_code(kept)


def exit_code(kept: list[Record]) -> int:
    """1: a run that measured nothing; 4: figures that a noisy machine or a weak generator spoils."""
    if not kept or not all(record.holds("cpu") for record in kept):
        return ERROR
    return FINE if all(summary.status == VALID for summary in by_scenario(kept)) else UNSTABLE


HEADS = (
    "scenario", "runs", "req/s", "+- %", "mean ms", "P50", "P95", "P99", "P99.9", "errors %", "MB/s", "us CPU/req",
    "calls/req", "MB", "grade", "status",
)  # fmt: skip


def row(summary: ScenarioSummary) -> tuple[str, ...]:
    n = tables.number
    rate, cpu = summary.requests_per_second, summary.cpu_us_per_request
    variation = None if rate.variation is None else 100 * rate.variation
    return (
        summary.scenario, str(summary.runs), summary.rate_text(), n(variation, 1), n(summary.latency_avg_ms, 3),
        n(summary.latency_p50_ms, 3), n(summary.latency_p95_ms, 3), n(summary.latency_p99_ms, 3),
        n(summary.latency_p999_ms, 3), n(100 * summary.error_rate, 3), summary.transfer_text(),
        n(cpu.median if cpu else None), n(summary.system_calls_per_request, 3), n(summary.memory_usage_mb, 1), summary.grade,
        words.STATUS[summary.status],
    )  # fmt: skip


def reasons(summaries: list[ScenarioSummary]) -> list[str]:
    """One line for each check that failed: for which scenarios, and what it said first."""
    failed: dict[str, tuple[str, list[str]]] = {}
    for summary in summaries:
        for reason in summary.reasons:
            name, _, detail = reason.partition(": ")
            scenarios = failed.setdefault(name, (detail, []))[1]
            if summary.scenario not in scenarios:
                scenarios.append(summary.scenario)
    return [f"{name}: {detail} ({', '.join(scenarios)})" for name, (detail, scenarios) in failed.items()]


def _show(form: str, kept: list[Record], name: str) -> None:
    summaries = by_scenario(kept)
    notes = [*reasons(summaries), f"session {name}"]
    data = {"session": name, "records": [record.test_id for record in kept], "summaries": summaries}
    tables.show(form, HEADS, [row(summary) for summary in summaries], data, notes)
