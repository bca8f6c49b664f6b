"""Owns: uvhttp-load, the library's own load generator and the default one: closed loop here, as the contract's scenarios are."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.loads.base import Job, Outcome, execute, shown
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Errors, Results

NS_PER_MS = 1e6
MASK_BYTES = 4  # of a WebSocket frame from a client
CONTENT_TYPE = "Content-Type: application/json"


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
        responses = int(results["answers"])
        errors = _errors({name: int(count) for name, count in results["errors"].items() if name != "total"})
        rates = found.get("rate_samples", {})
        return Results(
            total_requests=responses,
            requests_per_second=float(results["requests_per_second"]),
            latency_avg_ms=float(latency["mean"]) / NS_PER_MS if responses else None,
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
            error_rate=errors.rate(responses, UvhttpLoad.name),
            rate_samples_mean=float(rates["mean"]) if rates else None,
            rate_samples_stdev=float(rates["stdev"]) if rates else None,
            histogram=histogram,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"uvhttp-load printed what is not its JSON ({error}): build both from one tree") from error


def is_saturated(text: str) -> bool:
    """Whether a thread of the generator used all of its CPU: then its lateness is its own and not the server's."""
    try:
        return bool(json.loads(text)["generator"]["saturated"])
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"uvhttp-load printed what is not its JSON ({error}): build both from one tree") from error


KINDS = {"connect": "connect", "write": "write", "timeout": "timeout", "status": "status", "body": "body"}


def _errors(counts: dict[str, int]) -> Errors:
    """By its kinds; a kind that is not among ours is a failure to read a response."""
    sums: dict[str, int] = {}
    for name, count in counts.items():
        kind = KINDS.get(name, "read")
        sums[kind] = sums.get(kind, 0) + count
    return Errors(**sums)


def threads_of(job: Job) -> int:
    """A loop for each CPU: more threads would take turns on it, and a response would wait for its thread."""
    most = job.connections if job.threads_exactly or not job.cpus else min(job.connections, len(job.cpus))
    return min(job.threads, most)


def sizes_of(job: Job) -> tuple[int | None, int | None]:
    """Bytes of a request as it is sent (tools/load/plan.c), and of a response where no probe can know them. With fields of the
    reader's own, which may replace others, the first is not known."""
    parts = urlsplit(job.url)
    if parts.scheme == "ws":
        frame = 2 + (0 if job.message_bytes < 126 else 2 if job.message_bytes < 1 << 16 else 8) + job.message_bytes
        return frame + MASK_BYTES, frame
    if job.headers or job.http2:  # whose fields are compressed
        return None, None
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    head = f"{job.method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    if job.request_body:
        head += f"{CONTENT_TYPE}\r\nContent-Length: {len(job.request_body)}\r\n"
    return len(head) + len("\r\n") + len(job.request_body), None


def marked_body(body: bytes) -> bytes:
    """A JSON body with its last string replaced by the mark of --echo, which sends other random characters there each time;
    empty: it has none."""
    found = re.fullmatch(rb'([^%]*")([^"%]+)("[^"%]*)', body)
    return found[1] + b"%" + found[3] if found else b""


def with_whole_run(outcome: Outcome) -> Outcome:
    """With what it did before and after the window that its results are of, and what had no response in it."""
    found = json.loads(outcome.raw)
    results, waited = found["results"], int(found["latency"].get("timeouts_included", 0))
    opened, responses = int(results.get("connections_opened", 0)), int(results.get("answers_total", 0))
    return replace(outcome, connections=opened, responses=responses, waited=waited)


class UvhttpLoad:
    name = "uvhttp-load"

    def missing(self) -> str | None:
        found = program()
        return None if found and found.is_file() else "uvhttp-load is not there: ./dev build, or --tool wrk"

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
        command = [str(self._program()), "-c", str(job.connections), "-t", str(threads_of(job))]
        command += ["-d", f"{round(job.seconds * 1000)}ms", "--json", "-"]
        command += ["--h2", "-m", str(job.pipeline)] if job.http2 else ["-p", str(job.pipeline)]
        marked = marked_body(job.request_body) if job.echoes and job.url.startswith("http:") else b""
        if job.url.startswith("http"):
            command += ["-X", job.method, "--expect-status", str(job.status)]
            if marked:
                command += ["--echo", "--payload-size", str(len(job.request_body) - len(marked) + 1)]
            elif job.expected_body is not None:
                command += ["--expect-body", str(job.expected_body)]
            elif job.response_bytes is not None:
                command += ["--expect-length", str(job.response_bytes)]
            else:
                command += ["--verify", "none"]
        if job.request_body:
            body = job.workspace / "body.json"
            body.write_bytes(marked or job.request_body)
            command += ["-B", str(body)]
            if not any(name.lower() == "content-type" for name, _ in job.headers):
                command += ["-H", CONTENT_TYPE]
        for name, value in job.headers:
            command += ["-H", f"{name}: {value}"]
        if job.message_bytes:
            command += ["--payload-size", str(job.message_bytes)]
        if job.rate_per_second:
            command += ["--rate", f"{job.rate_per_second:.3f}", "--arrivals", "poisson", "--seed", str(job.seed)]
        return [*command, job.url]

    def run(self, job: Job) -> Outcome:
        command = self.command(job)
        done = execute(command, job.cpus, job.seconds)
        if not done.stdout.strip():  # 1 with a result is a run with errors, which the checks will name
            why = done.stderr.strip().splitlines()
            raise BenchError(f"uvhttp-load failed with {done.code}: {why[-1] if why else 'nothing printed'}")
        results = parse(done.stdout)
        sizes = sizes_of(job)
        return with_whole_run(
            Outcome(results, done.stdout, shown(command), done.cpu_seconds, done.wall_seconds, True, *sizes)
        )
