"""Owns: h2load, a second opinion on latency: it writes down each request, so that its distribution is exact. Over HTTP/2 it is
the cross-check, as wrk is over HTTP/1."""

import re
import shutil
import subprocess
from collections.abc import Iterable

from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.base import Job, Outcome, execute, find, shown
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Errors, Results

PACKAGE = "nghttp2-client"
FINISHED = re.compile(r"^finished in \S+, ([\d.]+) req/s", re.M)
REQUESTS = re.compile(r"^requests: .*?(\d+) done, .*?(\d+) failed, (\d+) errored, (\d+) timeout", re.M)
TRAFFIC = re.compile(r"^traffic: \S+ \((\d+)\) total", re.M)


def histogram_of(lines: Iterable[str]) -> Histogram:
    """Of its log: start in us since 1970, status, us until the end of the response."""
    return Histogram.of((int(line.rsplit("\t", 1)[1]), 1) for line in lines)


def parse(text: str, histogram: Histogram) -> Results:
    finished, requests, traffic = FINISHED.search(text), REQUESTS.search(text), TRAFFIC.search(text)
    if not finished or not requests or not traffic:
        raise BenchError(f"h2load printed no summary: {text.strip().splitlines()[-1] if text.strip() else 'nothing'}")
    rate = float(finished[1])
    done, failed, errored, timed_out = (int(number) for number in requests.groups())
    errors = Errors(read=errored - timed_out, timeout=timed_out, status=failed - errored)  # each is a part of the one before
    seconds = done / rate if rate else 0.0
    mean, stdev, largest = histogram.mean_us(), histogram.stdev_us(), histogram.max_us()
    return Results(
        total_requests=done,
        requests_per_second=rate,
        latency_avg_ms=None if mean is None else mean / 1000,
        latency_p50_ms=histogram.percentile_ms(50),
        latency_p95_ms=histogram.percentile_ms(95),
        latency_p99_ms=histogram.percentile_ms(99),
        latency_p999_ms=histogram.percentile_ms(99.9),
        transfer_rate_mbps=int(traffic[1]) / seconds / 2**20 if seconds else 0.0,
        latency_stdev_ms=None if stdev is None else stdev / 1000,
        latency_max_ms=None if largest is None else largest / 1000,
        seconds=seconds,
        bytes_received=int(traffic[1]),
        errors=errors,
        error_rate=errors.rate(done, H2load.name),
        histogram=histogram,
    )


class H2load:
    name = "h2load"

    def missing(self) -> str | None:
        return None if shutil.which("h2load") else f"h2load is not installed: apt-get install {PACKAGE}"

    def version(self) -> str:
        return subprocess.run(
            [find("h2load", PACKAGE), "--version"], capture_output=True, text=True, check=False
        ).stdout.strip()

    def speaks(self, scheme: str) -> bool:
        return scheme in ("http", "https")

    def command(self, job: Job) -> list[str]:
        if job.method != ("POST" if job.request_body else "GET"):
            raise BenchError(f"h2load does not send {job.method}: ask for a scenario of GET, or of POST with a body")
        command = [find("h2load", PACKAGE), *([] if job.http2 else ["--h1"]), "-t", str(min(job.threads, job.connections))]
        command += ["-c", str(job.connections), "-m", str(job.pipeline), "-D", f"{round(job.seconds * 1000)}ms"]
        if job.request_body:
            body = job.workspace / "body.json"
            body.write_bytes(job.request_body)
            command += ["-d", str(body), "-H", "Content-Type: application/json"]
        return [*command, f"--log-file={job.workspace / 'h2load.log'}", job.url]

    def run(self, job: Job) -> Outcome:
        command, log = self.command(job), job.workspace / "h2load.log"
        log.unlink(missing_ok=True)  # it appends
        done = execute(command, job.cpus, job.seconds)
        if done.code != 0 or not log.exists():
            why = (done.stderr or done.stdout).strip().splitlines()
            raise BenchError(f"h2load failed with {done.code}: {why[-1] if why else 'nothing printed'}")
        with log.open(encoding="ascii") as lines:
            results = parse(done.stdout, histogram_of(lines))
        return Outcome(results, done.stdout, shown(command), done.cpu_seconds, done.wall_seconds)
