"""Owns: the picture of the worker sweep: the knee, and where coroutines and Tomcat lie."""

import statistics

from uvhttp_bench.model.experiment import Experiment
from uvhttp_bench.output import plots
from uvhttp_bench.output.experiment_table import groups
from uvhttp_bench.scenarios.thesis import WORKLOADS, ideal_per_second


def svg(experiment: Experiment, workload: str) -> str:
    figure, axes = plots.new()
    found = sorted((m for m in experiment.sweep if m.workload == workload), key=lambda m: m.worker_threads or 0)
    counts = [m.worker_threads or 0 for m in found]
    axes.plot(counts, [m.requests_per_second for m in found], "o-", label="uvhttp, workers")
    lines = groups([m for m in experiment.measurements if m.workload == workload and m.mode != "worker"])
    for number, ((target, mode), same) in enumerate(lines.items(), 1):
        rate = statistics.median(m.requests_per_second for m in same)
        axes.axhline(rate, color=f"C{number}", linestyle="--", label=f"{target}, {mode}: {rate:,.0f}/s")
    ideal = ideal_per_second(WORKLOADS[workload], experiment.connections)
    if ideal:
        axes.axhline(ideal, color="black", linewidth=0.8, linestyle=":", label=f"ideal: {ideal:,.0f}/s")
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("worker threads")
    axes.set_ylabel("requests/s")
    axes.set_title(WORKLOADS[workload].title + f", {experiment.connections} connections")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    axes.grid(alpha=0.3)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + plots.text_of(figure)
