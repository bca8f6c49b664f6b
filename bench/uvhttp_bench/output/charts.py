"""Owns: charts as SVG text, drawn here and nowhere else: the same figures make the same bytes on any machine. A chart brings its
colours for light and dark pages and its own background, so that it can stand in a page or be an image. Each function returns an
empty string when there is nothing to show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from uvhttp_bench.model.histogram import SAMPLES_BEYOND_MIN, Histogram
from uvhttp_bench.stats import ratio
from uvhttp_bench.stats.paired import Interval

WIDTH = 500.0
ROW, TITLE, AXIS = 21.0, 30.0, 40.0
LETTER = 7.4  # width of one, on average, at 13 px
RATIO_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
SAMPLES_MIN = 100  # of a curve
FIRST = 1 / (1 - 0.1)  # P10: before it a curve falls to the fastest request of all, which says nothing
CURVES_MAX = 8
DOT = 3.0
TICK_GAP = 30.0  # between two numbers of an axis

STYLE = """<style>
.c{--page:#ffffff;--ink:#1f2328;--quiet:#59636e;--line:#d1d9e0;--less:#b35900;--tie:#818b98;--more:#0969da;
--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#cf222e;--c5:#9a6700;--c6:#bf3989;--c7:#57606a;
font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){.c{--page:#0d1117;--ink:#e6edf3;--quiet:#9198a1;--line:#3d444d;--less:#f0883e;
--tie:#9198a1;--more:#58a6ff;--c0:#58a6ff;--c1:#f0883e;--c2:#56d364;--c3:#bc8cff;--c4:#ff7b72;--c5:#e3b341;--c6:#f778ba;--c7:#b1bac4}}
.c text{fill:var(--ink)}.c .q{fill:var(--quiet);font-size:12px}.c .t{font-weight:600}
.c .g{stroke:var(--line);stroke-width:1;fill:none}.c .one{stroke:var(--ink);stroke-width:1.2}
.c .less{stroke:var(--less);fill:var(--less)}.c .tie{stroke:var(--tie);fill:var(--page)}.c .more{stroke:var(--more);fill:var(--more)}
.c .w{stroke-width:2}.c .k{fill:none;stroke-width:2}
</style>"""


@dataclass(frozen=True)
class Row:
    """A ratio with its interval. `label`: whose."""

    label: str
    interval: Interval


@dataclass(frozen=True)
class Panel:
    title: str
    rows: tuple[Row, ...]


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    marked = f' class="{kind}"' if kind else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{_n(x)}" y="{_n(y)}"{marked}{where}>{escape(text)}</text>\n'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "g") -> str:
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="{kind}"/>\n'


def _dot(x: float, y: float, kind: str, radius: float = DOT) -> str:
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" class="{kind}" stroke-width="1.5"/>\n'


def _whole(width: float, height: float, label: str, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
        f'height="{_n(height)}" class="c" role="img" aria-label="{escape(label, {chr(34): "&quot;"})}">\n{STYLE}\n'
        f'<rect width="{_n(width)}" height="{_n(height)}" rx="6" style="fill:var(--page)"/>\n{body}</svg>\n'
    )


@dataclass(frozen=True)
class _Scale:
    """A logarithmic or linear axis: from values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool = True

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1)


# --- ratios ---


def ratios(panels: Sequence[Panel], axis: str, columns: int = 1, width: float = WIDTH) -> str:
    """A panel for each scenario, all on one scale; left of 1 is less. Rows stand in the order given."""
    panels = [panel for panel in panels if panel.rows]
    if not panels:
        return ""
    rows = [row for panel in panels for row in panel.rows]
    low = min(0.8, *(row.interval.low for row in rows)) / 1.05
    high = max(1.25, *(row.interval.high for row in rows)) * 1.05
    gap = 28.0
    each = (width - gap * (columns - 1)) / columns
    left = 14 + LETTER * max(len(row.label) for row in rows)
    right = 54.0
    height_of = {panel.title: (TITLE if panel.title else 8) + ROW * len(panel.rows) for panel in panels}
    lanes: list[list[Panel]] = [[] for _ in range(columns)]
    part = sum(height_of.values()) / columns
    filled = 0.0
    for panel in panels:  # down the first column, then the next: the order stays that of reading
        number = min(columns - 1, int((filled + height_of[panel.title] / 2) / part))
        lanes[number].append(panel)
        filled += height_of[panel.title]
    tall = max(sum(height_of[panel.title] for panel in lane) for lane in lanes)
    body = ""
    for place, lane in enumerate(lanes):
        x0, y = place * (each + gap), 4.0
        scale = _Scale(low, high, x0 + left, x0 + each - right)
        for panel in lane:
            body += _panel(panel, scale, x0, x0 + each, y)
            y += height_of[panel.title]
        body += _ratio_axis(scale, y)
    body += _text(width / 2, tall + 38, axis, "q", "middle")
    return _whole(width, tall + AXIS + 8, axis, body)


def _panel(panel: Panel, scale: _Scale, x0: float, x1: float, y: float) -> str:
    body = ""
    if panel.title:
        body += _text(x0 + 6, y + 20, panel.title, "t")
        y += TITLE
    bottom = y + ROW * len(panel.rows)
    for tick in RATIO_TICKS:
        if scale.low <= tick <= scale.high and abs(scale(tick) - scale(1)) > TICK_GAP:
            body += _line(scale(tick), y, scale(tick), bottom)
    body += _line(scale(1), y, scale(1), bottom, "one")
    for place, row in enumerate(panel.rows):
        middle, kind = y + ROW * (place + 0.5), ratio.finding(row.interval)
        body += _text(scale.start - 8, middle + 4.5, row.label, "", "end")
        low, high = scale(row.interval.low), scale(row.interval.high)
        body += _line(low, middle, high, middle, f"{kind} w")
        if high - low > 4 * DOT:
            body += _line(low, middle - 4, low, middle + 4, f"{kind} w") + _line(
                high, middle - 4, high, middle + 4, f"{kind} w"
            )
        body += _dot(scale(row.interval.middle), middle, kind)
        body += _text(x1 - 4, middle + 4.5, ratio.text(row.interval), "q" if kind == ratio.TIE else "", "end")
    return body


def _ratio_axis(scale: _Scale, y: float) -> str:
    """1 in any case, and whatever else has space."""
    used = [scale(1)]
    body = _text(scale(1), y + 15, "1", "q", "middle")
    for tick in RATIO_TICKS:
        if scale.low <= tick <= scale.high and all(abs(scale(tick) - place) > TICK_GAP for place in used):
            used.append(scale(tick))
            body += _text(scale(tick), y + 15, f"{tick:g}", "q", "middle")
    return body


# --- lines ---


@dataclass(frozen=True)
class _Plot:
    across: _Scale
    up: _Scale
    bottom: float


def _plot(
    height: float, space: float, across: tuple[float, float, bool], up: tuple[float, float, bool], left: float = 66.0
) -> _Plot:
    """`space`: above it, of the legend. Each axis: from, to, whether logarithmic."""
    bottom = height - AXIS - 4
    return _Plot(
        _Scale(across[0], across[1], left, WIDTH - 18, across[2]), _Scale(up[0], up[1], bottom, 14.0 + space, up[2]), bottom
    )


def _axes(
    plot: _Plot, xticks: Sequence[tuple[float, str]], yticks: Sequence[float], xname: str, yname: str, log_y: bool
) -> str:
    body = ""
    for value, name in xticks:
        body += _line(plot.across(value), plot.up.end, plot.across(value), plot.bottom)
        body += _text(plot.across(value), plot.bottom + 16, name, "q", "middle")
    for value in yticks:
        body += _line(plot.across.start, plot.up(value), plot.across.end, plot.up(value))
        body += _text(plot.across.start - 6, plot.up(value) + 4, f"{value:g}" if log_y else f"{value:,.10g}", "q", "end")
    body += _text((plot.across.start + plot.across.end) / 2, plot.bottom + 34, xname, "q", "middle")
    middle = (plot.up.start + plot.up.end) / 2
    return body + (
        f'<text class="q" text-anchor="middle" transform="translate(14 {_n(middle)}) rotate(-90)">{escape(yname)}</text>\n'
    )


def _path(points: Sequence[tuple[float, float]], number: int, dashed: bool = False) -> str:
    """Without the points that would not be seen."""
    kept: list[tuple[float, float]] = []
    for x, y in points:
        if len(kept) < 2 or abs(x - kept[-1][0]) + abs(y - kept[-1][1]) >= 1.5:
            kept.append((x, y))
    if points and kept[-1] != points[-1]:
        kept.append(points[-1])
    text = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in kept)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<path d="{text}" class="k" style="stroke:var(--c{number % 8})"{dash}/>\n'


