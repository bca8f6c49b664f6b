"""Owns: uvhttp-load on several processes or machines at once, through Dask distributed, which has the connections, the TLS and
the ends of workers in hand. All start at one moment of one clock; histograms are merged sample by sample."""

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from uvhttp_bench import open_loop
from uvhttp_bench.exits import BenchError, MissingError, UsageError
from uvhttp_bench.loads.base import GRACE_SECONDS, Job, Outcome, allow_many_files
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad, is_saturated
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Errors, Results

if TYPE_CHECKING:
    from distributed import Client

WORKERS_MAX = 256
JOIN_SECONDS = 60
PROBES = 5
CLOCK_OFF_MAX_SECONDS = 0.05  # beyond what the round trip leaves open
START_DELAY_SECONDS = 0.5
START_APART_MAX_SECONDS = 0.25


@dataclass(frozen=True)
class Part:
    """What one worker did."""

    outcome: Outcome
    late_seconds: float  # after the common start, by its clock


class Bound(UvhttpLoad):
    """Ends with its worker, and may load another machine."""

    def __init__(self, remote: bool) -> None:
        self._remote = remote

    def command(self, job: Job) -> list[str]:
        program, *options, url = super().command(job)
        more = ["--allow-remote"] if self._remote else []
        return ["setpriv", "--pdeathsig", "KILL", program, *options, *more, url]


def work(job: Job, start: float, remote: bool) -> Part:
    """On a worker: waits for `start` by its own clock. What it needs is in `job`; files are made here."""
    allow_many_files()
    with TemporaryDirectory(prefix="uvhttp-bench-worker-") as directory:
        time.sleep(max(0.0, start - time.time()))
        late = time.time() - start
        return Part(Bound(remote).run(replace(job, workspace=Path(directory))), late)


