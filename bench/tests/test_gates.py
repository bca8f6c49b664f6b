"""Owns: the audit's mistakes are caught: a 404 run, a coverage build, a debug log, a saturated generator, impossible figures. On real output of the tools (fixtures/)."""

import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from uvhttp_bench import gates, measure
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads import tcp_echo, uvhttp_load, wrk
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import BUSY, Check, Results

FIXTURES = Path(__file__).parent / "fixtures"
RESPONSE = 115  # bytes of performance_test's response to GET /


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def good() -> Results:
    return wrk.parse(text("wrk_good.txt"), connections=2)


# --- wrk ---


def test_wrk_is_read_as_it_prints_itself() -> None:
    results = good()
    assert results.total_requests == 4534 and results.bytes_received == 521410
    assert results.requests_per_second == pytest.approx(4482.18, abs=0.01)
    assert results.transfer_rate_mbps == pytest.approx(503.37 / 1024, abs=0.001)
    assert results.errors.total == 0 and results.rate_samples_mean == pytest.approx(4504.9)
    assert results.latency_p50_ms and results.latency_p99_ms and results.latency_p999_ms is None


def test_what_wrk_adds_for_coordinated_omission_is_removed_exactly() -> None:
    results = good()
    assert results.histogram.count == results.total_requests
    assert results.histogram_corrected.count > results.total_requests
    corrected = results.histogram_corrected
    assert corrected.mean_us() == pytest.approx(1510, abs=5)  # what wrk prints: more than 2 connections can wait
    assert not passed(gates.little(replace(results, latency_avg_ms=1.51), 2))
    assert passed(gates.little(results, 2))


def correct(histogram: Histogram, expected: int) -> Histogram:
    """wrk's stats_correct(), as it is written."""
    counts = dict(zip(histogram.values_us, histogram.counts, strict=True))
    for n in range(expected * 2, max(counts) + 1):
        count, m = counts.get(n, 0), n - expected
        while count and m > expected:
            counts[m] = counts.get(m, 0) + count
            m -= expected
    return Histogram.of(counts.items())


@pytest.mark.parametrize("expected", [1, 7, 50, 1000])
def test_undoing_is_the_inverse_of_doing(expected: int) -> None:
    measured = Histogram.of([(5, 3), (60, 2), (100, 1), (101, 4), (160, 1), (990, 2), (3000, 1)])
    assert wrk.uncorrected(correct(measured, expected), expected) == measured


def test_wrk_that_did_not_reach_the_server_is_an_error_with_its_words() -> None:
    with pytest.raises(BenchError, match="Connection refused"):
        wrk.parse(text("wrk_refused.txt"), 1)


# --- what voids a run ---


def passed(check: Check) -> bool:
    return check.passed


def test_a_good_run_passes_everything() -> None:
    results = good()
    assert passed(gates.errors(results)) and passed(gates.length(results, RESPONSE, 2)) and passed(gates.samples(results, 2))
    assert passed(gates.bandwidth(results, 2000)) and passed(gates.generator(0.5, 0.5, 50))


def test_a_run_of_404_is_void() -> None:
    results = wrk.parse(text("wrk_404.txt"), connections=2)
    check = gates.errors(results)
    assert not check.passed and check.takes == "all" and "3799 status" in check.detail
    assert results.error_rate == 1.0
    assert not gates.response("before", 404, bytes(9), gates.Expected(200, 13)).passed
    assert not gates.response("before", 200, bytes(9), gates.Expected(200, 13)).passed
    assert gates.response("before", 200, bytes(9), gates.Expected(200, None)).passed
    assert not gates.response("before", 200, b"Hello, Wormhole!"[:13], gates.Expected(200, 13, b"Hello, World!")).passed
    assert gates.response("before", 200, b"Hello, World!", gates.Expected(200, 13, b"Hello, World!")).passed


def test_responses_of_another_length_are_discarded_even_if_the_status_is_right() -> None:
    results = good()
    assert not gates.length(results, RESPONSE + 1, 2).passed
    assert not gates.length(results, RESPONSE - 1, 2).passed
    assert gates.length(results, None, 2).passed  # a counter grows


@pytest.mark.parametrize(
    ("name", "word"),
    [("build_coverage.txt", "debug, coverage, optimization -O0"), ("build_asan.txt", "sanitizers address,undefined")],
)
def test_a_debug_coverage_or_sanitizer_build_is_void(name: str, word: str) -> None:
    check = gates.build(gates.configuration_of(text(name)))
    assert not check.passed and check.takes == "all" and word in check.detail


