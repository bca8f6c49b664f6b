"""Owns: the figures in a page that a person writes: what stands between two marks is made from records and replaced whole.

<!-- performance:begin -->
<!-- performance:end -->
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import collection
from uvhttp_bench.model.record import VALID, Record
from uvhttp_bench.model.self_check import SelfCheck, outcome
from uvhttp_bench.output.tables import markdown_table, number
from uvhttp_bench.reporting import bounded, holds, standings_of
from uvhttp_bench.summary import ScenarioSummary, summarize_records

BEGIN, END = "<!-- performance:begin -->", "<!-- performance:end -->"
# A page shows these; the report has all of them.
SHOWN = (
    "low", "medium", "high", "post", "https", "body-100kb", "static-10kb", "static-1mb", "pipeline", "websocket", "count",
    "ladder-2000", "sustained-300",
)  # fmt: skip

WORDS = {
    "en": {
        "made": "Made by `uvhttp-bench publish` from committed records; every figure is a link to its own, "
        "and a blank is one that does not hold.",
        "none": "No figure is published yet.",
        "where": "{date}, {cpu}, {cores} cores, {kernel}, {compiler}, {build}, revision {revision}",
        "run": "**Scenarios of the standard** ({where}; {report}):",
        "run heads": "scenario|connections|runs|requests/s|mean ms|P99 ms|us CPU per request|memory MB|",
        "bound": "≥: the load generator was the bottleneck, so that the rate is a bound and there is no latency to tell.",
        "peers": "**Beside other servers** on one CPU: microseconds of CPU time per request, median of {rounds} rounds ({report}):",
        "server": "server",
        "check": "**Is it the noise?** Compared with itself, a build was called slower in {same} comparisons; slowed by "
        "{percent} %, it was found in {slowed}, at a threshold of {threshold} %.",
        "report": "report",
        "restless": "restless machine",
    },
    "zh": {
        "made": "由 `uvhttp-bench publish` 根据已提交的记录生成;每个数字都链接到对应的记录,空白表示该数字不成立。",
        "none": "暂不公布任何数字。",
        "where": "{date},{cpu},{cores} 核,{kernel},{compiler},{build},版本 {revision}",
        "run": "**标准中的场景**({where};{report}):",
        "run heads": "场景|连接数|次数|请求/秒|平均 ms|P99 ms|每请求 CPU 微秒|内存 MB|",
        "bound": "≥:瓶颈在压测工具,该速率只是下限,因此没有可报告的延迟。",
        "peers": "**与其他服务器对比**(各用一个 CPU):每请求 CPU 微秒,{rounds} 轮的中位数({report}):",
        "server": "服务器",
        "check": "**是噪声吗?** 同一构建与自身比较,{same} 次被判定为变慢;人为减慢 {percent} % 后,{slowed} 次被发现(阈值 {threshold} %)。",
        "report": "报告",
        "restless": "机器不空闲",
    },
}


@dataclass(frozen=True)
class Published:
    records: tuple[Record, ...]
    data: Path
    report: Path


class Links:
    """Figures of one page as links to the lines of their records: reference links, so that the tables can be read as text."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._targets: dict[str, str] = {}

    def path(self, path: Path) -> str:
        return os.path.relpath(path.resolve(), self._page.resolve().parent)

    def figure(self, text: str, label: str, published: Published, own: Sequence[Record]) -> str:
        if not text:
            return ""
        self._targets[label] = self.path(published.data) + collection.fragment(published.records, own)
        return f"[{text}][{label}]"

    def text(self) -> str:
        return "".join(f"[{label}]: {target}\n" for label, target in self._targets.items())


def _of(published: Published, scenario: str, target: str | None = None) -> list[Record]:
    return [
        r
        for r in published.records
        if r.test_scenario.name == scenario and r.test_scenario.loop == "closed" and target in (None, r.test_scenario.target)
    ]


