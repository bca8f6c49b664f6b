"""Owns: the verb `agree`."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from uvhttp_bench import agreement, environment, gates, measure, network, repository
from uvhttp_bench.agreement import DIFFERS, MORE, OPEN, Finding, Measured
from uvhttp_bench.exits import FINE, REGRESSION, UNSTABLE, BenchError, MissingError, UsageError
from uvhttp_bench.loads.base import Load, allow_many_files
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.output import tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "whether uvhttp-load says what wrk and h2load say, and what each of them costs"
HEADS = ("scenario", "figure", "uvhttp-load", "of", "its", "ratio", "interval", "verdict", "why")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    own = ", ".join(scenario.name for scenario in agreement.workloads())
    parser.add_argument("scenario", nargs="*", help=f"default: {own}; others: see `list`")
    parser.add_argument(
        "--rounds",
        type=int,
        default=agreement.ROUNDS_MOST,
        help=f"in turn, at most (default %(default)s; from {agreement.ROUNDS_MIN} on until they are precise)",
    )
    parser.add_argument("--seconds", type=int, help="of each run, instead of the scenario's")
    parser.add_argument(
        "--engine", choices=("auto", "uring", "epoll"), default="auto", help="of the server (medium-slow: libuv)"
    )
    parser.add_argument("--server-cpus", help="as in 0 or 0,2-3 (default: the first)")
    network.always_default(parser)
    parser.add_argument("--generator-cpus", help="default: the others")
    parser.add_argument("--output", type=Path, metavar="FILE", help="every run and what follows from them, as JSON")


def chosen(args: argparse.Namespace) -> list[Scenario]:
    own = {scenario.name: scenario for scenario in agreement.workloads()}
    found = [scenario for name in args.scenario for scenario in ([own[name]] if name in own else choose([name]))]
    for scenario in found:
        if scenario.scheme not in ("http", "https"):
            raise UsageError(f"{scenario.name}: wrk and h2load do not speak {scenario.scheme}")
    return [replace(s, seconds=args.seconds or s.seconds) for s in found or own.values()]


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.rounds <= 1000 or (args.seconds is not None and not 1 <= args.seconds <= 86400):
        raise UsageError("--rounds: allowed is 1..1000; --seconds: 1..86400")
    scenarios, target, loads = chosen(args), Uvhttp(args.engine), agreement.tools()
    missing = [line for line in (target.missing(), *(load.missing() for load in loads)) if line]
    if missing:
        raise MissingError(missing[0])
    about = about_this(target, loads)
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    allow_many_files()
    kept: list[Measured] = []
    with Steps(len(scenarios) * args.rounds * len(loads)) as steps:

        def keep(one: Measured) -> None:
            kept.append(one)
            steps.begin(f"{one.scenario} {one.round}/{args.rounds} {one.tool}")
            steps.done(
                f"{one.requests_per_second:,.0f} req/s, {one.latency_avg_ms:.3f} ms, {one.cpu_us_per_request:.2f} us of CPU"
            )

        try:
            for scenario in scenarios:
                agreement.run(agreement.target_of(scenario, args.engine), scenario, loads, args.rounds, cpus, keep)
        except KeyboardInterrupt:
            show(args, kept, about)
            raise
    found = show(args, kept, about)
    if any(finding.verdict in (DIFFERS, MORE) for finding in found):
        return REGRESSION
    return UNSTABLE if any(finding.verdict == OPEN for finding in found) else FINE


def about_this(target: Uvhttp, loads: Sequence[Load]) -> dict[str, Any]:
    """What has to be known to repeat it. Server and uvhttp-load come from one build."""
    configuration = gates.configuration_of(
        target.build_info(), revision=repository.revision(), dirty=repository.dirty(), engine=target.engine
    )
    build = gates.build(configuration)
    if not build.passed:
        raise BenchError(build.detail)
    return {
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment.capture(*gates.compiler_of(configuration.build_info)),
        "configuration": configuration,
        "tools": {load.name: load.version() for load in loads},
        "tolerance": agreement.TOLERANCE,
    }


def show(args: argparse.Namespace, kept: list[Measured], about: dict[str, Any]) -> list[Finding]:
    found = agreement.findings(kept)
    data = {**about, "findings": found, "runs": kept}
    if args.output and kept:
        write_text(args.output, dump(data))
    tables.show(args.format, HEADS, [row(finding) for finding in found], data, agreement.notes(kept))
    return found


def row(finding: Finding) -> tuple[str, ...]:
    n, ratio = tables.number, finding.ratio
    digits = 0 if finding.figure == "requests/s" else 3
    return (
        finding.scenario, finding.figure, n(finding.ours, digits), finding.other, n(finding.theirs, digits),
        n(ratio.middle, 3), f"{ratio.low:.3f}..{ratio.high:.3f}", finding.verdict, finding.why,
    )  # fmt: skip
