"""Owns: the figures in a page that a person writes: what stands between two marks is made from records and replaced whole. One
chart, one table, three sentences; everything else is in the reports.

<!-- performance:begin -->
<!-- performance:end -->
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench import findings
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.record import Record
from uvhttp_bench.output.report_markdown import responsive
from uvhttp_bench.output.tables import markdown_table, number
from uvhttp_bench.standings import BEST, Field, best, closed, fields_of, is_ours, same_conditions
from uvhttp_bench.stats import ratio
from uvhttp_bench.versus import Standing

BEGIN, END = "<!-- performance:begin -->", "<!-- performance:end -->"
ROWS_MAX = 12
SELF_CHECK = "can-a-comparison-be-believed"  # the heading in the run's report, as an anchor
SPACES = {"en": " ", "zh": ""}  # between sentences

WORDS = {
    "en": {
        "none": "No figure is published yet.",
        "alt": "CPU time per request of other servers, as a ratio to uvhttp's",
        "heads": "scenario|{reference}|five other servers",
        "caption": "CPU time per request: {reference} in microseconds, and the five other servers that need the least as a ratio "
        "to it with its 95 % interval (above 1: more). {date}, {cpu}, {cores} cores, {kernel}, revision {revision}.",
        "tie": "tie",
        "comma": ", ",
        "reports": "Everything else: {links}.",
        "peers report": "all servers, with latency and memory",
        "run report": "the scenarios of the standard",
        "check": "how often the comparison itself is wrong",
    },
    "zh": {
        "none": "暂未公布任何数据。",
        "alt": "其他服务器每个请求的 CPU 时间与 uvhttp 之比",
        "heads": "场景|{reference}|五种其他服务器",
        "caption": "每个请求的 CPU 时间:{reference} 以微秒计;消耗最少的五种其他服务器以与它的比值及 95 % 区间表示(大于 1 为更多)。"
        "{date},{cpu},{cores} 核,{kernel},修订版 {revision}。",
        "tie": "持平",
        "comma": "、",
        "reports": "其余内容:{links}。",
        "peers report": "全部服务器及其延迟和内存",
        "run report": "标准中的各场景",
        "check": "对比方法本身的误判率",
    },
}


@dataclass(frozen=True)
class Published:
    records: tuple[Record, ...]
    data: Path
    report: Path


@dataclass(frozen=True)
class Shown:
    """What a page shows. `charts`: the wide one and the narrow one, where there is something to draw."""

    run: Published | None = None
    peers: Published | None = None
    check: bool = False  # whether the run's report has the self-check
    charts: tuple[Path, Path] | None = None


def shown_fields(records: Sequence[Record]) -> list[Field]:
    """Against us, under one set of conditions that is equal for all: a scenario has one row."""
    fields = [field for field in closed(fields_of(records)) if is_ours(field.reference.target) and field.peers]
    return same_conditions(fields)[:ROWS_MAX]


def _path(page: Path, path: Path) -> str:
    return os.path.relpath(path.resolve(), page.resolve().parent)


def _cell(s: Standing, words: dict[str, str]) -> str:
    said = words["tie"] if ratio.finding(s.cpu_ratio) == ratio.TIE else ratio.text(s.cpu_ratio)
    return f"{s.target}<br>{said} ({ratio.bounds(s.cpu_ratio)})"


def _table(fields: Sequence[Field], words: dict[str, str]) -> str:
    heads = words["heads"].format(reference=fields[0].reference.target).split("|")
    rows = []
    for field in fields:
        cells = [_cell(s, words) for s in best(field)]
        rows.append((field.scenario, number(field.reference.cpu_us), *cells, *[""] * (BEST - len(cells))))
    return markdown_table((*heads, *[""] * (BEST - 1)), rows)


def _picture(page: Path, charts: tuple[Path, Path], words: dict[str, str]) -> str:
    wide, narrow = (_path(page, chart) for chart in charts)
    return responsive(wide, narrow, words["alt"])


def _caption(fields: Sequence[Field], words: dict[str, str]) -> str:
    records = [record for field in fields for record in field.records]
    ours = next((r.configuration for r in records if r.configuration.revision), records[0].configuration)
    e = records[0].environment
    return words["caption"].format(
        reference=fields[0].reference.target, date=min(r.timestamp for r in records)[:10], cpu=e.cpu, cores=e.cores,
        kernel=e.kernel, revision=ours.revision[:9],
    )  # fmt: skip


def _reports(page: Path, shown: Shown, words: dict[str, str], comma: str) -> str:
    links = [f"[{words['peers report']}]({_path(page, shown.peers.report)})"] if shown.peers else []
    if shown.run:
        path = _path(page, shown.run.report)
        links += [f"[{words['run report']}]({path})", *([f"[{words['check']}]({path}#{SELF_CHECK})"] if shown.check else [])]
    return words["reports"].format(links=comma.join(links)) + "\n" if links else ""


def text(page: Path, language: str, shown: Shown) -> str:
    """What stands between the marks."""
    words, apart = WORDS[language], SPACES[language]
    parts = []
    fields = shown_fields(shown.peers.records) if shown.peers else []
    if fields:
        parts.append(apart.join(findings.of_peers(fields, language)) + "\n")
        if shown.charts:
            parts.append(_picture(page, shown.charts, words))
        parts += [_caption(fields, words) + "\n", _table(fields, words)]
    last = _reports(page, shown, words, words["comma"])
    return "\n".join([*parts, last] if last else parts) or words["none"] + "\n"


def replaced(page: Path, made: str) -> str:
    """The text of the page with its section anew."""
    try:
        whole = page.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{page}: {error.strerror}") from error
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end or BEGIN in rest or END in after:
        raise BenchError(f"{page}: put {BEGIN} and {END} around the place of the figures, once")
    return f"{before}{begin}\n{made}{end}{after}"
