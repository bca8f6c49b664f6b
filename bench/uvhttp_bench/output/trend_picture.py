"""Owns: the picture of `trend`: a figure over time, sessions in the order of their dates, a dashed line where its level changes."""

from collections.abc import Sequence

from uvhttp_bench.exits import MissingError, UsageError
from uvhttp_bench.history import Series
from uvhttp_bench.output import plots

SERIES_MAX = 8  # more lines cannot be told apart
DATES_MAX = 12


def svg(series: Sequence[Series], figure: str) -> str:
    """Sessions have equal distances: several of a day would otherwise lie on each other."""
    if len(series) > SERIES_MAX:
        raise UsageError(f"--picture: {len(series)} series; name scenarios, so that there are {SERIES_MAX} at most")
    if not series:
        raise MissingError(f"--picture: no session has measured {figure}")
    sessions = {point.session: point.timestamp for one in series for point in one.points}
    order = sorted(sessions, key=lambda name: sessions[name])
    place = {name: number for number, name in enumerate(order)}
    drawing, axes = plots.new()
    for number, one in enumerate(series):
        color = f"C{number}"
        across = [place[point.session] for point in one.points]
        axes.plot(
            across, [point.value for point in one.points], "o-", markersize=3, color=color,
            label=f"{one.scenario}, {one.target}, {one.environment[:8]}",
        )  # fmt: skip
        for change in one.changes:
            axes.axvline(across[change.index] - 0.5, color=color, linestyle="--", linewidth=0.9)
    step = max(1, -(-len(order) // DATES_MAX))
    shown = range(0, len(order), step)
    axes.set_xticks(list(shown), [sessions[order[number]][:10] for number in shown], rotation=30, ha="right")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(figure)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + plots.text_of(drawing)
