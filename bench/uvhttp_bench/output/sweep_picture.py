"""Owns: the picture of the worker sweep: the knee, and where coroutines and Tomcat lie."""

import statistics

from uvhttp_bench.model.experiment import Experiment
from uvhttp_bench.output import charts
from uvhttp_bench.output.experiment_table import groups
from uvhttp_bench.scenarios.thesis import WORKLOADS, ideal_per_second


def svg(experiment: Experiment, workload: str) -> str:
    found = sorted((m for m in experiment.sweep if m.workload == workload), key=lambda m: m.worker_threads or 0)
    points = [(m.worker_threads or 0, m.requests_per_second) for m in found]
    others = groups([m for m in experiment.measurements if m.workload == workload and m.mode != "worker"])
    rules = {
        f"{target}, {mode}": statistics.median(m.requests_per_second for m in same)
        for (target, mode), same in others.items()
    }
    ideal = ideal_per_second(WORKLOADS[workload], experiment.connections)
    if ideal:
        rules["ideal"] = ideal
    return charts.sweep("uvhttp, workers", points, rules, "worker threads", "requests/s")
