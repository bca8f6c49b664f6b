"""Several load generators: shares, clocks, merging, a cluster of processes here, and one of hosts in network namespaces."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from uvhttp_bench import cli, repository
from uvhttp_bench.exits import BenchError, MissingError, UsageError
from uvhttp_bench.loads import fanned, uvhttp_load
from uvhttp_bench.loads.base import Job, Outcome
from uvhttp_bench.targets.base import Workspace, ask, free_ports, make_certificate

HERE = Path(__file__).parent
FIXTURE = HERE / "fixtures" / "uvhttp_load.json"


def outcome() -> Outcome:
    return Outcome(uvhttp_load.parse(FIXTURE.read_text()), "", "", 1, 1)


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    fanned.add_arguments(parser)
    return parser.parse_args(words)


def test_shares_are_equal_and_nobody_gets_nothing() -> None:
    assert fanned.shares(50, 4) == [13, 13, 12, 12]
    assert fanned.shares(2, 4) == [1, 1]


def test_the_fastest_round_trip_tells_the_clock() -> None:
    slow, fast = (10.0, 15.5, 11.0), (20.0, 25.001, 20.002)
    ahead, open_by = fanned.clock_offset([slow, fast])
    assert ahead == pytest.approx(5.0)
    assert open_by == pytest.approx(0.001)


@pytest.mark.parametrize(
    "kind, rate", [("status", 271 / 271), ("body", 271 / 271), ("read", 271 / 542), ("connect", 271 / 542)]
)
def test_a_response_that_is_an_error_is_counted_once(kind: str, rate: float) -> None:
    """It is among the responses; a request without a response is not."""
    text = FIXTURE.read_text().replace(f'"{kind}": 0', f'"{kind}": 271')
    one = Outcome(uvhttp_load.parse(text), "", "", 1, 1)
    assert one.results.error_rate == pytest.approx(rate)
    assert fanned.merged([one, one]).error_rate == pytest.approx(rate)


def test_histograms_are_merged_exactly_and_counts_added() -> None:
    one = outcome().results
    both = fanned.merged([outcome(), outcome()])
    assert both.histogram.values_us == one.histogram.values_us
    assert both.histogram.counts == tuple(2 * count for count in one.histogram.counts)
    assert both.total_requests == 2 * one.total_requests
    assert both.histogram.count == 2 * one.histogram.count
    assert both.latency_p50_ms == one.latency_p50_ms
    assert both.latency_avg_ms == pytest.approx(one.latency_avg_ms)
    assert both.requests_per_second == pytest.approx(2 * one.requests_per_second)


@pytest.mark.parametrize(
    "words", [["--workers", "0", "--scheduler", "tcp://x:1"], ["--workers", "999"], ["--workers", "2", "--scheduler", "x"]]
)
def test_wrong_options_are_usage_errors(words: list[str]) -> None:
    with pytest.raises(UsageError), fanned.opened(arguments(*words)):
        pass


def test_nothing_asked_for_is_nothing_started() -> None:
    with fanned.opened(arguments()) as several:
        assert several is None


def tool(directory: Path, text: str) -> Path:
    path = directory / "uvhttp-load"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class Silent:
    """A client of Dask whose workers tell their clock, and then nothing."""

    def submit(self, function: Any, *arguments: Any, **options: object) -> "Silent":
        self.function = function
        return self

    def result(self, timeout: float) -> float:
        if self.function is time.time:
            return time.time()
        assert 0 < timeout <= 1 + fanned.GRACE_SECONDS + fanned.JOIN_SECONDS + fanned.START_DELAY_SECONDS
        raise TimeoutError

    def cancel(self, futures: object) -> None:
        pass


def test_a_worker_that_says_nothing_is_not_waited_for_without_end() -> None:
    several = fanned.Fanned(cast("Any", Silent()), ["tcp://one"], "127.0.0.1")
    with pytest.raises(BenchError, match="a worker is gone: TimeoutError"):
        several.run(Job("http://127.0.0.1:1/", 1, 2, 1, ()))


def test_processes_here_each_do_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    stand_in = tool(tmp_path, f'echo "$@" >>{tmp_path}/asked\ncat {FIXTURE}')
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(stand_in))
    monkeypatch.setattr(fanned, "START_APART_MAX_SECONDS", 10)  # of a test machine
    with fanned.opened(arguments("--workers", "2")) as several:
        assert several is not None
        done = several.run(Job("http://127.0.0.1:1/", 2, 5, 1, ()))
    assert done.results.total_requests == 2 * outcome().results.total_requests
    asked = sorted((tmp_path / "asked").read_text().splitlines())
    assert [line.split()[1] for line in asked] == ["2", "3"]
    assert not any("--allow-remote" in line or "--rate" in line for line in asked)


def test_an_open_loop_is_spread_over_processes_and_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(tool(tmp_path, f'echo "$@" >>{tmp_path}/asked\ncat {FIXTURE}')))
    monkeypatch.setattr(fanned, "START_APART_MAX_SECONDS", 10)
    with fanned.opened(arguments("--workers", "2"), 2700) as several:
        assert several is not None
        done = several.run(Job("http://127.0.0.1:1/", 2, 4, 1, ()))
    asked = sorted(line.split("--rate ")[1].split(" http")[0] for line in (tmp_path / "asked").read_text().splitlines())
    assert asked == ["1350.000 --arrivals poisson --seed 1", "1350.000 --arrivals poisson --seed 2"]
    assert done.results.histogram.count == 2 * outcome().results.histogram.count
    assert [check.name for check in done.checks if check.passed] == ["generators"]  # 1,355 served of 1,350 each


class Nobody:
    """A Dask client whose workers have this machine's clock."""

    def submit(self, function: object, *_: object, **__: object) -> "Nobody":
        return self

    def result(self, timeout: float) -> float:
        return time.time()


