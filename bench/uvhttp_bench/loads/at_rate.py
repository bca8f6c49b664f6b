"""Owns: uvhttp-load as an open loop: so many requests a second, each sent when it is due, its latency counted from then. A
server that falls behind is seen to."""

from uvhttp_bench.loads.base import Job
from uvhttp_bench.loads.uvhttp_load import UvhttpLoad


class AtRate(UvhttpLoad):
    def __init__(self, per_second: float) -> None:
        self.per_second = per_second

    def command(self, job: Job) -> list[str]:
        *command, url = super().command(job)
        return [*command, "--rate", f"{self.per_second:.3f}", "--arrivals", "poisson", url]
