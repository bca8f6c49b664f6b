"""Owns: which checks a load has to pass. Made of what the record keeps, when it is measured and whenever it is checked again."""

from uvhttp_bench import gates
from uvhttp_bench.model.evidence import Inputs
from uvhttp_bench.model.record import Check, Results, ScenarioRun


def of_load(results: Results, run: ScenarioRun, inputs: Inputs) -> list[Check]:
    """Of a closed loop; open_loop.py says what an open one leaves out. A run in slices has no series."""
    under_way = run.connections * inputs.pipeline
    checks = [gates.errors(results), gates.bandwidth(results, inputs.bandwidth_mb)]
    if not inputs.answer_bytes_checked:
        checks.append(gates.length(results, inputs.answer_bytes, under_way * run.slices))
    checks.append(gates.samples(results, run.connections * run.slices, inputs.batch, inputs.waited))
    checks.append(gates.little(results, run.connections, inputs.pipeline, inputs.batch, inputs.waited))
    # Without the time in which the tool starts and ends, in which a generator that is saturated later does nothing.
    cpus = max(1, len(run.generator_cpus))
    loaded = min(inputs.generator_wall_seconds, results.seconds or inputs.generator_wall_seconds)
    generator = min(1.0, inputs.generator_cpu_seconds / (loaded * cpus))
    spent = inputs.user_seconds + inputs.system_seconds
    server = spent / (inputs.wall_seconds * max(1, len(run.server_cpus)))
    others = inputs.processes_seconds - spent - inputs.generator_cpu_seconds
    return [
        *checks,
        gates.generator(generator, server, under_way, cpus),
        gates.steady(inputs.cpu_series),
        gates.machine(others, inputs.steal_seconds, inputs.capacity_seconds),
        gates.memory(inputs.memory_series)[0],
    ]


def of_one_process(results: Results, inputs: Inputs) -> list[Check]:
    """Of a program that is server and generator in one: its CPU time is that of both."""
    others = inputs.processes_seconds - inputs.generator_cpu_seconds
    machine = gates.machine(others, inputs.steal_seconds, inputs.capacity_seconds)
    return [gates.errors(results), gates.bandwidth(results, inputs.bandwidth_mb), machine]
