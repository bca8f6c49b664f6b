"""Owns: what each layer costs: servers that stop at a layer, in turn; the difference of CPU time to the layer beneath."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from uvhttp_bench import measure
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.model.database import Database
from uvhttp_bench.model.record import Record
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.stats.paired import Interval, bootstrap_median
from uvhttp_bench.targets.base import Target, workspace
from uvhttp_bench.targets.layers import FLOOR, LAYERS, LayerTarget
from uvhttp_bench.targets.limits import all_limits
from uvhttp_bench.versus import adapted

KIND = "attribute"
ROUNDS_MIN = 6  # below, an interval is narrower than it ought to be


@dataclass(frozen=True)
class Options:
    engine: str  # uring or epoll
    rounds: int
    seconds: float
    connections: int
    pipeline: int
    cpus: measure.Cpus


@dataclass(frozen=True)
class Cost:
    """Of one layer, in microseconds of CPU time per request."""

    layer: str
    about: str
    beneath: str
    total_us: float
    user_us: float
    system_us: float
    added_us: Interval | None  # to the layer beneath, computed within the rounds
    records: tuple[str, ...]


def targets(engine: str) -> list[tuple[str, Target, Scenario]]:
    """Name, server and what is asked of it; the bare loop of the engine first."""
    base = replace(choose(["medium"])[0], response_bytes=13)
    floor = next(limit for limit in all_limits() if limit.name == f"bare-{engine}")
    layers = [
        (layer.name, LayerTarget(layer, engine), replace(base, path=layer.path, scheme=layer.scheme)) for layer in LAYERS
    ]
    return [(FLOOR, floor, base), *layers]


def run(options: Options, store: Database, say: Callable[[str], None], keep: Callable[[str, Record], None]) -> None:
    """keep() gets each record with its layer: an interruption leaves what was finished."""
    session, bandwidth = measure.session_name(), measure.measure_bandwidth()
    all_of = targets(options.engine)
    with workspace() as made:
        for number in range(1, options.rounds + 1):
            for name, target, scenario in all_of if number % 2 else all_of[::-1]:
                asked = replace(scenario, name=f"layer-{name}", connections=options.connections, pipeline=options.pipeline)
                plan = measure.plan_for(
                    target, UvhttpLoad(), options.cpus, bandwidth, KIND, session, measure.WARM_UP_SECONDS
                )
                record, _ = measure.run_once(plan, asked, made, options.seconds, number, options.rounds)
                if name == FLOOR:
                    record = adapted(record, target, record.resources.memory_start_mb or 0)
                record = store.add(record)
                keep(name, record)
                cpu = record.resources.cpu_us_per_request
                say(f"round {number}/{options.rounds} {name}: {cpu:.2f} us" if cpu else f"{name}: nothing")


def _by_round(records: Sequence[Record]) -> dict[int, float]:
    return {r.test_scenario.repeat: r.resources.cpu_us_per_request or 0 for r in records if r.holds("cpu")}


def costs(kept: dict[str, list[Record]]) -> list[Cost]:
    """Layers without a run that holds are left out."""
    beneath = {layer.name: layer.beneath for layer in LAYERS}
    about = {layer.name: layer.about for layer in LAYERS} | {FLOOR: "a bare loop: receive and send, no more"}
    found = []
    for name, records in kept.items():
        good = [r for r in records if r.holds("cpu") and r.resources.cpu_us_per_request]
        if not good:
            continue
        own, below = _by_round(good), _by_round(kept.get(beneath.get(name, ""), []))
        added = [own[number] - below[number] for number in own if number in below]
        user, system = (
            [r.resources.cpu_user_us_per_request or 0 for r in good],
            [r.resources.cpu_system_us_per_request or 0 for r in good],
        )
        found.append(
            Cost(
                layer=name,
                about=about[name],
                beneath=beneath.get(name, ""),
                total_us=statistics.median(own.values()),
                user_us=statistics.median(user),
                system_us=statistics.median(system),
                added_us=bootstrap_median(added) if added else None,
                records=tuple(r.test_id for r in good),
            )
        )
    return found
