"""Owns: wrk, the contract's load tool: its command, its output, its whole histogram.

wrk 4 "corrects" its histogram for coordinated omission by adding samples that nobody measured, with the mean time between
requests of a connection as the expected interval: in a closed loop that doubles the mean for nothing. The addition is undone
exactly (the number of samples is then that of requests), and both histograms are kept."""

import re
import shutil
import subprocess
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.base import Finished, Job, Outcome, execute, find, shown
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Errors, Results

SCRIPT = Path(__file__).with_name("wrk.lua")
LINE = re.compile(r"^#bench (\w+) (.*)$", re.M)
TIMEOUT_SECONDS = 30


def uncorrected(histogram: Histogram, expected_us: int) -> Histogram:
    """Takes away what wrk's stats_correct() has added. Largest value first: what a value has been given came from larger
    ones, which are by then as they were measured."""
    counts = dict(zip(histogram.values_us, histogram.counts, strict=True))
    if expected_us < 1:
        return histogram
    for value in sorted(counts, reverse=True):
        if value < expected_us * 2:
            break
        count = counts[value]
        at = value - expected_us
        while count > 0 and at > expected_us:
            counts[at] = counts.get(at, 0) - count
            at -= expected_us
    return Histogram.of(counts.items())


def parse(text: str, connections: int, pipeline: int = 1) -> Results:
    """Of what wrk and wrk.lua printed."""
    lines: dict[str, list[list[float]]] = {}
    for name, numbers in LINE.findall(text):
        lines.setdefault(name, []).append([float(number) for number in numbers.split()])
    if not {"summary", "errors", "rates"} <= lines.keys():
        raise BenchError(f"wrk printed no summary: {text.strip().splitlines()[-1] if text.strip() else 'nothing'}")
    requests, duration_us, received = (int(number) for number in lines["summary"][0])
    connect, read, write, timeout, status = (int(number) for number in lines["errors"][0])
    corrected = Histogram.of((int(value), int(count)) for value, count in lines.get("h", []))
    interval = duration_us // (requests // connections) if requests // connections > 0 else 0
    histogram = uncorrected(corrected, interval) if interval else corrected
    seconds = duration_us / 1e6
    errors = Errors(connect, read, write, timeout, status)
    mean, stdev, largest = histogram.mean_us(), histogram.stdev_us(), histogram.max_us()
    return Results(
        total_requests=requests,
        requests_per_second=requests / seconds if seconds else 0.0,
        latency_avg_ms=None if mean is None else mean / 1000,
        latency_p50_ms=histogram.percentile_ms(50),
        latency_p95_ms=histogram.percentile_ms(95),
        latency_p99_ms=histogram.percentile_ms(99),
        latency_p999_ms=histogram.percentile_ms(99.9),
        transfer_rate_mbps=received / seconds / 2**20 if seconds else 0.0,
        latency_stdev_ms=None if stdev is None else stdev / 1000,
        latency_max_ms=None if largest is None else largest / 1000,
        seconds=seconds,
        bytes_received=received,
        errors=errors,
        error_rate=errors.rate(requests, Wrk.name),
        rate_samples_mean=lines["rates"][0][0],
        rate_samples_stdev=lines["rates"][0][1],
        histogram=histogram,
        histogram_corrected=corrected if corrected != histogram else Histogram(),
    )


def cpu_seconds(text: str, whole: float) -> float:
    """Of the load alone: what wrk.lua used to write the histogram down is not in it, as far as wrk.lua says so."""
    return next((float(number) for name, number in LINE.findall(text) if name == "cpu"), whole)


def request_bytes(text: str) -> int | None:
    return next((int(number) for name, number in LINE.findall(text) if name == "request"), None)


def connections_of(job: Job) -> int:
    """It gives each thread as many, and leaves out the rest."""
    threads = min(job.threads, job.connections)
    return job.connections // threads * threads


class Wrk:
    name = "wrk"

    def missing(self) -> str | None:
        return None if shutil.which("wrk") else "wrk is not installed: apt-get install wrk"

    def version(self) -> str:
        text = subprocess.run([find("wrk", "wrk"), "-v"], capture_output=True, text=True, check=False).stdout
        return text.split(" Copyright")[0].split(" [")[0].strip()

    def speaks(self, scheme: str) -> bool:
        return scheme in ("http", "https")

    def command(self, job: Job) -> list[str]:
        script = [str(job.pipeline), job.method]
        if job.request_body:
            body = job.workspace / "body.json"
            body.write_bytes(job.request_body)
            script.append(str(body))
        return [
            find("wrk", "wrk"), f"-t{min(job.threads, job.connections)}", f"-c{job.connections}",
            f"-d{max(1, round(job.seconds))}s", "--latency", "--timeout", f"{TIMEOUT_SECONDS}s", "-s", str(SCRIPT), job.url,
            "--", *script,
        ]  # fmt: skip

    def run(self, job: Job) -> Outcome:
        command = self.command(job)
        done: Finished = execute(command, job.cpus, job.seconds)
        if done.code != 0:
            why = (done.stderr or done.stdout).strip().splitlines()
            raise BenchError(f"wrk failed with {done.code}: {why[-1] if why else 'nothing printed'}")
        results = parse(done.stdout, job.connections, job.pipeline)
        readable = LINE.sub("", done.stdout).strip() + "\n"
        cpu = cpu_seconds(done.stdout, done.cpu_seconds)
        return Outcome(
            results, readable, shown(command), cpu, done.wall_seconds, request_bytes=request_bytes(done.stdout), batch=job.pipeline,
            connections=connections_of(job),
        )  # fmt: skip