def shares(total: int, workers: int) -> list[int]:
    """As equal as can be; nobody gets nothing."""
    count = min(total, workers)
    return [total // count + (number < total % count) for number in range(count)]


def clock_offset(readings: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """(seconds that the worker's clock is ahead, by how much that may be wrong), of readings (sent, its clock, received): the
    fastest round trip leaves the least open."""
    sent, there, received = min(readings, key=lambda reading: reading[2] - reading[0])
    return there - (sent + received) / 2, (received - sent) / 2


def merged(outcomes: Sequence[Outcome]) -> Results:
    """Counts are added, histograms merged; no percentile is averaged."""
    parts = [outcome.results for outcome in outcomes]
    total = sum(part.total_requests for part in parts)
    histogram = Histogram.merge(part.histogram for part in parts)
    weighted = [(part.latency_avg_ms, part.total_requests) for part in parts if part.latency_avg_ms is not None]
    counted = sum(count for _, count in weighted)
    mean = sum(value * count for value, count in weighted) / counted if counted else None
    stdev = histogram.stdev_us()
    errors = Errors(**{name: sum(getattr(part.errors, name) for part in parts) for name in vars(Errors())})
    largest = [part.latency_max_ms for part in parts if part.latency_max_ms is not None]
    return Results(
        total_requests=total,
        requests_per_second=sum(part.requests_per_second for part in parts),
        latency_avg_ms=mean,
        latency_p50_ms=histogram.percentile_ms(50),
        latency_p95_ms=histogram.percentile_ms(95),
        latency_p99_ms=histogram.percentile_ms(99),
        latency_p999_ms=histogram.percentile_ms(99.9),
        transfer_rate_mbps=sum(part.transfer_rate_mbps for part in parts),
        latency_stdev_ms=None if stdev is None else stdev / 1000,
        latency_max_ms=max(largest, default=None),
        seconds=max(part.seconds for part in parts),
        bytes_received=sum(part.bytes_received for part in parts),
        errors=errors,
        error_rate=errors.rate(total, UvhttpLoad.name),
        histogram=histogram,
    )


def generators(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> tuple[Check, ...]:
    """Each generator of an open loop has its own rate and its own CPU: the sum hides one that fell behind."""
    if not any(job.rate_per_second for job in jobs):
        return ()
    behind = [
        f"{number} served {outcome.results.requests_per_second / job.rate_per_second:.0%} of its {job.rate_per_second:,.0f}/s"
        for number, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True), 1)
        if not open_loop.was_served(outcome.results, job.rate_per_second)
    ]
    saturated = [str(number) for number, outcome in enumerate(outcomes, 1) if is_saturated(outcome.raw)]
    wrong = [f"generator {one}" for one in behind] + [f"generator {one} used all of a CPU" for one in saturated]
    return (Check("generators", not wrong, "; ".join(wrong) or f"all {len(jobs)} kept their rate", "throughput"),)


class Fanned(UvhttpLoad):
    """`advertised`: the address at which workers of other machines reach the server; None: they are processes here.
    `per_second`: of an open loop, of all generators together; 0: a closed loop."""

    def __init__(
        self, client: "Client", workers: Sequence[str], advertised: str | None = None, per_second: float = 0.0
    ) -> None:
        self._client, self.workers, self._advertised, self.per_second = client, list(workers), advertised, per_second
        self._offsets = {worker: self._offset(worker) for worker in self.workers}

    def missing(self) -> str | None:
        return None if self._advertised else super().missing()

    def version(self) -> str:
        return f"{super().version() if not super().missing() else ''} on {len(self.workers)} workers".strip()

    def speaks(self, scheme: str) -> bool:
        known = self._advertised is not None or super().speaks(scheme)
        return known and scheme != "tcp"  # which is one process with its server

    def _run_on(self, worker: str, function: Any, *arguments: Any) -> Any:
        return self._client.submit(function, *arguments, workers=[worker], pure=False, allow_other_workers=False)

    def _offset(self, worker: str) -> float:
        readings = []
        for _ in range(PROBES):
            sent = time.time()
            there = self._run_on(worker, time.time).result(timeout=JOIN_SECONDS)
            readings.append((sent, float(there), time.time()))
        ahead, open_by = clock_offset(readings)
        if abs(ahead) > CLOCK_OFF_MAX_SECONDS + open_by:
            raise BenchError(f"the clock of worker {worker} is off by {ahead:.3f} s: set it (chrony) and try again")
        return ahead

    def jobs(self, job: Job) -> list[Job]:
        """One for each generator, with its share of connections and rate. The superposition of Poisson arrivals is Poisson with
        the sum of the rates, if they are independent: each generator has its own seed."""
        made = []
        for seed, connections in enumerate(shares(job.connections, len(self.workers)), 1):
            rate = self.per_second * connections / job.connections
            made.append(replace(self._job(job, connections), rate_per_second=rate, seed=seed))
        return made

    def _job(self, job: Job, connections: int) -> Job:
        url = job.url
        if self._advertised:  # its CPUs have other numbers
            parts = urlsplit(job.url)
            url = urlunsplit(parts._replace(netloc=f"{self._advertised}:{parts.port}"))
            # Workers elsewhere do not have the file: there every body must be equal to the first one and as long as it should be.
            job = replace(job, cpus=(), expected_body=None)
        threads = max(1, job.threads // len(self.workers))
        return replace(job, url=url, connections=connections, threads=threads)

    def run(self, job: Job) -> Outcome:
        jobs = self.jobs(job)
        start = time.time() + START_DELAY_SECONDS
        began = time.monotonic() + START_DELAY_SECONDS
        remote = self._advertised is not None
        futures = [
            self._run_on(worker, work, own, start + self._offsets[worker], remote)
            for worker, own in zip(self.workers, jobs, strict=False)
        ]
        over = began + job.seconds + GRACE_SECONDS + JOIN_SECONDS  # a worker's machine that is gone says nothing
        try:
            parts: list[Part] = [future.result(timeout=max(0.0, over - time.monotonic())) for future in futures]
        except OSError as error:
            raise BenchError(f"a worker is gone: {str(error) or type(error).__name__}") from error
        finally:
            self._client.cancel(futures)
        apart = max(part.late_seconds for part in parts) - min(part.late_seconds for part in parts)
        if apart > START_APART_MAX_SECONDS:
            raise BenchError(f"the workers began {apart:.2f} s apart: they have too much else to do")
        outcomes = [part.outcome for part in parts]
        wall = max(outcome.wall_seconds for outcome in outcomes)
        cpu = sum(outcome.cpu_seconds for outcome in outcomes)
        if self._advertised:  # the busiest says whether it was the bottleneck
            cpu = max(outcome.cpu_seconds / outcome.wall_seconds for outcome in outcomes) * wall * len(job.cpus)
        elif time.monotonic() - began > wall + GRACE_SECONDS:
            raise BenchError("the workers took too long to respond")
        raw = "".join(outcome.raw for outcome in outcomes)
        return Outcome(
            merged(outcomes), raw, outcomes[0].command, cpu, wall, True, outcomes[0].request_bytes, outcomes[0].response_bytes, checks=generators(jobs, outcomes),
            connections=sum(outcome.connections for outcome in outcomes), responses=sum(outcome.responses for outcome in outcomes), waited=sum(outcome.waited for outcome in outcomes),
        )  # fmt: skip


# --- options of a verb ---


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several load generators (uvhttp-load through Dask distributed)")
    group.add_argument("--workers", type=int, default=0, metavar="N", help=f"processes on this machine, 1..{WORKERS_MAX}")
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a running Dask cluster: tcp://host:8786 or tls://host:8786"
    )
    group.add_argument("--advertise", metavar="IP", help="where its workers reach the server, which then listens everywhere")
    for name in ("ca", "cert", "key"):
        group.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"of the cluster: {name}, PEM")


