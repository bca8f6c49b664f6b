"""Owns: whether memory grows. A line through all samples would see a cache that fills once as growth: the slope is the median
of the slopes of all pairs (Theil-Sen), after the first part of the run."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SETTLE_PART = 0.25  # of the run, in which memory may still be allocated
POINTS_MAX = 200  # pairs grow with the square
GROWTH_MB_MIN = 1.0  # an allocator breathes
GROWTH_PART_MIN = 0.05


@dataclass(frozen=True)
class Growth:
    leaks: bool
    mb_per_hour: float
    grown_mb: float  # what that slope makes of the part that was looked at
    start_mb: float
    end_mb: float


def slope(points: Sequence[tuple[float, float]]) -> float:
    """MB per second."""
    step = max(1, -(-len(points) // POINTS_MAX))
    kept = points[::step]
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(kept) for x2, y2 in kept[i + 1 :] if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def growth(samples: Sequence[tuple[float, float]]) -> Growth:
    """Of (seconds, MB), at least two."""
    settled = samples[-1][0] * SETTLE_PART
    points = [point for point in samples if point[0] >= settled]
    rate = slope(points)
    grown = rate * (points[-1][0] - points[0][0])
    start = statistics.median(y for _, y in points[: max(1, len(points) // 10)])
    end = statistics.median(y for _, y in points[-max(1, len(points) // 10) :])
    # Both: the slope of most pairs, and what is there at the end. One step, however large, is not a slope.
    least = max(GROWTH_MB_MIN, GROWTH_PART_MIN * start)
    return Growth(grown > least and end - start > least, rate * 3600, grown, start, end)
