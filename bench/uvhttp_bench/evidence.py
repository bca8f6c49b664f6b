"""Owns: the inputs of a run's figures and checks as its record keeps them, so that they can be computed again."""

from collections.abc import Sequence
from dataclasses import replace

from uvhttp_bench.loads.base import Job, Outcome
from uvhttp_bench.model.evidence import Inputs
from uvhttp_bench.monitor import CpuTimes, Usage

POINTS_MAX = 200  # of a series


def _groups(count: int) -> list[slice]:
    """Of equal length, as many as may be."""
    size = max(1, -(-count // POINTS_MAX))
    return [slice(start, start + size) for start in range(0, count - count % size, size)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def compact(usage: Usage) -> Usage:
    """With series of at most POINTS_MAX points. Figures and checks are of what the record keeps, not of something finer."""
    memory = usage.memory_series
    step = max(1, -(-len(memory) // POINTS_MAX))
    kept = memory[::step] if not memory or memory[::step][-1] == memory[-1] else (*memory[::step], memory[-1])
    return replace(
        usage,
        cpu_series=tuple(round(_mean(usage.cpu_series[part]), 6) for part in _groups(len(usage.cpu_series))),
        memory_series=tuple((round(seconds, 3), round(mb, 3)) for seconds, mb in kept),
    )


def inputs(job: Job, outcome: Outcome, usage: Usage, bandwidth_mb: float, log_bytes: int) -> Inputs:
    """Of a compact usage."""
    return Inputs(
        wall_seconds=usage.wall_seconds,
        user_seconds=usage.user_seconds,
        system_seconds=usage.system_seconds,
        switches=usage.switches,
        processes_seconds=usage.processes_seconds,
        steal_seconds=usage.steal_seconds,
        capacity_seconds=usage.capacity_seconds,
        generator_cpu_seconds=outcome.cpu_seconds,
        generator_wall_seconds=outcome.wall_seconds,
        bandwidth_mb=bandwidth_mb,
        pipeline=job.pipeline,
        answer_bytes=job.answer_bytes,
        answer_bytes_checked=outcome.answer_bytes_checked,
        batch=outcome.batch,
        waited=outcome.waited,
        log_bytes=log_bytes,
        cpu_series=usage.cpu_series,
        memory_series=usage.memory_series,
    )


def resources(made: Inputs, requests: int) -> dict[str, float]:
    """What of a record's resources follows from its inputs, by name: a run, its slices and the check of both share the rules."""
    asked, cpu, capacity = max(1, requests), made.user_seconds + made.system_seconds, max(1e-9, made.capacity_seconds)
    others = max(0.0, made.processes_seconds - cpu - made.generator_cpu_seconds)
    return {
        "cpu_usage_percent": 100 * cpu / made.wall_seconds,
        "context_switches_per_sec": made.switches / made.wall_seconds,
        "cpu_user_us_per_request": 1e6 * made.user_seconds / asked,
        "cpu_system_us_per_request": 1e6 * made.system_seconds / asked,
        "generator_cpu_us_per_request": 1e6 * made.generator_cpu_seconds / asked,
        "other_cpu_percent": 100 * others / capacity,
        "steal_percent": 100 * made.steal_seconds / capacity,
    }


SUMMED = (
    "wall_seconds", "user_seconds", "system_seconds", "switches", "processes_seconds", "steal_seconds", "capacity_seconds",
    "generator_cpu_seconds", "generator_wall_seconds", "waited",
)  # fmt: skip


def summed(parts: Sequence[Inputs]) -> Inputs:
    """Of the slices of one run. A series in time has no meaning here, because the slices have others in between."""
    sums = {name: sum(getattr(one, name) for one in parts) for name in SUMMED}
    return replace(parts[-1], cpu_series=(), memory_series=(), **sums)


def of_one_process(outcome: Outcome, before: CpuTimes, after: CpuTimes, bandwidth_mb: float) -> Inputs:
    """Of a program that is server and generator in one."""
    return Inputs(
        wall_seconds=outcome.wall_seconds,
        processes_seconds=after.processes - before.processes,
        steal_seconds=after.steal - before.steal,
        capacity_seconds=after.total - before.total,
        generator_cpu_seconds=outcome.cpu_seconds,
        generator_wall_seconds=outcome.wall_seconds,
        bandwidth_mb=bandwidth_mb,
    )
