"""Owns: rounds of A B B A and B A A B in fresh processes one after another, and what they say. The order alternates, so that neither build is
always the first to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uvhttp_bench.model.record import Record
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Metric, Round, Verdict

ORDERS = ("abba", "baab")


@dataclass(frozen=True)
class Measured:
    """The four runs of a round, in the order in which each build had them."""

    a: tuple[Record, Record]
    b: tuple[Record, Record]


@dataclass(frozen=True)
class NotJudged:
    scenario: str
    metric: str
    why: str


def measure_round(number: int, run: Callable[[str], Record]) -> Measured:
    """run("a") and run("b") measure once. `number` counts from 0."""
    records: dict[str, list[Record]] = {"a": [], "b": []}
    for which in ORDERS[number % len(ORDERS)]:
        records[which].append(run(which))
    return Measured((records["a"][0], records["a"][1]), (records["b"][0], records["b"][1]))


def value(record: Record, metric: Metric) -> float | None:
    """None where a check has removed the figure, or there are too few samples for it."""
    if not record.holds(metric.figure):
        return None
    if metric.name == verdict.CPU.name:
        return record.resources.cpu_us_per_request
    found = getattr(record.results, metric.name)
    return float(found) if found else None


def _why(rounds: Sequence[Measured], metric: Metric) -> str:
    for measured in rounds:
        for record in (*measured.a, *measured.b):
            for check in record.checks:
                if not check.passed and not check.unstable and check.takes in ("all", "throughput"):
                    return f"{check.name}: {check.detail}"
    return "too few samples"


def usable(rounds: Sequence[Measured], metric: Metric) -> list[Round]:
    """The figures of the rounds in which none of the four runs has lost this one."""
    found = []
    for measured in rounds:
        a1, a2 = (value(record, metric) for record in measured.a)
        b1, b2 = (value(record, metric) for record in measured.b)
        if a1 and a2 and b1 and b2:
            found.append(Round(a1, b1, b2, a2))
    return found


def judge(
    scenario: str, rounds: Sequence[Measured], metrics: Sequence[Metric], threshold: float | None
) -> tuple[list[Verdict], list[NotJudged]]:
    """Before correction for how many are judged together (verdict.correct)."""
    judged, left = [], []
    for metric in metrics:
        found = usable(rounds, metric)
        if len(found) >= min(verdict.ROUNDS_MIN, len(rounds)) and found:
            judged.append(verdict.judge(scenario, metric, found, threshold))
        else:
            left.append(NotJudged(scenario, metric.name, f"{len(found)} of {len(rounds)} rounds: {_why(rounds, metric)}"))
    return judged, left
