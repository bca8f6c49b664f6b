"""Owns: what the repeats of one scenario say together. Percentiles come from the merged histogram: they are not averaged."""

from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench.model import floors
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import BOUNDED, BUSY, UNSTABLE, VALID, VOID, Record, worst
from uvhttp_bench.stats.descriptive import Summary, summarize


@dataclass(frozen=True)
class ScenarioSummary:
    scenario: str
    target: str
    runs: int
    status: str  # the worst of the runs; unstable also when they differ by more than the standard permits
    requests_per_second: Summary  # where `rate_holds` is false, a lower bound at best: rate_text()
    latency_avg_ms: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    latency_p999_ms: float | None
    latency_max_ms: float | None
    error_rate: float
    cpu_us_per_request: Summary | None
    memory_usage_mb: float | None
    context_switches_per_sec: float | None
    system_calls_per_request: float | None
    transfer_rate_mbps: float
    grade: str  # of `graded`, against the standard's floors; empty where there is none, or no figure to grade
    reasons: tuple[str, ...]  # checks that failed, each once
    graded: floors.Figures
    rate_holds: bool = True

    def rate_text(self, digits: int = 0) -> str:
        """A rate that the load generator has set is one that the server can exceed; one of discarded runs is none."""
        return self._bound(self.requests_per_second.median, digits)

    def transfer_text(self, digits: int = 2) -> str:
        return self._bound(self.transfer_rate_mbps, digits)

    def _bound(self, value: float, digits: int) -> str:
        if self.status == VOID:
            return ""
        return ("" if self.rate_holds else ">= ") + f"{value:,.{digits}f}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _bounds(records: Sequence[Record], rate: float, p99_ms: float | None) -> floors.Figures:
    """Of runs whose load generator was too slow for the server, and nothing else was wrong with.

    Mean: a closed loop has at most its N requests under way, so that by Little's law a faster generator would see N / X at most,
    and its X would not be smaller. P99: what the generator saw contains its own delay, as long as all N were under way; when it
    left connections idle (the check `BUSY`), they were not, and a faster one might see more."""
    run, pipeline = records[0].test_scenario, max(record.inputs.pipeline for record in records)
    idle = any(check.name == BUSY and not check.passed for record in records for check in record.checks)
    mean_ms = 1000 * run.connections * pipeline / rate if rate else None
    return floors.Figures(rate, mean_ms, None if idle else p99_ms, bounds=True)


def summarize_records(records: Sequence[Record]) -> ScenarioSummary:
    """Of at least one record of one scenario and target."""
    histogram = Histogram.merge(record.results.histogram for record in records)
    rate = summarize([record.results.requests_per_second for record in records])
    cpu = [record.resources.cpu_us_per_request for record in records if record.holds("cpu")]
    known_cpu = [value for value in cpu if value is not None]
    reasons = {f"{check.name}: {check.detail}": None for r in records for check in r.checks if not check.passed}
    status = worst(records)
    if status == VALID and not rate.steady:
        status = UNSTABLE
        reasons[f"repeats: standard deviation is {rate.variation or 0:.0%} of the mean, 10 % is allowed"] = None
    # A tool without histograms has the percentiles of its one run.
    one = records[0].results if len(records) == 1 and not histogram.count else None
    mean_us, max_us = histogram.mean_us(), histogram.max_us()
    mean_ms = mean_us / 1000 if mean_us is not None else _mean([record.results.latency_avg_ms for record in records])
    percentiles = {
        name: getattr(one, f"latency_{name}_ms") if one else histogram.percentile_ms(percent)
        for name, percent in (("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9))
    }
    holds = all(record.holds("throughput") for record in records)
    bounds = _bounds(records, rate.median, percentiles["p99"]) if status == BOUNDED else None
    if not holds:  # a check took them away: they appear nowhere
        mean_ms, max_us, percentiles = None, None, dict.fromkeys(percentiles)
    graded = bounds or floors.Figures(rate.median if holds else None, mean_ms, percentiles["p99"])
    calls = [record.resources.system_calls_per_request for record in records]
    return ScenarioSummary(
        scenario=records[0].test_scenario.name,
        target=records[0].test_scenario.target,
        runs=len(records),
        status=status,
        requests_per_second=rate,
        latency_avg_ms=mean_ms,
        latency_p50_ms=percentiles["p50"],
        latency_p95_ms=percentiles["p95"],
        latency_p99_ms=percentiles["p99"],
        latency_p999_ms=percentiles["p999"],
        latency_max_ms=None if max_us is None else max_us / 1000,
        error_rate=max(record.results.error_rate for record in records),
        cpu_us_per_request=summarize(known_cpu) if known_cpu else None,
        memory_usage_mb=max((r.resources.memory_usage_mb for r in records if r.resources.memory_usage_mb), default=None),
        context_switches_per_sec=_mean([record.resources.context_switches_per_sec for record in records]),
        system_calls_per_request=_mean(calls),
        transfer_rate_mbps=sum(record.results.transfer_rate_mbps for record in records) / len(records),
        grade=floors.grade(records[0].test_scenario.name, graded),
        reasons=tuple(reasons),
        graded=graded,
        rate_holds=holds,
    )


def by_scenario(records: Sequence[Record]) -> list[ScenarioSummary]:
    """In the order in which scenarios first appear."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.test_scenario.name, record.test_scenario.target), []).append(record)
    return [summarize_records(group) for group in groups.values()]
