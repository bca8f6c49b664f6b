"""Owns: the verb `experiment`: S3's comparison with Tomcat."""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from uvhttp_bench import environment, gates, network, repository
from uvhttp_bench.exits import ERROR, FINE, INTERRUPTED, UNSTABLE, BenchError, MissingError, UsageError
from uvhttp_bench.loads import thesis
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.loads.wrk import Wrk
from uvhttp_bench.measure import session_name
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.model.experiment import Experiment
from uvhttp_bench.output import experiment_table, sweep_picture
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.scenarios.thesis import MODES, SWEEP_DEFAULT, WORKLOADS
from uvhttp_bench.targets.base import Ports, Workspace, workspace
from uvhttp_bench.targets.tomcat import Tomcat
from uvhttp_bench.targets.uvhttp import Uvhttp

SERVER = repository.PROGRAMS / "performance_test"
HELP = (
    "the experiment of S3 against Tomcat: event loop, worker threads, coroutines and a thread per request; publish shows it"
)


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
    parser.add_argument("--engine", choices=("auto", "uring", "epoll"), default="auto")
    parser.add_argument("--server", type=Path, default=SERVER, help="performance_test to measure")
    network.always_default(parser)
    parser.add_argument("--server-cpus", type=numbers, default=(0,), help="default 0")
    parser.add_argument("--client-cpus", type=numbers, default=(1,), help="default 1")
    parser.add_argument("--warmup", type=float, default=1, help="seconds for each of our routes (default 1)")
    parser.add_argument("--jvm-warmup", type=float, default=10, help="seconds for each of Tomcat's routes (default 10)")
    parser.add_argument("--tomcat-threads", type=int, default=200, help="default 200, which is Tomcat's own")
    parser.add_argument("--sweep", type=numbers, default=SWEEP_DEFAULT, help="worker threads (default 1,2,4..256); '': none")
    parser.add_argument("--output", type=Path, help="directory for experiment.json, experiment.md and sweep-*.svg")


def check(args: argparse.Namespace) -> None:
    if min(args.seconds, args.rounds, args.threads, args.connections, args.tomcat_threads) < 1:
        raise UsageError("--seconds, --rounds, --threads, --connections and --tomcat-threads are at least 1")
    allowed = os.sched_getaffinity(0)
    for cpu in (*args.server_cpus, *args.client_cpus):
        if cpu not in allowed:
            raise UsageError(f"CPU {cpu} is not one that this process may use: {sorted(allowed)}")
    if set(args.server_cpus) & set(args.client_cpus) or not args.server_cpus or not args.client_cpus:
        raise UsageError("server and load generator need a CPU each: --server-cpus, --client-cpus")
    reason = Wrk().missing()
    if reason:
        raise MissingError(reason)


def say(text: str) -> None:
    print(text, file=sys.stderr)


def contenders(args: argparse.Namespace, log: thesis.Log) -> list[thesis.Contender]:
    tomcat = Tomcat(args.tomcat_threads)
    found = [
        thesis.Contender("uvhttp", Uvhttp(args.engine, program=args.server.resolve()), MODES, args.warmup),
        thesis.Contender("tomcat", tomcat, {"thread": ""}, args.jvm_warmup),
    ]
    for contender in found:
        reason = contender.target.missing()
        if reason:
            say(reason)
            log.skipped.append(reason)
    able = [contender for contender in found if not contender.target.missing()]
    if not able:
        raise MissingError("nothing to measure: " + "; ".join(log.skipped))
    return able


def sweep(args: argparse.Namespace, plan: thesis.Plan, log: thesis.Log) -> None:
    for count in args.sweep:
        server = Workers(args.engine, program=args.server.resolve())
        server.worker_threads = count
        if server.missing():
            return
        say(f"sweep: {count} worker threads")
        # No warm-up: what is left of it in the workers' queue would be there in the measured seconds.
        contender = thesis.Contender("uvhttp", server, {"worker": MODES["worker"]}, 0, count)
        try:
            thesis.measure_contender(plan, contender, [WORKLOADS[name] for name in args.workload], 1, log)
        except BenchError as error:
            log.skipped.append(f"sweep: {error}")
        if log.skipped:
            return  # no such route or option: no need to ask for each number


class Workers(Uvhttp):
    worker_threads = 0

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        return [*super().command(scenario, ports, workspace), "--worker-threads", str(self.worker_threads)]


def measure(args: argparse.Namespace, made: Workspace) -> tuple[Experiment, bool]:
    """Returns what was measured, and whether it was interrupted."""
    log, swept = thesis.Log(), thesis.Log()
    able = contenders(args, log)
    plan = thesis.Plan(args.threads, args.connections, args.seconds, args.server_cpus, args.client_cpus, made)
    interrupted = False
    try:
        thesis.in_iteration(plan, able, [WORKLOADS[name] for name in args.workload], args.rounds, log, say)
        sweep(args, plan, swept)
    except KeyboardInterrupt:
        interrupted = True
    info = Uvhttp(args.engine, program=args.server.resolve()).build_info()
    ours = args.server.resolve() == SERVER.resolve()
    experiment = Experiment(
        timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=args.threads,
        connections=args.connections,
        seconds=args.seconds,
        rounds=args.rounds,
        server_cpus=args.server_cpus,
        generator_cpus=args.client_cpus,
        versions={c.name: "; ".join(c.target.build_info().split("\n")).strip("; ") for c in able},
        measurements=tuple(log.measurements),
        sweep=tuple(swept.measurements),
        skipped=tuple(dict.fromkeys(log.skipped + swept.skipped)),
        void=tuple(log.void + swept.void),
        restless=tuple(log.restless + swept.restless),
        revision=repository.revision() if ours else "",
        dirty=ours and repository.dirty(),
        environment=environment.capture(*gates.compiler_of(info)),
        configuration=gates.configuration_of(info, engine=args.engine) if info else None,
    )
    return experiment, interrupted


def write(experiment: Experiment, directory: Path) -> None:
    write_text(directory / "experiment.json", dump(experiment))
    text = "# The experiment of S3 against Tomcat\n\n" + experiment_table.markdown(experiment)
    for workload in sorted({m.workload for m in experiment.sweep}):
        write_text(directory / f"sweep-{workload}.svg", sweep_picture.svg(experiment, workload))
        text += f"\n![requests/s against worker threads, {workload}](sweep-{workload}.svg)\n"
    write_text(directory / "experiment.md", text)


def run(args: argparse.Namespace) -> int:
    args.workload = args.workload or list(WORKLOADS)
    check(args)
    allow_many_files()
    with workspace() as made:
        experiment, interrupted = measure(args, made)
    if experiment.measurements:
        name = session_name()
        write_text(repository.EXPERIMENTS / f"{name}.json", dump(experiment))
        say(f"kept in {repository.EXPERIMENTS / name}.json, for publish")
        if args.output:
            write(experiment, args.output)
    if args.format == "json":
        sys.stdout.write(dump(experiment))
    else:
        sys.stdout.write(experiment_table.markdown(experiment))
    if interrupted:
        return INTERRUPTED
    if not experiment.measurements:
        why = [*experiment.void, *experiment.skipped]
        say(f"nothing was measured: {why[0] if why else 'no route was asked for'}")
        return ERROR
    return UNSTABLE if experiment.void or experiment.restless else FINE