def _legend(names: Sequence[str], y: float) -> tuple[str, float]:
    """In as many lines as it needs; with the height of them."""
    body, x, lines = "", 62.0, 1
    for number, name in enumerate(names):
        wide = 30 + LETTER * len(name)
        if x + wide > WIDTH and x > 62:
            x, lines = 62.0, lines + 1
        at = y + 18 * (lines - 1) + 12
        body += f'<path d="M{_n(x)} {_n(at - 4)}h16" class="k" style="stroke:var(--c{number % 8})"/>\n'
        body += _text(x + 21, at, name, "q")
        x += wide
    return body, 18.0 * lines + 8


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten; only the powers where there would be too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    fine = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    ticks = [round(t, 9) for t in fine if low <= t <= high]
    return ticks if len(ticks) <= 8 else [t for t in ticks if math.log10(t).is_integer()]


def _steps(high: float) -> list[float]:
    """From 0, about five."""
    raw = high / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw)
    return [round(step * n, 9) for n in range(int(high / step) + 1)]


def _curve(histogram: Histogram) -> list[tuple[float, float]]:
    """(1 / part of the requests that take longer, milliseconds), as far as there are samples enough beyond."""
    total, seen = histogram.count, 0
    points: list[tuple[float, float]] = []
    for value, count in zip(histogram.values_us, histogram.counts, strict=True):
        seen += count
        if total - seen < SAMPLES_BEYOND_MIN:
            break
        if total / (total - seen) >= FIRST:
            points.append((total / (total - seen), max(value, 1) / 1000))
    return points


