"""Owns: a record's figures and checks, computed again from what else it holds: totals, histogram, identity, inputs. A list of
lines says what differs, empty when nothing does."""

import math
from collections.abc import Iterable

from uvhttp_bench import evidence, gates, identity, load_checks, open_loop
from uvhttp_bench.loads.tcp_echo import TcpEcho
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import BUSY, LITTLE, Check, Record
from uvhttp_bench.versus import OUR_CHECKS

EXACT = 1e-6
RATE = 0.01  # of a tool that rounds its seconds
FANNED = 0.05  # several generators, each with its own seconds
BUCKET = 0.03  # a mean of the values of buckets, which are 3 % apart at most
ROUNDED_MS = 0.001


def _differ(name: str, recorded: float | None, found: float | None, part: float, least: float = 0.0) -> Iterable[str]:
    if recorded is None or found is None:
        if recorded is not found:
            yield f"{name} is {recorded}, from its record follows {found}"
    elif not math.isclose(recorded, found, rel_tol=part, abs_tol=max(least, 1e-9)):
        yield f"{name} is {recorded:.6g}, from its record follows {found:.6g}"


def _rates(record: Record) -> Iterable[str]:
    r = record.results
    if not r.seconds:
        return
    part = FANNED if " workers" in record.test_scenario.tool_version else RATE
    yield from _differ("requests_per_second", r.requests_per_second, r.total_requests / r.seconds, part, 0.01)
    yield from _differ("transfer_rate_mbps", r.transfer_rate_mbps, r.bytes_received / r.seconds / 2**20, part, 0.01)
    if record.test_scenario.tool == TcpEcho.name:
        return
    yield from _differ("error_rate", r.error_rate, r.errors.rate(r.total_requests, record.test_scenario.tool), EXACT)


def _latencies(record: Record) -> Iterable[str]:
    r, h = record.results, record.results.histogram
    if not h.count:
        return
    for percent, ms in ((50, r.latency_p50_ms), (95, r.latency_p95_ms), (99, r.latency_p99_ms), (99.9, r.latency_p999_ms)):
        one = Histogram() if ms is None else Histogram((round(ms * 1000),), (1,)).coarse()
        # A percentile of the coarse histogram is the bucket of that of the whole one.
        found, recorded = h.coarse().percentile_us(percent), one.max_us()
        yield from _differ(f"P{percent:g} (us)", recorded, found, EXACT)
    mean, stdev, largest = h.mean_us() or 0.0, h.stdev_us(), h.max_us() or 0
    yield from _differ("latency_avg_ms", r.latency_avg_ms, mean / 1000, BUCKET, ROUNDED_MS)
    if r.latency_stdev_ms is not None and stdev is not None:
        spread = BUCKET * (mean + stdev) / 1000 + ROUNDED_MS
        yield from _differ("latency_stdev_ms", r.latency_stdev_ms, stdev / 1000, BUCKET, spread)
    if r.latency_max_ms is not None:
        yield from _differ("latency_max_ms", r.latency_max_ms, largest / 1000, BUCKET, ROUNDED_MS)


def _resources(record: Record) -> Iterable[str]:
    i, r, run = record.inputs, record.resources, record.test_scenario
    if i.wall_seconds <= 0 or run.tool == TcpEcho.name:
        return
    for name, found in evidence.resources(i, record.results.total_requests).items():
        yield from _differ(name, getattr(r, name), found, EXACT)
    largest = max((mb for _, mb in i.memory_series), default=0.0)
    if r.memory_usage_mb is not None and r.memory_usage_mb < largest - 0.01:
        yield f"memory_usage_mb is {r.memory_usage_mb:.6g}, from its record follows at least {largest:.6g}"


def figures(record: Record) -> list[str]:
    return [*_rates(record), *_latencies(record), *_resources(record)]


# --- checks ---


def _of_load(record: Record) -> list[Check]:
    i, run = record.inputs, record.test_scenario
    if run.tool == TcpEcho.name:
        return load_checks.of_one_process(record.results, i)
    made = load_checks.of_load(record.results, run, i)
    return [check for check in made if run.loop == "closed" or check.name not in open_loop.CLOSED_CHECKS]


def expected(record: Record) -> list[Check]:
    made = identity.checks(record.identity)
    made += _of_load(record) if record.inputs.wall_seconds > 0 else [gates.errors(record.results)]
    if record.identity.ours:
        configuration = gates.configuration_of(record.configuration.build_info)
        made.append(gates.build(configuration))
        if record.test_scenario.tool != TcpEcho.name and record.inputs.wall_seconds > 0:
            made.append(gates.log(record.configuration.log_level, record.inputs.log_bytes))
    else:
        made = [check for check in made if check.name not in OUR_CHECKS]
    if record.test_scenario.loop == "open":
        made.append(open_loop.rate_served(record, record.test_scenario.rate_per_second))
    return made


def checks(record: Record) -> list[str]:
    """What a check says now and is not recorded so. A recorded one that is not known here is left to the chain."""
    recorded = {check.name: check for check in record.checks}
    found = []
    for check in expected(record):
        known = recorded.get(check.name)
        if known is None and check.name in (BUSY, LITTLE):
            known = recorded.get(BUSY if check.name == LITTLE else LITTLE)
        if known is None:
            found.append(f"the check {check.name} is missing: {check.detail}")
        elif (known.name, known.passed, known.takes, known.unstable) != (
            check.name, check.passed, check.takes, check.unstable
        ):  # fmt: skip
            said = "passed" if known.passed else "failed"
            found.append(f"the check {known.name} {said}, from its record follows: {check.detail}")
    return found
