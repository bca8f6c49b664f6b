"""Owns: where a series changes its level: E-divisive (Matteson and James, 2014), which asks for no distribution. A series is
split where the energy distance of its two parts is largest, if a shuffled series seldom has a larger one; each part is then
split in turn."""

import random
from collections.abc import Sequence

SEGMENT_MIN = 4  # points; fewer say nothing about a level
SHUFFLES = 199
SIGNIFICANCE = 0.02


def best_split(values: Sequence[float], least: int = SEGMENT_MIN) -> tuple[float, int]:
    """(energy, index of the first point of the second part). The sums of distances within and between the parts change by
    one point's distances with each step: a square of the length in all."""
    n = len(values)
    distance = [[abs(a - b) for b in values] for a in values]
    left, between = 0.0, 0.0
    right = sum(sum(row) for row in distance) / 2
    best, place = -1.0, 0
    for moved in range(n - 1):  # from right to left
        to_left = sum(distance[moved][:moved])
        to_right = sum(distance[moved][moved + 1 :])
        left += to_left
        right -= to_right
        between += to_right - to_left
        m = moved + 1
        k = n - m
        if m < least or k < least:
            continue
        # Means over pairs of different points, as the unbiased form has it.
        energy = 2 * between / (m * k) - left / (m * (m - 1) / 2) - right / (k * (k - 1) / 2)
        energy *= m * k / n
        if energy > best:
            best, place = energy, m
    return best, place


def change_points(
    values: Sequence[float], least: int = SEGMENT_MIN, shuffles: int = SHUFFLES, significance: float = SIGNIFICANCE
) -> list[int]:
    """Indexes at which a new level begins, ascending. The seed is fixed: the same series gives the same result."""
    found: list[int] = []
    source = random.Random(1)
    parts = [(0, len(values))]
    while parts:
        start, end = parts.pop()
        part = list(values[start:end])
        if len(part) < 2 * least or min(part) == max(part):
            continue
        energy, place = best_split(part, least)
        shuffled = list(part)
        larger = 0
        for _ in range(shuffles):
            source.shuffle(shuffled)
            larger += best_split(shuffled, least)[0] >= energy
        if (larger + 1) / (shuffles + 1) <= significance:
            found.append(start + place)
            parts += [(start, start + place), (start + place, end)]
    return sorted(found)
