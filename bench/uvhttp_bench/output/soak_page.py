"""Owns: the page of a soak: what ran, whether its memory grew, and the picture of its memory over time."""

from uvhttp_bench.model.record import Record
from uvhttp_bench.output import charts, words
from uvhttp_bench.output.tables import markdown_table, number

HEADS = ("scenario", "minutes", "requests", "errors %", "P99 ms", "MB at start", "MB at most", "MB/hour", "memory", "status")


def grows(record: Record) -> bool:
    return any(check.name == "memory" and not check.passed for check in record.checks)


def row(record: Record) -> tuple[str, ...]:
    """A figure that a check took away is blank."""
    n, results, resources = number, record.results, record.resources
    p99 = results.latency_p99_ms if record.holds("latency") else None
    return (
        record.test_scenario.name, n(results.seconds / 60, 1), n(results.total_requests, 0), n(100 * results.error_rate, 3),
        n(p99, 3), n(resources.memory_start_mb, 1), n(resources.memory_usage_mb, 1), n(resources.memory_growth_mb_per_hour),
        "grows" if grows(record) else "steady", words.STATUS[record.status],
    )  # fmt: skip


def svg(record: Record) -> str:
    points = [(seconds / 60, mb) for seconds, mb in record.resources.memory_series]
    return charts.line(points, "minutes", "resident memory, MB")


def markdown(record: Record, data: str, picture: str) -> str:
    """`data`, `picture`: paths from the page; no picture: empty."""
    run, machine = record.test_scenario, record.environment
    lines = [
        f"# Soak: {run.name} for {run.duration / 60:g} minutes",
        "",
        f"`{run.command}`" if run.command else run.tool,
        "",
        f"- record: [{record.test_id}]({data}), {record.timestamp}",
        f"- revision {record.configuration.revision or 'not known'}",
        f"- {machine.os}, {machine.kernel}, {machine.cpu}, {machine.cores} cores, {machine.memory}; environment {machine.hash}",
        *(f"- {check.name}: {check.detail}" for check in record.checks if not check.passed or check.name == "memory"),
        "",
        markdown_table(HEADS, [row(record)]).rstrip("\n"),
        "",
        "Memory is called growing if the median slope after the first quarter makes more than 1 MB and 5 %, and the end agrees.",
    ]
    if picture:
        lines += ["", f"![resident memory over time]({picture})"]
    return "\n".join(lines) + "\n"
