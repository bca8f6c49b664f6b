"""Owns: the verb `bisect`."""

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uvhttp_bench import bisection, measure, repository, revisions, session, together
from uvhttp_bench.bisection import LEFT_OUT, Found, Step
from uvhttp_bench.commands.run import add_target_arguments, check_numbers
from uvhttp_bench.exits import ERROR, FINE, UNSTABLE, BenchError, UsageError
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.measure import Plan, Skip
from uvhttp_bench.model import codec
from uvhttp_bench.output import tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Round, Verdict
from uvhttp_bench.targets.base import Workspace, workspace
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "which commit between two revisions changed the CPU time per request of a scenario"
MINUTES = 120.0
MORE = 2  # times the rounds, where they decide nothing
HEADS = ("step", "commit", "subject", "ratio to A", "95 % interval", "rounds", "verdict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="REV_A", help="a commit: before the change")
    parser.add_argument("b", metavar="REV_B", nargs="?", default="HEAD", help="a later one: after it (default HEAD)")
    parser.add_argument("--scenario", required=True, help="one of performance_test (see `list`)")
    parser.add_argument(
        "--threshold", type=float, metavar="PERCENT", help="A and B have to differ by more (default: the standard's 10)"
    )
    most = together.ROUNDS_MOST
    parser.add_argument(
        "--rounds",
        type=int,
        default=most,
        help=f"of a comparison, at most (default {most}); {MORE} times as many if they decide nothing",
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="no step starts later than this (default %(default)g)"
    )
    add_target_arguments(parser)
    parser.set_defaults(warm_up=0.0)  # each round has its own


def candidates(a: str, b: str) -> list[str]:
    """Commits after A up to B, oldest first, on the line of first parents; only what can change the server."""
    one, other = revisions.resolve(a), revisions.resolve(b)
    line = repository.git("rev-list", "--first-parent", other).splitlines()
    if one not in line or one == other:
        raise UsageError(f"{a} is not before {b} on the line of its first parents: git log --first-parent {b}")
    found = repository.git("rev-list", "--first-parent", "--reverse", f"{one}..{other}", "--", *repository.SOURCES)
    commits = found.splitlines()
    if not commits:
        raise UsageError(f"no commit between {a} and {b} changes {', '.join(repository.SOURCES)}: nothing to search")
    return commits


@dataclass(frozen=True)
class Comparer:
    """What is the same for all steps: A, the load, the CPUs."""

    args: argparse.Namespace
    scenario: Scenario
    made: Workspace
    steps: Steps
    plan: Plan

    def _plan(self, which: str, built: revisions.Built) -> Plan:
        target = Uvhttp(self.args.engine, self.args.io_threads, built.program, f"{which}: {built.label[:12]}")
        return replace(self.plan, target=target, build_info=target.build_info(), revision=built.revision, dirty=built.dirty)

    def compare(self, a: revisions.Built, b: revisions.Built, threshold: float, rounds: int) -> Verdict:
        plans = {"a": self._plan("A", a), "b": self._plan("B", b)}

        def one(number: int) -> together.Measured:
            return together.measure_round(number, plans, self.scenario, self.made, together.SECONDS)

        def judge(found: Sequence[Round]) -> Verdict:
            return verdict.judge(self.scenario.name, verdict.CPU, found, threshold)

        done = together.measure_until_precise(one, judge, rounds)
        return judge([measured.round for measured in done])

    def look(self, a: revisions.Built, place: int, commit: str, change: float) -> Step:
        """A commit that does not build, does not serve the scenario or cannot be decided is left out."""
        self.steps.begin(f"{commit[:12]} {subject(commit)}")
        middle = math.expm1(abs(change) / 2)
        try:
            built = revisions.program_of(commit)
            for rounds in (self.args.rounds, self.args.rounds * MORE):
                v = self.compare(a, built, middle, rounds)
                outcome = bisection.side(v, change)
                if outcome != LEFT_OUT:
                    break
        except (BenchError, Skip) as error:
            self.steps.done(f"left out: {error}")
            return Step(place, commit, LEFT_OUT, why=str(error))
        self.steps.done(f"{outcome}: {v.ratio:.4f} ({v.ratio_low:.4f}..{v.ratio_high:.4f}) of A")
        why = "" if outcome != LEFT_OUT else f"{v.rounds} rounds decide nothing"
        return Step(place, commit, outcome, v.ratio, v.ratio_low, v.ratio_high, v.rounds, why)


def subject(commit: str) -> str:
    return repository.git("log", "-1", "--format=%s", commit)


def check(args: argparse.Namespace) -> Scenario:
    check_numbers(args)
    if not 1 <= args.rounds <= 1000:
        raise UsageError(f"--rounds {args.rounds}: allowed is 1..1000")
    if not 1 <= args.minutes <= 1440:
        raise UsageError(f"--minutes {args.minutes:g}: allowed is 1..1440")
    if args.threshold is not None and not 0 < args.threshold < 100:
        raise UsageError(f"--threshold {args.threshold:g}: allowed is above 0 and below 100 (per cent)")
    chosen = catalog.choose([args.scenario])
    if len(chosen) != 1 or chosen[0].scheme == "tcp":
        raise UsageError(f"'{args.scenario}': bisect needs one scenario of performance_test")
    return chosen[0]


def run(args: argparse.Namespace) -> int:
    scenario = check(args)
    commits = candidates(args.a, args.b)
    allow_many_files()
    started = time.monotonic()
    threshold = verdict.CPU.warn if args.threshold is None else args.threshold / 100
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    load = session.load_for(scenario, args.tool)
    name = measure.session_name()
    with workspace() as made, Steps(bisection.steps_most(len(commits)) + 2) as steps:
        steps.begin(f"building {args.a} and {args.b}")
        a, b = (revisions.program_of(revisions.resolve(one)) for one in (args.a, args.b))
        target = Uvhttp(args.engine, args.io_threads, a.program)
        plan = measure.plan_for(target, load, cpus, measure.measure_bandwidth(), "bisect", name, 0)
        comparer = Comparer(args, scenario, made, steps, plan)
        steps.begin(f"A against B, {scenario.name}")
        whole = comparer.compare(a, b, threshold, args.rounds)
        steps.done(f"{whole.verdict}: {whole.ratio:.4f} ({whole.ratio_low:.4f}..{whole.ratio_high:.4f})")
        if whole.verdict not in (verdict.REGRESSED, verdict.IMPROVED):
            return _nothing(args, whole)
        change = math.log(whole.ratio)

        def look(place: int, commit: str) -> Step:
            return comparer.look(a, place, commit, change)

        found = bisection.search(commits, look, lambda: time.monotonic() - started < 60 * args.minutes)
        own = _confirmed(comparer, found, a, b, change) if len(found.commits) == 1 else None
    data = {
        "session": name, "a": a.revision, "b": b.revision, "scenario": scenario.name, "whole": whole,
        "found": found, "own": own,
    }  # fmt: skip
    codec.write_text(repository.BUILD / "bench" / "bisect" / f"{name}.json", codec.dump(data))
    confirmed = own is not None and own.verdict == whole.verdict
    show(args.format, found, whole, own, data)
    return FINE if confirmed else UNSTABLE


def _nothing(args: argparse.Namespace, whole: Verdict) -> int:
    interval = f"{whole.ratio:.4f} ({whole.ratio_low:.4f}..{whole.ratio_high:.4f})"
    advice = (
        "more --rounds, or a quieter machine" if whole.verdict == verdict.INCONCLUSIVE else "a smaller --threshold, if any"
    )
    tables.show(
        args.format, ("A", "B", "B/A", "verdict"), [(args.a, args.b, interval, whole.verdict)], {"whole": whole, "found": None},
        [f"A and B do not differ by more than {100 * whole.threshold:.1f} %: there is no change to search for; {advice}"],
    )  # fmt: skip
    return UNSTABLE if whole.verdict == verdict.INCONCLUSIVE else ERROR


def _confirmed(comparer: Comparer, found: Found, a: revisions.Built, b: revisions.Built, change: float) -> Verdict:
    """The commit against the one before it: does it alone make most of the change."""
    (commit,) = found.commits
    comparer.steps.begin(f"{commit[:12]} against the commit before it")
    before = revisions.program_of(found.before) if found.before else a
    last = all(step.commit != commit for step in found.steps)
    own = comparer.compare(
        before, b if last else revisions.program_of(commit), math.expm1(abs(change) / 2), comparer.args.rounds * MORE
    )
    comparer.steps.done(f"{own.verdict}: {own.ratio:.4f} ({own.ratio_low:.4f}..{own.ratio_high:.4f})")
    return own


def show(form: str, found: Found, whole: Verdict, own: Verdict | None, data: object) -> None:
    n = tables.number
    rows = [
        (
            str(number), step.commit[:12], subject(step.commit), n(step.ratio, 4),
            f"{step.ratio_low:.4f}..{step.ratio_high:.4f}" if step.ratio_low and step.ratio_high else "",
            str(step.rounds or ""), f"{step.outcome}: {step.why}" if step.why else step.outcome,
        )
        for number, step in enumerate(found.steps, 1)
    ]  # fmt: skip
    tables.show(form, HEADS, rows, data, _notes(found, whole, own))


def _notes(found: Found, whole: Verdict, own: Verdict | None) -> list[str]:
    notes = [f"B/A is {whole.ratio:.4f} ({whole.ratio_low:.4f}..{whole.ratio_high:.4f}): {whole.verdict}"]
    named = [f"{commit[:12]} {subject(commit)}" for commit in found.commits]
    if own is None:
        why = "the others were left out" if found.complete else "--minutes ended; built revisions are kept for the next time"
        return [*notes, f"one of these {len(named)} ({why}):", *named]
    alone = f"{own.ratio:.4f} ({own.ratio_low:.4f}..{own.ratio_high:.4f}) of the commit before it: {own.verdict}"
    first = "the commit" if own.verdict == whole.verdict else "not confirmed; perhaps several commits share the change"
    return [*notes, f"{first}: {named[0]}", alone]