def _figures(own: Sequence[Record], s: ScenarioSummary) -> list[str]:
    n, cpu = number, s.cpu_us_per_request
    rate = bounded(own, s.requests_per_second.median, 0).replace(">=", "≥")
    latency = [n(s.latency_avg_ms, 3), n(s.latency_p99_ms, 3)] if holds(own) else ["", ""]
    return [rate, *latency, n(cpu.median if cpu else None), n(s.memory_usage_mb, 1)]


def _run(published: Published, words: dict[str, str], links: Links) -> str:
    first = published.records[0]
    e, c = first.environment, first.configuration
    where = words["where"].format(
        date=first.timestamp[:10], cpu=e.cpu, cores=e.cores, kernel=e.kernel, compiler=f"{e.compiler} {e.compiler_version}",
        build=f"{c.build_type} {c.optimization}", revision=c.revision[:9],
    )  # fmt: skip
    rows = []
    for name in SHOWN:
        own = _of(published, name)
        if own:
            linked = [links.figure(text, name, published, own) for text in _figures(own, summarize_records(own))]
            restless = any(_restless(r) for r in own)
            rows.append(
                (name, str(own[0].test_scenario.connections), str(len(own)), *linked, words["restless"] if restless else "")
            )
    heads = tuple(words["run heads"].split("|"))
    text = words["run"].format(where=where, report=f"[{words['report']}]({links.path(published.report)})")
    bound = f"\n{words['bound']}\n" if any("≥" in cell for row in rows for cell in row) else ""
    return f"{text}\n\n{markdown_table(heads, rows)}{bound}"


def _restless(record: Record) -> bool:
    return record.status != VALID and any(not c.passed and c.unstable for c in record.checks)


def _peers(published: Published, words: dict[str, str], links: Links) -> str:
    """A row for each server, a column for each scenario."""
    standings = [s for s in standings_of(published.records) if not s.rate_percent]
    scenarios = list(dict.fromkeys(s.scenario for s in standings))
    cells: dict[str, dict[str, str]] = {}
    for s in standings:
        own = _of(published, s.scenario, s.target)
        cells.setdefault(s.target, {})[s.scenario] = links.figure(
            number(s.cpu_us), f"{s.scenario} {s.target}", published, own
        )
    rows = [(target, *(row.get(scenario, "") for scenario in scenarios)) for target, row in cells.items()]
    counts = sorted({s.rounds for s in standings})
    rounds = str(counts[0]) if len(counts) == 1 else f"{counts[0]}..{counts[-1]}"
    text = words["peers"].format(rounds=rounds, report=f"[{words['report']}]({links.path(published.report)})")
    return f"{text}\n\n{markdown_table((words['server'], *scenarios), rows)}"


def _check(check: SelfCheck, path: Path, words: dict[str, str], links: Links) -> str:
    def part(slowed: bool) -> str:
        rate = outcome(check, slowed, check.threshold_percent).regressed
        return f"[{rate.found} / {rate.of}]({links.path(path)})"

    percent, threshold = f"{check.slower_percent:g}", f"{check.threshold_percent:g}"
    return words["check"].format(same=part(False), slowed=part(True), percent=percent, threshold=threshold) + "\n"


def text(
    page: Path, language: str, run: Published | None, peers: Published | None, check: tuple[SelfCheck, Path] | None
) -> str:
    """What stands between the marks."""
    words, links = WORDS[language], Links(page)
    parts = [words["made"] + "\n" if run or peers or check else words["none"] + "\n"]
    if run:
        parts.append(_run(run, words, links))
    if peers:
        parts.append(_peers(peers, words, links))
    if check:
        parts.append(_check(*check, words, links))
    targets = links.text()
    return "\n".join([*parts, targets] if targets else parts)


def replaced(page: Path, made: str) -> str:
    """The text of the page with its section anew."""
    try:
        whole = page.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{page}: {error.strerror}") from error
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end or BEGIN in rest or END in after:
        raise BenchError(f"{page}: put {BEGIN} and {END} where the figures shall stand, once")
    return f"{before}{begin}\n{made}{end}{after}"
