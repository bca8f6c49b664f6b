"""The rule that says what a ratio is worth: a tie is never printed as a rank."""

import math
import random

import pytest

from uvhttp_bench.stats import ratio
from uvhttp_bench.stats.paired import Interval
from uvhttp_bench.stats.ratio import LESS, MORE, TIE, Named


@pytest.mark.parametrize(
    ("low", "middle", "high", "finding", "text"),
    [
        (0.97, 1.01, 1.05, TIE, "tie"),
        (1.00, 1.02, 1.04, TIE, "tie"),
        (1.004, 1.02, 1.04, TIE, "tie"),  # its end would be printed as 1.00
        (0.96, 0.98, 0.996, TIE, "tie"),
        (1.01, 1.03, 1.05, MORE, "1.03"),
        (0.80, 0.83, 0.86, LESS, "0.83"),
        (1.02, 1.20, 1.40, TIE, "tie"),  # beyond 1, and wider than 5 %
        (0.55, 0.70, 0.90, TIE, "tie"),
        (1.40, 1.50, 1.65, TIE, "tie"),
        (1.94, 2.10, 2.25, MORE, "> 1.94"),
        (8.40, 9.40, 10.5, MORE, "> 8.40"),  # wider than 5 %, and nobody would call it a tie
        (0.30, 0.36, 0.43, LESS, "< 0.43"),
        (12.1, 12.345, 12.6, MORE, "12.3"),
    ],
)
def test_what_an_interval_says(low: float, middle: float, high: float, finding: str, text: str) -> None:
    interval = Interval(low, middle, high)
    assert (ratio.finding(interval), ratio.text(interval)) == (finding, text)


def test_one_or_two_rounds_say_nothing() -> None:
    assert ratio.interval_of([0.5]) is None and ratio.interval_of([0.5, 0.5]) is None
    assert (ratio.finding(None), ratio.text(None), ratio.bounds(None)) == (TIE, "", "")
    assert not ratio.narrow(None)


@pytest.mark.parametrize("rounds", [3, 5, 6, 12])
def test_the_interval_holds_the_truth_as_often_as_it_says(rounds: int) -> None:
    noise = random.Random(rounds)
    held = 0
    for _ in range(1000):
        interval = ratio.interval_of([0.1 + noise.gauss(0, 0.05) for _ in range(rounds)])
        assert interval is not None
        held += interval.low <= math.exp(0.1) <= interval.high
    assert 930 <= held <= 985


def test_rounds_are_enough_when_the_interval_is_narrow_wherever_it_lies() -> None:
    for middle in (0.5, 1.0, 7.0):
        assert ratio.narrow(Interval(middle / 1.029, middle, middle * 1.029))
        assert not ratio.narrow(Interval(middle / 1.031, middle, middle * 1.031))


def test_servers_without_a_significant_difference_are_in_alphabetical_order() -> None:
    ratios = [
        Named("zeta", Interval(1.10, 1.12, 1.14)),
        Named("eta", Interval(1.13, 1.15, 1.17)),  # overlaps with zeta
        Named("far", Interval(2.0, 2.02, 2.04)),
        Named("about", Interval(1.3, 1.4, 1.6)),  # a tie by its width, and more than those before it
        Named("b", Interval(0.99, 1.0, 1.01)),
        Named("a", Interval(0.98, 1.01, 1.04)),
        Named("fast", Interval(0.80, 0.82, 0.84)),
        Named("once", None),
    ]
    assert ratio.ordered(ratios) == ["fast", "a", "b", "eta", "zeta", "about", "far", "once"]
    assert [[one.name for one in group] for group in ratio.grouped(ratios)][1] == ["a", "b"]
    swapped = [*ratios[1:], ratios[0]]
    assert ratio.ordered(swapped) == ratio.ordered(ratios)


def test_a_chain_of_overlaps_is_not_one_group() -> None:
    chain = [Named(f"s{n}", Interval(1.1 + 0.02 * n, 1.115 + 0.02 * n, 1.13 + 0.02 * n)) for n in range(6)]
    assert len(ratio.grouped(chain)) > 1
