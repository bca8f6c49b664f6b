"""Owns: uvhttp-load, the library's own load generator: closed loop here, as the contract's scenarios are."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.loads.base import Job, Outcome, execute, shown
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Errors, Results

NS_PER_MS = 1e6


def program() -> Path | None:
    given = os.environ.get("UVHTTP_BENCH_LOAD")
    if given:
        return Path(given)
    built = repository.PROGRAMS / "uvhttp-load"
    found = shutil.which("uvhttp-load")
    return built if built.is_file() else Path(found) if found else None


SUB_BITS = 5  # of its histogram: 32 buckets to a power of two


def middle_us(low_ns: int) -> int:
    """Of the bucket with this least value: nothing is shifted by taking one value for all of a bucket."""
    width = 1 << max(0, low_ns.bit_length() - 1 - SUB_BITS)
    return (low_ns + width // 2) // 1000


def parse(text: str) -> Results:
    """Its histogram is in ns, by the least value of each bucket; ours is in us, and the raw output keeps the other."""
    try:
        found = json.loads(text)
        schema = str(found["schema"])
        if schema != "uvhttp-load/1":
            raise BenchError(f"uvhttp-load speaks {schema}; this program knows uvhttp-load/1: build both from one tree")
        results, latency = found["results"], found["latency"]
        histogram = Histogram.of((middle_us(int(low)), int(count)) for low, count in latency["buckets"])
        answers = int(results["answers"])
        errors = _errors({name: int(count) for name, count in results["errors"].items() if name != "total"})
        rates = found.get("rate_samples", {})
        return Results(
            total_requests=answers,
            requests_per_second=float(results["requests_per_second"]),
            latency_avg_ms=float(latency["mean"]) / NS_PER_MS if answers else None,
            latency_p50_ms=histogram.percentile_ms(50),
            latency_p95_ms=histogram.percentile_ms(95),
            latency_p99_ms=histogram.percentile_ms(99),
            latency_p999_ms=histogram.percentile_ms(99.9),
            transfer_rate_mbps=float(results["bytes_per_second"]) / 2**20,
            latency_stdev_ms=float(latency["stdev"]) / NS_PER_MS,
            latency_max_ms=float(latency["max"]) / NS_PER_MS,
            seconds=float(results["elapsed_s"]),
            bytes_received=int(results["bytes"]),
            errors=errors,
            error_rate=errors.total / max(1, answers + errors.total),
            rate_samples_mean=float(rates["mean"]) if rates else None,
            rate_samples_stdev=float(rates["stdev"]) if rates else None,
            histogram=histogram,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"uvhttp-load printed what is not its JSON ({error}): build both from one tree") from error


KINDS = {"connect": "connect", "write": "write", "timeout": "timeout", "status": "status", "body": "body"}


def _errors(counts: dict[str, int]) -> Errors:
    """By its kinds; a kind that is not among ours is a failure to read an answer."""
    sums: dict[str, int] = {}
    for name, count in counts.items():
        kind = KINDS.get(name, "read")
        sums[kind] = sums.get(kind, 0) + count
    return Errors(**sums)


class UvhttpLoad:
    name = "uvhttp-load"

    def missing(self) -> str | None:
        found = program()
        return None if found and found.is_file() else "uvhttp-load is not there: ./dev build, or leave --tool out"

    def _program(self) -> Path:
        found = program()
        if not found or not found.is_file():
            raise MissingError(str(self.missing()))
        return found

    def _say(self, argument: str) -> str:
        return subprocess.run([self._program(), argument], capture_output=True, text=True, check=False).stdout

    def version(self) -> str:
        lines = self._say("--version").strip().splitlines()
        return lines[0] if lines else ""

    def speaks(self, scheme: str) -> bool:
        """Its help names the schemes that it was built with."""
        return self.missing() is None and f"{scheme}://" in self._say("--help")

    def command(self, job: Job) -> list[str]:
        command = [str(self._program()), "-c", str(job.connections), "-t", str(min(job.threads, job.connections))]
        command += ["-d", f"{round(job.seconds * 1000)}ms", "-p", str(job.pipeline), "--json", "-"]
        if job.url.startswith("http"):
            command += ["-X", job.method, "--expect-status", str(job.status)]
            if job.response_body is not None:
                expected = job.workspace / "expected_body"
                expected.write_bytes(job.response_body)
                command += ["--expect-body", str(expected)]
            elif job.response_bytes is not None:
                command += ["--expect-length", str(job.response_bytes)]
            else:
                command += ["--verify", "none"]
        if job.request_body:
            body = job.workspace / "body.json"
            body.write_bytes(job.request_body)
            command += ["-B", str(body)]
            if not any(name.lower() == "content-type" for name, _ in job.headers):
                command += ["-H", "Content-Type: application/json"]
        for name, value in job.headers:
            command += ["-H", f"{name}: {value}"]
        if job.message_bytes:
            command += ["--payload-size", str(job.message_bytes)]
        return [*command, job.url]

    def run(self, job: Job) -> Outcome:
        command = self.command(job)
        done = execute(command, job.cpus, job.seconds)
        if not done.stdout.strip():  # 1 with a result is a run with errors, which the checks will name
            why = done.stderr.strip().splitlines()
            raise BenchError(f"uvhttp-load failed with {done.code}: {why[-1] if why else 'nothing printed'}")
        results = parse(done.stdout)
        return Outcome(results, done.stdout, shown(command), done.cpu_seconds, done.wall_seconds, True)
