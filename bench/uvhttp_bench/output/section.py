"""Owns: figures in a page that a person writes: what stands between two marks is made from records and replaced whole.

<!-- performance: baseline -->
<!-- /performance -->
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.record import Record
from uvhttp_bench.output.tables import markdown_table, number
from uvhttp_bench.reporting import ids, standings_of
from uvhttp_bench.summary import by_scenario

END = "<!-- /performance -->"


def _link(path: Path, text: str, page: Path) -> str:
    return f"[{text}]({os.path.relpath(path.resolve(), page.resolve().parent)})"


def _run_table(records: Sequence[Record], data: Path, page: Path) -> str:
    heads = ("scenario", "requests/s", "mean ms", "P99 ms", "us CPU per request", "memory MB", "status", "records")
    rows = []
    for s in by_scenario(records):
        cpu, n = s.cpu_us_per_request, number
        own = [r for r in records if (r.test_scenario.name, r.test_scenario.target) == (s.scenario, s.target)]
        holds = all(record.holds("throughput") for record in own)
        rate = n(s.requests_per_second.median, 0)
        rows.append((
            s.scenario, rate if holds else f">= {rate}", n(s.latency_avg_ms, 3) if holds else "",
            n(s.latency_p99_ms, 3) if holds else "", n(cpu.median if cpu else None), n(s.memory_usage_mb, 1), s.status,
            _link(data, ids(own), page),
        ))  # fmt: skip
    return markdown_table(heads, rows)


def _peers_table(records: Sequence[Record], data: Path, page: Path) -> str:
    heads = ("scenario", "server", "us CPU per request", "ratio", "95 % interval", "requests/s", "busy MB", "records")
    rows = []
    for s in standings_of(records):
        if s.rate_percent:
            continue
        ratio, n = s.cpu_ratio, number
        rate = ("" if s.throughput_holds else ">= ") + n(s.requests_per_second, 0) if s.requests_per_second else ""
        rows.append((
            s.scenario, s.target, n(s.cpu_us), n(ratio.middle if ratio else None, 2),
            f"{ratio.low:.2f}..{ratio.high:.2f}" if ratio else "", rate, n(s.memory_busy_mb, 1),
            _link(data, ids([r for r in records if r.test_id in s.records]), page),
        ))  # fmt: skip
    return markdown_table(heads, rows)


def replaced(page: Path, name: str, records: Sequence[Record], report: Path, data: Path) -> str:
    """The text of the page with its section anew."""
    begin = f"<!-- performance: {name} -->"
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{page}: {error.strerror}") from error
    if text.count(begin) != 1 or END not in text.partition(begin)[2]:
        raise BenchError(f"{page}: put {begin} and {END} where the figures shall stand, once")
    several = len({record.test_scenario.target for record in records}) > 1
    table = (_peers_table if several else _run_table)(records, data, page)
    e = records[0].environment
    words = f"{records[0].timestamp[:10]}, {e.cpu}, {e.cores} cores, {e.kernel}: {_link(report, 'report', page)}."
    return re.sub(
        re.escape(begin) + r".*?" + re.escape(END), lambda _: f"{begin}\n{words}\n\n{table}{END}", text, count=1, flags=re.S
    )