def test_a_release_build_is_read_from_the_binarys_own_words() -> None:
    configuration = gates.configuration_of(text("build_release.txt"), revision="abc", engine="uring")
    assert gates.build(configuration).passed
    assert configuration.build_with_mimalloc and configuration.build_with_websocket and not configuration.debug
    assert configuration.optimization == "-O2" and configuration.version == "0.1.0" and configuration.revision == "abc"
    assert gates.compiler_of(text("build_release.txt")) == ("GCC", "12.2.0")
    assert not gates.build(gates.configuration_of("")).passed


def test_an_optimized_build_with_assertions_is_void() -> None:
    wrong = text("build_release.txt").replace("-DNDEBUG ", "")
    assert not gates.build(gates.configuration_of(wrong)).passed


def test_a_debug_log_is_void() -> None:
    assert not gates.log("DEBUG", 0).passed and not gates.log("debug", 0).passed
    assert gates.log("warn", 0).passed and gates.log("", 200).passed
    chatty = gates.log("warn", 100_000)
    assert not chatty.passed and chatty.takes == "all"


def test_a_saturated_generator_takes_throughput_and_leaves_cpu_per_request() -> None:
    check = gates.generator(0.99, 0.60, 200)
    assert not check.passed and check.takes == "throughput"
    assert gates.generator(0.99, 0.95, 10).passed  # the server was at its limit as well
    assert gates.generator(1.0, 0.95, 10).passed and not gates.generator(1.0, 0.5, 10_000).passed


def test_requests_that_wait_for_the_generator_are_not_the_servers_latency() -> None:
    """A generator that is busy for 80 % of the time has 4 requests waiting: two fifths of 10, a fiftieth of 200."""
    assert not gates.generator(0.80, 0.60, 10).passed
    assert gates.generator(0.80, 0.60, 50).passed and gates.generator(0.80, 0.60, 200).passed
    assert gates.generator(0.02, 0.02, 10).passed  # the server waits for something else
    assert not gates.generator(0.80, 0.60, 50, cpus=4).passed


def test_impossible_figures_are_void() -> None:
    """23.8 GB/s on a host with 1 Gb/s; and a latency that so few connections cannot explain."""
    results = replace(good(), transfer_rate_mbps=23.8 * 1024)
    check = gates.bandwidth(results, 3000)
    assert not check.passed and check.takes == "all"
    assert not gates.little(replace(good(), latency_avg_ms=0.01), 2).passed
    assert not gates.samples(replace(good(), total_requests=4535), 2).passed
    assert not gates.errors(replace(good(), total_requests=0)).passed


def test_the_pages_of_a_file_are_not_impossibly_fast(tmp_path: Path) -> None:
    """Who sends by sendfile copies nothing: what one CPU can copy there and back is not the limit of it."""
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    limit_mb = measure.measure_bandwidth()  # and once more below: the machine may change in between
    into, received = bytearray(1 << 16), 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver, file.open("rb") as pages:
        started = time.thread_time()
        for _ in range(1000):
            sent = os.sendfile(sender.fileno(), pages.fileno(), 0, 1 << 20)
            received += sent
            while sent > 0:
                sent -= receiver.recv_into(into)
        spent = time.thread_time() - started
    limit_mb = max(limit_mb, measure.measure_bandwidth())
    assert gates.bandwidth(replace(good(), transfer_rate_mbps=received / spent / 2**20), limit_mb).passed


def test_connections_that_wait_for_the_generator_make_a_rate_a_bound_not_a_lie() -> None:
    mean = good().latency_avg_ms
    assert mean
    waiting = gates.little(replace(good(), latency_avg_ms=mean * 0.7), 2)
    assert waiting.name == BUSY and not waiting.passed and waiting.takes == "throughput"
    for factor in (0.4, 1.3):
        wrong = gates.little(replace(good(), latency_avg_ms=mean * factor), 2)
        assert wrong.name == "Little's law" and not wrong.passed


def test_little_counts_requests_that_are_under_way_at_the_end() -> None:
    """Two connections, responses of 0.9 s, one second: each has finished one and waited 0.1 s for the next."""
    results = replace(
        good(), total_requests=2, seconds=1.0, requests_per_second=2.0, latency_avg_ms=900.0, latency_stdev_ms=0.0
    )
    assert not gates.little(results, 2).passed  # 1.35: too short a run to tell
    slow = replace(results, total_requests=20, seconds=10.0, latency_avg_ms=950.0)
    assert gates.little(slow, 2).passed


