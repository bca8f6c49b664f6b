"""Owns: statistics of pairs: Wilcoxon's signed-rank test and the estimate and interval of Hodges and Lehmann that belong to it,
the bootstrap interval of a median, Holm's correction. The numbers come in as log-ratios, so that twice as slow and twice as
fast are equally far from equal."""

import functools
import itertools
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

    @property
    def reach(self) -> float:
        """How far from its middle it goes."""
        return (self.high - self.low) / 2


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


@functools.cache
def _place_of_end(count: int) -> int:
    """The number, from each end, of the mean value of a pair that is the end of the interval; 0: there is none so narrow."""
    tail = (1 - CONFIDENCE) / 2
    if count > EXACT_MAX:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return 1 + math.floor(count * (count + 1) / 4 - statistics.NormalDist().inv_cdf(1 - tail) * spread)
    ranks = [2 * rank for rank in range(1, count + 1)]
    critical = 0
    while _exact_tail(ranks, 2 * critical) <= tail:
        critical += 1
    return critical


def hodges_lehmann(values: Sequence[float]) -> Interval:
    """The median of the mean values of all pairs, and the interval of what Wilcoxon's test does not reject. Nearly as narrow
    as that of the mean where noise is normal, and a few wild values move it little. Of fewer than six: all that was seen."""
    means = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    place = max(1, _place_of_end(len(values)))
    return Interval(means[place - 1], statistics.median(means), means[-place])


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


@functools.lru_cache(maxsize=EXACT_MAX)
def _signs(doubled_ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Of all combinations of signs, how many have a sum of the positive ranks up to each. Doubled, because ranks of ties are
    halves; kept, because all samples of one size without ties have the same."""
    ways = [0] * (sum(doubled_ranks) + 1)
    ways[0] = 1
    for rank in doubled_ranks:
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return tuple(itertools.accumulate(ways))


def _exact_tail(doubled_ranks: Sequence[int], doubled_statistic: int) -> float:
    """P(sum of the positive ranks <= statistic): every combination of signs is equally likely."""
    return _signs(tuple(sorted(doubled_ranks)))[doubled_statistic] / float(1 << len(doubled_ranks))


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
