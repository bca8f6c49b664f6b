"""Owns: the table of servers side by side."""

from collections.abc import Sequence

from uvhttp_bench.output.tables import number
from uvhttp_bench.versus import Standing

HEADS = (
    "scenario", "server", "rounds", "us CPU/req", "user", "system", "ratio", "interval", "req/s", "mean ms", "P50", "P99",
    "idle MB", "busy MB", "status",
)  # fmt: skip


def row(standing: Standing) -> tuple[str, ...]:
    s, n = standing, number
    ratio = s.cpu_ratio
    # A rate that the load generator or a restless machine has set is one that the server can go beyond.
    rate = ("" if s.throughput_holds else ">= ") + n(s.requests_per_second, 0) if s.requests_per_second else ""
    return (
        s.scenario + (f" at {s.rate_percent:.0f} %" if s.rate_percent else ""), s.target, str(s.rounds),
        n(s.cpu_us), n(s.cpu_user_us), n(s.cpu_system_us), n(ratio.middle if ratio else None, 3),
        f"{ratio.low:.3f}..{ratio.high:.3f}" if ratio else "", rate, n(s.latency_avg_ms, 3), n(s.latency_p50_ms, 3),
        n(s.latency_p99_ms, 3), n(s.memory_idle_mb, 1), n(s.memory_busy_mb, 1), s.status,
    )  # fmt: skip


def notes(standings: Sequence[Standing]) -> list[str]:
    """What has to be known of each server, and what failed, each once."""
    lines = {f"{s.target}: {s.note}": None for s in standings if s.note}
    for s in standings:
        if s.reasons:
            lines[f"{s.scenario}, {s.target}: {s.reasons[0]}"] = None
    return list(lines)
