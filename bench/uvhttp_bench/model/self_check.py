"""Owns: the results of the self-check: what `compare` says of a build next to itself, and next to itself slowed by a known part.
The figures of every run are kept, so that anybody can judge them again."""

import json
import math
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
    """Rounds of two A and two B, each figure the CPU time per request of a fresh process, in microseconds."""

    slowed: bool  # B is; else B is A
    rounds: tuple[Round, ...]
    restless: int = 0  # rounds (runs, where not `together`) during which the machine did other things
    slow_ns: int = 0  # burnt per request by B; 0 in a slowed one: that of the whole self-check


@dataclass(frozen=True)
class SelfCheck:
    timestamp: str  # ISO 8601, UTC
    session: str
    environment: Environment
    configuration: Configuration  # of the server, as it says itself
    scenario: str
    tool: str
    seconds: float  # of each run
    rounds: int  # of each comparison; `together`: at most
    threshold_percent: float  # asked for
    slower_percent: float  # known: so much more CPU time per request
    cpu_us: float  # per request, measured before the comparisons: what the percentage is of
    slow_ns: int  # burnt per request: so many are the percentage of that
    comparisons: tuple[Comparison, ...]
    together: bool = False  # the four of a round were under load at the same moment; else one after another
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Outcome:
    """At one threshold."""

    threshold_percent: float
    regressed: Rate
    improved: Rate
    median_ratio: float | None  # B / A: median over the comparisons of the median of each


def judged(check: SelfCheck, comparison: Comparison, threshold_percent: float) -> Verdict:
    return verdict.judge(check.scenario, verdict.CPU, comparison.rounds, threshold_percent / 100)


def outcome(check: SelfCheck, slowed: bool, threshold_percent: float) -> Outcome:
    chosen = [c for c in check.comparisons if c.slowed == slowed and c.rounds]
    found = [judged(check, c, threshold_percent) for c in chosen]
    ratios = [math.exp(statistics.median(r.effect() for r in c.rounds)) for c in chosen]
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
