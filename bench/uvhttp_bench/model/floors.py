"""Owns: the standard's baselines: what a run of low, medium or high is graded against. They are floors, not aims."""

from dataclasses import dataclass

BELOW, MINIMUM, RECOMMENDED, REACHED = "below minimum", "minimum", "recommended", "standard's own"


@dataclass(frozen=True)
class Floor:
    """Each: minimum, recommended, and what the standard's authors had."""

    requests_per_second: tuple[float, float, float]
    latency_avg_ms: tuple[float, float, float]
    latency_p99_ms: tuple[float, float, float]


FLOORS = {
    "low": Floor((10000, 30000, 35864), (1, 0.5, 0.272), (10, 5, 1.3)),
    "medium": Floor((10000, 15000, 16544), (10, 5, 2.94), (50, 20, 8.2)),
    "high": Floor((10000, 14000, 14015), (50, 30, 36.63), (200, 100, 121)),
}


@dataclass(frozen=True)
class Figures:
    """What is graded; None: there is no such figure. `bounds`: of a server that waited for its load generator. Its rate can only be
    higher, its latencies only lower, so that a step which these figures reach is reached, and one that they miss is unknown."""

    requests_per_second: float | None
    latency_avg_ms: float | None
    latency_p99_ms: float | None
    bounds: bool = False


def grade(scenario: str, figures: Figures) -> str:
    """The lowest step that one of the three figures reaches; empty for a scenario without a floor, or without a figure."""
    floor = FLOORS.get(scenario)
    rate, mean_ms, p99_ms = figures.requests_per_second, figures.latency_avg_ms, figures.latency_p99_ms
    if floor is None or rate is None or mean_ms is None or p99_ms is None:
        return ""
    steps = 3
    for value, levels, higher in (
        (rate, floor.requests_per_second, True),
        (mean_ms, floor.latency_avg_ms, False),
        (p99_ms, floor.latency_p99_ms, False),
    ):
        reached = 0
        # The authors' high run missed their own recommendation (36.63 ms against 30): a step counts if those below do.
        for level in levels:
            if (value < level) if higher else (value > level):
                break
            reached += 1
        steps = min(steps, reached)
    return "" if figures.bounds and not steps else (BELOW, MINIMUM, RECOMMENDED, REACHED)[steps]