def percentiles(histograms: Mapping[str, Histogram]) -> str:
    """The percentile spectrum: latency against "one in so many takes longer", so that the tail has as much space as the middle."""
    curves = {name: _curve(h) for name, h in list(histograms.items()) if h.count >= SAMPLES_MIN}
    curves = {name: points for name, points in curves.items() if points}
    curves = dict(list(curves.items())[:CURVES_MAX])
    if not curves:
        return ""
    most = max(2.0, *(points[-1][0] for points in curves.values()))
    values = [value for points in curves.values() for _, value in points]
    low, high = min(values) / 1.1, max(values) * 1.1
    if high / low < 4:  # a flat curve shall look flat
        low, high = low / 2, high * 2
    legend, space = _legend(list(curves), 6)
    height = 340 + space
    plot = _plot(height, space, (FIRST, most, True), (low, high, True))
    ticks = [(1 / (1 - nines), f"P{100 * nines:g}") for nines in NINES if 1 / (1 - nines) <= most * 1.01]
    body = legend + _axes(plot, ticks, _decades(low, high), "percentile", "latency, ms", True)
    for number, points in enumerate(curves.values()):
        body += _path([(plot.across(x), plot.up(y)) for x, y in points], number)
    return _whole(WIDTH, height, "latency by percentile", body)


def concurrency(points: Sequence[tuple[int, float, float, float]]) -> str:
    """(connections, requests/s: lowest, median, highest of the repeats)."""
    if len({point[0] for point in points}) < 2:
        return ""
    ordered, height = sorted(points), 320.0
    plot = _plot(height, 0, (ordered[0][0] / 1.2, ordered[-1][0] * 1.2, True), (0, max(p[3] for p in points) * 1.08, False))
    ticks: list[tuple[float, str]] = []
    for point in ordered:
        if not ticks or plot.across(point[0]) - plot.across(ticks[-1][0]) > 34:
            ticks.append((point[0], str(point[0])))
    body = _axes(plot, ticks, _steps(plot.up.high), "connections", "requests/s", False)
    body += _path([(plot.across(p[0]), plot.up(p[2])) for p in ordered], 0)
    for count, lowest, middle, highest in ordered:
        body += _line(plot.across(count), plot.up(lowest), plot.across(count), plot.up(highest), "more w")
        body += _dot(plot.across(count), plot.up(middle), "more")
    return _whole(WIDTH, height, "requests per second against connections", body)


def sweep(name: str, points: Sequence[tuple[int, float]], rules: Mapping[str, float], across: str, up: str) -> str:
    """A curve against a number, and levels to compare it with."""
    if not points:
        return ""
    highest = max(*(value for _, value in points), *rules.values(), 1e-9) * 1.08
    legend, space = _legend([name, *(f"{label}: {value:,.0f}" for label, value in rules.items())], 6)
    height = 320 + space
    least, most = points[0][0], max(points[-1][0], points[0][0] + 1)
    plot = _plot(height, space, (least / 1.2, most * 1.2, True), (0, highest, False))
    ticks = [(float(count), str(count)) for count, _ in points]
    body = legend + _axes(plot, ticks, _steps(highest), across, up, False)
    for number, value in enumerate(rules.values(), 1):
        body += _path([(plot.across.start, plot.up(value)), (plot.across.end, plot.up(value))], number, True)
    places = [(plot.across(count), plot.up(value)) for count, value in points]
    body += _path(places, 0) + "".join(_dot(x, y, "more") for x, y in places)
    return _whole(WIDTH, height, f"{up} against {across}", body)


def line(points: Sequence[tuple[float, float]], across: str, up: str) -> str:
    """A figure over time, from 0."""
    if len(points) < 2:
        return ""
    highest, last, height = max(max(value for _, value in points) * 1.08, 1e-9), max(points[-1][0], 1e-9), 300.0
    plot = _plot(height, 0, (0, last, False), (0, highest, False))
    body = _axes(plot, [(value, f"{value:g}") for value in _steps(last)], _steps(highest), across, up, False)
    body += _path([(plot.across(x), plot.up(y)) for x, y in points], 0)
    return _whole(WIDTH, height, f"{up} against {across}", body)


