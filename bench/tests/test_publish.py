"""What is committed about performance: every figure follows from a committed record, and nothing else is published."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from test_report import RUNS, peers
from test_self_check import check

from uvhttp_bench import audit, cli, publication, repository, standings
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.codec import dump
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.output import section
from uvhttp_bench.output.report_markdown import markdown
from uvhttp_bench.reporting import Material, build

PAGE = "before\n<!-- performance:begin -->\nstale\n<!-- performance:end -->\nafter\n"
GENERATOR = Check("generator", False, "busy", "throughput")
PEERS = tuple(
    replace(one, session="p1", test_id="", results=replace(one.results, requests_per_second=20000.0 + place))
    for place, one in enumerate(peers(6))
)


COMMITTED = publication.kept(repository.REPORTS.parent)


def test_every_published_figure_is_the_one_that_follows_from_the_committed_records() -> None:
    """A figure edited by hand, or records without their pages made anew, end here: uvhttp-bench publish --again."""
    made = [
        *publication.reports(COMMITTED, pages=False),  # what makes the pages of HTML may have another version here
        *publication.charts(COMMITTED),
        *publication.sections(COMMITTED, publication.PAGES),
    ]
    for path, text in made:
        assert path.read_text(encoding="utf-8") == text, f"{path}: uvhttp-bench publish --again"


def test_generated_files_are_of_the_last_publication_alone() -> None:
    made = [path for path, _ in (*publication.reports(COMMITTED), *publication.charts(COMMITTED))]
    assert publication.outdated(COMMITTED, made) == []


@pytest.mark.parametrize("page", publication.PAGES, ids=lambda page: page.name)
def test_a_readme_has_one_chart_one_short_table_and_each_scenario_once(page: Path) -> None:
    text = page.read_text(encoding="utf-8").partition(section.BEGIN)[2].partition(section.END)[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    scenarios = [row.split("|")[1].strip() for row in rows]
    assert len(rows) <= section.ROWS_MAX and len(set(scenarios)) == len(scenarios)
    assert text.count("<picture>") <= 1 and text.count("](") <= 3


def test_committed_records_are_of_clean_sources_and_of_release_builds() -> None:
    for path in (COMMITTED.run, COMMITTED.peers):
        if path:
            publication.refuse(collection.read(path), allow_unstable=True)
    if COMMITTED.self_check:
        publication.refuse_check(publication.self_check.read(COMMITTED.self_check), allow_unstable=True)


@pytest.mark.identity
def test_committed_records_are_what_was_measured() -> None:
    for path in (COMMITTED.run, COMMITTED.peers):
        if path:
            audit.verify(collection.load(path), str(path))


@pytest.mark.parametrize("page", publication.PAGES, ids=lambda page: page.name)
def test_links_of_the_section_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8").partition(section.BEGIN)[2].partition(section.END)[0]
    links = re.findall(r"\]\(([^)]*)\)", text) + re.findall(r'src(?:set)?="([^"]*)"', text)
    for link in links:
        path, _, anchor = link.partition("#")
        assert (page.parent / path).is_file(), path
        heads = re.findall(r"^#+ (.*)$", (page.parent / path).read_text(), re.M)
        assert not anchor or anchor in [head.lower().replace(" ", "-") for head in heads]


# --- the command ---


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(repository, "SELF_CHECKS", tmp_path / "self-check")
    (tmp_path / "README.md").write_text(PAGE)
    return tmp_path


def publish(place: Path, *records: Record, more: tuple[str, ...] = ()) -> int:
    with database.opened(place / "db") as store:
        for one in records:
            store.add(one)
    where = ["--database", str(place / "db"), "--directory", str(place / "docs"), "--page", str(place / "README.md")]
    return cli.dispatch(["publish", *where, *more])


def test_publish_writes_records_reports_charts_and_a_page_that_leads_to_them(place: Path) -> None:
    (place / "self-check").mkdir()
    (place / "self-check" / "s.json").write_text(dump(check(3, 2)))
    older = replace(check(9, 9), configuration=replace(check(9, 9).configuration, revision="b" * 40))
    (place / "self-check" / "t.json").write_text(dump(older))
    weak = replace(RUNS[3], checks=(GENERATOR,))
    assert publish(place, *RUNS[:3], weak, *PEERS) == 0
    text = (place / "README.md").read_text()
    assert text.startswith("before\n<!-- performance:begin -->\n") and text.endswith("<!-- performance:end -->\nafter\n")
    assert "stale" not in text
    assert "| medium | 25.00 | nginx<br>1.30 (1.30..1.30) |" in text
    assert '<img src="docs/ratios.svg"' in text and (place / "docs" / "ratios-narrow.svg").read_text().startswith("<svg")
    reports = place / "docs" / "reports" / "2026-01-01"
    run, others = (next(reports.glob(f"*-{name}.md")) for name in ("baseline", "peers"))
    assert f"(docs/reports/2026-01-01/{others.name})" in text
    assert f"(docs/reports/2026-01-01/{run.name}#can-a-comparison-be-believed)" in text
    lines = (place / "docs" / "data" / "2026-01-01" / "baseline.json").read_text().splitlines()
    assert json.loads(lines[3 - 1].rstrip(","))["test_id"] == "PERF-2026-01-01-002"
    report = run.read_text()
    assert "| [low](../../data/2026-01-01/baseline.json#L2-L3) | 2 | 21,000 | 25.00 |" in report
    assert ">= 20,000" in report and "| A, 5 % slower | 2 % | 2 | 2 | 0 | 100% |" in report


def test_generated_files_of_an_older_publication_are_removed_and_its_data_is_kept(place: Path) -> None:
    assert publish(place, *RUNS, *PEERS) == 0
    old = list((place / "docs" / "reports").rglob("PERF-*"))
    later = [replace(r, timestamp="2026-02-02T00:00:00Z", session=f"{r.session}b") for r in (*RUNS, *PEERS)]
    assert publish(place, *later, more=("--because", "measured again a month later")) == 0
    assert old and not any(path.exists() for path in old) and not old[0].parent.exists()
    dates = [path.name for path in sorted((place / "docs" / "data").iterdir())]
    assert dates == ["2026-01-01", "2026-02-02"]
    assert "2026-01-01" not in (place / "README.md").read_text()


def test_publishing_again_changes_nothing_and_mends_what_was_edited(place: Path) -> None:
    assert publish(place, *RUNS, *PEERS) == 0
    before = {path: path.read_bytes() for path in place.rglob("*.*") if path.suffix in (".md", ".html", ".json", ".svg")}
    (place / "README.md").write_text((place / "README.md").read_text().replace("1.30", "9.30"))
    assert publish(place, more=("--again",)) == 0
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (
            replace(RUNS[2], checks=(Check("errors", False, "5 status"),)),
            "discarded runs are not published: errors: 5 status",
        ),
        (replace(RUNS[2], checks=(Check("build", False, "not a release build"),)), "not a release build"),
        (replace(RUNS[2], checks=(Check("machine", False, "", "throughput", unstable=True),)), "--allow-unstable"),
        (replace(RUNS[2], configuration=replace(RUNS[2].configuration, dirty=True)), "differ from their commit"),
        (replace(RUNS[2], configuration=replace(RUNS[2].configuration, revision="b" * 40)), "not of one revision"),
    ],
)
def test_publish_refuses_what_nobody_should_believe_and_writes_nothing(
    spoiled: Record, words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(place, *RUNS[:2], spoiled) == 1
    assert words in capsys.readouterr().err
    assert (place / "README.md").read_text() == PAGE and not (place / "docs").exists()


def test_what_was_measured_again_takes_its_place_and_both_are_seen(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    void = replace(RUNS[2], checks=(Check("errors", False, "5 status"),))
    again = replace(RUNS[2], session="s2")
    joined = ("--run", "s1", "--run", "s2")
    assert publish(place, *RUNS[:2], void, again, more=joined) == 1
    assert "are left out: say why with --because" in capsys.readouterr().err and not (place / "docs").exists()
    assert publish(place, more=(*joined, "--because", "the cable was loose")) == 0
    kept = collection.load(place / "docs" / "data" / "2026-01-01" / "baseline.json")
    assert [r.test_scenario.name for r in kept.records] == ["low", "low", "medium"] and not any(
        r.checks for r in kept.records
    )
    assert [(one.scenario, one.status, one.failed) for one in kept.left] == [("medium", "void", ("errors",))]
    report = next((place / "docs" / "reports" / "2026-01-01").glob("*-baseline.md")).read_text()
    assert (
        "not published**, because the cable was loose:\n\n- PERF-2026-01-01-003: medium, uvhttp, void (errors)\n" in report
    )
    assert publish(place, more=("--run", "s3")) == 77


def test_a_run_that_is_hidden_behind_a_better_one_is_seen(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The worse run was valid, and the other one is published alone."""
    worse = replace(RUNS[2], results=replace(RUNS[2].results, requests_per_second=15000))
    better = replace(RUNS[2], session="s2")
    assert publish(place, worse, better, more=("--run", "s2")) == 1
    assert "PERF-2026-01-01-001 (medium, valid)" in capsys.readouterr().err
    assert publish(place, more=("--run", "s2", "--because", "a backup ran")) == 0
    report = next((place / "docs" / "reports" / "2026-01-01").glob("*-baseline.md")).read_text()
    assert "- PERF-2026-01-01-001: medium, uvhttp, valid, 15,000 requests/s, 25.00 us of CPU per request\n" in report


