"""Owns: the verb `check`: the gate on exact counts, for CI. A count is the same on a busy machine; a time is not, and none is
looked at here."""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench import processes, repository
from uvhttp_bench.exits import ERROR, FINE, MISSING, REGRESSION, MissingError, UsageError
from uvhttp_bench.interrupt import held
from uvhttp_bench.output import tables
from uvhttp_bench.output.progress import Steps

HELP = "exact counts against their bounds: system calls, allocations, instructions, memory (for CI)"
GATES = repository.ROOT / "test" / "gates"
SECONDS = 600
END_SECONDS = 5  # for a gate to put away what it has made
LINE = re.compile(r"^(ok|BROKEN)\s+(.*): (\S+) \(at most (\S+)\)(?:\s+(.*))?$")


@dataclass(frozen=True)
class Count:
    gate: str
    state: str  # ok, broken, skipped, failed
    figure: str
    value: float | None = None
    bound: float | None = None
    note: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(gate.stem for gate in sorted(GATES.glob("*.py")))
    parser.add_argument("gate", nargs="*", help=f"default: all of {names}")
    parser.add_argument("--build", type=Path, default=repository.BUILD, help="default %(default)s, with its tests")


def parse(gate: str, code: int, text: str) -> list[Count]:
    counts = []
    for line in text.splitlines():
        found = LINE.match(line)
        if found:
            state, figure, value, bound, note = found.groups()
            counts.append(Count(gate, "ok" if state == "ok" else "broken", figure, float(value), float(bound), note or ""))
    last = text.strip().splitlines()[-1] if text.strip() else f"exit {code}, and nothing printed"
    if code == MISSING:
        counts.append(Count(gate, "skipped", last.removeprefix("skipped: ")))
    elif code != FINE and not any(count.state == "broken" for count in counts):
        counts.append(Count(gate, "failed", last))
    return counts


def _end(process: "subprocess.Popen[str]", mark: str) -> None:
    """With all that it has started: servers too, which a gate that is killed cannot end."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    processes.kill_marked(mark)
    process.wait()


def _one(gate: Path, build: Path) -> list[Count]:
    mark = uuid.uuid4().hex
    environment = {**os.environ, "UVHTTP_BUILD_DIR": str(build), "PYTHONDONTWRITEBYTECODE": "1", processes.MARK: mark}
    process = None
    try:
        with held():
            process = subprocess.Popen(
                [sys.executable, str(gate)], env=environment, cwd=repository.ROOT, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
        text, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [Count(gate.stem, "failed", f"did not end within {SECONDS} s")]
    finally:
        if process:
            with held():
                _end(process, mark)
    return parse(gate.stem, process.returncode, text)


def exit_code(counts: Sequence[Count]) -> int:
    states = {count.state for count in counts}
    if "failed" in states:
        return ERROR
    if "broken" in states:
        return REGRESSION
    return FINE if "ok" in states else MISSING


def run(args: argparse.Namespace) -> int:
    known = {gate.stem: gate for gate in sorted(GATES.glob("*.py"))}
    for name in args.gate:
        if name not in known:
            raise UsageError(f"no gate '{name}'; there are: {', '.join(known)}")
    if not (args.build / "dist" / "bin" / "performance_test").is_file():
        raise MissingError(f"{args.build}: performance_test is not there: ./dev test build")
    chosen = [known[name] for name in args.gate or known]
    counts: list[Count] = []
    with Steps(len(chosen)) as steps:
        for gate in chosen:
            steps.begin(gate.stem)
            found = _one(gate, args.build)
            counts += found
            wrong = [count for count in found if count.state != "ok"]
            steps.done(
                "; ".join(f"{count.state}: {count.figure}" for count in wrong) or f"{len(found)} counts within bounds"
            )
    n = tables.number
    heads = ("gate", "state", "count", "value", "at most", "note")
    rows = [(c.gate, c.state, c.figure, n(c.value, 3), n(c.bound, 3), c.note) for c in counts]
    tables.show(args.format, heads, rows, counts)
    return exit_code(counts)
