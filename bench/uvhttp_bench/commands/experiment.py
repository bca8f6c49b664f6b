"""Owns: the verb `experiment`: S3's comparison with Tomcat."""

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from uvhttp_bench.exits import FINE, INTERRUPTED, UNSTABLE, BenchError, MissingError, UsageError
from uvhttp_bench.loads import thesis
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.model.experiment import Experiment
from uvhttp_bench.output import experiment_table, sweep_picture
from uvhttp_bench.scenarios.thesis import MODES, SWEEP_DEFAULT, WORKLOADS
from uvhttp_bench.targets import material
from uvhttp_bench.targets.adapter import program
from uvhttp_bench.targets.ours import SERVER_DEFAULT, Ours
from uvhttp_bench.targets.started import Ended
from uvhttp_bench.targets.tomcat import Tomcat

HELP = "the experiment of S3 against Tomcat: loop, workers, coroutines and a thread per request"


def numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers separated by commas") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=("tomcat",), help="tomcat is the only one")
    parser.add_argument("--workload", choices=tuple(WORKLOADS), action="append", help="default: both")
    parser.add_argument("--seconds", type=int, default=2, help="of each run (default 2, as in S3; 30 for steady figures)")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--threads", type=int, default=6, help="wrk's (default 6)")
    parser.add_argument("--connections", type=int, default=100, help="default 100")
    parser.add_argument("--engine", choices=("auto", "uring", "libuv"), default="auto")
    parser.add_argument("--server", type=Path, default=SERVER_DEFAULT, help="performance_test to measure")
    parser.add_argument("--server-cpus", type=numbers, default=(0,), help="default 0")
    parser.add_argument("--client-cpus", type=numbers, default=(1,), help="default 1")
    parser.add_argument("--warmup", type=float, default=1, help="seconds for each of our routes (default 1)")
    parser.add_argument("--jvm-warmup", type=float, default=10, help="seconds for each of Tomcat's routes (default 10)")
    parser.add_argument("--tomcat-threads", type=int, default=200, help="default 200, which is Tomcat's own")
    parser.add_argument("--sweep", type=numbers, default=SWEEP_DEFAULT, help="worker threads (default 1,2,4..256); '': none")
    parser.add_argument("--output", type=Path, help="directory for experiment.json and sweep-*.svg")


def check(args: argparse.Namespace) -> None:
    if min(args.seconds, args.rounds, args.threads, args.connections, args.tomcat_threads) < 1:
        raise UsageError("--seconds, --rounds, --threads, --connections and --tomcat-threads are at least 1")
    allowed = os.sched_getaffinity(0)
    for cpu in (*args.server_cpus, *args.client_cpus):
        if cpu not in allowed:
            raise UsageError(f"CPU {cpu} is not one that this process may use: {sorted(allowed)}")
    if set(args.server_cpus) & set(args.client_cpus) or not args.server_cpus or not args.client_cpus:
        raise UsageError("server and load generator need a CPU each: --server-cpus, --client-cpus")
    if not program("wrk"):
        raise MissingError("wrk is not installed: apt-get install wrk")


def say(text: str) -> None:
    print(text, file=sys.stderr)


def contenders(args: argparse.Namespace, skipped: list[str]) -> list[thesis.Contender]:
    found = [
        thesis.Contender("uvhttp", Ours(args.engine, args.server.resolve()), MODES, args.warmup),
        thesis.Contender("tomcat", Tomcat(args.tomcat_threads), {"thread": ""}, args.jvm_warmup),
    ]
    for contender in found:
        reason = contender.adapter.missing()
        if reason:
            skipped.append(reason)
    return [contender for contender in found if not contender.adapter.missing()]


def sweep(args: argparse.Namespace, plan: thesis.Plan, outcome: thesis.Outcome) -> None:
    workloads = [WORKLOADS[name] for name in args.workload]
    for count in args.sweep:
        say(f"sweep: {count} worker threads")
        ours = Ours(args.engine, args.server.resolve(), ["--worker-threads", str(count)])
        if ours.missing():
            return
        modes = {"worker": MODES["worker"]}
        # No warm-up: what is left of it in the workers' queue would be there in the measured seconds.
        contender = thesis.Contender("uvhttp", ours, modes, 0, count)
        before = len(outcome.skipped)
        try:
            thesis.measure_contender(plan, contender, workloads, 1, outcome)
        except Ended as error:
            outcome.skipped.append(f"sweep: {error}")
        except BenchError as error:
            outcome.void.append(f"sweep, {count} worker threads: {error}")
        if len(outcome.skipped) > before:
            return  # no such route or option: no need to ask for each number


def measure(args: argparse.Namespace, directory: Path) -> tuple[Experiment, bool]:
    """Returns what was measured, and whether it was interrupted."""
    prepared, built = directory / "prepared", directory / "built"
    prepared.mkdir()
    built.mkdir()
    material.make(prepared)
    main, swept = thesis.Outcome(), thesis.Outcome()
    able = contenders(args, main.skipped)
    for line in main.skipped:
        say(line)
    if not able:
        raise MissingError("nothing to measure: " + "; ".join(main.skipped))
    plan = thesis.Plan(args.threads, args.connections, args.seconds, args.server_cpus, args.client_cpus, prepared, built)
    versions = {contender.target: contender.adapter.version() for contender in able}
    interrupted = False
    try:
        thesis.in_turn(plan, able, [WORKLOADS[name] for name in args.workload], args.rounds, main, say)
        sweep(args, plan, swept)
    except KeyboardInterrupt:
        interrupted = True
    skipped = list(dict.fromkeys(main.skipped + swept.skipped))
    experiment = Experiment(
        timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=args.threads,
        connections=args.connections,
        seconds=args.seconds,
        rounds=args.rounds,
        server_cpus=args.server_cpus,
        generator_cpus=args.client_cpus,
        versions=versions,
        measurements=tuple(main.measurements),
        sweep=tuple(swept.measurements),
        skipped=tuple(skipped),
        void=tuple(main.void + swept.void),
        restless=tuple(main.restless + swept.restless),
    )
    return experiment, interrupted


def write(experiment: Experiment, directory: Path) -> None:
    write_text(directory / "experiment.json", dump(experiment))
    for workload in sorted({m.workload for m in experiment.sweep}):
        write_text(directory / f"sweep-{workload}.svg", sweep_picture.svg(experiment, workload))


def run(args: argparse.Namespace) -> int:
    args.workload = args.workload or list(WORKLOADS)
    check(args)
    with tempfile.TemporaryDirectory(prefix="uvhttp-experiment-") as directory:
        experiment, interrupted = measure(args, Path(directory))
    if args.output and experiment.measurements:
        write(experiment, args.output)
    if args.format == "json":
        sys.stdout.write(dump(experiment))
    else:
        sys.stdout.write(experiment_table.markdown(experiment))
    if interrupted:
        return INTERRUPTED
    return UNSTABLE if experiment.void or experiment.restless else FINE
