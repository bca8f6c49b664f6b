"""Owns: the results of the self-check: what `compare` says of a build beside itself, and beside itself slowed by a known part.
The figures of every run are kept, so that anybody can judge them again."""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.codec import FormatError, from_json
from uvhttp_bench.model.record import Configuration, Environment
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.rates import Rate, rate
from uvhttp_bench.stats.verdict import Round, Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Comparison:
    """Rounds of A B B A, each figure the CPU time per request of a fresh process, in microseconds."""

    slowed: bool  # B is; else B is A
    rounds: tuple[Round, ...]
    restless: int = 0  # runs during which the machine did other things


@dataclass(frozen=True)
class SelfCheck:
    timestamp: str  # ISO 8601, UTC
    session: str
    environment: Environment
    configuration: Configuration  # of the server, as it says itself
    scenario: str
    tool: str
    seconds: float  # of each run
    rounds: int  # of each comparison
    threshold_percent: float  # asked for
    slower_percent: float  # known: so much more CPU time per request
    cpu_us: float  # per request, measured before the comparisons: what the percentage is of
    slow_ns: int  # burnt per request
    comparisons: tuple[Comparison, ...]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Outcome:
    """At one threshold."""

    threshold_percent: float
    regressed: Rate
    improved: Rate
    median_ratio: float | None  # B / A over the comparisons


def verdicts_of(check: SelfCheck, slowed: bool, threshold_percent: float) -> list[Verdict]:
    chosen = [c for c in check.comparisons if c.slowed == slowed and c.rounds]
    return [verdict.judge(check.scenario, verdict.CPU, c.rounds, threshold_percent / 100) for c in chosen]


def outcome(check: SelfCheck, slowed: bool, threshold_percent: float) -> Outcome:
    found = verdicts_of(check, slowed, threshold_percent)
    ratios = [v.ratio for v in found]
    said = [v.verdict for v in found]
    return Outcome(
        threshold_percent,
        rate(said.count(verdict.REGRESSED), len(said)),
        rate(said.count(verdict.IMPROVED), len(said)),
        statistics.median(ratios) if ratios else None,
    )


def read(path: Path) -> SelfCheck:
    try:
        return from_json(SelfCheck, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, FormatError) as error:
        raise BenchError(f"{path}: not what self-check writes: {error}") from error
