"""Owns: wrk's table "Thread Stats", the form in which S3 gives its results. The figures are wrk's own, as it prints them:
rounded, and its latency filled up for stalls; what is exact comes from loads/wrk.py."""

import re

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.experiment import Spread

_TIME_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
_COUNT = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def _quantity(text: str, units: dict[str, float]) -> float:
    found = re.fullmatch(r"([\d.]+)([A-Za-z]*)", text)
    if not found or found[2] not in units:
        raise BenchError(f"wrk printed {text!r} in its table: not the output of wrk 4")
    return float(found[1]) * units[found[2]]


def _row(text: str, name: str, units: dict[str, float]) -> Spread:
    found = re.search(rf"^\s+{name}\s+(\S+)\s+(\S+)\s+(\S+)\s+([\d.]+)%", text, re.M)
    if not found:
        raise BenchError(f"wrk printed no line {name!r}: not the output of wrk 4, or no request came to an end")
    mean, stdev, maximum = (_quantity(found[i], units) for i in (1, 2, 3))
    return Spread(mean, stdev, maximum, float(found[4]))


def latency_ms(text: str) -> Spread:
    return _row(text, "Latency", _TIME_MS)


def rate_per_thread(text: str) -> Spread:
    return _row(text, "Req/Sec", _COUNT)
