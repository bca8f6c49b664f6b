"""Owns: the table of servers side by side. The ratio is the figure; microseconds stand next to the reference alone, because they
change with the machine from one minute to the next."""

from collections.abc import Sequence

from uvhttp_bench.output import words
from uvhttp_bench.output.tables import number
from uvhttp_bench.standings import Field
from uvhttp_bench.stats import ratio
from uvhttp_bench.versus import Standing

HEADS = (
    "scenario", "server", "rounds", "ratio", "95 % interval", "with client", "us CPU/req", "kernel %", "req/s", "mean ms", "P50",
    "P99", "idle MB", "busy MB", "status",
)  # fmt: skip


def kernel(s: Standing) -> str:
    """Its part of the CPU time, in per cent."""
    return number(100 * s.cpu_system_us / s.cpu_us, 0) if s.cpu_us and s.cpu_system_us is not None else ""


def rate(s: Standing) -> str:
    """A rate that the load generator or a noisy machine has set is one that the server can exceed."""
    if s.requests_per_second is None:
        return ""
    return ("" if s.throughput_holds else ">= ") + number(s.requests_per_second, 0)


def said(s: Standing, reference: Standing) -> str:
    if s is reference:
        return "1" if s.cpu_us else ""
    return ratio.text(s.cpu_ratio)


def with_client(s: Standing) -> str:
    """The ratio of the CPU time of server and load generator together."""
    return ratio.with_bounds(s.both_ratio)


def _row(s: Standing, reference: Standing) -> tuple[str, ...]:
    n = number
    return (
        s.scenario + (f" at {s.rate_percent:.0f} %" if s.rate_percent else ""), s.target, str(s.rounds), said(s, reference),
        ratio.bounds(s.cpu_ratio), with_client(s), n(s.cpu_us) if s is reference else "", kernel(s), rate(s),
        n(s.latency_avg_ms, 3), n(s.latency_p50_ms, 3), n(s.latency_p99_ms, 3), n(s.memory_idle_mb, 1), n(s.memory_busy_mb, 1),
        words.STATUS[s.status],
    )  # fmt: skip


def rows(fields: Sequence[Field]) -> list[tuple[str, ...]]:
    return [_row(s, field.reference) for field in fields for s in (field.reference, *field.others)]


def notes(fields: Sequence[Field]) -> list[str]:
    """What has to be known of each server, and what failed, each once."""
    standings = [s for field in fields for s in (field.reference, *field.others)]
    lines = {f"{s.target}: {s.note}": None for s in standings if s.note}
    for s in standings:
        if s.reasons:
            lines[f"{s.scenario}, {s.target}: {s.reasons[0]}"] = None
    return list(lines)
