"""Owns: pictures as SVG text, for a page that needs nothing else. Each returns an empty string when it has nothing to show."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uvhttp_bench.exits import MissingError
from uvhttp_bench.model.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIOS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


@dataclass(frozen=True)
class Bar:
    """A ratio with its interval."""

    label: str
    low: float
    middle: float
    high: float


def new(height: float = 4.2) -> "tuple[Figure, Axes]":
    try:
        import matplotlib
    except ImportError as error:
        raise MissingError("pictures need matplotlib: ./dev bench installs it") from error
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "uvhttp"  # the same figures make the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(8.5, height), layout="constrained")


def text_of(figure: "Figure") -> str:
    """Without the XML head, so that it can stand in a page."""
    from matplotlib import pyplot

    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _curve(histogram: Histogram) -> tuple[list[float], list[float]]:
    """(1 / part of the requests that take longer, milliseconds), where ten samples or more are beyond."""
    total, seen = histogram.count, 0
    across: list[float] = []
    up: list[float] = []
    for value, count in zip(histogram.values_us, histogram.counts, strict=True):
        seen += count
        if total - seen < 10:
            break
        across.append(total / (total - seen))
        up.append(value / 1000)
    return across, up


def percentiles(histograms: dict[str, Histogram]) -> str:
    """Latency against "one in so many takes longer": the tail has as much room as the middle."""
    curves = {name: _curve(histogram) for name, histogram in histograms.items() if histogram.count >= 100}
    if not curves:
        return ""
    figure, axes = new()
    for name, (across, up) in curves.items():
        axes.plot(across, up, label=name, linewidth=1.4)
    most = max(max(across, default=1) for across, _ in curves.values())
    ticks = [nines for nines in NINES if 1 / (1 - nines) <= most * 2]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks([1 / (1 - nines) for nines in ticks], [f"P{100 * nines:g}" for nines in ticks])
    axes.minorticks_off()
    axes.set_ylabel("latency, ms")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return text_of(figure)


def concurrency(points: Sequence[tuple[int, float, float, float]]) -> str:
    """(connections, requests/s: lowest, median, highest of the repeats)."""
    if len({point[0] for point in points}) < 2:
        return ""
    figure, axes = new()
    ordered = sorted(points)
    across = [float(point[0]) for point in ordered]
    middle = [point[2] for point in ordered]
    reach = [[p[2] - p[1] for p in ordered], [p[3] - p[2] for p in ordered]]
    axes.errorbar(across, middle, yerr=reach, fmt="o-", capsize=3)
    axes.set_xscale("log")
    axes.set_xticks(across, [str(point[0]) for point in ordered])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("connections")
    axes.set_ylabel("requests/s")
    axes.grid(alpha=0.3)
    return text_of(figure)


def intervals(bars: Sequence[Bar], what: str) -> str:
    """Ratios with their intervals around one; to the left is less."""
    if not bars:
        return ""
    figure, axes = new(1.2 + 0.32 * len(bars))
    across = [bar.middle for bar in bars]
    places = [float(place) for place in range(len(bars))]
    reach = [[bar.middle - bar.low for bar in bars], [bar.high - bar.middle for bar in bars]]
    axes.errorbar(across, places, xerr=reach, fmt="o", capsize=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(places, [bar.label for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    high, low = max(bar.high for bar in bars), min(bar.low for bar in bars)
    if high > 3:
        axes.set_xscale("log")
        ticks = [tick for tick in RATIOS if low / 1.5 <= tick <= high * 1.5]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    axes.set_xlabel(what)
    axes.grid(alpha=0.3, axis="x")
    return text_of(figure)


def trend(series: Sequence[tuple[str, Sequence[float], Sequence[int]]], what: str) -> str:
    """(name, a figure for each session, indexes of changes)."""
    shown = [one for one in series if len(one[1]) >= 2]
    if not shown:
        return ""
    figure, axes = new()
    for number, (name, values, changes) in enumerate(shown):
        color = f"C{number % 10}"
        axes.plot(list(range(1, len(values) + 1)), list(values), "o-", markersize=3, color=color, label=name)
        for place in changes:
            axes.axvline(place + 0.5, color=color, linestyle="--", linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("session")
    axes.set_ylabel(what)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return text_of(figure)
