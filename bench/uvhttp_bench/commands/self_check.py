"""Owns: the verb `self-check`."""

import argparse
from dataclasses import replace
from pathlib import Path

from uvhttp_bench import measure, network, repository, together
from uvhttp_bench.commands.run import check_tree
from uvhttp_bench.exits import FINE, REGRESSION, UNSTABLE, BenchError, UsageError
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.model.self_check import SelfCheck, outcome
from uvhttp_bench.output import self_check_table, tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.self_check import Checker, Options, schedule
from uvhttp_bench.targets.base import workspace

HELP = "can compare be trusted: a build compared with itself, and with itself slowed by a known part"
DETECTED_MIN = 0.9  # of the slowed ones


def add_arguments(parser: argparse.ArgumentParser) -> None:
    least, most = together.ROUNDS_LEAST, together.ROUNDS_MOST
    parser.add_argument("--same", type=int, default=20, help="comparisons of the build with itself (default 20)")
    parser.add_argument("--slowed", type=int, default=10, help="comparisons with it slowed (default 10)")
    parser.add_argument("--slower", type=float, default=5, metavar="PERCENT", help="of CPU time per request (default 5)")
    parser.add_argument("--threshold", type=float, default=2, metavar="PERCENT", help="of the verdicts (default 2)")
    parser.add_argument(
        "--rounds", type=int, default=most, help=f"at most (default {most}; from {least} on until it is precise)"
    )
    parser.add_argument("--seconds", type=float, default=together.SECONDS, help="of each round (default %(default)s)")
    parser.add_argument("--scenario", default="low", help="default low")
    parser.add_argument("--server", type=Path, help="performance_test to measure (default: of this build)")
    parser.add_argument("--server-cpus", help="as in 0 or 0,2-3 (default: the first)")
    network.always_default(parser)
    parser.add_argument("--generator-cpus", help="default: the others")
    parser.add_argument("--allow-dirty", action="store_true", help="measure sources that differ from their commit")


def _options(args: argparse.Namespace) -> Options:
    for name, least, most in (("same", 0, 1000), ("slowed", 0, 1000), ("rounds", 1, 1000)):
        if not least <= getattr(args, name) <= most:
            raise UsageError(f"--{name} {getattr(args, name)}: allowed is {least}..{most}")
    for name, limit in (("seconds", 60), ("slower", 100), ("threshold", 99)):
        if not 0 < getattr(args, name) <= limit:
            raise UsageError(f"--{name} {getattr(args, name):g}: allowed is above 0 up to {limit}")
    scenarios = catalog.choose([args.scenario])
    if len(scenarios) != 1 or scenarios[0].scheme != "http" or scenarios[0].pipeline != 1:
        raise UsageError(f"--scenario {args.scenario}: one of plain HTTP, without pipelining")
    return Options(
        scenario=scenarios[0],
        program=args.server.resolve() if args.server else None,
        same=args.same,
        slowed=args.slowed,
        rounds=args.rounds,
        seconds=args.seconds,
        slower_percent=args.slower,
        threshold_percent=args.threshold,
        cpus=measure.choose_cpus(args.server_cpus, args.generator_cpus),
    )


def run(args: argparse.Namespace) -> int:
    options = _options(args)
    check_tree(args.allow_dirty)
    allow_many_files()
    todo = schedule(options.same, options.slowed)
    with workspace() as made, Steps(len(todo)) as steps:
        checker = Checker(options, made, steps.say)
        check = checker.begin()
        try:
            for number, slowed in enumerate(todo, 1):
                what = "with itself" + (f" {options.slower_percent:g} % slower" if slowed else "")
                steps.begin(f"{number}/{len(todo)} {what}")
                done = checker.compare(check, slowed)
                check = replace(check, comparisons=(*check.comparisons, done))
                steps.done(self_check_table.line(check, done))
        except (KeyboardInterrupt, BenchError):
            _keep(check, args.format)
            raise
    _keep(check, args.format)
    return exit_code(check)


def _keep(check: SelfCheck, form: str) -> None:
    """What has finished, also of one that was interrupted or failed."""
    if not check.comparisons:
        return
    path = repository.SELF_CHECKS / f"{check.session}.json"
    write_text(path, dump(check))
    rows, notes = self_check_table.rows(check), self_check_table.notes(check)
    tables.show(form, self_check_table.HEADS, rows, check, [*notes, str(path)])


def exit_code(check: SelfCheck) -> int:
    """3: called itself slower; 4: missed what it should have found."""
    same = outcome(check, False, check.threshold_percent).regressed
    slowed = outcome(check, True, check.threshold_percent).regressed
    if same.found:
        return REGRESSION
    return FINE if slowed.found >= DETECTED_MIN * slowed.of else UNSTABLE
