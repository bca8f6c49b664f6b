"""Owns: how often something happened, with the interval that so few cases permit."""

import math
from dataclasses import dataclass

Z = 1.959963984540054  # of 95 %


@dataclass(frozen=True)
class Rate:
    found: int
    of: int
    low: float  # Wilson's 95 % interval
    high: float


def rate(found: int, of: int) -> Rate:
    """None of 20 is not never: Wilson's interval, which holds at the ends too."""
    if of == 0:
        return Rate(0, 0, 0.0, 1.0)
    part, square = found / of, Z * Z
    middle = (part + square / (2 * of)) / (1 + square / of)
    reach = Z / (1 + square / of) * math.sqrt(part * (1 - part) / of + square / (4 * of * of))
    return Rate(found, of, max(0.0, middle - reach), min(1.0, middle + reach))
