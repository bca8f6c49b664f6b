"""Owns: what the standard reports of repeated runs: mean, standard deviation, quartiles, the 1.5 IQR rule, 3 sigma, and
whether the standard deviation is below 10 % of the mean. Outliers are marked, never taken out."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

IQR_FACTOR = 1.5
SIGMAS = 3.0
VARIATION_MAX = 0.10  # standard deviation over mean


@dataclass(frozen=True)
class Summary:
    count: int
    mean: float
    median: float
    stdev: float | None  # None: a single run has none
    minimum: float
    maximum: float
    quartile1: float
    quartile3: float
    outliers_iqr: tuple[int, ...]  # indexes of runs
    outliers_sigma: tuple[int, ...]

    @property
    def variation(self) -> float | None:
        return None if self.stdev is None or self.mean == 0 else self.stdev / abs(self.mean)

    @property
    def steady(self) -> bool:
        return self.variation is None or self.variation < VARIATION_MAX


def quantile(values: Sequence[float], fraction: float) -> float:
    """Linear between the two nearest, as numpy does."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarize(values: Sequence[float]) -> Summary:
    """Of at least one value."""
    mean = statistics.fmean(values)
    stdev = statistics.stdev(values) if len(values) > 1 else None
    first, third = quantile(values, 0.25), quantile(values, 0.75)
    reach = IQR_FACTOR * (third - first)
    return Summary(
        count=len(values),
        mean=mean,
        median=statistics.median(values),
        stdev=stdev,
        minimum=min(values),
        maximum=max(values),
        quartile1=first,
        quartile3=third,
        outliers_iqr=tuple(i for i, v in enumerate(values) if v < first - reach or v > third + reach),
        outliers_sigma=tuple(i for i, v in enumerate(values) if stdev and abs(v - mean) > SIGMAS * stdev),
    )
