"""Owns: the runs of one command: every scenario and repeat, each record on disk before the next run starts."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uvhttp_bench.exits import BenchError, MissingError, UsageError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import Load
from uvhttp_bench.loads.h2load import H2load
from uvhttp_bench.loads.tcp_echo import TcpEcho
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad
from uvhttp_bench.loads.wrk import Wrk
from uvhttp_bench.measure import Plan, Skip, run_once
from uvhttp_bench.model import record as records
from uvhttp_bench.model.codec import write_text
from uvhttp_bench.model.database import Database
from uvhttp_bench.model.record import Record
from uvhttp_bench.output import words
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import workspace

QUICK_REPEATS = 1


@dataclass(frozen=True)
class ScenarioRun:
    scenario: Scenario
    seconds: float
    repeats: int


def scenario_runs(
    scenarios: Sequence[Scenario],
    quick: bool,
    seconds: float | None,
    repeats: int | None,
    extended_seconds: float | None = None,
) -> list[ScenarioRun]:
    chosen = [s for s in scenarios if s.seconds_quick] if quick else list(scenarios)

    def seconds_of(s: Scenario) -> float:
        shortened = extended_seconds if s.group not in ("basic", "sustained") else None
        return seconds or shortened or (float(s.seconds_quick) if quick else s.seconds)

    return [ScenarioRun(s, seconds_of(s), repeats or (QUICK_REPEATS if quick else s.repeats)) for s in chosen]


def add_tool_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tool",
        choices=("auto", Wrk.name, H2load.name, UvhttpLoad.name),
        default="auto",
        help="load generator; auto: uvhttp-load (default), the others cross-check",
    )


def load_for(scenario: Scenario, tool: str, rate: float | None = None) -> Load:
    """uvhttp-load, unless wrk or h2load is asked for and speaks the protocol. `rate`: of an open loop, which is uvhttp-load's."""
    load: Load
    if rate is not None:
        if tool in (Wrk.name, H2load.name) or scenario.scheme == "tcp":
            who = tool if scenario.scheme != "tcp" else TcpEcho.name
            raise UsageError(f"{scenario.name}: {who} has no --rate: leave one of them out")
        load = AtRate(rate)
    elif scenario.scheme == "tcp":
        load = TcpEcho()
    else:
        others: dict[str, Load] = {one.name: one for one in (Wrk(), H2load())} if scenario.scheme != "ws" else {}
        load = others.get(tool, UvhttpLoad())
    missing = load.missing()
    if missing:
        raise MissingError(missing)
    if not load.speaks(scenario.scheme):
        raise BenchError(f"{load.name} does not speak {scenario.scheme}: leave --tool out for {scenario.name}")
    if scenario.http2 and load.name == Wrk.name:
        raise UsageError(f"{scenario.name}: wrk does not speak HTTP/2: --tool h2load is the cross-check")
    return load


def execute(
    todo: Sequence[ScenarioRun],
    plan_of: Callable[[Scenario], Plan],
    database: Database,
    results: Path,
    begin: Callable[[str], None],
    done: Callable[[str], None],
    keep: Callable[[Record], None],
) -> None:
    """keep() gets each record when it is in the database and on disk: an interrupted session has kept what it finished."""
    with workspace() as made:
        for planned in todo:
            scenario = planned.scenario
            for repeat in range(1, planned.repeats + 1):
                begin(f"{scenario.name} {repeat}/{planned.repeats}")
                try:
                    plan = plan_of(scenario)
                    record, raw = run_once(plan, scenario, made, planned.seconds, repeat, planned.repeats)
                except Skip as why:
                    done(f"left out: {why}")
                    break
                record = database.add(record)
                name = f"{scenario.results_name}_{repeat}"
                write_text(results / f"{name}.txt", raw)
                records.write(results / f"{name}.json", record)
                keep(record)
                done(line(record))


def line(record: Record) -> str:
    """Without the figures that a check has taken away."""
    failed = [check for check in record.checks if not check.passed and check.takes]
    parts = []
    if record.holds("cpu"):
        bound = "" if record.holds("throughput") else ">= "
        parts.append(f"{bound}{record.results.requests_per_second:,.0f} req/s")
        cpu = record.resources.cpu_us_per_request
        if cpu is not None:
            parts.append(f"{cpu:.2f} us of CPU a request")
    if record.status != records.VALID:
        parts.append(f"{words.STATUS[record.status]}: " + "; ".join(check.detail for check in failed))
    return ", ".join(parts)
