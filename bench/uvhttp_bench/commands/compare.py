"""Owns: the verb `compare`: two revisions, built alike and measured in turn."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from uvhttp_bench import measure, repository, revisions, rounds, session
from uvhttp_bench.commands.run import add_target_arguments, check_numbers
from uvhttp_bench.exits import FINE, REGRESSION, UNSTABLE, UsageError
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.measure import Plan, Skip, run_once
from uvhttp_bench.model import codec, database
from uvhttp_bench.model.record import Record
from uvhttp_bench.output import tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Verdict
from uvhttp_bench.targets.base import Workspace, workspace
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "build two revisions and decide which is faster; one revision twice shows the noise"
SECONDS = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="REV_A", help="a commit, or . for the working copy as it is built")
    parser.add_argument("b", metavar="REV_B", nargs="?", default=revisions.WORKING_COPY, help="default: .")
    parser.add_argument(
        "--scenario", action="append", default=[], help="name, group or pattern; may be repeated (default: basic)"
    )
    parser.add_argument(
        "--rounds", type=int, default=catalog.REGRESSION, help="of A B B A (default 10; 6 at least to decide)"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each run (default 3)")
    parser.add_argument(
        "--threshold", type=float, metavar="PERCENT", help="a difference that counts, instead of the standard's"
    )
    parser.add_argument(
        "--fail-on", choices=("warn", "fail"), default="fail", help="which regressions end with 3 (default fail)"
    )
    parser.add_argument("--warm-up", type=float, default=measure.WARM_UP_SECONDS, help="seconds (default 1)")
    add_target_arguments(parser)
    database.add_argument(parser)


def _plans(
    args: argparse.Namespace, scenario: Scenario, built: dict[str, revisions.Built], limit: float, name: str
) -> dict[str, Plan]:
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    load = session.load_for(scenario, args.tool)
    made = {}
    for which, b in built.items():
        target = Uvhttp(args.engine, args.io_threads, b.program, f"{which.upper()}: {b.label}")
        plan = measure.plan_for(target, load, cpus, limit, "compare", name, args.warm_up)
        made[which] = replace(plan, revision=b.revision, dirty=b.dirty)
    return made


def _measure(
    args: argparse.Namespace,
    plans: dict[str, Plan],
    scenario: Scenario,
    made: Workspace,
    store: database.Database,
    steps: Steps,
) -> list[rounds.Measured]:
    done: list[rounds.Measured] = []
    for number in range(args.rounds):

        def one(which: str) -> Record:
            steps.begin(f"{scenario.name} round {number + 1}/{args.rounds} {which.upper()}")  # noqa: B023 used at once
            record, _ = run_once(plans[which], scenario, made, args.seconds, number + 1, args.rounds)  # noqa: B023
            record = store.add(record)
            steps.done(session.line(record))
            return record

        done.append(rounds.measure_round(number, one))
    return done


def run(args: argparse.Namespace) -> int:
    check_numbers(args)
    if not 1 <= args.rounds <= 1000:
        raise UsageError(f"--rounds {args.rounds}: allowed is 1..1000")
    if args.threshold is not None and not 0 < args.threshold < 100:
        raise UsageError(f"--threshold {args.threshold:g}: allowed is above 0 and below 100 (per cent)")
    scenarios = [s for s in catalog.choose(args.scenario) if s.scheme != "tcp"]
    if not scenarios:
        raise UsageError("compare measures performance_test; TCP echo is not part of it")
    allow_many_files()
    threshold = None if args.threshold is None else args.threshold / 100
    limit, name = measure.measure_bandwidth(), measure.session_name()
    with Steps(len(scenarios) * args.rounds * 4) as steps, workspace() as made, database.opened(args.database) as store:
        built = {}
        for which, revision in (("a", args.a), ("b", args.b)):
            steps.begin(f"building {revision}")
            built[which] = revisions.program_of(revision)
        verdicts: list[Verdict] = []
        left: list[rounds.NotJudged] = []
        for scenario in scenarios:
            plans = _plans(args, scenario, built, limit, name)
            try:
                measured = _measure(args, plans, scenario, made, store, steps)
            except Skip as why:
                left.append(rounds.NotJudged(scenario.name, "", str(why)))
                continue
            more, not_judged = rounds.judge(scenario.name, measured, verdict.METRICS, threshold)
            verdicts += more
            left += not_judged
    verdicts = verdict.correct(verdicts)
    data = {"session": name, "a": args.a, "b": args.b, "verdicts": verdicts, "not_judged": left}
    codec.write_text(repository.BUILD / "bench" / "compare" / f"{name}.json", codec.dump(data))
    show(args.format, verdicts, left, data)
    return exit_code(verdicts, args.fail_on if threshold is None else "warn")


def exit_code(verdicts: Sequence[Verdict], fail_on: str) -> int:
    regressed = [v for v in verdicts if v.verdict == verdict.REGRESSED]
    if any(v.grade == "fail" or fail_on == "warn" for v in regressed):
        return REGRESSION
    cpu = [v for v in verdicts if v.metric == verdict.CPU.name]
    return UNSTABLE if not cpu or any(v.verdict == verdict.INCONCLUSIVE for v in cpu) else FINE


def show(form: str, verdicts: Sequence[Verdict], left: Sequence[rounds.NotJudged], data: object) -> None:
    n = tables.number
    heads = ("scenario", "figure", "A", "B", "B/A", "95 % interval", "p (Holm)", "noise %", "rounds", "verdict")
    rows = [
        (
            v.scenario, v.metric, n(v.median_a), n(v.median_b), n(v.ratio, 4), f"{v.ratio_low:.4f}..{v.ratio_high:.4f}",
            n(v.p_holm, 4), n(100 * v.noise, 1), str(v.rounds), f"{v.verdict} ({v.grade})" if v.grade else v.verdict,
        )
        for v in verdicts
    ]  # fmt: skip
    tables.show(form, heads, rows, data, [f"{x.scenario} {x.metric}: not judged: {x.why}" for x in left])
