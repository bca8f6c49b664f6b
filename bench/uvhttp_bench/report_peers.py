"""Owns: the results of a report about servers side by side: for each scenario a chart, a table and the latencies."""

from collections.abc import Mapping, Sequence

from uvhttp_bench.model import collection
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import UNSTABLE, VOID, Record
from uvhttp_bench.output import charts, peers_table, words
from uvhttp_bench.output.tables import number
from uvhttp_bench.report_blocks import Block, Heading, Picture, Table, Text
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.standings import Field, base_of, best, closed, columns_of, is_ours
from uvhttp_bench.stats import ratio
from uvhttp_bench.versus import Standing

AXIS = "CPU time per request, as a ratio to that of {reference}"
CPU_HEADS = ("server", "ratio", "with client")
LOAD_HEADS = ("server", "req/s", "P50", "P99", "idle", "busy")
WIDE, NARROW = 900.0, 430.0  # of the chart at the head


def _panel(field: Field, shown: Sequence[Standing], title: str) -> charts.Panel:
    order = [s for s in field.others if s in shown]
    return charts.Panel(title, tuple(charts.Row(s.target, s.cpu_ratio) for s in order if s.cpu_ratio))


def headline(fields: Sequence[Field]) -> tuple[str, str]:
    """The servers of others that need the least, for each scenario: a wide chart and a narrow one."""
    chosen = closed(fields)
    if not chosen:
        return "", ""
    panels = [_panel(field, best(field), field.scenario) for field in chosen]
    axis = AXIS.format(reference=chosen[0].reference.target)
    return charts.ratios(panels, axis, 2, WIDE), charts.ratios(panels, axis, 1, NARROW)


def results(fields: Sequence[Field], records: Sequence[Record]) -> list[Block]:
    about = {scenario.name: scenario.about for scenario in catalog.everything()}
    blocks: list[Block] = []
    for field in closed(fields):
        blocks.append(Heading(field.scenario))
        blocks.append(Text(_words(field, about.get(base_of(field), ""))))
        picture = charts.ratios([_panel(field, field.others, "")], AXIS.format(reference=field.reference.target))
        if picture:
            blocks.append(Picture(f"CPU time per request, {field.scenario}", f"cpu-{field.scenario}", picture))
        blocks += _tables(field, records)
        both = columns_of(field, fields)
        if both:
            blocks.append(_conditions(both))
        blocks += _rates(field, fields, records)
        curves = percentiles(field)
        if curves:
            blocks.append(Picture(f"Latency by percentile, {field.scenario}", f"latency-{field.scenario}", curves))
    return blocks


def _words(field: Field, about: str) -> str:
    reference, n = field.reference, number
    text = f"{about[:1].upper()}{about[1:]}. " if about else ""
    text += f"Congestion control {field.conditions}. " if field.conditions else ""
    if reference.cpu_us is None:
        return f"{text}{reference.target} has no figure, so that there is no ratio."
    text += (
        f"{reference.target} needs {n(reference.cpu_us)} us of CPU time per request: {n(reference.cpu_user_us)} us in the "
    )
    counts = sorted({s.rounds for s in (reference, *field.others)})
    rounds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return text + f"program, {n(reference.cpu_system_us)} us in the kernel; {rounds} round{'' if counts[-1] == 1 else 's'}."


def filled(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], places: Sequence[str] = ()) -> Table:
    """Without the columns in which no row has anything."""
    kept = [i for i in range(len(heads)) if not rows or any(row[i] for row in rows)]
    return Table(title, tuple(heads[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), tuple(places))


def _ratio(s: Standing, reference: Standing) -> str:
    return ratio.with_bounds(s.cpu_ratio) or peers_table.said(s, reference)


def _tables(field: Field, records: Sequence[Record]) -> list[Block]:
    standings, n = (field.reference, *field.others), number
    places = [collection.fragment(records, field.own(s.target)) for s in standings]
    cpu = [(s.target, _ratio(s, field.reference), peers_table.with_client(s)) for s in standings]
    load = [
        (
            s.target,
            peers_table.rate(s),
            n(s.latency_p50_ms, 3),
            n(s.latency_p99_ms, 3),
            n(s.memory_idle_mb, 1),
            n(s.memory_busy_mb, 1),
        )
        for s in standings
    ]
    return [
        filled("CPU time per request: ratio and its 95 % interval", CPU_HEADS, cpu, places),
        filled("Rate, latency in ms, memory in MB; in the same order", LOAD_HEADS, load, places),
        *marks({s.target: s.status for s in standings}),
    ]


def _conditions(both: Sequence[Field]) -> Table:
    """The same scenario under each congestion control, a column for each."""
    by_target = [{s.target: s for s in (field.reference, *field.others)} for field in both]
    heads = ("server", *(field.conditions for field in both))
    rows = []
    for target in by_target[0]:
        named = [(field, found.get(target)) for field, found in zip(both, by_target, strict=True)]
        rows.append((target, *(_ratio(s, field.reference) if s else "" for field, s in named)))
    return Table("CPU time per request under each congestion control", heads, tuple(rows))


def marks(status_of: Mapping[str, str]) -> list[Block]:
    """What is not valid, by name; a lower bound shows as such in its cell."""
    lines = []
    for status in (UNSTABLE, VOID):
        names = [name for name, found in status_of.items() if found == status]
        if names:
            lines.append(f"{words.STATUS[status].capitalize()}: {', '.join(names)}.")
    return [Text(" ".join(lines))] if lines else []


def _rates(field: Field, fields: Sequence[Field], records: Sequence[Record]) -> list[Block]:
    """Latency at a part of each server's own capacity."""
    same = [f for f in fields if f.rate_percent and (f.scenario, f.conditions) == (field.scenario, field.conditions)]
    rows, places = [], []
    for one in sorted(same, key=lambda f: f.rate_percent):
        for s in (one.reference, *one.others):
            if s.latency_p50_ms is not None:
                row = (
                    s.target,
                    f"{one.rate_percent:.0f} %",
                    peers_table.rate(s),
                    number(s.latency_p50_ms, 3),
                    number(s.latency_p99_ms, 3),
                )
                rows.append(row)
                places.append(collection.fragment(records, one.own(s.target)))
    if not rows:
        return []
    heads = ("server", "of its capacity", "req/s", "P50", "P99")
    return [Table("Latency in ms at a part of each one's capacity", heads, tuple(rows), tuple(places))]


def percentiles(field: Field) -> str:
    """Ours, and the servers that need the least CPU time: more curves than that cannot be distinguished."""
    ours = [s.target for s in field.others if is_ours(s.target)]
    names = [field.reference.target, *ours, *(s.target for s in best(field))]
    kept = {name: [r for r in field.own(name) if r.holds("latency")] for name in names}
    return charts.percentiles({name: Histogram.merge(r.results.histogram for r in own) for name, own in kept.items() if own})
