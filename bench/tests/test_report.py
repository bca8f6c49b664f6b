"""The report: six sections, every figure with its records, as Markdown and as a page that needs nothing else."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from test_peers import record

from uvhttp_bench import cli, reporting, repository
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.output import charts
from uvhttp_bench.output.report_html import html
from uvhttp_bench.output.report_markdown import markdown
from uvhttp_bench.reporting import Material, build
from uvhttp_bench.stats.paired import Interval

TAIL = Histogram.of([(100, 9000), (200, 900), (5000, 95), (9000, 5)])


def run(name: str, connections: int, number: int, rate: float = 20000, target: str = "uvhttp") -> Record:
    one = record(target, 5.0, number, rate)
    scenario = replace(one.test_scenario, name=name, connections=connections, server_cpus=(0,), generator_cpus=(1,))
    resources = replace(one.resources, cpu_usage_percent=99.0, cpu_system_us_per_request=20.0, generator_cpu_percent=50.0)
    configuration = replace(one.configuration, version="1.2.0", revision="a" * 40)
    return replace(
        one, test_scenario=scenario, resources=resources, configuration=configuration, session="s1", kind="run",
        test_id=f"PERF-2026-01-01-{number:03}", results=replace(one.results, histogram=TAIL, latency_p99_ms=5.0),
    )  # fmt: skip


RUNS = (run("low", 10, 1), run("low", 10, 2, 22000), run("medium", 50, 3), run("high", 200, 4), run("https", 50, 5))


def test_ids_of_a_day_are_listed_once() -> None:
    assert reporting.ids([*RUNS[:3], RUNS[4]]) == "PERF-2026-01-01-001..003, 005"


def test_report_says_where_it_did_less_than_the_standard() -> None:
    whole = tuple(replace(r, test_scenario=replace(r.test_scenario, duration=10.0, repeats=5)) for r in RUNS[:4])
    said = markdown(
        build(
            Material(whole, "baseline"),
        ),
        "x.json",
    )
    assert "less than the standard" not in said
    said = markdown(build(Material((*whole, RUNS[4]), "baseline")), "x.json")
    assert "| less than the standard | https: 1 x 1 s instead of 3 x 10 s |" in said


def test_report_has_the_standards_six_sections_and_its_file_name() -> None:
    report = build(Material(RUNS, "baseline"))
    assert report.file_name == "PERF-2026-01-01-v1.2.0-baseline"
    titles = ["Results", "Analysis", "Conclusion", "Overview", "Environment", "Configuration"]
    assert [section.title for section in report.sections] == titles


def test_three_sentences_and_a_chart_come_first() -> None:
    text = markdown(build(Material(RUNS, "baseline")), "x.json")
    head = text[: text.index("## Results")]
    assert len(build(Material(RUNS, "baseline")).finding) == 3
    assert "Graded by rate, mean and P99: " in head and "A request costs 25.00 us of CPU time" in head
    assert "All checks of 5 runs passed." in head
    assert head.count(".svg)") == 1


def test_markdown_leads_from_each_row_to_its_records_and_says_who_was_the_limit() -> None:
    data = "../../data/2026-01-01/baseline.json"
    text = markdown(build(Material(RUNS, "baseline")), data)
    assert f"| [low]({data}#L2-L3) | 2 | 21,000 | 25.00 |" in text
    assert f"| [low]({data}#L2-L3) | 0.160 |" in text
    assert "- the server's CPU: low, medium, high, https" in text
    assert "80% of the CPU time is the kernel's" in text


def test_dates_and_ids_are_in_order_whatever_the_order_of_the_runs() -> None:
    late = replace(RUNS[0], timestamp="2026-01-01T09:00:00Z")
    text = markdown(build(Material((late, *RUNS[1:]), "baseline")), "x.json")
    assert "| date | 2026-01-01T00:00:00Z to 2026-01-01T09:00:00Z |" in text
    assert reporting.ids(RUNS[::-1]) == "PERF-2026-01-01-001..005"


def test_page_is_whole_in_itself_and_its_pictures_are_xml() -> None:
    report = build(Material(RUNS, "baseline"))
    page = html(report, "../../data/2026-01-01/baseline.json")
    assert not re.search(r'(src|href)="(https?:)?//', re.sub(r"<svg.*?</svg>", "", page, flags=re.S))
    assert "<script" not in page
    pictures = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert [picture.name for picture in report.pictures] == ["latency", "latency-https", "cpu", "concurrency"]
    assert len(pictures) == len(report.pictures) == page.count("<figcaption>")
    for picture in pictures:
        ET.fromstring(picture)


def test_what_a_server_says_of_itself_cannot_break_the_page() -> None:
    evil = replace(RUNS[0], environment=replace(RUNS[0].environment, cpu="<script>alert(1)</script>"))
    page = html(build(Material((evil, *RUNS[1:]), "baseline")), "x.json")
    assert "<script" not in page


def test_a_bounded_run_has_a_bound_for_a_rate_and_no_latency() -> None:
    weak = tuple(replace(r, checks=(Check("generator", False, "busy", "throughput"),)) for r in RUNS)
    text = markdown(build(Material(weak, "baseline")), "x.json")
    assert "| [https](x.json#L6) | 1 | >= 20,000 | 25.00 |" in text
    assert "P99.9" not in text and "Of 5 runs, 5 give a lower bound" in text
    assert "void" not in text


def test_discarded_runs_say_so_and_leave_no_figure() -> None:
    void = tuple(replace(r, checks=(Check("errors", False, "5 status"),)) for r in RUNS)
    report = build(Material(void, "baseline"))
    text = markdown(report, "x.json")
    assert "- errors (5 status): low, medium, high, https" in text
    assert "Of 5 runs, 5 are discarded" in text and "Discarded: low, medium, high." in text
    assert "20,000" not in text and "25.00" not in text and "0.160" not in text
    assert report.pictures == ()


# --- servers side by side ---


def peers(
    rounds: int, noise: float = 0.0, scale: float = 1.3, targets: tuple[str, ...] = ("uvhttp-uring", "nginx")
) -> tuple[Record, ...]:
    """The last of the targets costs `scale` times as much; its rounds scatter by `noise`."""
    made = []
    for place, target in enumerate(targets):
        for number in range(1, rounds + 1):
            one = run("medium", 50, 1 + place * rounds + number, target=target)
            last = target == targets[-1]
            factor = (scale if last else 1.0) * math.exp(noise * (-1) ** number if last else 0.0)
            resources = replace(one.resources, cpu_user_us_per_request=5 * factor, cpu_system_us_per_request=20 * factor)
            scenario = replace(one.test_scenario, repeat=number)
            ours = one.configuration if target.startswith("uvhttp") else replace(one.configuration, revision="")
            made.append(replace(one, resources=resources, test_scenario=scenario, kind="peers", configuration=ours))
    return tuple(made)


def test_servers_side_by_side_have_ratios_with_intervals_and_one_reference() -> None:
    text = markdown(build(Material(peers(6), "peers")), "x.json")
    assert "| [uvhttp-uring](x.json#L2-L7) | 1 |" in text
    assert "| [nginx](x.json#L8-L13) | 1.30 (1.30..1.30) |" in text
    assert "uvhttp-uring needs 25.00 us of CPU time per request" in text and "32.50" not in text
    assert "In 1 comparisons (1 other servers, 1 scenarios) uvhttp used less CPU time per request in 1," not in text
    assert "In 1 comparison (1 other server, 1 scenario) uvhttp used less CPU time per request in 1, tied in 0" in text


def test_noise_is_printed_as_a_tie_and_counted_as_one() -> None:
    text = markdown(build(Material(peers(6, noise=0.2, scale=1.05), "peers")), "x.json")
    assert "| [nginx](x.json#L8-L13) | tie (0." in text
    assert "used less CPU time per request in 0, tied in 1 and used more in 0." in text


def test_a_server_that_needs_less_is_named_at_the_head() -> None:
    report = build(Material(peers(6, scale=0.8), "peers"))
    assert report.finding[1] == "Servers that used less than uvhttp: nginx in medium (0.80)."


def test_a_bare_loop_and_our_other_engine_are_not_among_the_other_servers() -> None:
    chosen = peers(6, targets=("uvhttp-uring", "uvhttp-libuv", "bare-epoll", "nginx"))
    report = build(Material(chosen, "peers"))
    assert report.finding[0].startswith("In 1 comparison (1 other server,")
    assert report.chart and "bare-epoll" not in report.chart.svg and "nginx" in report.chart.svg
    assert "bare-epoll" in markdown(report, "x.json")


def test_one_round_has_neither_a_ratio_nor_a_chart_of_ratios() -> None:
    report = build(Material(peers(1), "peers"))
    assert "| [nginx](x.json#L3) |  |" in markdown(report, "x.json")
    assert report.chart is None


def test_pictures_are_the_same_for_the_same_figures() -> None:
    assert charts.percentiles({"low": TAIL}) == charts.percentiles({"low": TAIL})
    assert charts.trend([("low", [1.0], [])], "us") == ""
    assert "<svg" in charts.trend([("low", [1.0, 2.0, 2.1], [1])], "us")
    assert not charts.percentiles({}) and not charts.ratios([], "x") and not charts.bars([], (), "x")


def test_a_chart_shows_a_tie_as_one_and_keeps_the_order_given() -> None:
    rows = (
        charts.Row("z", Interval(0.9, 1.0, 1.1)),
        charts.Row("a", Interval(2.0, 2.1, 2.2)),
        charts.Row("<m>", Interval(0.4, 0.41, 0.42)),
    )
    svg = charts.ratios([charts.Panel("p & q", rows)], "ratio")
    ET.fromstring(svg)
    assert [text for text in re.findall(r">([^<>]+)</text>", svg) if text in ("z", "a", "&lt;m&gt;")] == [
        "z",
        "a",
        "&lt;m&gt;",
    ]
    assert re.findall(r'<circle[^>]*class="(\w+)"', svg) == ["tie", "more", "less"]
    assert ">tie</text>" in svg and ">2.10</text>" in svg and ">1.00</text>" not in svg


def test_nothing_of_a_chart_lies_outside_of_it() -> None:
    rows = tuple(charts.Row(f"server {n}", Interval(0.05 * n, 0.06 * n, 0.07 * n)) for n in range(1, 90))
    panels = [charts.Panel(f"s{n}", rows[n : n + 4]) for n in range(0, 80, 9)]
    for svg in (charts.ratios(panels, "x", 2, 900), charts.ratios(panels, "x"), charts.percentiles({"a": TAIL, "b": TAIL})):
        width, height = (float(n) for n in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
        for x in re.findall(r' (?:x|x1|x2|cx)="(-?[\d.]+)"', svg):
            assert 0 <= float(x) <= width
        for y in re.findall(r' (?:y|y1|y2|cy)="(-?[\d.]+)"', svg):
            assert 0 <= float(y) <= height


def test_kept_histograms_have_exact_counts_and_nearly_exact_values() -> None:
    whole = Histogram.of((value, 1 + value % 7) for value in range(1, 200000, 13))
    coarse = whole.coarse()
    assert coarse.count == whole.count
    assert len(coarse.counts) < 1000 < len(whole.counts)
    for percent in (1, 50, 90, 99, 99.9):
        a, b = whole.percentile_us(percent), coarse.percentile_us(percent)
        assert a and b and abs(a / b - 1) <= 1 / 128
    assert Histogram.of([(0, 3), (1, 2), (127, 1)]).coarse() == Histogram.of([(0, 3), (1, 2), (127, 1)])


def test_kept_records_say_nothing_of_the_machines_folders(tmp_path: Path) -> None:
    script = repository.ROOT / "bench" / "wrk.lua"
    one = replace(RUNS[0], test_scenario=replace(RUNS[0].test_scenario, command=f"wrk -s {script} http://x/"))
    collection.write(tmp_path / "kept.json", "baseline", [one])
    (kept,) = collection.read(tmp_path / "kept.json")
    assert kept.test_scenario.command == "wrk -s bench/wrk.lua http://x/"


def test_command_writes_report_page_and_data_where_the_standard_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--database", str(tmp_path / "db.sqlite"), "--directory", str(tmp_path / "docs")]
    assert cli.dispatch(["report", *where]) == 77
    with database.opened(tmp_path / "db.sqlite") as store:
        for one in RUNS:
            store.add(one)
    assert cli.dispatch(["report", *where]) == 0
    made = sorted(str(path.relative_to(tmp_path / "docs")) for path in (tmp_path / "docs").rglob("*.*"))
    head = "reports/2026-01-01/PERF-2026-01-01-v1.2.0-baseline"
    drawn = [f"{head}-{name}.svg" for name in ("concurrency", "cpu", "latency-https", "latency")]
    assert made == ["data/2026-01-01/baseline.json", *drawn, f"{head}.html", f"{head}.md"]
    data, text = tmp_path / "docs" / made[0], (tmp_path / "docs" / made[-1]).read_text()
    assert f"(../../{made[0]})" in text and all(f"({Path(name).name})" in text for name in drawn)
    assert cli.dispatch(["report", str(data), *where]) == 0  # from what is kept, without the database
    assert cli.dispatch(["report", "--name", "../x", *where]) == 1
    capsys.readouterr()
