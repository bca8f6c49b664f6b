"""Owns: benchmark_tcp_echo: server and clients of the TCP core in one process (S4 of the contract)."""

import json
import subprocess
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.base import Job, Outcome, execute, shown
from uvhttp_bench.model.record import Errors, Results

IO_THREADS = 3
REQUESTS_PER_THREAD = 20000


def parse(text: str) -> Results:
    try:
        found = json.loads(text)
        total, seconds = int(found["total_requests"]), float(found["elapsed_seconds"])
        lost = total - int(found["echoed_messages"])
        return Results(
            total_requests=total,
            requests_per_second=float(found["throughput_req_per_sec"]),
            latency_avg_ms=float(found["avg_round_trip_us_per_connection"]) / 1000,
            latency_p50_ms=float(found["p50_us"]) / 1000,
            latency_p95_ms=None,
            latency_p99_ms=float(found["p99_us"]) / 1000,
            latency_p999_ms=float(found["p999_us"]) / 1000,
            transfer_rate_mbps=float(found["throughput_mib_per_sec"]),
            seconds=seconds,
            bytes_received=int(found["echoed_bytes"]),
            errors=Errors(read=max(0, lost), body=0 if found["echoed_bytes"] == found["total_bytes"] else 1),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"benchmark_tcp_echo printed what is not its JSON: {error}") from error


class TcpEcho:
    name = "benchmark_tcp_echo"

    def __init__(self, program: Path | None = None) -> None:
        self.program = program or repository.PROGRAMS / "benchmark_tcp_echo"

    def missing(self) -> str | None:
        return None if self.program.is_file() else f"{self.program} is not there: ./dev build"

    def version(self) -> str:
        return ""

    def build_info(self) -> str:
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False).stdout

    def speaks(self, scheme: str) -> bool:
        return scheme == "tcp"

    def run(self, job: Job) -> Outcome:
        """The contract counts messages, not seconds: less than two seconds asked for is a tenth of them."""
        messages = REQUESTS_PER_THREAD if job.seconds >= 2 else REQUESTS_PER_THREAD // 10
        command = [
            str(self.program), "--json", "--io-threads", str(IO_THREADS), "--client-threads", str(job.connections),
            "--requests-per-thread", str(messages), "--payload-size", str(job.message_bytes),
        ]  # fmt: skip
        done = execute(command, job.cpus, 120)
        if done.code != 0:
            why = done.stderr.strip().splitlines()
            raise BenchError(f"benchmark_tcp_echo failed: {why[-1] if why else done.code}")
        return Outcome(parse(done.stdout), done.stdout, shown(command), done.cpu_seconds, done.wall_seconds, True)
