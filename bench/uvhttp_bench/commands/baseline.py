"""Owns: the verb `baseline`: keep the last run's records, show what is kept, grade figures against the standard's floors, and
judge a run against what is kept."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uvhttp_bench import audit, environment, gates, measure, network, regression, repository, session, standard
from uvhttp_bench.commands.run import HEADS, check_tree, reasons, row
from uvhttp_bench.exits import FINE, REGRESSION, BenchError, MissingError, UsageError
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.measure import Plan
from uvhttp_bench.model import collection, database, floors
from uvhttp_bench.model.record import UNSTABLE, VOID, Environment, Record
from uvhttp_bench.output import floors_table, regression_table, tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.scenarios.catalog import REGRESSION as REGRESSION_REPEATS
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.summary import by_scenario
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = (
    "set: keep the last run's records; show: what is kept; grade: against the standard's floors; check: is a run slower than the "
    "newest baseline of this environment (3: yes, 4: too noisy to say)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("set", "show", "grade", "check"))
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="show, grade: a collection (default: newest kept; grade: last run); check: the baseline (default: newest of this "
        "environment)",
    )
    parser.add_argument("--session", help="set, grade, check: of which run (default: the last)")
    parser.add_argument(
        "--allow-unstable", action="store_true", help="set: keep runs of a noisy machine; discarded ones never"
    )
    parser.add_argument("--data", type=Path, default=repository.DATA, help="default %(default)s")
    judging = parser.add_argument_group("check")
    judging.add_argument("--run", action="store_true", help="measure now, as the baseline was, instead of taking a session")
    judging.add_argument(
        "--scenario",
        action="append",
        default=[],
        help="name, group or pattern; may be repeated (default: basic with --run, else all)",
    )
    judging.add_argument(
        "--repeats",
        type=int,
        default=REGRESSION_REPEATS,
        help="with --run, of each scenario (default %(default)s, the standard's)",
    )
    judging.add_argument(
        "--fail-on", choices=("warn", "fail"), default="fail", help="which regressions end with 3 (default fail)"
    )
    judging.add_argument("--output", type=Path, metavar="FILE", help="default: DATA/<date>/regression.json")
    judging.add_argument(
        "--results", type=Path, default=repository.RESULTS, help="with --run: raw results (default %(default)s)"
    )
    judging.add_argument("--allow-dirty", action="store_true", help="with --run: sources that differ from their commit")
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
        raise BenchError(f"{', '.join(void)}: discarded runs are not kept: fix what the checks say, and run again")
    standard.refuse(records)
    unstable = sorted({r.test_scenario.name for r in records if r.status == UNSTABLE})
    if unstable and not args.allow_unstable:
        raise BenchError(f"{', '.join(unstable)}: measured on a noisy machine: run again, or --allow-unstable")
    dirty = any(r.configuration.dirty for r in records)
    if dirty:
        raise BenchError("the run was of sources that differ from their commit: commit, build and run again")
    path = args.data / records[0].timestamp[:10] / "baseline.json"
    with database.opened(args.database) as store:
        left = audit.left_in(store, records)
    collection.write(path, "baseline", records, left, "this session was kept by `baseline set`")
    tables.show(
        args.format, ("file", "records"), [(str(path), str(len(records)))], {"file": str(path), "records": len(records)}
    )
    return FINE


def _kept(args: argparse.Namespace) -> list[Record]:
    path = args.file or collection.newest(args.data)
    if path is None:
        raise MissingError(f"{args.data}: no baseline is kept: uvhttp-bench run, then uvhttp-bench baseline set")
    return collection.read(path)


def _show(args: argparse.Namespace) -> int:
    summaries = by_scenario(_kept(args))
    tables.show(args.format, HEADS, [row(s) for s in summaries], summaries, reasons(summaries))
    return FINE


def _grade(args: argparse.Namespace) -> int:
    summaries = by_scenario(_kept(args) if args.file else _session_records(args))
    rows, heads = floors_table.rows(summaries), floors_table.HEADS
    if not rows:
        raise MissingError("no run of low, medium or high, which have floors: uvhttp-bench run")
    tables.show(args.format, heads, rows, [dict(zip(heads, r, strict=True)) for r in rows], floors_table.notes(summaries))
    return REGRESSION if any(s.grade == floors.BELOW for s in summaries) else FINE


# --- check ---


def _measured(args: argparse.Namespace, baseline: Sequence[Record]) -> list[Record]:
    """The scenarios that the baseline has, measured as it was."""
    check_tree(args.allow_dirty)
    if not 1 <= args.repeats <= 1000:
        raise UsageError(f"--repeats {args.repeats}: allowed is 1..1000")
    allow_many_files()
    first: dict[str, Record] = {}
    for record in baseline:
        if record.test_scenario.loop == "closed":
            first.setdefault(record.test_scenario.name, record)
    todo = [
        session.ScenarioRun(scenario, first[scenario.name].test_scenario.duration, args.repeats)
        for scenario in catalog.choose(args.scenario)
        if scenario.name in first
    ]
    if not todo:
        raise MissingError(f"the baseline has none of {', '.join(args.scenario) or 'low, medium, high'}: baseline show")
    bandwidth, name = measure.measure_bandwidth(), measure.session_name()

    def plan_of(scenario: Scenario) -> Plan:
        was = first[scenario.name]
        cpus = measure.Cpus(was.test_scenario.server_cpus, was.test_scenario.generator_cpus)
        target = Uvhttp(was.configuration.engine or "auto", was.configuration.io_threads or 1)
        load = session.load_for(scenario, was.test_scenario.tool)
        return measure.plan_for(target, load, cpus, bandwidth, "run", name, measure.WARM_UP_SECONDS)

    kept: list[Record] = []
    with database.opened(args.database) as store, Steps(len(todo) * args.repeats) as steps:
        session.execute(todo, plan_of, store, args.results, steps.begin, steps.done, kept.append)
    return kept


def _environment() -> Environment:
    cpus = measure.choose_cpus(None, None)
    return environment.capture(*gates.compiler_of(Uvhttp().build_info()), cpus.server, cpus.generator)


def _on_cpus_of(there: Environment, here: Environment) -> Environment:
    """This machine as --run measures it: on the CPUs of the baseline."""
    moved = replace(here, server_cpus=there.server_cpus, generator_cpus=there.generator_cpus)
    return replace(moved, hash=environment.digest(moved))


def _chosen(records: Sequence[Record], names: Sequence[str]) -> list[Record]:
    wanted = {scenario.name for scenario in catalog.choose(names)} if names else None
    found = [r for r in records if wanted is None or r.test_scenario.name in wanted]
    if not found:
        raise MissingError(f"the run has none of {', '.join(names)}: uvhttp-bench run {' '.join(names)}")
    return found


def _check(args: argparse.Namespace) -> int:
    records = [] if args.run else _chosen(_session_records(args), args.scenario)
    measured = _environment() if args.run else records[0].environment

    def here(there: Environment) -> Environment:
        return _on_cpus_of(there, measured) if args.run else measured

    path = args.file or regression.baseline_of(args.data, here)
    baseline = collection.read(path)
    there = baseline[0].environment
    if there.hash != here(there).hash:
        raise MissingError(f"{path}: of another environment: {regression.difference(there, here(there))}")
    records = records or _measured(args, baseline)
    if {r.session for r in records} & {r.session for r in baseline}:
        raise UsageError(f"{path}: is this run: uvhttp-bench run first, or baseline check --run")
    void = sorted({r.test_scenario.name for r in records if r.status == VOID})
    if void or not records:
        raise BenchError(f"{', '.join(void)}: discarded runs are not judged: fix what the checks say, and run again")
    standard.refuse([*baseline, *records])
    found = regression.judge(baseline, records)
    code = regression.exit_code(found, args.fail_on)
    output = args.output or args.data / records[0].timestamp[:10] / f"{regression.KIND}.json"
    data = regression.document(path, baseline, records, found, code)
    if found.verdicts:
        collection.write(output, regression.KIND, records, more=data)
    written = f"written to {output}" if found.verdicts else "nothing was judged, and nothing is written"
    tables.show(
        args.format, regression_table.HEADS, regression_table.rows(found), {"file": str(output), **data},
        [*regression_table.notes(found, baseline[0]), f"baseline {path}", written],
    )  # fmt: skip
    return code


def run(args: argparse.Namespace) -> int:
    if args.action == "check" and args.run:  # the one action that measures, and so needs a network of its own
        with network.of(argparse.Namespace(congestion_control=())):
            return _check(args)
    return {"set": _set, "show": _show, "grade": _grade, "check": _check}[args.action](args)
