"""What is committed about performance: every figure follows from a committed record, and nothing else is published."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from test_report import RUNS, run
from test_self_check import check

from uvhttp_bench import audit, cli, publication, repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import collection, database
from uvhttp_bench.model.codec import dump
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.output import section

PAGE = "before\n<!-- performance:begin -->\nstale\n<!-- performance:end -->\nafter\n"
GENERATOR = Check("generator", False, "busy", "throughput")
PEERS = tuple(
    replace(
        one, kind="peers", session="p1", test_id="", test_scenario=replace(one.test_scenario, repeat=number),
        configuration=replace(one.configuration, revision="a" * 40 if target.startswith("uvhttp") else ""),
    )
    for number in (1, 2) for target in ("uvhttp-uring", "nginx") for one in (run("medium", 50, number, target=target),)
)  # fmt: skip


COMMITTED = publication.kept(repository.REPORTS.parent)


def test_every_published_figure_is_the_one_that_follows_from_the_committed_records() -> None:
    """A figure edited by hand, or records without their pages made anew, end here: uvhttp-bench publish --again."""
    made = [*publication.reports(COMMITTED, pages=False), *publication.sections(COMMITTED, publication.PAGES)]
    for path, text in made:
        assert path.read_text(encoding="utf-8") == text, f"{path}: uvhttp-bench publish --again"


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
def test_links_of_the_section_lead_to_lines_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8").partition(section.BEGIN)[2].partition(section.END)[0]
    for target in re.findall(r"\]\((docs/[^)]*)\)|^\[[^]]*\]: (\S+)$", text, re.M):
        path, _, lines = "".join(target).partition("#")
        assert (page.parent / path).is_file(), path
        if lines:
            last = int(lines.rpartition("L")[2])
            assert last < len((page.parent / path).read_text().splitlines())


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


def test_publish_writes_records_reports_and_a_page_that_links_each_figure_to_its_lines(place: Path) -> None:
    (place / "self-check").mkdir()
    (place / "self-check" / "s.json").write_text(dump(check(3, 2)))
    older = replace(check(9, 9), configuration=replace(check(9, 9).configuration, revision="b" * 40))
    (place / "self-check" / "t.json").write_text(dump(older))
    weak = replace(RUNS[3], checks=(GENERATOR,))
    assert publish(place, *RUNS[:3], weak, *PEERS) == 0
    text = (place / "README.md").read_text()
    assert text.startswith("before\n<!-- performance:begin -->\n") and text.endswith("<!-- performance:end -->\nafter\n")
    assert "stale" not in text
    assert "| low | 10 | 2 | [21,000][low] | [0.160][low] | [0.201][low] | [25.00][low] |" in text
    assert "[low]: docs/data/2026-01-01/baseline.json#L2-L3\n" in text
    assert "| high | 200 | 1 | [≥ 20,000][high] |  |  | [25.00][high] |" in text
    assert "| nginx | [25.00][medium nginx] |" in text
    assert "[medium nginx]: docs/data/2026-01-01/peers.json#L4-L5\n" in text
    assert "[0 / 3](docs/data/2026-01-09/self-check.json)" in text and "[2 / 2](docs" in text
    lines = (place / "docs" / "data" / "2026-01-01" / "baseline.json").read_text().splitlines()
    assert json.loads(lines[3 - 1].rstrip(","))["test_id"] == "PERF-2026-01-01-002"
    report = next((place / "docs" / "reports" / "2026-01-01").glob("*-baseline.md")).read_text()
    assert "| A, 5 % slower | 2 % | 2 | 2 | 0 | 100% |" in report


def test_publishing_again_changes_nothing_and_mends_what_was_edited(place: Path) -> None:
    assert publish(place, *RUNS) == 0
    before = {path: path.read_bytes() for path in place.rglob("*.*") if path.suffix in (".md", ".html", ".json")}
    (place / "README.md").write_text((place / "README.md").read_text().replace("21,000", "91,000"))
    assert publish(place, more=("--again",)) == 0
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (replace(RUNS[2], checks=(Check("errors", False, "5 status"),)), "void runs are not published: errors: 5 status"),
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


def test_another_server_that_failed_is_published_without_figures(place: Path) -> None:
    failed = replace(PEERS[1], checks=(Check("errors", False, "5 timeout"),))
    assert publish(place, PEERS[0], failed) == 0
    assert "| nginx |  |" in (place / "README.md").read_text()


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
    assert "where the figures shall stand, once" in capsys.readouterr().err
    assert not (place / "docs").exists()


def test_nothing_measured_is_missing_and_nothing_kept_an_error(place: Path) -> None:
    where = ["--directory", str(place / "docs"), "--page", str(place / "README.md")]
    assert cli.dispatch(["publish", "--database", str(place / "none"), *where]) == 77
    assert cli.dispatch(["publish", "--again", *where]) == 1


def test_both_languages_say_the_same_figures(tmp_path: Path) -> None:
    collection.write(tmp_path / "baseline.json", "baseline", RUNS)
    published = section.Published(RUNS, tmp_path / "baseline.json", tmp_path / "r.md")
    english, chinese = (section.text(tmp_path / "R.md", language, published, None, None) for language in ("en", "zh"))
    assert re.findall(r"\[[\d.,]+\]\[\w+\]", english) == re.findall(r"\[[\d.,]+\]\[\w+\]", chinese)
    assert "请求/秒" in chinese and section.WORDS["en"].keys() == section.WORDS["zh"].keys()