@dataclass(frozen=True)
class Course:
    """A figure at some of the sessions: (number of the session, value), and the sessions with which its level changes."""

    name: str
    points: tuple[tuple[int, float], ...]
    changes: tuple[int, ...] = ()


def courses(found: Sequence[Course], sessions: Sequence[str], what: str) -> str:
    """`sessions`: what is written under each."""
    if not any(course.points for course in found):
        return ""
    highest = max(value for course in found for _, value in course.points) * 1.08
    legend, space = _legend([course.name for course in found], 6)
    height = 320 + space
    plot = _plot(height, space, (-0.5, len(sessions) - 0.5, False), (0, max(highest, 1e-9), False))
    ticks: list[tuple[float, str]] = []
    for number, name in enumerate(sessions):
        if not ticks or plot.across(number) - plot.across(ticks[-1][0]) > LETTER * len(name) + 8:
            ticks.append((float(number), name))
    body = legend + _axes(plot, ticks, _steps(plot.up.high), "session", what, False)
    for number, course in enumerate(found):
        places = [(plot.across(session), plot.up(value)) for session, value in course.points]
        body += _path(places, number)
        body += "".join(
            f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(DOT)}" style="fill:var(--c{number % 8})"/>\n' for x, y in places
        )
        for session in course.changes:
            x = plot.across(session - 0.5)
            body += _path([(x, plot.up.end), (x, plot.bottom)], number, True)
    return _whole(WIDTH, height, f"{what} by session", body)


def trend(series: Sequence[tuple[str, Sequence[float], Sequence[int]]], what: str) -> str:
    """(name, a figure for each session, indexes of changes)."""
    shown = [one for one in series if len(one[1]) >= 2]
    if not shown:
        return ""
    longest = max(len(values) for _, values, _ in shown)
    highest = max(max(values) for _, values, _ in shown) * 1.08
    legend, space = _legend([name for name, _, _ in shown], 6)
    height = 320 + space
    plot = _plot(height, space, (0.5, longest + 0.5, False), (0, highest, False))
    step = max(1, math.ceil(longest / 12))
    ticks = [(float(n), str(n)) for n in range(1, longest + 1, step)]
    body = legend + _axes(plot, ticks, _steps(highest), "session", what, False)
    for number, (_, values, changes) in enumerate(shown):
        body += _path([(plot.across(place), plot.up(value)) for place, value in enumerate(values, 1)], number)
        for place in changes:
            body += _path([(plot.across(place + 0.5), plot.up.end), (plot.across(place + 0.5), plot.bottom)], number, True)
    return _whole(WIDTH, height, f"{what} by session", body)


# --- bars ---


@dataclass(frozen=True)
class Bar:
    """Parts from left to right, and what is written behind them. `start`: where the first part begins."""

    label: str
    parts: tuple[float, ...]
    text: str
    start: float = 0.0
    interval: tuple[float, float] | None = None


def bars(rows: Sequence[Bar], names: Sequence[str], axis: str) -> str:
    """`names`: of the parts; one part needs none."""
    if not rows:
        return ""
    left = 14 + LETTER * max(len(row.label) for row in rows)
    right = 12 + LETTER * max(len(row.text) for row in rows)
    ends = [row.start + sum(row.parts) for row in rows] + [row.interval[1] for row in rows if row.interval]
    high = max(*ends, 1e-9)
    legend, space = _legend(names, 4) if names else ("", 0.0)
    scale = _Scale(0, high, left, WIDTH - right, False)
    body, y = legend, 6 + space
    bottom = y + ROW * len(rows)
    for tick in _steps(high):
        body += _line(scale(tick), y, scale(tick), bottom) + _text(scale(tick), bottom + 16, f"{tick:g}", "q", "middle")
    for row in rows:
        body += _text(left - 8, y + 15.5, row.label, "", "end")
        start = row.start
        for number, part in enumerate(row.parts):
            wide = scale(start + part) - scale(start)
            body += (
                f'<rect x="{_n(scale(start))}" y="{_n(y + 4)}" width="{_n(max(0.0, wide))}" height="{_n(ROW - 8)}" '
                f'style="fill:var(--c{number % 8})"/>\n'
            )
            start += part
        if row.interval:
            body += _line(scale(row.interval[0]), y + ROW / 2, scale(row.interval[1]), y + ROW / 2, "one")
        end = max(start, row.interval[1] if row.interval else 0)
        body += _text(scale(end) + 6, y + 15.5, row.text)
        y += ROW
    return _whole(WIDTH, bottom + AXIS, axis, body + _text((left + WIDTH - right) / 2, bottom + 33, axis, "q", "middle"))