def test_a_scenario_that_is_not_published_is_seen(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(place, *RUNS, more=("--without", "medium")) == 1
    assert "are left out: say why with --because" in capsys.readouterr().err and not (place / "docs").exists()
    assert publish(place, more=("--without", "medium", "--because", "its server is not understood")) == 0
    kept = collection.load(place / "docs" / "data" / "2026-01-01" / "baseline.json")
    assert "medium" not in {r.test_scenario.name for r in kept.records}
    report = next((place / "docs" / "reports" / "2026-01-01").glob("*-baseline.md")).read_text()
    assert "because its server is not understood:\n\n- PERF-2026-01-01-003: medium, uvhttp, valid, " in report


def test_another_server_that_failed_is_published_without_figures(place: Path) -> None:
    failed = [replace(r, checks=(Check("errors", False, "5 timeout"),)) for r in PEERS[6:]]
    assert publish(place, *PEERS[:6], *failed) == 0
    assert "nginx" not in (place / "README.md").read_text()
    report = next((place / "docs" / "reports").rglob("*-peers.md")).read_text()
    assert "Discarded: nginx." in report and "- errors (5 timeout): medium (nginx)" in report


def test_a_self_check_of_a_debug_build_or_of_changed_sources_is_refused() -> None:
    good = check(1, 1)
    publication.refuse_check(good, allow_unstable=False)
    for spoiled in (
        replace(good, configuration=replace(good.configuration, debug=True)),
        replace(good, configuration=replace(good.configuration, dirty=True)),
        replace(good, comparisons=(replace(good.comparisons[0], restless=1),)),
    ):
        with pytest.raises(BenchError):
            publication.refuse_check(spoiled, allow_unstable=False)


def test_a_page_without_its_marks_is_said_before_anything_is_written(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "README.md").write_text("no marks\n")
    assert publish(place, *RUNS) == 1
    assert "around the place of the figures, once" in capsys.readouterr().err
    assert not (place / "docs").exists()


def test_nothing_measured_is_missing_and_nothing_kept_an_error(place: Path) -> None:
    where = ["--directory", str(place / "docs"), "--page", str(place / "README.md")]
    assert cli.dispatch(["publish", "--database", str(place / "none"), *where]) == 77
    assert cli.dispatch(["publish", "--again", *where]) == 1


def test_both_languages_say_the_same_figures(tmp_path: Path) -> None:
    collection.write(tmp_path / "peers.json", "peers", PEERS)
    shown = section.Shown(peers=section.Published(PEERS, tmp_path / "peers.json", tmp_path / "r.md"))
    english, chinese = (section.text(tmp_path / "R.md", language, shown) for language in ("en", "zh"))
    assert re.findall(r"^\| \w+ \| .*\d.*$", english, re.M) == re.findall(r"^\| \w+ \| .*\d.*$", chinese, re.M) != []
    assert "持平" in chinese and section.WORDS["en"].keys() == section.WORDS["zh"].keys()


def test_a_page_shows_one_of_several_conditions_and_the_report_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "conditions_of", lambda r: "bbr" if r.test_scenario.name.endswith("-bbr") else "reno")
    named = [replace(r, test_scenario=replace(r.test_scenario, name="medium-bbr")) for r in peers(6, scale=1.9)]
    both = (*peers(6, scale=1.3), *named)
    assert [(f.scenario, f.conditions) for f in section.shown_fields(both)] == [("medium", "reno")]
    text = section.text(
        tmp_path / "R.md", "en", section.Shown(peers=section.Published(both, tmp_path / "d", tmp_path / "r"))
    )
    assert "nginx<br>1.30" in text and "1.90" not in text and "equal conditions (one CPU, congestion control reno)" in text
    report = markdown(build(Material(both, "peers")), "x.json")
    assert "| server | reno | bbr |" in report
    assert "| nginx | 1.30 (1.30..1.30) | 1.90 (1.90..1.90) |" in report
