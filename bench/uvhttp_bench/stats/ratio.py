"""Owns: what a measured ratio says: less, more, or a tie. The one rule for tables, charts, reports and pages, so that nothing
ranks noise."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench.stats.paired import Interval, hodges_lehmann

ROUNDS_MIN = 6  # below, no interval without assumptions has 95 %
REACH_MAX = 0.03  # so narrow an interval is enough: no further round is run
SPREAD_MAX = 0.05  # a wider interval decides nothing near 1
NEAR = 0.005  # an end so close to 1 is printed as 1.00
FAR = 1.5  # beyond this factor an interval that is too wide is still no tie: its nearer end is a bound

LESS, TIE, MORE = "less", "tie", "more"

# Student's t of 97.5 %, by degrees of freedom, for fewer rounds than ROUNDS_MIN.
_STUDENT = {2: 4.303, 3: 3.182, 4: 2.776}


def interval_of(logarithms: Sequence[float]) -> Interval | None:
    """The ratio and its 95 % interval, of the logarithm in each round. From six rounds on as `compare` (Hodges and Lehmann);
    fewer have no such interval, and Student's is wide, as it should be. None of one or two rounds, which say nothing."""
    count = len(logarithms)
    if count < 3:
        return None
    if count >= ROUNDS_MIN:
        found = hodges_lehmann(logarithms)
    else:
        mean = statistics.fmean(logarithms)
        reach = _STUDENT[count - 1] * statistics.stdev(logarithms) / math.sqrt(count)
        found = Interval(mean - reach, mean, mean + reach)
    return Interval(math.exp(found.low), math.exp(found.middle), math.exp(found.high))


def spread(interval: Interval) -> float:
    """Half of the interval's width, as a part of the ratio."""
    return math.sqrt(interval.high / interval.low) - 1


def narrow(interval: Interval | None) -> bool:
    """Whether more rounds would tell nothing more. Knows the width alone, not where the ratio lies: to continue until this is
    true favours no outcome."""
    return interval is not None and spread(interval) <= REACH_MAX


def finding(interval: Interval | None) -> str:
    """A tie when the interval holds 1, or is wider than +-5 % and not beyond a factor of 1.5, or when there is none."""
    if interval is None or (interval.low <= 1 + NEAR and interval.high >= 1 - NEAR):
        return TIE
    if spread(interval) > SPREAD_MAX and interval.low < FAR and interval.high > 1 / FAR:
        return TIE
    return MORE if interval.low > 1 else LESS


def text(interval: Interval | None) -> str:
    """`tie`, the ratio, or a bound where the interval is too wide for a ratio. Too few rounds: nothing."""
    if interval is None:
        return ""
    found = finding(interval)
    if found == TIE:
        return TIE
    if spread(interval) > SPREAD_MAX:
        return f"> {figure(interval.low)}" if found == MORE else f"< {figure(interval.high)}"
    return figure(interval.middle)


def figure(ratio: float) -> str:
    """Three digits, which is more than any of these intervals is worth."""
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:.0f}"


def bounds(interval: Interval | None) -> str:
    return f"{figure(interval.low)}..{figure(interval.high)}" if interval else ""


def with_bounds(interval: Interval | None) -> str:
    """In one cell: a table of many columns does not fit a telephone."""
    return f"{text(interval)} ({bounds(interval)})" if interval else ""


@dataclass(frozen=True)
class Named:
    name: str
    interval: Interval | None


def grouped(ratios: Sequence[Named]) -> list[list[Named]]:
    """From the least to the most. Those that cannot be distinguished share a group, in alphabetical order: nobody wins by noise.
    A group is what overlaps with the interval of its first; those without an interval come last."""
    groups: list[list[Named]] = []
    reach = 0.0  # of the group's first
    for one in sorted((r for r in ratios if r.interval), key=lambda r: (r.interval.middle if r.interval else 0, r.name)):
        if one.interval and groups and one.interval.low <= reach:
            groups[-1].append(one)
        elif one.interval:
            groups.append([one])
            reach = one.interval.high
    without = [r for r in ratios if not r.interval]
    return [sorted(group, key=lambda r: r.name.lower()) for group in [*groups, without] if group]


def ordered(ratios: Sequence[Named]) -> list[str]:
    return [one.name for group in grouped(ratios) for one in group]
