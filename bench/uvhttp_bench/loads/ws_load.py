"""Owns: bench/ws_load.c, a WebSocket load generator that compares every echo; it keeps no latencies."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from uvhttp_bench import repository
from uvhttp_bench.exits import BenchError
from uvhttp_bench.loads.base import Job, Outcome, execute, shown
from uvhttp_bench.model.record import Results

SOURCE = repository.ROOT / "bench" / "ws_load.c"
PROGRAM = repository.BUILD / "bench" / "ws_load"


def built() -> Path:
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        done = execute(["cc", "-O2", "-D_GNU_SOURCE", SOURCE, "-o", PROGRAM], (), 60)
        if done.code != 0:
            raise BenchError(f"{SOURCE.name} can not be built: {done.stderr.strip()}")
    return PROGRAM


class WsLoad:
    name = "ws_load"

    def missing(self) -> str | None:
        return None if PROGRAM.exists() or shutil.which("cc") else "cc is not installed: apt-get install build-essential"

    def version(self) -> str:
        return ""

    def speaks(self, scheme: str) -> bool:
        return scheme == "ws"

    def run(self, job: Job) -> Outcome:
        url = urlsplit(job.url)
        seconds = max(1, round(job.seconds))
        command = [str(built()), str(url.port), url.path, str(job.connections), str(seconds), str(job.message_bytes)]
        done = execute(command, job.cpus, seconds)
        if done.code != 0 or not done.stdout.strip().isdigit():
            raise BenchError(f"ws_load failed: {done.stderr.strip() or done.stdout.strip()}")
        echoes = int(done.stdout)
        received = echoes * job.message_bytes
        results = Results(
            echoes, echoes / seconds, None, None, None, None, None, received / seconds / 2**20,
            seconds=float(seconds), bytes_received=received,
        )  # fmt: skip
        return Outcome(results, done.stdout, shown(command), done.cpu_seconds, done.wall_seconds, True)
