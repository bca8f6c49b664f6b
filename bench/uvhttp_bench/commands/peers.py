"""Owns: the verb `peers`: the same scenarios on other servers."""

import argparse
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import measure, network, session, standard
from uvhttp_bench.commands.run import add_storage_arguments
from uvhttp_bench.exits import ERROR, FINE, UNSTABLE, MissingError, UsageError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.model import database
from uvhttp_bench.model.record import VALID
from uvhttp_bench.output import peers_table, tables
from uvhttp_bench.output.progress import Steps
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.standings import fields_of
from uvhttp_bench.stats.ratio import REACH_MAX, ROUNDS_MIN
from uvhttp_bench.targets import peers
from uvhttp_bench.targets.base import Target
from uvhttp_bench.targets.command import PORT, Command
from uvhttp_bench.targets.tomcat import WARMUP_SECONDS
from uvhttp_bench.versus import Options, Versus, available

HELP = "the same scenarios on nginx, h2o, Tomcat, Go and others: CPU per request, throughput, latency, memory"
ROUNDS_MAX = 20
MINUTES_MAX = 1440
SCENARIOS = ("medium", "https", "body-100kb", "https-100kb", "static-10kb", "static-1mb", "websocket")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="*", help=f"default: {', '.join(SCENARIOS)}; see `list`")
    parser.add_argument(
        "--servers", default="", help=f"of {', '.join(peers.known())} (default: all that are installed, without -copy)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS_MAX,
        help=f"at most (default {ROUNDS_MAX}); from {ROUNDS_MIN} on only while a ratio is not known to +-{REACH_MAX:.0%}%",
    )
    parser.add_argument("--minutes", type=float, help="time budget: no round starts later (default: none)")
    parser.add_argument("--seconds", type=int, default=2, help="of each run (default 2)")
    parser.add_argument("--rates", default="50,70,90", help="per cent of each one's capacity, open loop; '' for none")
    parser.add_argument(
        "--jvm-warmup", type=float, default=WARMUP_SECONDS, help="seconds before each run of Tomcat (default 10)"
    )
    session.add_tool_argument(parser)
    parser.add_argument("--server", type=Path, help="performance_test to measure (default: of this build)")
    parser.add_argument("--server-cpus", help="as in 0 or 0,2-3 (default: the first)")
    parser.add_argument("--generator-cpus", help="default: the others")
    network.add_argument(parser, several=True)
    parser.add_argument(
        "--cmd", action="append", default=[], metavar="NAME=COMMAND",
        help="a server of your own on port {port} of 127.0.0.1; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--url", action="append", default=[], metavar="/PATH", help="that the servers of --cmd serve too (default: / only)"
    )
    add_storage_arguments(parser)


def own_of(commands: Sequence[str], paths: Sequence[str]) -> list[Target]:
    """Servers of the reader's own, which respond as the scenarios of these paths ask for."""
    known = set(peers.known())
    found: list[Target] = []
    for text in commands:
        name, equals, command = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", name):
            raise UsageError(f"--cmd '{text}': expected NAME=COMMAND as in 'mine=./mine {PORT}'")
        if name in known:
            raise UsageError(f"--cmd '{text}': there is a server {name} already: choose another name")
        known.add(name)
        found.append(Command(name, command, {"/", *paths}))
    return found


def rates_of(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(f"--rates {text!r}: expected per cent separated by commas") from None
    if any(not 0 < rate <= 100 for rate in rates):
        raise UsageError(f"--rates {text!r}: allowed is above 0 up to 100")
    return rates


def scenarios_of(args: argparse.Namespace) -> list[Scenario]:
    """In a network of its own, large bodies are measured with the machine's congestion control as well."""
    chosen = catalog.choose(args.scenario or SCENARIOS)
    if args.congestion_control or not network.private():
        return catalog.under_each(chosen, args.congestion_control)
    return catalog.where_it_matters(chosen, network.machines_congestion_control())


def run(args: argparse.Namespace) -> int:
    if args.rounds < 1 or args.seconds < 1 or args.jvm_warmup < 1:
        raise UsageError("--rounds, --seconds and --jvm-warmup are at least 1")
    if args.minutes is not None and not 0 < args.minutes <= MINUTES_MAX:
        raise UsageError(f"--minutes {args.minutes:g}: allowed is above 0 up to {MINUTES_MAX}")
    rates = rates_of(args.rates)
    chosen = scenarios_of(args)
    names = [name.strip() for name in args.servers.split(",") if name.strip()]
    own = own_of(args.cmd, args.url)
    if args.url and not own:
        raise UsageError("--url is of the servers of --cmd: name one, as in --cmd 'mine=./mine {port}'")
    wanted = [*peers.choose(names, args.server.resolve() if args.server else None, args.jvm_warmup), *own]
    allow_many_files()
    cpus = measure.choose_cpus(args.server_cpus, args.generator_cpus)
    with Steps(0) as steps:
        targets, absent = available(wanted, steps.say)
        if not targets:
            raise MissingError("nothing to measure: " + "; ".join(absent))
        if rates and AtRate(1).missing():
            absent.append(f"latency at fixed rates: {AtRate(1).missing()}")
            steps.say(absent[-1])
            rates = ()
        options = Options(
            rounds=args.rounds,
            seconds=args.seconds,
            cpus=cpus,
            bandwidth_mb=measure.measure_bandwidth(),
            session=measure.session_name(),
            results=args.results,
            rates_percent=rates,
            deadline=math.inf if args.minutes is None else time.monotonic() + 60 * args.minutes,
        )
        with database.opened(args.database) as store:
            versus = Versus(options, lambda scenario: session.load_for(scenario, args.tool), store, steps.say)
            try:
                versus.run(chosen, targets)
            except KeyboardInterrupt:
                steps.say(f"interrupted: {len(versus.kept)} finished runs are kept in {args.results / 'peers'}")
                show(args.format, versus, targets, absent)
                raise
    show(args.format, versus, targets, absent)
    if not versus.kept:
        raise MissingError("nothing could be measured: " + "; ".join(versus.left_out or absent))
    standings = versus.standings(targets)
    if not any(standing.cpu_us for standing in standings):
        return ERROR
    return FINE if all(standing.status == VALID for standing in standings) else UNSTABLE


def show(form: str, versus: Versus, targets: list[Target], absent: list[str]) -> None:
    standings = versus.standings(targets)
    data = {"session": versus.options.session, "standings": standings, "left_out": [*absent, *versus.left_out]}
    fields = fields_of(versus.kept) if versus.kept else []
    notes = [*peers_table.notes(fields), *(f"left out: {line}" for line in (*absent, *versus.left_out))]
    notes += standard.warnings(versus.kept)
    notes.append(f"session {versus.options.session}")
    tables.show(form, peers_table.HEADS, peers_table.rows(fields), data, notes)
