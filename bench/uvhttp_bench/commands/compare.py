"""Owns: the verb `compare`: two revisions, built alike, or two servers of the reader's own (--cmd), measured together."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from uvhttp_bench import measure, own_servers, repository, revisions, rounds, session, together, versus
from uvhttp_bench.commands.run import add_target_arguments, check_numbers
from uvhttp_bench.exits import FINE, REGRESSION, UNSTABLE, BenchError, UsageError
from uvhttp_bench.first_response import Response
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.measure import Plan, Skip, run_once
from uvhttp_bench.model import codec, database
from uvhttp_bench.model.record import Record
from uvhttp_bench.output import tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Round, Verdict
from uvhttp_bench.targets.base import Workspace, workspace
from uvhttp_bench.targets.command import without_machine_paths
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "decide which of two is faster: revisions, which it builds, or servers of your own, which --cmd starts"
SECONDS = 3.0
SECONDS_OWN, ROUNDS_OWN = 1.0, 20  # of servers of the reader's own: a verdict in minutes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="REV_A", nargs="?", help="a commit, or . for the working copy as it is built")
    parser.add_argument("b", metavar="REV_B", nargs="?", default=revisions.WORKING_COPY, help="default: .")
    parser.add_argument(
        "--scenario", action="append", default=[], help="name, group or pattern; may be repeated (default: basic)"
    )
    least, most = together.ROUNDS_LEAST, together.ROUNDS_MOST
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"for CPU time, at most (default {most}, with --cmd {ROUNDS_OWN}; from {least} on until it is precise)",
    )
    parser.add_argument("--seconds", type=float, help="of each run alone (default 3; with --cmd 1)")
    parser.add_argument(
        "--cpu-only", action="store_true", help=f"without the {least} rounds of runs alone, for throughput and latency"
    )
    parser.add_argument(
        "--threshold", type=float, metavar="PERCENT", help="a difference that counts, instead of the standard's"
    )
    parser.add_argument(
        "--fail-on", choices=("warn", "fail"), default="fail", help="which regressions end with 3 (default fail)"
    )
    parser.add_argument("--warm-up", type=float, default=measure.WARM_UP_SECONDS, help="seconds (default 1)")
    add_target_arguments(parser)
    own_servers.add_arguments(parser)
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


@dataclass
class Found:
    """What a comparison has shown so far, of complete scenarios."""

    session: str
    a: str
    b: str
    responses: list[Response] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)  # before correction for how many there are
    left: list[rounds.NotJudged] = field(default_factory=list)
    figures: dict[str, list[Round]] = field(default_factory=dict)
    noisy: int = 0


@dataclass(frozen=True)
class Comparing:
    """What is the same for all scenarios."""

    args: argparse.Namespace
    made: Workspace
    store: database.Database
    steps: Steps
    threshold: float | None

    def compare(self, plans: dict[str, Plan], scenario: Scenario, found: Found) -> None:
        try:
            done = self.rounds_together(plans, scenario)
            runs = [] if self.args.cpu_only else self.rounds_alone(plans, scenario)
        except Skip as why:
            found.left.append(rounds.NotJudged(scenario.name, "", str(why)))
            return
        found.figures[scenario.name] = [measured.round for measured in done]
        found.noisy += sum(measured.restless for measured in done)
        found.verdicts.append(verdict.judge(scenario.name, verdict.CPU, found.figures[scenario.name], self.threshold))
        if runs:
            more, not_judged = rounds.judge(scenario.name, runs, (verdict.THROUGHPUT, verdict.LATENCY), self.threshold)
            found.verdicts += more
            found.left += not_judged

    def rounds_together(self, plans: dict[str, Plan], scenario: Scenario) -> list[together.Measured]:
        def one(number: int) -> together.Measured:
            self.steps.begin(f"{scenario.name} together {number + 1}/{self.args.rounds}")
            measured = together.measure_round(number, plans, scenario, self.made, together.SECONDS)
            self.steps.done(f"B/A {math.exp(measured.round.effect()):.4f}")
            return measured

        def judge(found: Sequence[Round]) -> Verdict:
            return verdict.judge(scenario.name, verdict.CPU, found, self.threshold)

        return together.measure_until_precise(one, judge, self.args.rounds)

    def rounds_alone(self, plans: dict[str, Plan], scenario: Scenario) -> list[rounds.Measured]:
        done: list[rounds.Measured] = []
        count = min(self.args.rounds, together.ROUNDS_LEAST)
        for number in range(count):

            def one(which: str) -> Record:
                self.steps.begin(f"{scenario.name} round {number + 1}/{count} {which.upper()}")  # noqa: B023 used at once
                record, _ = run_once(plans[which], scenario, self.made, self.args.seconds, number + 1, count)  # noqa: B023
                record = self.store.add(versus.of_target(record, plans[which].target))
                self.steps.done(session.line(record))
                return record

            done.append(rounds.measure_round(number, one))
        return done


def check_arguments(args: argparse.Namespace) -> list[Scenario]:
    """What is to be compared, or what is wrong with the command line."""
    if args.seconds is None:
        args.seconds = SECONDS_OWN if args.cmd else SECONDS
    if args.rounds is None:
        args.rounds = ROUNDS_OWN if args.cmd else together.ROUNDS_MOST
    check_numbers(args)
    if not 1 <= args.rounds <= 1000:
        raise UsageError(f"--rounds {args.rounds}: allowed is 1..1000")
    if args.threshold is not None and not 0 < args.threshold < 100:
        raise UsageError(f"--threshold {args.threshold:g}: allowed is above 0 and below 100 (per cent)")
    if not args.cmd:
        if args.a is None:
            raise UsageError("what is to be compared: two revisions, or --cmd './a {port}' --cmd './b {port}'")
        if own_servers.given(args):
            raise UsageError(f"{own_servers.given(args)} is for servers that --cmd starts; revisions have --scenario")
        scenarios = catalog.under_each(catalog.choose(args.scenario), args.congestion_control)
        scenarios = [s for s in scenarios if s.scheme != "tcp"]
        if not scenarios:
            raise UsageError("compare measures performance_test; TCP echo is not part of it")
        return scenarios
    if args.a is not None or args.scenario:
        raise UsageError("--cmd takes the place of revisions and --scenario: --url says what is asked for")
    if args.engine != "auto" or args.io_threads != 1 or args.tool not in ("auto", UvhttpLoad.name):
        raise UsageError("--engine and --io-threads are of performance_test, and --cmd is measured by uvhttp-load")
    own_servers.commands_of(args)
    return [own_servers.scenario_of(args)]


def run(args: argparse.Namespace) -> int:
    scenarios = check_arguments(args)
    allow_many_files()
    threshold = None if args.threshold is None else args.threshold / 100
    limit, name = measure.measure_bandwidth(), measure.session_name()
    alone = 0 if args.cpu_only else 4 * min(args.rounds, together.ROUNDS_LEAST)
    steps_most = len(scenarios) * (args.rounds + alone)
    found = Found(name, args.a, args.b)
    with Steps(steps_most) as steps, workspace() as made, database.opened(args.database) as store:
        built = {}
        own: dict[str, Plan] = {}
        if args.cmd:
            cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
            own, found.responses = own_servers.plans(args, scenarios[0], made, cpus, limit, name, steps.say)
            found.a, found.b = own["a"].target.name, own["b"].target.name
        else:
            for which, revision in (("a", args.a), ("b", args.b)):
                steps.begin(f"building {revision}")
                built[which] = revisions.program_of(revision)
        comparing = Comparing(args, made, store, steps, threshold)
        try:
            for scenario in scenarios:
                comparing.compare(own or _plans(args, scenario, built, limit, name), scenario, found)
        except (BenchError, OSError, KeyboardInterrupt):
            if found.figures:  # hours of work, perhaps
                steps.say(f"ended early: {len(found.figures)} of {len(scenarios)} scenarios were compared")
                conclude(args, found)
            raise
    return exit_code(conclude(args, found), args.fail_on if threshold is None else "warn")


def conclude(args: argparse.Namespace, found: Found) -> list[Verdict]:
    """Writes and shows what was found."""
    verdicts = verdict.correct(found.verdicts)
    data = {
        "session": found.session,
        "a": found.a,
        "b": found.b,
        "verdicts": verdicts,
        "not_judged": found.left,
        "cpu": found.figures,
        "restless": found.noisy,
    }
    if args.cmd:
        said = own_servers.sentences(verdicts, found.a, found.b)
        data["commands"] = [without_machine_paths(text) for text in args.cmd]
        data["responses"] = [response.line() for response in found.responses]
        data["sentences"] = said
        if args.format != "json":
            print("\n".join(f"- {line}" if args.format == "md" else line for line in said), end="\n\n")
    codec.write_text(repository.BUILD / "bench" / "compare" / f"{found.session}.json", codec.dump(data))
    show(args.format, verdicts, found.left, data, found.noisy)
    return verdicts


def exit_code(verdicts: Sequence[Verdict], fail_on: str) -> int:
    regressed = [v for v in verdicts if v.verdict == verdict.REGRESSED]
    if any(v.grade == "fail" or fail_on == "warn" for v in regressed):
        return REGRESSION
    cpu = [v for v in verdicts if v.metric == verdict.CPU.name]
    return UNSTABLE if not cpu or any(v.verdict == verdict.INCONCLUSIVE for v in cpu) else FINE


def show(form: str, verdicts: Sequence[Verdict], left: Sequence[rounds.NotJudged], data: object, noisy: int = 0) -> None:
    n = tables.number
    heads = (
        "scenario", "figure", "A", "B", "B/A", "95 % interval", "p (Holm)", "noise %", "rounds", "difference", "verdict"
    )  # fmt: skip
    rows = [
        (
            v.scenario, v.metric, n(v.median_a), n(v.median_b), n(v.ratio, 4), f"{v.ratio_low:.4f}..{v.ratio_high:.4f}",
            n(v.p_holm, 4), n(100 * v.noise, 1), str(v.rounds), verdict.difference(v),
            f"{v.verdict} ({v.grade})" if v.grade else v.verdict,
        )
        for v in verdicts
    ]  # fmt: skip
    notes = [f"{x.scenario} {x.metric}: not judged: {x.why}" for x in left]
    if noisy:
        notes.append(f"During {noisy} rounds the machine was noisy.")
    tables.show(form, heads, rows, data, notes)