def rated(count: int, rate: float) -> fanned.Fanned:
    return fanned.Fanned(Nobody(), [f"w{n}" for n in range(count)], "192.0.2.1", rate)  # type: ignore[arg-type]


def test_a_rate_is_divided_as_the_connections_are_and_each_generator_has_its_own_arrivals() -> None:
    jobs = rated(4, 1000).jobs(Job("http://127.0.0.1:1/", 4, 50, 1, ()))
    assert [job.connections for job in jobs] == [13, 13, 12, 12]
    assert [job.rate_per_second for job in jobs] == [260, 260, 240, 240]
    assert len({job.seed for job in jobs}) == 4  # the same arrivals four times would be bursts of four
    assert [job.rate_per_second for job in rated(4, 1000).jobs(Job("http://127.0.0.1:1/", 4, 2, 1, ()))] == [500, 500]


def part(rate: float, saturated: bool = False) -> Outcome:
    text = FIXTURE.read_text().replace('"saturated": false', f'"saturated": {str(saturated).lower()}')
    return replace(outcome(), results=replace(outcome().results, requests_per_second=rate, seconds=10.0), raw=text)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((part(10000), part(10000)), "all 2 kept"),
        ((part(10400), part(8600)), "generator 2 served 86% of its 10,000/s"),  # 95 % of the sum
        ((part(10000, saturated=True), part(10000)), "generator 1 used all of a CPU"),
    ],
)
def test_one_generator_that_falls_behind_takes_the_figures_of_all(parts: tuple[Outcome, ...], words: str) -> None:
    jobs = rated(2, 20000).jobs(Job("http://127.0.0.1:1/", 2, 10, 10, ()))
    (check,) = fanned.generators(jobs, parts)
    assert words in check.detail
    assert check.passed == (words == "all 2 kept") and check.takes == "throughput"
    assert fanned.generators(rated(2, 0).jobs(Job("http://127.0.0.1:1/", 2, 10, 10, ())), parts) == ()


def test_run_refuses_what_several_cannot_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(tmp_path / "none"))
    assert cli.dispatch(["run", "low", "--workers", "2"]) == 77
    assert cli.dispatch(["run", "low", "--scheduler", "tcp://127.0.0.1:1"]) == 2


# --- hosts in network namespaces ---


@contextmanager
def started(*command: str, **environment: str) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def host(name: str, number: int) -> Iterator[None]:
    """A namespace with an address of its own, 10.203.<number>.2; this machine is .1."""
    commands = [
        f"ip netns add {name}",
        f"ip link add {name} type veth peer name inside netns {name}",
        f"ip address add 10.203.{number}.1/24 dev {name}",
        f"ip link set {name} up",
        f"ip -n {name} address add 10.203.{number}.2/24 dev inside",
        f"ip -n {name} link set inside up",
        f"ip -n {name} link set lo up",
        f"ip -n {name} route add default via 10.203.{number}.1",
    ]
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
        yield
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@dataclass(frozen=True)
class Keys:
    """Of a cluster whose members all have the one certificate."""

    made: Workspace

    @property
    def files(self) -> tuple[str, str, str]:
        return str(self.made.certificate), str(self.made.certificate), str(self.made.key)

    @property
    def dask(self) -> list[str]:
        pairs = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), self.files, strict=True)
        return [word for pair in pairs for word in pair]

    @property
    def ours(self) -> list[str]:
        pairs = zip(("--tls-ca", "--tls-cert", "--tls-key"), self.files, strict=True)
        return [word for pair in pairs for word in pair]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    made = Workspace(tmp_path)
    make_certificate(made)
    return Keys(made)


