"""The report: six sections, every figure with its records, as Markdown and as a page that needs nothing else."""

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
from uvhttp_bench.output import plots
from uvhttp_bench.output.report_html import html
from uvhttp_bench.output.report_markdown import markdown
from uvhttp_bench.reporting import Material, build

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


def test_ids_of_a_day_are_told_once() -> None:
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
    titles = ["Overview", "Environment", "Configuration", "Results", "Analysis", "Conclusion"]
    assert [section.title.split(". ")[1] for section in report.sections] == titles


def test_markdown_names_the_records_of_each_figure_and_who_was_the_limit() -> None:
    text = markdown(build(Material(RUNS, "baseline")), "../../data/2026-01-01/baseline.json")
    low = next(line for line in text.splitlines() if line.startswith("| low | 2"))
    assert low.endswith("| PERF-2026-01-01-001..002 |")
    assert "21,000" in low
    assert "- medium: the server's CPU (99 %)" in text
    assert "80% of the CPU time is the kernel's" in text
    assert "None of" not in text


def test_page_is_whole_in_itself_and_its_pictures_are_xml() -> None:
    page = html(build(Material(RUNS, "baseline")), "../../data/2026-01-01/baseline.json")
    assert not re.search(r'(src|href)="(https?:)?//', re.sub(r"<svg.*?</svg>", "", page, flags=re.S))
    assert "<script" not in page
    pictures = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert len(pictures) == 2  # percentiles, concurrency
    for picture in pictures:
        ET.fromstring(picture)
    assert page.count("<figcaption>") == 2
    assert "Records: PERF-2026-01-01-001..004" in page


def test_what_a_server_says_of_itself_can_not_break_the_page() -> None:
    evil = replace(RUNS[0], environment=replace(RUNS[0].environment, cpu="<script>alert(1)</script>"))
    page = html(build(Material((evil, *RUNS[1:]), "baseline")), "x.json")
    assert "<script" not in page


def test_a_bounded_run_has_a_bound_for_a_rate_and_no_latency() -> None:
    weak = tuple(replace(r, checks=(Check("generator", False, "busy", "throughput"),)) for r in RUNS)
    report = build(Material(weak, "baseline"))
    assert report.status == "bounded"
    text = markdown(report, "x.json")
    assert "| https | 1 | >= 20,000 |  |  |  |  |  | >= 1.00 | 0.000 |  | bounded | PERF-2026-01-01-005 |" in text
    assert "their rates are bounds" in text


def test_void_runs_say_so_and_give_no_curve() -> None:
    void = tuple(replace(r, checks=(Check("errors", False, "5 status"),)) for r in RUNS)
    report = build(Material(void, "baseline"))
    assert report.status == "void"
    text = markdown(report, "x.json")
    assert "low: errors: 5 status" in text
    assert "Some runs are void" in text
    assert not plots.percentiles({})


def test_servers_side_by_side_have_ratios_within_rounds() -> None:
    pairs = [run("medium", 50, n, target=t) for n, t in ((1, "uvhttp-uring"), (2, "nginx"))]
    pairs = [replace(r, test_scenario=replace(r.test_scenario, repeat=1), kind="peers") for r in pairs]
    text = markdown(build(Material(tuple(pairs), "peers")), "x.json")
    assert "| medium | nginx | 1 | 25.00 | 5.00 | 20.00 | 1.000 | 1.000..1.000 | 20,000 |" in text


def test_pictures_are_the_same_for_the_same_figures() -> None:
    assert plots.percentiles({"low": TAIL}) == plots.percentiles({"low": TAIL})
    assert plots.trend([("low", [1.0], [])], "us") == ""
    assert "<svg" in plots.trend([("low", [1.0, 2.0, 2.1], [1])], "us")


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
    assert made == ["data/2026-01-01/baseline.json", f"{head}.html", f"{head}.md"]
    data = tmp_path / "docs" / made[0]
    assert f"(../../{made[0]})" in (tmp_path / "docs" / made[2]).read_text()
    assert cli.dispatch(["report", str(data), *where]) == 0  # from what is kept, without the database
    assert cli.dispatch(["report", "--name", "../x", *where]) == 1
    capsys.readouterr()
