"""Owns: uvhttp-load as an open loop: N requests per second, each sent when it is due, its latency counted from then. The wait
that a slow server causes is part of the latency."""

from dataclasses import replace

from uvhttp_bench.loads.base import Job
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad


class AtRate(UvhttpLoad):
    def __init__(self, per_second: float) -> None:
        self.per_second = per_second

    def command(self, job: Job) -> list[str]:
        return super().command(replace(job, rate_per_second=self.per_second))
