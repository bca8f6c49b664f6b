"""Owns: the picture of `trend`: a figure over time, sessions in the order of their dates, a dashed line where its level changes."""

from collections.abc import Sequence

from uvhttp_bench.exits import MissingError, UsageError
from uvhttp_bench.history import Series
from uvhttp_bench.output import charts

SERIES_MAX = 8  # more lines cannot be distinguished


def svg(series: Sequence[Series], figure: str) -> str:
    """Sessions have equal distances: several of a day would otherwise lie on each other."""
    if len(series) > SERIES_MAX:
        raise UsageError(f"--picture: {len(series)} series; name scenarios, so that there are {SERIES_MAX} at most")
    if not series:
        raise MissingError(f"--picture: no session has measured {figure}")
    sessions = {point.session: point.timestamp for one in series for point in one.points}
    order = sorted(sessions, key=lambda name: sessions[name])
    place = {name: number for number, name in enumerate(order)}
    found = [
        charts.Course(
            f"{one.scenario}, {one.target}, {one.environment[:8]}",
            tuple((place[point.session], point.value) for point in one.points),
            tuple(place[one.points[change.index].session] for change in one.changes),
        )
        for one in series
    ]
    return charts.courses(found, [sessions[name][:10] for name in order], figure)