def wait_for_workers(address: str, count: int, keys: Keys) -> None:
    from distributed import Client, Security

    ca, certificate, key = keys.files
    security = Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key)
    with Client(address, timeout=60, security=security, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


def test_hosts_in_namespaces_count_as_one_process_does(tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hosts with 1,000 requests each, in a cluster over TLS, against one process with 2,000: the same count, and the
    server's own."""
    pytest.importorskip("distributed")
    server = repository.PROGRAMS / "performance_test"
    load = uvhttp_load.program()
    if os.geteuid() != 0 or not shutil.which("ip") or not load or not server.exists():
        pytest.skip("needs root, ip, performance_test and uvhttp-load")
    ports, dask = free_ports(), [sys.executable, "-m", "dask"]
    tag = f"{os.getpid() % 10000}"
    counted = tool(tmp_path, f'exec {load} --requests "$REQUESTS" "$@"')
    address = f"tls://10.203.77.1:{ports.https}"
    with ExitStack() as stack:
        for name, number in ((f"ba{tag}", 77), (f"bb{tag}", 78)):
            stack.enter_context(host(name, number))
        http = ["--address", "0.0.0.0", "--port", str(ports.http), "--io-threads", "1"]
        stack.enter_context(started(str(server), *http))
        stack.enter_context(
            started(
                *dask, "scheduler", "--host", "tls://0.0.0.0", "--port", str(ports.https), "--no-dashboard", "--no-show",
                *keys.dask,
            )
        )  # fmt: skip
        for name in (f"ba{tag}", f"bb{tag}"):
            worker = [*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", *keys.dask]
            where = {"UVHTTP_BENCH_LOAD": str(counted), "REQUESTS": "1000"}
            stack.enter_context(
                started("ip", "netns", "exec", name, *worker, "--local-directory", str(tmp_path / name), **where)
            )
        wait_for_workers(address, 2, keys)
        monkeypatch.setattr(fanned, "START_APART_MAX_SECONDS", 10)
        asked = arguments("--scheduler", address, "--advertise", "10.203.77.1", *keys.ours)
        with fanned.opened(asked) as several:
            assert several is not None and len(several.workers) == 2
            there = several.run(Job(f"http://127.0.0.1:{ports.http}/count", 2, 8, 30, (), response_bytes=None)).results
        monkeypatch.setenv("UVHTTP_BENCH_LOAD", str(counted))
        monkeypatch.setenv("REQUESTS", "2000")
        job = Job(f"http://127.0.0.1:{ports.http}/count", 2, 8, 30, (), response_bytes=None, workspace=tmp_path)
        here = uvhttp_load.UvhttpLoad().run(job).results
        visits = int(ask("http", ports.http, "/count").body)
    assert there.histogram.count == here.histogram.count == 2000
    assert there.total_requests == here.total_requests == 2000
    assert there.errors.total == 0
    assert visits == 4001  # the server has seen them all, and this question


def test_a_cluster_is_reached_over_tls_and_not_without(tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    address = f"tls://127.0.0.1:{free_ports().http}"
    dask = [sys.executable, "-m", "dask"]
    where = {"UVHTTP_BENCH_LOAD": str(tool(tmp_path, f"cat {FIXTURE}"))}
    monkeypatch.setattr(fanned, "START_APART_MAX_SECONDS", 10)
    with ExitStack() as stack:
        port = address.rsplit(":", 1)[1]
        scheduler = ["scheduler", "--host", "tls://127.0.0.1", "--port", port, "--no-dashboard", "--no-show", *keys.dask]
        stack.enter_context(started(*dask, *scheduler))
        worker = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
        stack.enter_context(started(*dask, *worker, *keys.dask, **where))
        asked = arguments("--scheduler", address, "--advertise", "127.0.0.1", *keys.ours)
        deadline = time.monotonic() + 60
        while True:  # until the worker is there
            try:
                with fanned.opened(asked) as several:
                    assert several is not None
                    done = several.run(Job("http://127.0.0.1:1/", 1, 2, 1, ()))
                break
            except MissingError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        monkeypatch.setattr(fanned, "JOIN_SECONDS", 3)
        with pytest.raises(BenchError, match="no Dask cluster"), fanned.opened(arguments(*asked_plain(address))):
            pass
    assert done.results.total_requests == outcome().results.total_requests


def asked_plain(address: str) -> list[str]:
    return ["--scheduler", address.replace("tls://", "tcp://"), "--advertise", "127.0.0.1"]
