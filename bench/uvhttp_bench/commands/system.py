"""Owns: the verb `system`: the standard's checklist, executed."""

import argparse
import os

from uvhttp_bench import environment, gates, measure, network, standard
from uvhttp_bench.exits import FINE, MISSING, UNSTABLE
from uvhttp_bench.loads.base import allow_many_files
from uvhttp_bench.output import tables
from uvhttp_bench.targets.uvhttp import Uvhttp

HELP = "is this machine fit to measure on: each point, what it means, how to fix it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    """Exit 77 when something is missing without which nothing can be measured, 4 when figures would be noisy."""
    target = Uvhttp()
    info = target.build_info()
    points = environment.checklist()
    cpus = measure.share_cpus() if len(os.sched_getaffinity(0)) > 1 else measure.Cpus((), ())
    allow_many_files()
    with network.entered() as why:  # as `run` would
        points.append(environment.own_network(network.warning(why)))
        if network.private():
            network.use(network.DEFAULT)
        captured = environment.capture(*gates.compiler_of(info), cpus.server, cpus.generator)
    if not info:
        points.append(
            environment.Point("server", environment.BAD, "not built", "performance_test is what is measured", "./dev build")
        )
    else:
        check = gates.build(gates.configuration_of(info))
        state = environment.GOOD if check.passed else environment.BAD
        fix = "" if check.passed else "./dev build"
        points.append(environment.Point("server", state, check.detail, "performance_test is what is measured", fix))
        options = standard.configuration(gates.configuration_of(info))
        state, fix = (environment.GOOD, "") if options.passed else (environment.WARNING, "cmake --preset standard")
        points.append(
            environment.Point("server's options", state, options.detail, "the standard's configuration has both", fix)
        )
    heads = ("point", "state", "value", "what it means", "how to fix it")
    rows = [(p.name, p.state, p.value, p.meaning, p.fix) for p in points]
    notes = [
        f"{captured.os}, {captured.kernel}, {captured.cpu}, {captured.cores} cores, {captured.memory}, "
        f"{captured.virtualization}; environment {captured.hash}"
    ]
    tables.show(args.format, heads, rows, {"environment": captured, "checklist": points}, notes)
    states = {p.state for p in points}
    return MISSING if environment.BAD in states else UNSTABLE if environment.WARNING in states else FINE
