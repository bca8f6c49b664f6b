"""Owns: what repeats of two sessions say about their ratio. They were not made in turn, so there are no pairs: Welch's interval
and test, on logarithms. With three or five repeats, which the standard asks for, a test on ranks could never decide."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench.stats.paired import Interval

CONFIDENCE = 0.95
STEPS_MAX = 300
TINY = 1e-300


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (Lentz)."""
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > TINY else TINY)
    value = d
    for m in range(1, STEPS_MAX):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            c = 1 + term / c
            d, c = 1 / (d if abs(d) > TINY else TINY), c if abs(c) > TINY else TINY
            value *= d * c
        if abs(d * c - 1) < 1e-12:
            break
    return value


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def student_p(t: float, freedom: float) -> float:
    """Two-sided."""
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def student_t(p: float, freedom: float) -> float:
    """Which t has this two-sided p."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > p:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > p else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Shift:
    """Of B from A, as logarithms of the ratio."""

    effect: Interval
    p: float  # two-sided, of "there is none"

    @property
    def reach(self) -> float:
        return (self.effect.high - self.effect.low) / 2


def welch(a: Sequence[float], b: Sequence[float]) -> Shift:
    """Of at least two positive values each."""
    logs = [[math.log(value) for value in values] for values in (a, b)]
    parts = [statistics.variance(one) / len(one) for one in logs]
    middle = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    if sum(parts) == 0:
        return Shift(Interval(middle, middle, middle), 0.0 if middle else 1.0)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(one) - 1) for part, one in zip(parts, logs, strict=True))
    error = math.sqrt(sum(parts))
    reach = student_t(1 - CONFIDENCE, freedom) * error
    return Shift(Interval(middle - reach, middle, middle + reach), student_p(middle / error, freedom))