def test_requests_without_a_response_may_have_a_latency() -> None:
    """A stall at the end: the connections that wait in it are in the histogram, and in the mean, with what they have waited."""
    results = replace(
        good(), total_requests=1000, seconds=1.0, latency_avg_ms=2000 / 1002, latency_stdev_ms=18.0,
        histogram=Histogram.of([(1000, 1000), (500_000, 2)]),
    )  # fmt: skip
    assert gates.samples(results, 2, waited=2).passed and not gates.samples(results, 2).passed
    assert gates.little(results, 2, waited=2).passed


def test_pipelined_requests_obey_the_law_by_request_or_by_batch() -> None:
    """50 connections with 16 requests each: 8 ms for each of 100,000 requests a second, or for a batch of 16."""
    by_request = replace(
        good(), total_requests=1_000_000, seconds=10.0, latency_avg_ms=8.0, latency_stdev_ms=0.0,
        histogram=Histogram.of([(8000, 1_000_000)]),
    )  # fmt: skip
    assert gates.little(by_request, 50, 16).passed and gates.samples(by_request, 50).passed
    assert not gates.little(replace(by_request, total_requests=4_000_000), 50, 16).passed
    by_batch = replace(by_request, histogram=Histogram.of([(8000, 62_480)]))
    assert gates.little(by_batch, 50, 16, batch=16).passed and gates.samples(by_batch, 50, 16).passed
    assert not gates.samples(by_batch, 50).passed
    assert not gates.samples(replace(by_batch, histogram=Histogram.of([(8000, 62_400)])), 50, 16).passed
    assert not gates.little(replace(by_batch, latency_avg_ms=0.5, latency_stdev_ms=0.0), 50, 16, batch=16).passed


def test_a_restless_machine_is_unstable_and_not_void() -> None:
    for check in (gates.steady([0.05] * 10 + [0.09] * 10), gates.machine(0.5, 0, 4), gates.machine(0, 0.5, 4)):
        assert not check.passed and check.unstable
    for check in (
        gates.steady([0.05, 0.06] * 10), gates.steady([0.0, 0.001] * 10), gates.steady([0.1, 0.9]), gates.machine(0.1, 0, 4),
        gates.machine(-0.1, 0, 4),
    ):  # fmt: skip
        assert check.passed


def test_memory_is_looked_at_in_long_runs_and_growth_is_said() -> None:
    assert gates.memory([(0.0, 5.0), (24.0, 50.0)]) == (Check("memory", True, "too short to tell", ""), None)
    check, rate = gates.memory([(float(t), 5.0 + t) for t in range(60)])
    assert not check.passed and rate == pytest.approx(3600) and "it grows" in check.detail


# --- the other tools ---


def test_uvhttp_load_is_read_and_its_figures_pass() -> None:
    results = uvhttp_load.parse(text("uvhttp_load.json"))
    assert results.total_requests > 100 and results.errors.total == 0
    assert results.histogram.count == results.total_requests
    assert results.latency_p50_ms and results.latency_avg_ms and results.latency_p50_ms < results.latency_avg_ms * 10
    for check in (gates.errors(results), gates.samples(results, 2), gates.little(results, 2)):
        assert check.passed, check.detail


def test_bodies_of_another_length_are_errors_of_uvhttp_load() -> None:
    results = uvhttp_load.parse(text("uvhttp_load_length.json"))
    assert results.errors.body > 0 and results.errors.total == results.errors.body
    assert not gates.errors(results).passed


def test_another_format_of_uvhttp_load_is_refused() -> None:
    for broken in (text("uvhttp_load.json").replace("uvhttp-load/1", "uvhttp-load/9"), "{}", "wrk?"):
        with pytest.raises(BenchError, match="build both from one tree"):
            uvhttp_load.parse(broken)


def test_tcp_echo_is_read_and_lost_messages_are_errors() -> None:
    results = tcp_echo.parse(text("tcp_echo.json"))
    assert results.total_requests == 4000 and results.errors.total == 0 and results.latency_avg_ms
    lost = text("tcp_echo.json").replace('"echoed_messages":4000', '"echoed_messages":3999')
    assert tcp_echo.parse(lost).errors.read == 1
    with pytest.raises(BenchError):
        tcp_echo.parse("Benchmark:")
