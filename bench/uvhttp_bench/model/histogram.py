"""Owns: a latency histogram kept whole. Percentiles come from it and are never averaged: two histograms are merged."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# A percentile with fewer samples than this beyond it is an anecdote: it stays blank.
SAMPLES_BEYOND_MIN = 10


# Buckets of an octave, as a power of two, in coarse().
OCTAVE_BITS = 6


def _bucket(value: int) -> int:
    """The middle of the bucket that value falls into."""
    shift = max(0, value.bit_length() - 1 - OCTAVE_BITS)
    return (value >> shift << shift) + (1 << shift >> 1)


@dataclass(frozen=True)
class Histogram:
    """counts[i] samples of values_us[i]; values ascend and each has a count of at least one."""

    values_us: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @staticmethod
    def of(pairs: Iterable[tuple[int, int]]) -> "Histogram":
        merged: Counter[int] = Counter()
        for value, count in pairs:
            merged[value] += count
        items = sorted((value, count) for value, count in merged.items() if count > 0)
        return Histogram(tuple(value for value, _ in items), tuple(count for _, count in items))

    @staticmethod
    def merge(histograms: Iterable["Histogram"]) -> "Histogram":
        return Histogram.of(pair for h in histograms for pair in zip(h.values_us, h.counts, strict=True))

    def coarse(self) -> "Histogram":
        """For files that are kept for good: 64 buckets to an octave, which is 0.8 % of a value; counts stay exact."""
        return Histogram.of((_bucket(v), c) for v, c in zip(self.values_us, self.counts, strict=True))

    @property
    def count(self) -> int:
        return sum(self.counts)

    def mean_us(self) -> float | None:
        total = self.count
        return sum(v * c for v, c in zip(self.values_us, self.counts, strict=True)) / total if total else None

    def stdev_us(self) -> float | None:
        mean, total = self.mean_us(), self.count
        if mean is None or total < 2:
            return None
        return float(
            (sum(c * (v - mean) ** 2 for v, c in zip(self.values_us, self.counts, strict=True)) / (total - 1)) ** 0.5
        )

    def max_us(self) -> int | None:
        return self.values_us[-1] if self.values_us else None

    def percentile_us(self, percent: float) -> int | None:
        """The smallest value that `percent` of the samples do not exceed; None where samples are too few to say."""
        total = self.count
        if total == 0 or total * (100 - percent) / 100 < SAMPLES_BEYOND_MIN - 1e-9:
            return None
        rank, seen = total * percent / 100, 0
        for value, count in zip(self.values_us, self.counts, strict=True):
            seen += count
            if seen >= rank - 1e-9:
                return value
        return self.values_us[-1]

    def percentile_ms(self, percent: float) -> float | None:
        value = self.percentile_us(percent)
        return None if value is None else value / 1000
