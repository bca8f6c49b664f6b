"""Owns: wrk as the thesis of S3 uses it: its table of latency and of requests/s per thread, and totals to the byte.

wrk prints rounded figures; totals.lua adds the exact ones in a line of its own, after the run and at no cost to it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError

TOTALS_SCRIPT = Path(__file__).with_name("totals.lua")

_TIME_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6}
_COUNT = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_ROW = r"^\s+{}\s+(\S+)\s+(\S+)\s+(\S+)\s+([\d.]+)%"
_SOCKET_ERRORS = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


@dataclass(frozen=True)
class Spread:
    """A row of "Thread Stats"; within_percent: of the samples, nearer to the mean than one standard deviation."""

    mean: float
    stdev: float
    maximum: float
    within_percent: float


@dataclass(frozen=True)
class Table:
    latency_us: Spread
    rate: Spread  # requests/s of one thread
    percentiles_us: dict[str, float]
    requests: int
    bytes_received: int
    seconds: float
    errors_connect: int = 0
    errors_read: int = 0
    errors_write: int = 0
    errors_timeout: int = 0
    errors_status: int = 0

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def errors(self) -> int:
        sockets = self.errors_connect + self.errors_read + self.errors_write + self.errors_timeout
        return sockets + self.errors_status


def command(
    url: str, threads: int, connections: int, seconds: float, headers: Sequence[str] = (), script: Path = TOTALS_SCRIPT
) -> list[str]:
    options = [f"-t{min(threads, connections)}", f"-c{connections}", f"-d{max(1, round(seconds))}s"]
    more = [part for header in headers for part in ("-H", header)]
    return ["wrk", *options, "--latency", "--timeout", "30s", "-s", str(script), *more, url]


def _quantity(text: str, units: dict[str, float], what: str) -> float:
    found = re.fullmatch(r"(-?[\d.]+|-?nan)([A-Za-z]*)", text)
    if not found or found[2] not in units or "nan" in found[1]:
        raise BenchError(f"wrk: {text!r} is no {what}: not the output of wrk 4")
    return float(found[1]) * units[found[2]]


def _row(text: str, name: str, units: dict[str, float]) -> Spread:
    found = re.search(_ROW.format(name), text, re.MULTILINE)
    if not found:
        raise BenchError(f"wrk printed no line {name!r}: not the output of wrk 4, or no request came to an end")
    mean, stdev, maximum = (_quantity(found[i], units, name) for i in (1, 2, 3))
    return Spread(mean, stdev, maximum, float(found[4]))


def parse(text: str) -> Table:
    totals = re.search(r"^totals (\{.*\})$", text, re.MULTILINE)
    if not totals:
        raise BenchError(f"wrk printed no totals:\n{text.strip()}")
    exact = json.loads(totals[1])
    sockets = _SOCKET_ERRORS.search(text)
    errors = [int(number) for number in sockets.groups()] if sockets else [0, 0, 0, 0]
    status = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if exact["requests"] == 0:
        raise BenchError(f"wrk: no request came to an end (socket errors: {sum(errors)})")
    return Table(
        latency_us=_row(text, "Latency", _TIME_US),
        rate=_row(text, "Req/Sec", _COUNT),
        percentiles_us={name: float(value) for name, value in exact["percentiles_us"].items()},
        requests=int(exact["requests"]),
        bytes_received=int(exact["bytes"]),
        seconds=exact["duration_us"] / 1e6,
        errors_connect=errors[0],
        errors_read=errors[1],
        errors_write=errors[2],
        errors_timeout=errors[3],
        errors_status=int(status[1]) if status else 0,
    )
