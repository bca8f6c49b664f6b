"""Owns: the picture of what each layer costs: bars from where the layer beneath ends."""

from collections.abc import Sequence

from uvhttp_bench.attribution import Cost
from uvhttp_bench.output.plots import new, text_of


def svg(costs: Sequence[Cost]) -> str:
    figure, axes = new(1.4 + 0.4 * len(costs))
    totals = {cost.layer: cost.total_us for cost in costs}
    for place, cost in enumerate(costs):
        start = totals.get(cost.beneath, 0.0)
        axes.barh(place, start, color="#d6dae0")
        axes.barh(place, cost.total_us - start, left=start, color="C0")
        if cost.added_us:
            low, high = start + cost.added_us.low, start + cost.added_us.high
            axes.plot([low, high], [place, place], color="black", linewidth=1.2)
        end = max(cost.total_us, start, start + cost.added_us.high if cost.added_us else 0)
        added = f"{cost.added_us.middle:+.2f}" if cost.added_us else f"{cost.total_us:.2f}"
        axes.annotate(f"{added} us", (end, place), xytext=(6, 0), textcoords="offset points", va="center")
    labels = [f"{cost.layer} (on {cost.beneath})" if cost.beneath else cost.layer for cost in costs]
    axes.set_yticks(range(len(costs)), labels)
    axes.set_ylim(len(costs) - 0.5, -0.5)
    axes.set_xlim(0, 1.15 * max((cost.total_us for cost in costs), default=1))
    axes.set_xlabel("us of CPU time per request; grey: the layer beneath; black: 95 % interval of the difference")
    return text_of(figure)
