"""The slices of one server are one record, whose figures and checks are those of all of them together."""

from dataclasses import replace

import pytest
from test_peers import record

from uvhttp_bench import recheck, slices
from uvhttp_bench.model.evidence import Inputs
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Errors, Record, Resources, Results


def one(requests: int, cpu_us: float, latency_us: int, checks: tuple[Check, ...] = (), others: float = 0.0) -> Record:
    made = record("nginx", cpu_us)
    results = Results(
        requests, requests / 0.5, latency_us / 1000, None, None, None, None, 1.0, latency_stdev_ms=0.0, seconds=0.5,
        bytes_received=requests, errors=Errors(), histogram=Histogram((latency_us,), (requests,)),
    )  # fmt: skip
    resources = Resources(
        90.0, 10.0 + requests / 1000, 5.0, None, cpu_user_us_per_request=cpu_us, cpu_system_us_per_request=1.0, memory_start_mb=9.0,
        generator_cpu_percent=50.0, other_cpu_percent=others, steal_percent=0.0,
    )  # fmt: skip
    run = replace(made.test_scenario, duration=0.5, connections=1, server_cpus=(0,), generator_cpus=(1,))
    inputs = Inputs(
        wall_seconds=0.5, user_seconds=0.4, system_seconds=0.05, processes_seconds=0.7 + others / 100, capacity_seconds=1.0,
        generator_cpu_seconds=0.25, generator_wall_seconds=0.5, bandwidth_mb=1000.0, answer_bytes_checked=True,
    )  # fmt: skip
    return replace(made, test_scenario=run, results=results, resources=resources, checks=checks, inputs=inputs)


def test_figures_are_weighted_by_what_they_are_of() -> None:
    merged = slices.combined([one(1000, 10.0, 500), one(3000, 20.0, 100)])
    assert merged.test_scenario.slices == 2 and merged.test_scenario.duration == 1.0
    assert merged.results.total_requests == 4000 and merged.results.requests_per_second == 4000
    assert merged.resources.cpu_user_us_per_request == pytest.approx(200)  # 0.8 s
    assert merged.results.latency_avg_ms == pytest.approx(0.2) and merged.results.histogram.count == 4000
    assert merged.results.latency_stdev_ms == pytest.approx(0.1732, abs=1e-4)
    assert merged.resources.memory_usage_mb == 13.0 and merged.resources.memory_start_mb == 9.0
    assert merged.results.latency_p50_ms == 0.1 and merged.results.latency_p99_ms == 0.5


def test_a_record_of_slices_whose_tool_took_its_time_passes_the_check_of_records() -> None:
    late = one(3000, 20.0, 100)
    late = replace(late, inputs=replace(late.inputs, wall_seconds=0.6, switches=100, steal_seconds=0.1))
    merged = slices.combined([one(1000, 10.0, 500), late])
    assert merged.resources.cpu_usage_percent == pytest.approx(100 * 0.9 / 1.1)
    assert list(recheck._resources(merged)) == []


def test_a_slice_alone_is_the_record() -> None:
    alone = one(1000, 10.0, 500)
    assert slices.combined([alone]) is alone


def test_a_check_that_failed_in_any_slice_has_failed() -> None:
    good, bad = Check("answer after", True, "200"), Check("answer after", False, "500")
    for order in ([good, bad], [bad, good]):
        (check,) = slices.combined([one(1000, 1.0, 500, (found,)) for found in order]).checks
        assert check == bad


def test_what_half_a_second_cannot_tell_is_asked_of_all_of_it() -> None:
    busy = Check("machine", False, "other processes used 9 %", "throughput", unstable=True)
    idle = Check("machine", True, "other processes used 0 %", "throughput", unstable=True)
    merged = slices.combined([one(1000, 1.0, 500, (busy,), 9.0), *[one(1000, 1.0, 500, (idle,), 0.0)] * 3])
    assert [(check.name, check.passed) for check in merged.checks] == [("machine", True)]
    merged = slices.combined([one(1000, 1.0, 500, (busy,), 9.0)] * 4)
    assert [(check.name, check.passed) for check in merged.checks] == [("machine", False)]


def test_littles_law_is_that_of_the_sum() -> None:
    law = Check("Little's law", True, "", "throughput")
    assert slices.combined([one(1000, 1.0, 500, (law,))] * 4).status == "valid"
    merged = slices.combined([one(4000, 1.0, 500, (law,))] * 4)  # four times as many as one connection can have
    assert merged.status == "void" and [c.name for c in merged.checks if not c.passed] == ["Little's law"]


def test_errors_of_all_slices_are_counted() -> None:
    none = Check("errors", True, "none")
    failed = one(1000, 1.0, 500, (none,))
    run = replace(failed.test_scenario, tool="uvhttp-load")
    failed = replace(failed, test_scenario=run, results=replace(failed.results, errors=Errors(status=3)))
    merged = slices.combined([failed, one(1000, 1.0, 500, (none,))])
    assert merged.results.errors.status == 3 and not merged.holds("cpu")
    assert merged.results.error_rate == pytest.approx(3 / 2000)  # they are responses


def test_how_many_slices() -> None:
    assert slices.count(2, "http", exact_seconds=True) == 4
    assert slices.count(2, "https", exact_seconds=True) == 2
    assert slices.count(2, "http", exact_seconds=False) == 2  # wrk
    assert slices.count(1, "https", exact_seconds=True) == 1
