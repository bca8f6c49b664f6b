"""Owns: what is committed about performance: records under docs/performance/data, the reports made of them, and the sections of
the READMEs made of them. Everything but the records follows from the records, so that no figure can be edited by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uvhttp_bench import audit, repository, standard, supplements
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import collection, self_check
from uvhttp_bench.model.record import UNSTABLE, Record
from uvhttp_bench.model.self_check import SelfCheck
from uvhttp_bench.output import section
from uvhttp_bench.output.report_html import html
from uvhttp_bench.output.report_markdown import markdown, pictures
from uvhttp_bench.output.section import Published, Shown
from uvhttp_bench.report_blocks import Bullets, Report, Text
from uvhttp_bench.report_peers import headline
from uvhttp_bench.reporting import Material, build, file_name

RUN, PEERS, SELF_CHECK = "baseline", "peers", "self-check"
CHARTS = ("ratios.svg", "ratios-narrow.svg")  # of the READMEs
PAGES = {repository.ROOT / "README.md": "en", repository.ROOT / "README.zh-CN.md": "zh"}


@dataclass(frozen=True)
class Kept:
    """The newest of each kind that is committed."""

    directory: Path
    run: Path | None
    peers: Path | None
    self_check: Path | None


def kept(directory: Path) -> Kept:
    found = {kind: collection.newest(directory / "data", kind) for kind in (RUN, PEERS, SELF_CHECK)}
    return Kept(directory, found[RUN], found[PEERS], found[SELF_CHECK])


def joined(records: Sequence[Record], more: Sequence[Record]) -> list[Record]:
    """A scenario that was measured again takes the place of what it was before, with all its servers: ratios are within rounds."""
    again = {r.test_scenario.name for r in more}
    return [*(r for r in records if r.test_scenario.name not in again), *more]


def refuse(records: Sequence[Record], allow_unstable: bool) -> None:
    """What nobody should read as a figure of this server."""

    def names(chosen: Sequence[Record]) -> str:
        return ", ".join(dict.fromkeys(f"{r.test_scenario.name} ({r.test_scenario.target})" for r in chosen))

    standard.refuse(records)
    if any(r.configuration.dirty for r in records):
        raise BenchError("the run was of sources that differ from their commit: commit, build and run again")
    # Another server that failed has no figures, and the report says why; our own is to be fixed.
    void = [r for r in records if not r.holds("cpu") and (r.kind == "run" or r.configuration.revision)]
    if void:
        why = next(c for c in void[0].checks if not c.passed and c.takes == "all")
        raise BenchError(f"{names(void)}: discarded runs are not published: {why.name}: {why.detail}")
    noisy = [r for r in records if r.status == UNSTABLE]
    if noisy and not allow_unstable:
        raise BenchError(f"{names(noisy)}: measured on a noisy machine: run again, or --allow-unstable")


def refuse_check(check: SelfCheck, allow_unstable: bool) -> None:
    c = check.configuration
    if c.dirty:
        raise BenchError("the self-check was of sources that differ from their commit: commit, build and run it again")
    if c.debug or c.coverage or c.sanitizers:
        raise BenchError("the self-check was not of a release build: cmake --preset standard, build and run it again")
    if any(one.restless for one in check.comparisons) and not allow_unstable:
        raise BenchError("the self-check was made on a noisy machine: run it again, or --allow-unstable")


def one_revision(revisions: Sequence[str]) -> None:
    if len(set(revisions)) > 1:
        raise BenchError(
            f"not of one revision: {', '.join(sorted({r[:9] for r in revisions}))}: measure all of them at one commit"
        )


def _report_path(directory: Path, records: Sequence[Record], name: str) -> Path:
    return directory / "reports" / records[0].timestamp[:10] / f"{file_name(records, name)}.md"


def files_of(report: Report, where: Path, data: str, pages: bool = True) -> list[tuple[Path, str]]:
    """A report as Markdown, its charts and, with `pages`, the same as a page. `where`: of the Markdown."""
    charts = [(where.with_name(name), text) for name, text in pictures(report)]
    page = [(where.with_suffix(".html"), html(report, data))] if pages else []
    return [(where, markdown(report, data)), *charts, *page]


def with_left_out(report: Report, data: collection.Kept) -> Report:
    """At its end: the runs that were made of the same scenarios and are not published, so that a choice is seen."""
    lines = audit.left_lines(data)
    if not lines:
        return report
    last = report.sections[-1]
    why = Text(
        f"**Runs of the same scenarios or sessions at this revision that are not published**, because {data.because}:"
    )
    ended = replace(last, blocks=(*last.blocks, why, Bullets(tuple(lines))))
    return replace(report, sections=(*report.sections[:-1], ended))


def reports(found: Kept, pages: bool = True) -> list[tuple[Path, str]]:
    """Files and their text."""
    made: list[tuple[Path, str]] = []
    check = self_check.read(found.self_check) if found.self_check else None
    for name, path in ((RUN, found.run), (PEERS, found.peers)):
        if path is None:
            continue
        records = collection.read(path)
        report = build(Material(tuple(records), name, self_check=check if name == RUN else None))
        report = with_left_out(report, collection.load(path))
        where, data = _report_path(found.directory, records, name), f"../../data/{path.parent.name}/{path.name}"
        made += files_of(report, where, data, pages)
    return [*made, *supplements.pages(found.directory, pages)]


def charts(found: Kept) -> list[tuple[Path, str]]:
    """Of the pages: a wide one, and one for a narrow screen."""
    fields = section.shown_fields(collection.read(found.peers)) if found.peers else []
    if not fields:
        return []
    made = headline(fields)
    return [(found.directory / name, text) for name, text in zip(CHARTS, made, strict=True) if text]


def outdated(found: Kept, made: Sequence[Path]) -> list[Path]:
    """Generated files that are not of the last publication. Data stays: trends are made of it."""
    files = (found.directory / "reports").rglob("PERF-*")
    old = [path for path in files if path.suffix in (".md", ".html", ".svg") and path not in made]
    return sorted(
        old
        + [
            found.directory / name
            for name in CHARTS
            if (found.directory / name).exists() and found.directory / name not in made
        ]
    )


def sections(found: Kept, pages: dict[Path, str]) -> list[tuple[Path, str]]:
    """The pages with their section anew."""
    published: dict[str, Published] = {}
    for name, path in ((RUN, found.run), (PEERS, found.peers)):
        if path is not None:
            records = collection.read(path)
            published[name] = Published(tuple(records), path, _report_path(found.directory, records, name))
    drawn = tuple(path for path, _ in charts(found))
    shown = Shown(
        run=published.get(RUN),
        peers=published.get(PEERS),
        check=found.self_check is not None,
        charts=(drawn[0], drawn[1]) if len(drawn) == len(CHARTS) else None,
    )
    return [(page, section.replaced(page, section.text(page, language, shown))) for page, language in pages.items()]
