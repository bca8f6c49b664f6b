"""Owns: what is published next to runs: the experiment against Tomcat and a soak, as committed data and a page of each, by the rules
that hold for runs."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench import repository, standard
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.model import collection, database, experiment
from uvhttp_bench.model.codec import dump, write_text
from uvhttp_bench.model.experiment import Experiment
from uvhttp_bench.model.record import UNSTABLE, VOID, Record
from uvhttp_bench.output import experiment_table, soak_page, sweep_picture

EXPERIMENT, SOAK = "experiment", "soak"
SOAK_MINUTES_MIN = 30.0  # the standard's shortest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiment", type=Path, metavar="FILE", help="default: the last one of the same revision")
    parser.add_argument("--soak", metavar="SESSION", help="default: the last one of the same revision")


def refuse_experiment(found: Experiment, allow_unstable: bool) -> None:
    if not found.revision or found.environment is None or found.configuration is None:
        raise BenchError("the experiment does not say of which revision and machine it is: run it again")
    if found.dirty:
        raise BenchError("the experiment was of sources that differ from their commit: commit, build and run it again")
    c = found.configuration
    if c.debug or c.coverage or c.sanitizers:
        raise BenchError("the experiment was not of a release build: cmake --preset standard, build and run it again")
    check = standard.configuration(c)
    if not check.passed:
        raise BenchError(f"the experiment was not of the standard's configuration: {check.detail}")
    ours = [line for line in found.void if line.startswith("uvhttp ")]
    if ours:
        raise BenchError(f"the experiment has discarded runs: {ours[0]}: run it again")
    if found.restless and not allow_unstable:
        raise BenchError("the experiment was made on a noisy machine: run it again, or --allow-unstable")


def refuse_soak(record: Record, allow_unstable: bool) -> None:
    if record.configuration.dirty:
        raise BenchError("the soak was of sources that differ from their commit: commit, build and run it again")
    if record.status == VOID:
        why = next(check for check in record.checks if not check.passed and check.takes)
        raise BenchError(f"the soak was discarded: {why.name}: {why.detail}: run it again")
    standard.refuse([record])
    if record.test_scenario.duration < 60 * SOAK_MINUTES_MIN:
        raise BenchError(f"the soak took {record.test_scenario.duration / 60:g} minutes: {SOAK_MINUTES_MIN:g} are the least")
    if record.status == UNSTABLE and not allow_unstable:
        raise BenchError("the soak was made on a noisy machine: run it again, or --allow-unstable")


@dataclass(frozen=True)
class Chosen:
    experiment: Experiment | None
    soak: Record | None

    @property
    def revisions(self) -> list[str]:
        found = [self.experiment.revision] if self.experiment else []
        return [*found, self.soak.configuration.revision] if self.soak else found

    def refuse(self, allow_unstable: bool) -> None:
        if self.experiment:
            refuse_experiment(self.experiment, allow_unstable)
        if self.soak:
            refuse_soak(self.soak, allow_unstable)

    def write(self, directory: Path) -> list[Path]:
        written = []
        if self.experiment:
            written.append(directory / "data" / self.experiment.timestamp[:10] / f"{EXPERIMENT}.json")
            write_text(written[-1], dump(self.experiment))
        if self.soak:
            written.append(directory / "data" / self.soak.timestamp[:10] / f"{SOAK}.json")
            collection.write(written[-1], SOAK, [self.soak])
        return written


def _experiment(asked: Path | None, revisions: Sequence[str]) -> Experiment | None:
    if asked:
        return experiment.read(asked)
    found = (experiment.read(path) for path in sorted(repository.EXPERIMENTS.glob("*.json"), reverse=True))
    return next((one for one in found if one.revision in revisions), None)


def _soak(where: Path, asked: str | None, revisions: Sequence[str]) -> Record | None:
    with database.opened(where) as store:
        records = store.records(session=asked, kind=SOAK)
    if asked and not records:
        raise MissingError(f"{where}: no session {asked} of soak")
    chosen = [record for record in records if asked or record.configuration.revision in revisions]
    return chosen[-1] if chosen else None


def chosen(args: argparse.Namespace, revisions: Sequence[str]) -> Chosen:
    return Chosen(_experiment(args.experiment, revisions), _soak(args.database, args.soak, revisions))


# --- pages, made from the committed data alone ---


def _stem(directory: Path, date: str, version: str, name: str) -> Path:
    return directory / "reports" / date / f"PERF-{date}-v{version or '0'}-{name}"


def pages(directory: Path, pictures: bool) -> list[tuple[Path, str]]:
    """`pictures`: SVG too, which depends on the version of what draws it."""
    made: list[tuple[Path, str]] = []
    path = collection.newest(directory / "data", EXPERIMENT)
    if path:
        made += _experiment_pages(directory, path, pictures)
    path = collection.newest(directory / "data", SOAK)
    if path:
        record = collection.read(path)[0]
        stem = _stem(directory, path.parent.name, record.configuration.version, SOAK)
        shown = f"{stem.name}.svg" if len(record.resources.memory_series) > 1 else ""
        data = f"../../data/{path.parent.name}/{path.name}#L{collection.FIRST_LINE}"
        made.append((stem.with_name(f"{stem.name}.md"), soak_page.markdown(record, data, shown)))
        if pictures and shown:
            made.append((stem.with_name(shown), soak_page.svg(record)))
    return made


def _experiment_pages(directory: Path, path: Path, pictures: bool) -> list[tuple[Path, str]]:
    found = experiment.read(path)
    version = found.configuration.version if found.configuration else ""
    stem = _stem(directory, path.parent.name, version, EXPERIMENT)
    workloads = sorted({m.workload for m in found.sweep})
    text = f"# The experiment of S3 against Tomcat\n\nData: [{path.name}](../../data/{path.parent.name}/{path.name}).\n\n"
    text += experiment_table.markdown(found)
    made = []
    for workload in workloads:
        picture = f"{stem.name}-{workload}.svg"
        text += f"\n![requests/s against worker threads, {workload}]({picture})\n"
        if pictures:
            made.append((stem.with_name(picture), sweep_picture.svg(found, workload)))
    return [(stem.with_name(f"{stem.name}.md"), text), *made]
