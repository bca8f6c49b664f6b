"""Owns: statistics of pairs: bootstrap interval of the median, Wilcoxon's signed-rank test, Holm's correction. The numbers
come in as log-ratios, so that twice as slow and twice as fast are equally far from equal."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
RESAMPLES = 2000
EXACT_MAX = 50  # pairs up to which Wilcoxon's distribution is counted out


@dataclass(frozen=True)
class Interval:
    low: float
    middle: float
    high: float


def log_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    return [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]


def bootstrap_median(values: Sequence[float], seed: int = 1, resamples: int = RESAMPLES) -> Interval:
    """Percentile bootstrap. The seed is fixed: the same rounds give the same verdict."""
    random_source = random.Random(seed)
    medians = sorted(statistics.median(random_source.choices(values, k=len(values))) for _ in range(resamples))
    tail = (1 - CONFIDENCE) / 2
    low = medians[int(tail * resamples)]
    high = medians[min(resamples - 1, math.ceil((1 - tail) * resamples) - 1)]
    return Interval(low, statistics.median(values), high)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2 + 1
        start = end + 1
    return ranks


def _exact_tail(doubled_ranks: Sequence[int], doubled_statistic: int) -> float:
    """P(sum of the positive ranks <= statistic): every combination of signs is equally likely. Doubled, because ranks of
    ties are halves."""
    ways = [0] * (sum(doubled_ranks) + 1)
    ways[0] = 1
    for rank in doubled_ranks:
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return sum(ways[: doubled_statistic + 1]) / float(1 << len(doubled_ranks))


def wilcoxon(differences: Sequence[float]) -> float:
    """Two-sided p of "the differences lie around zero". Zeros are left out, as Wilcoxon did."""
    moved = [d for d in differences if d != 0]
    if not moved:
        return 1.0
    ranks = _ranks([abs(d) for d in moved])
    positive = sum(rank for rank, d in zip(ranks, moved, strict=True) if d > 0)
    n = len(moved)
    smaller = min(positive, n * (n + 1) / 2 - positive)
    if n <= EXACT_MAX:
        return min(1.0, 2 * _exact_tail([round(2 * rank) for rank in ranks], round(2 * smaller)))
    ties = {rank: ranks.count(rank) for rank in ranks}
    variance = n * (n + 1) * (2 * n + 1) / 24 - sum(t**3 - t for t in ties.values()) / 48
    z = (smaller - n * (n + 1) / 4) / math.sqrt(variance)
    return min(1.0, math.erfc(-z / math.sqrt(2)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p in the order given: the chance of one false alarm among all of them stays below the level."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - place)))
        adjusted[index] = highest
    return adjusted
