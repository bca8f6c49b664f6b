"""Owns: servers compared in one scenario under equal conditions: who is measured against whom, and in which order they stand."""

from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench import versus
from uvhttp_bench.model.record import Record
from uvhttp_bench.stats import ratio
from uvhttp_bench.stats.ratio import LESS, MORE, TIE, Named
from uvhttp_bench.versus import Standing

BEST = 5


@dataclass(frozen=True)
class Field:
    """One scenario under one set of conditions. `others` are ordered so that ties are not ranked."""

    scenario: str
    conditions: str  # what differs between fields of one scenario: the congestion control; empty when nothing is set
    rate_percent: float  # of each server's capacity; 0: closed loop
    reference: Standing
    others: tuple[Standing, ...]
    records: tuple[Record, ...]

    @property
    def peers(self) -> tuple[Standing, ...]:
        """Servers of others with a ratio: neither our other engine nor the bare loops that serve nobody."""
        return tuple(s for s in self.others if s.cpu_ratio and not is_ours(s.target) and not is_floor(s.target))

    def own(self, target: str) -> list[Record]:
        return [record for record in self.records if record.test_scenario.target == target]


def is_ours(target: str) -> bool:
    return target.startswith("uvhttp")


def is_floor(target: str) -> bool:
    """A loop that parses nothing: what no server can be faster than."""
    return target.startswith("bare-")


def conditions_of(record: Record) -> str:
    return record.environment.congestion_control


def base_of(field: Field) -> str:
    """A scenario that is measured once more under another congestion control has that name at its end."""
    return field.scenario.removesuffix(f"-{field.conditions}") if field.conditions else field.scenario


def columns_of(field: Field, fields: Sequence[Field]) -> list[Field]:
    """The same scenario under every set of conditions, in the order measured; empty for those that are not the first."""
    same = [f for f in closed(fields) if base_of(f) == base_of(field)]
    return same if same[0] is field and len(same) > 1 else []


def fields_of(records: Sequence[Record]) -> list[Field]:
    """The first server of the session is the reference, or, where it does not serve the scenario, the first that does. Closed
    loops, then rates, in the order of the scenarios."""
    groups: dict[tuple[str, str, float], dict[str, list[Record]]] = {}
    for record in records:
        run, percent = record.test_scenario, versus.percent_of_capacity(record, records)
        if percent is None:
            continue
        groups.setdefault((run.name, conditions_of(record), percent), {}).setdefault(run.target, []).append(record)
    first = records[0].test_scenario.target
    found = []
    for (scenario, conditions, percent), targets in groups.items():
        against = first if first in targets else next(iter(targets))
        standings = {name: versus.standing(own, targets[against], name, percent) for name, own in targets.items()}
        order = ratio.ordered([Named(name, s.cpu_ratio) for name, s in standings.items() if name != against])
        kept = tuple(record for own in targets.values() for record in own)
        others = tuple(standings[name] for name in order)
        found.append(Field(scenario, conditions, percent, standings[against], others, kept))
    return found


def closed(fields: Sequence[Field]) -> list[Field]:
    return [field for field in fields if not field.rate_percent]


def same_conditions(fields: Sequence[Field]) -> list[Field]:
    """Those of the first conditions, so that no scenario appears with two values."""
    return [field for field in fields if field.conditions == fields[0].conditions] if fields else []


def best(field: Field, count: int = BEST) -> tuple[Standing, ...]:
    """The servers of others that need the least, in the order of the field."""
    least = sorted(field.peers, key=lambda s: s.cpu_ratio.middle if s.cpu_ratio else 0)[:count]
    return tuple(s for s in field.peers if s in least)


@dataclass(frozen=True)
class Count:
    """Of the comparisons with servers of others, from our side: in how many we need less, and so on."""

    less: int
    tie: int
    more: int
    servers: int
    scenarios: int
    ahead: tuple[tuple[str, Standing], ...]  # (scenario, server) of those that need less than we do

    @property
    def total(self) -> int:
        return self.less + self.tie + self.more


def count(fields: Sequence[Field]) -> Count:
    pairs = [(field.scenario, s) for field in closed(fields) for s in field.peers]
    said = [ratio.finding(s.cpu_ratio) for _, s in pairs]
    return Count(
        less=said.count(MORE),
        tie=said.count(TIE),
        more=said.count(LESS),
        servers=len({s.target for _, s in pairs}),
        scenarios=len({scenario for scenario, _ in pairs}),
        ahead=tuple(pair for pair, one in zip(pairs, said, strict=True) if one == LESS),
    )
