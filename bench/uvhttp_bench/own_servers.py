"""Owns: `--cmd`: servers of the reader's own. What is asked of them, what their first responses say, and the verdict on two of
them in plain English."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from uvhttp_bench import measure
from uvhttp_bench.exits import UsageError
from uvhttp_bench.first_response import Response, first_response
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.measure import Cpus, Plan
from uvhttp_bench.scenarios.catalog import OWN, Scenario
from uvhttp_bench.stats import ratio, verdict
from uvhttp_bench.stats.verdict import Verdict
from uvhttp_bench.targets.base import Workspace, serve
from uvhttp_bench.targets.command import PORT, Command, name_of

CONNECTIONS = 50
CONNECTIONS_MAX, PIPELINE_MAX = 100_000, 1024
THREADS = 4  # of the load generator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("servers of your own, instead of revisions")
    group.add_argument(
        "--cmd", action="append", default=[], metavar="COMMAND",
        help="starts a server on port {port} of 127.0.0.1, which is also in $PORT; given twice",
    )  # fmt: skip
    group.add_argument(
        "--name", action="append", default=[], help="of a server, in the order of --cmd (default: its program)"
    )
    group.add_argument("--url", default="/", metavar="/PATH", help="with its query (default /)")
    group.add_argument("--method", default="GET", help="default GET")
    group.add_argument("--body", default="", metavar="TEXT", help="of the request")
    group.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="of the request; may be repeated"
    )
    group.add_argument("--expect-status", type=int, metavar="N", help="default: that of the first response, which is 2xx")
    group.add_argument("--vary", action="store_true", help="bodies differ between responses: compare the status only")
    group.add_argument("--connections", type=int, default=CONNECTIONS, help=f"default {CONNECTIONS}")
    group.add_argument("--pipeline", type=int, default=1, help="requests sent at once on a connection (default 1)")
    group.add_argument("--tls", action="store_true", help="the servers speak TLS; any certificate will do")


def given(args: argparse.Namespace) -> str:
    """The first of these options that is not at its default, or nothing."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    defaults = vars(parser.parse_args([]))
    return next((f"--{name.replace('_', '-')}" for name, value in defaults.items() if getattr(args, name) != value), "")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or name != name.strip() or "\n" in text or "\r" in text:
        raise UsageError(f"--header '{text}': expected 'Name: value'")
    return name, value.strip()


def scenario_of(args: argparse.Namespace) -> Scenario:
    """What is asked of each of them. What the response has to be follows from the first one."""
    for name, value, most in (("connections", args.connections, CONNECTIONS_MAX), ("pipeline", args.pipeline, PIPELINE_MAX)):
        if not 1 <= value <= most:
            raise UsageError(f"--{name} {value}: allowed is 1..{most}")
    if not args.url.startswith("/") or not args.url.isascii() or any(c.isspace() for c in args.url):
        raise UsageError(
            f"--url {args.url!r}: expected a path as in /x?y=1, percent-encoded; host and port are the command's"
        )
    if not (args.method.isascii() and args.method.isalpha()):
        raise UsageError(f"--method {args.method!r}: expected a word as in GET")
    if args.expect_status is not None and not 200 <= args.expect_status <= 599:
        raise UsageError(f"--expect-status {args.expect_status}: allowed is 200..599")
    return Scenario(
        f"{args.method} {args.url}", "servers of the reader's own", OWN, args.url,
        scheme="https" if args.tls else "http", method=args.method, threads=min(THREADS, args.connections),
        connections=args.connections, response_bytes=None, request_body=args.body.encode(), pipeline=args.pipeline,
        headers=tuple(_header(text) for text in args.header),
    )  # fmt: skip


def commands_of(args: argparse.Namespace) -> list[Command]:
    if len(args.cmd) != 2:
        raise UsageError(f"--cmd is given twice, once for each server: there is {len(args.cmd)}")
    if args.name and len(args.name) != 2:
        raise UsageError(f"--name is given twice or not at all: there is {len(args.name)}")
    programs = [name_of(text) for text in args.cmd]
    for text, program in zip(args.cmd, programs, strict=True):
        if not program or program.startswith(("-", "{")):
            raise UsageError(
                f"--cmd '{text}': there is no program in it: expected as in './mine {PORT}'; its name is --name's"
            )
    names = args.name or programs
    if names[0] == names[1]:
        names = ["A", "B"]
    return [Command(name, text) for name, text in zip(names, args.cmd, strict=True)]


def plans(
    args: argparse.Namespace, scenario: Scenario, made: Workspace, cpus: Cpus, limit: float, session: str,
    say: Callable[[str], None],
) -> tuple[dict[str, Plan], list[Response]]:  # fmt: skip
    """Starts each server once, says what it responds, and makes that the reference of all its later responses."""
    load = UvhttpLoad()
    found: dict[str, Plan] = {}
    responses: list[Response] = []
    status = args.expect_status
    for which, target in zip("ab", commands_of(args), strict=True):
        plan = measure.plan_for(target, load, cpus, limit, "compare", session, args.warm_up)
        with serve(target, scenario, made, cpus.server) as running:
            response = first_response(running, scenario, target.name, status, args.vary)
        say(response.line())
        status = response.status  # the second server's has to be the same
        responses.append(response)
        found[which] = replace(plan, revision="", dirty=False, scenario=response.expected_by(scenario))
    if not args.vary and responses[0].body != responses[1].body:
        sizes = " and ".join(f"{len(response.body):,}" for response in responses)
        say(f"The two bodies are not the same ({sizes} bytes): the verdict is about both, server and body.")
    return found, responses


# --- in words ---

# What b does, by how much, and the figure's unit, digits and name.
WORDS = {
    verdict.CPU.name: ("{b} uses {times} the CPU time of {a} per request", "us", 2, "CPU time per request"),
    verdict.THROUGHPUT.name: ("{b} serves {times} the requests per second of {a}", "requests/s", 0, "Requests per second"),
    verdict.LATENCY.name: ("{b} has {times} the P99 latency of {a}", "ms", 3, "P99 latency"),
}


def sentence(v: Verdict, a: str, b: str) -> str:
    """One finding. A tie is what the table calls one, and a ratio that is within what the machine alone makes."""
    words, unit, digits, figure = WORDS[v.metric]
    interval = f"95 % interval {number(v.ratio_low)} to {number(v.ratio_high)}"
    medians = f"{a} {v.median_a:,.{digits}f}, {b} {v.median_b:,.{digits}f} {unit}; {v.rounds} rounds"
    found = verdict.difference(v)
    if found == ratio.TIE:
        return f"{figure}: a tie; {b} / {a} is {number(v.ratio)} ({interval}): {medians}."
    if abs(math.log(v.ratio)) <= math.log1p(v.noise):
        noise = f"this machine alone made a difference of {100 * v.noise:.0f} %"
        return f"{figure}: a tie; {b} / {a} is {number(v.ratio)} ({interval}), but {noise}: {medians}."
    said = words.format(a=a, b=b, times=f"{number(v.ratio)} times")
    return f"{said} ({interval}), which is {found}: {medians}."


def number(ratio: float) -> str:
    """Three significant digits, and four near 1, where the distance from it counts."""
    if 0.9 < ratio < 1.1:
        return f"{ratio:.3f}"
    return f"{ratio:,.{max(0, 2 - math.floor(math.log10(ratio)))}f}"


def sentences(verdicts: Sequence[Verdict], a: str, b: str) -> list[str]:
    return [sentence(v, a, b) for v in verdicts]
