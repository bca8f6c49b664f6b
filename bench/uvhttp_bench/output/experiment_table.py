"""Owns: the experiment's tables, in the form of the thesis of S3, and its picture."""

import statistics
from collections.abc import Sequence

from uvhttp_bench.model.experiment import Experiment, Measurement, Spread
from uvhttp_bench.scenarios.thesis import WORKLOADS, ideal_per_second

MODE_ORDER = ("coroutine", "worker", "loop", "thread")


def median_spread(rows: Sequence[Spread]) -> Spread:
    return Spread(
        statistics.median(row.mean for row in rows),
        statistics.median(row.stdev for row in rows),
        max(row.maximum for row in rows),
        statistics.median(row.within_percent for row in rows),
    )


def groups(measurements: Sequence[Measurement]) -> dict[tuple[str, str], list[Measurement]]:
    """By target and mode, ours first."""
    keys = {(m.target, m.mode) for m in measurements}
    order = sorted(keys, key=lambda key: (key[0] != "uvhttp", key[0], MODE_ORDER.index(key[1])))
    return {key: [m for m in measurements if (m.target, m.mode) == key] for key in order}


def _row(name: str, what: str, spread: Spread, unit: str) -> str:
    values = f"{spread.mean:.2f}{unit} | {spread.stdev:.2f}{unit} | {spread.maximum:.2f}{unit}"
    return f"| {name} | {what} | {values} | {spread.within_percent:.2f} % |"


def thesis_table(measurements: Sequence[Measurement]) -> list[str]:
    lines = ["| server | | mean | stdev | max | +/- stdev |", "|---|---|---:|---:|---:|---:|"]
    for (target, mode), found in groups(measurements).items():
        name = f"{target}, {mode}"
        lines.append(_row(name, "latency", median_spread([m.latency_ms for m in found]), " ms"))
        lines.append(_row("", "requests/s per thread", median_spread([m.rate_per_thread for m in found]), ""))
    return lines


def _ratio(found: Sequence[Measurement], others: Sequence[Measurement]) -> str:
    """Of the CPU time per request, within a round: the machine's drift drops out."""
    by_round = {m.round: m for m in others}
    ratios = [m.cpu_us / by_round[m.round].cpu_us for m in found if m.round in by_round and by_round[m.round].cpu_us > 0]
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f}..{max(ratios):.3f})"


def cost_table(measurements: Sequence[Measurement], ideal: float | None) -> list[str]:
    lines = [
        "| server | rounds | requests/s | of the ideal | P99 | CPU per request | user | system | to Tomcat's | memory |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    found_groups = groups(measurements)
    tomcat = [m for m in measurements if m.target == "tomcat"]
    for (target, mode), found in found_groups.items():
        rate = statistics.median(m.requests_per_second for m in found)
        share = f"{100 * rate / ideal:.1f} %" if ideal else "-"
        user = statistics.median(m.cpu_user_us for m in found)
        system = statistics.median(m.cpu_system_us for m in found)
        cpu = statistics.median(m.cpu_us for m in found)
        known = [m.latency_p99_ms for m in found if m.latency_p99_ms is not None]
        p99 = f"{statistics.median(known):.2f} ms" if known else "-"
        memory = statistics.median(m.memory_mb for m in found)
        lines.append(
            f"| {target}, {mode} | {len(found)} | {rate:,.1f} | {share} | {p99} | {cpu:.2f} us "
            f"| {user:.2f} us | {system:.2f} us | {_ratio(found, tomcat)} | {memory:.1f} MB |"
        )
    return lines


def sweep_table(experiment: Experiment, workload: str) -> list[str]:
    found = sorted((m for m in experiment.sweep if m.workload == workload), key=lambda m: m.worker_threads or 0)
    if not found:
        return []
    ideal = ideal_per_second(WORKLOADS[workload], experiment.connections)
    lines = [
        "| worker threads | requests/s | of the ideal | mean latency | CPU per request |",
        "|---:|---:|---:|---:|---:|",
    ]
    for m in found:
        lines.append(_sweep_row(str(m.worker_threads), [m], ideal))
    for (target, mode), same in groups([m for m in experiment.measurements if m.workload == workload]).items():
        if mode != "worker":
            lines.append(_sweep_row(f"{target}, {mode}", same, ideal))
    return lines


def _sweep_row(name: str, found: Sequence[Measurement], ideal: float | None) -> str:
    rate = statistics.median(m.requests_per_second for m in found)
    share = f"{100 * rate / ideal:.1f} %" if ideal else "-"
    latency = statistics.median(m.latency_ms.mean for m in found)
    cpu = statistics.median(m.cpu_us for m in found)
    return f"| {name} | {rate:,.1f} | {share} | {latency:.2f} ms | {cpu:.2f} us |"


def knee(sweep: Sequence[Measurement], share: float = 0.95) -> int | None:
    """The fewest worker threads that reach `share` of the best rate of the sweep."""
    if not sweep:
        return None
    best = max(m.requests_per_second for m in sweep)
    enough = [m.worker_threads for m in sweep if m.worker_threads and m.requests_per_second >= share * best]
    return min(enough, default=None)


def markdown(experiment: Experiment) -> str:
    e = experiment
    lines = [
        f"`wrk -t{e.threads} -c{e.connections} -d{e.seconds:.0f}s`, {e.rounds} rounds in turn, a fresh process each; "
        f"server on CPU {_cpus(e.server_cpus)}, wrk on CPU {_cpus(e.generator_cpus)}; {e.timestamp}.",
        "Medians over the rounds, the maximum of all.",
        "",
        *_of(e),
        *(f"- {name}: {version}" for name, version in e.versions.items()),
        *(f"- left out: {line}" for line in e.skipped),
        *(f"- void: {line}" for line in e.void),
        *(f"- noisy: {line}" for line in e.restless),
    ]
    for workload in WORKLOADS.values():
        found = [m for m in e.measurements if m.workload == workload.name]
        if not found:
            continue
        ideal = ideal_per_second(workload, e.connections)
        lines += ["", f"## {workload.title}", ""]
        if ideal:
            lines += [f"{e.connections} connections have an ideal of {ideal:.0f} requests/s.", ""]
        lines += [*thesis_table(found), "", *cost_table(found, ideal)]
        table = sweep_table(e, workload.name)
        if table:
            at = knee([m for m in e.sweep if m.workload == workload.name])
            lines += ["", f"Worker threads in advance; 95 % of the best from {at} on:", "", *table]
    return "\n".join(lines) + "\n"


def _of(e: Experiment) -> list[str]:
    """Which build and machine; older records do not know."""
    lines = [f"- revision {e.revision}" + (", with changes" if e.dirty else "")] if e.revision else []
    if e.environment:
        m = e.environment
        machine = f"{m.os}, {m.kernel}, {m.cpu}, {m.cores} cores, {m.memory}, {m.virtualization}"
        lines.append(f"- {machine}; {m.compiler} {m.compiler_version}; environment {m.hash}")
    return lines


def _cpus(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))
