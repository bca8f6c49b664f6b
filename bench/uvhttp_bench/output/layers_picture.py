"""Owns: the picture of what each layer costs: bars from where the layer beneath ends."""

from collections.abc import Sequence

from uvhttp_bench.attribution import Cost
from uvhttp_bench.output import charts


def svg(costs: Sequence[Cost]) -> str:
    totals = {cost.layer: cost.total_us for cost in costs}
    rows = []
    for cost in costs:
        start = min(totals.get(cost.beneath, 0.0), cost.total_us)
        interval = (start + cost.added_us.low, start + cost.added_us.high) if cost.added_us else None
        added = f"{cost.added_us.middle:+.2f}" if cost.added_us else f"{cost.total_us:.2f}"
        label = f"{cost.layer} (on {cost.beneath})" if cost.beneath else cost.layer
        rows.append(charts.Bar(label, (cost.total_us - start,), f"{added} us", start, interval))
    return charts.bars(rows, (), "us of CPU time per request, from where the layer beneath ends; line: 95 % interval")