def _client(args: argparse.Namespace) -> "Client":
    from distributed import Client, Security

    security = None
    if args.tls_ca or args.tls_cert or args.tls_key:
        files = {"tls_ca_file": args.tls_ca, "tls_client_cert": args.tls_cert, "tls_client_key": args.tls_key}
        absent = [str(path) for path in files.values() if path and not path.exists()]
        if absent:
            raise UsageError(f"{absent[0]}: no such file")
        security = Security(require_encryption=True, **{name: str(path) for name, path in files.items() if path})
    return Client(args.scheduler, timeout=JOIN_SECONDS, security=security, set_as_default=False)


@contextlib.contextmanager
def opened(args: argparse.Namespace, per_second: float | None = None) -> Iterator[Fanned | None]:
    """None: neither --workers nor --scheduler was given. `per_second`: of an open loop."""
    if not args.workers and not args.scheduler:
        yield None
        return
    if args.workers and args.scheduler:
        raise UsageError("--workers starts processes here, --scheduler uses those of a cluster: one of the two")
    if args.workers and not 1 <= args.workers <= WORKERS_MAX:
        raise UsageError(f"--workers {args.workers}: allowed is 1..{WORKERS_MAX}")
    if args.scheduler and not args.advertise:
        raise UsageError("--scheduler: --advertise says at which address of this machine the workers reach the server")
    missing = None if args.scheduler else UvhttpLoad().missing()
    if missing:
        raise MissingError(missing)
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingError(
            "distributed is not installed: build/bench/venv/bin/pip install -e 'bench[distributed]'"
        ) from error
    # Else it sets MALLOC_TRIM_THRESHOLD_ and others in this process, from which the server would inherit them.
    dask.config.set({"distributed.nanny.pre-spawn-environ": {}})
    with contextlib.ExitStack() as stack:
        try:
            if args.scheduler:
                client = stack.enter_context(_client(args))
            else:
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=args.workers,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        dashboard_address=None,
                        silence_logs=50,
                    )
                )
                client = stack.enter_context(Client(cluster, set_as_default=False))
        except OSError as error:
            raise BenchError(f"no Dask cluster at {args.scheduler or 'this machine'}: {error}") from error
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise MissingError(f"{args.scheduler}: has no worker: dask worker {args.scheduler}")
        yield Fanned(client, workers, args.advertise, per_second or 0.0)
