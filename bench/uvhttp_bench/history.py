"""Owns: a figure over time: one point for each session that measured it, and where its level has changed."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.model import collection
from uvhttp_bench.model.record import Record
from uvhttp_bench.rounds import value
from uvhttp_bench.stats.change_points import change_points
from uvhttp_bench.stats.verdict import METRICS, Metric

POINTS_MAX = 100
CHANGE_MIN = 0.02  # a smaller one is nobody's concern


@dataclass(frozen=True)
class Point:
    session: str
    timestamp: str
    revision: str
    value: float
    records: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    index: int  # of the first point of the new level
    before: float  # medians of the levels
    after: float
    worse: bool
    timestamp: str
    revision_before: str
    revision: str

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True)
class Series:
    """Of one scenario and server in one environment: another machine is another series."""

    scenario: str
    target: str
    environment: str
    metric: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]


# Which committed files hold sessions of a kind.
COMMITTED = {"run": ("baseline", "regression"), "peers": ("peers",)}


def gathered(directory: Path, kind: str, more: Sequence[Record]) -> list[Record]:
    """What is committed and what the database has, each record once, oldest first: a clone has the first, the machine that
    measured has both."""
    found: dict[tuple[str, str, str], Record] = {}
    for name in COMMITTED.get(kind, ()):
        for path in sorted(directory.glob(f"*/{name}.json")):
            for record in collection.read(path):
                if record.kind == kind:
                    found[record.session, record.timestamp, record.test_id] = record
    for record in more:
        found[record.session, record.timestamp, record.test_id] = record
    return sorted(found.values(), key=lambda record: record.timestamp)


def points_of(records: Sequence[Record], metric: Metric) -> list[Point]:
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if value(record, metric):
            sessions.setdefault(record.session, []).append(record)
    points = []
    for name, kept in sessions.items():
        middle = statistics.median(found for found in (value(record, metric) for record in kept) if found)
        first = kept[0]
        ids = tuple(record.test_id for record in kept)
        points.append(Point(name, first.timestamp, first.configuration.revision, middle, ids))
    return sorted(points, key=lambda point: point.timestamp)[-POINTS_MAX:]


def changes_of(points: Sequence[Point], metric: Metric, least: float = CHANGE_MIN) -> list[Change]:
    places = change_points([math.log(point.value) for point in points])
    edges = [0, *places, len(points)]
    levels = [
        statistics.median(p.value for p in points[start:end]) for start, end in itertools.pairwise(edges)
    ] if points else []  # fmt: skip
    found = []
    for number, place in enumerate(places):
        before, after = levels[number], levels[number + 1]
        if abs(after / before - 1) < least:
            continue
        worse = (after < before) if metric.higher_is_better else (after > before)
        old, new = points[place - 1], points[place]
        found.append(Change(place, before, after, worse, new.timestamp, old.revision, new.revision))
    return found


def series_of(records: Sequence[Record], metrics: Sequence[Metric] = METRICS, least: float = CHANGE_MIN) -> list[Series]:
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        run = record.test_scenario
        groups.setdefault((run.name, run.target, record.environment.hash), []).append(record)
    found = []
    for (scenario, target, environment), kept in groups.items():
        for metric in metrics:
            points = points_of(kept, metric)
            if points:
                changes = tuple(changes_of(points, metric, least))
                found.append(Series(scenario, target, environment, metric.name, tuple(points), changes))
    return found
