"""Owns: the table of figures next to the standard's floors."""

from collections.abc import Iterable

from uvhttp_bench.model import floors
from uvhttp_bench.output import words
from uvhttp_bench.output.tables import number
from uvhttp_bench.summary import ScenarioSummary

HEADS = ("scenario", "figure", "minimum", "recommended", "standard's own", "measured", "grade")
BOUNDS = "the load generator was slower than the server: its rate is at least, its latency at most what is shown"


def rows(summaries: Iterable[ScenarioSummary]) -> list[tuple[str, ...]]:
    """Three of each scenario that has a floor; bounds are marked as such."""
    found: list[tuple[str, ...]] = []
    for s in summaries:
        floor = floors.FLOORS.get(s.scenario)
        if not floor:
            continue
        at_least, at_most = (">= ", "<= ") if s.graded.bounds else ("", "")
        for name, levels, value, mark, digits in (
            ("req/s", floor.requests_per_second, s.graded.requests_per_second, at_least, 0),
            ("mean ms", floor.latency_avg_ms, s.graded.latency_avg_ms, at_most, 3),
            ("P99 ms", floor.latency_p99_ms, s.graded.latency_p99_ms, at_most, 3),
        ):
            measured = "" if value is None else mark + number(value, digits)
            steps = (number(level, digits) for level in levels)
            found.append((s.scenario, name, *steps, measured, s.grade or words.STATUS[s.status]))
    return found


def notes(summaries: Iterable[ScenarioSummary]) -> list[str]:
    bounded = [s.scenario for s in summaries if s.scenario in floors.FLOORS and s.graded.bounds]
    return [f"{', '.join(bounded)}: {BOUNDS}"] if bounded else []
