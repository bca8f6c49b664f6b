"""Owns: a run in slices: servers that are all alive are put under load for half a second each, in turn, several times over. What
the machine does for seconds meets all of them. The slices of one server are one record."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from uvhttp_bench import evidence, load_checks
from uvhttp_bench.model.evidence import Inputs
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import BUSY, LITTLE, Check, Errors, Record, Resources, Results

SECONDS = 0.5
SECONDS_TLS = 1.0  # connections are made anew for each slice, and a handshake costs as much as many requests


def count(seconds: float, scheme: str, exact_seconds: bool) -> int:
    """Into how many slices so many seconds are divided. `exact_seconds`: the tool can run for a part of a second."""
    each = (SECONDS_TLS if scheme == "https" else SECONDS) if exact_seconds else 1.0
    return max(1, round(seconds / each))


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """None where a slice has none."""
    known = [value for value in values if value is not None]
    total = sum(weights)
    if len(known) < len(values) or not total:
        return None
    return sum(value * weight for value, weight in zip(known, weights, strict=True)) / total


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _results(slices: Sequence[Results], tool: str) -> Results:
    requests = [s.total_requests for s in slices]
    seconds, total = sum(s.seconds for s in slices), sum(requests)
    received = sum(s.bytes_received for s in slices)
    errors = Errors(**{f.name: sum(getattr(s.errors, f.name) for s in slices) for f in fields(Errors)})
    histogram = Histogram.merge(s.histogram for s in slices)
    mean = _mean([s.latency_avg_ms for s in slices], requests)
    squares = [
        None if s.latency_avg_ms is None or s.latency_stdev_ms is None else s.latency_stdev_ms**2 + s.latency_avg_ms**2
        for s in slices
    ]
    square = _mean(squares, requests)
    return Results(
        total_requests=total,
        requests_per_second=total / seconds if seconds else 0.0,
        latency_avg_ms=mean,
        latency_p50_ms=histogram.percentile_ms(50),
        latency_p95_ms=histogram.percentile_ms(95),
        latency_p99_ms=histogram.percentile_ms(99),
        latency_p999_ms=histogram.percentile_ms(99.9),
        transfer_rate_mbps=_mean([s.transfer_rate_mbps for s in slices], [s.seconds for s in slices]) or 0.0,
        latency_stdev_ms=None if square is None or mean is None else math.sqrt(max(0.0, square - mean**2)),
        latency_max_ms=_largest([s.latency_max_ms for s in slices]),
        seconds=seconds,
        bytes_received=received,
        errors=errors,
        error_rate=errors.rate(total, tool),
        histogram=histogram,
        histogram_corrected=Histogram.merge(s.histogram_corrected for s in slices),
    )


def _resources(slices: Sequence[Record], inputs: Inputs) -> Resources:
    """What follows from the sums, and means of the rest; a series in time has no meaning here, because the slices have others in
    between."""
    found = [s.resources for s in slices]
    seconds = [s.results.seconds for s in slices]
    made: dict[str, Any] = {
        f.name: _mean([getattr(r, f.name) for r in found], seconds)
        for f in fields(Resources)
        if not isinstance(getattr(found[0], f.name), tuple)
    }
    made["memory_usage_mb"] = _largest([r.memory_usage_mb for r in found])
    made["memory_start_mb"] = found[0].memory_start_mb
    if inputs.wall_seconds > 0:
        made |= evidence.resources(inputs, sum(s.results.total_requests for s in slices))
    return Resources(**made)


def _checks(slices: Sequence[Record], merged: Record) -> tuple[Check, ...]:
    """What follows from totals is asked of the totals: half a second is too short for it. Any other check has to pass in each."""
    again = {check.name: check for check in load_checks.of_load(merged.results, merged.test_scenario, merged.inputs)}
    law = again.get(BUSY) or again.get(LITTLE)
    kept: dict[str, Check] = {}
    for check in (check for one in slices for check in one.checks):
        name = LITTLE if check.name == BUSY else check.name
        if name not in kept or kept[name].passed:
            kept[name] = check
    return tuple((law if name == LITTLE else again.get(name)) or check for name, check in kept.items())


def combined(slices: Sequence[Record]) -> Record:
    """Of at least one slice of one server."""
    first = slices[0]
    if len(slices) == 1:
        return first
    duration = sum(s.test_scenario.duration for s in slices)
    scenario = replace(first.test_scenario, duration=duration, slices=len(slices))
    inputs = evidence.summed([s.inputs for s in slices])
    merged = replace(
        first,
        test_scenario=scenario,
        results=_results([s.results for s in slices], scenario.tool),
        resources=_resources(slices, inputs),
        inputs=inputs,
        identity=slices[-1].identity,
        counts=slices[-1].counts,
    )
    return replace(merged, checks=_checks(slices, merged))
