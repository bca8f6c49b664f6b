"""Owns: the two workloads of S3 as data: what is asked of which server, and what may come back."""

from dataclasses import dataclass

SLEEP_SECONDS = 0.2


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    path: str
    body_pattern: str  # of the whole body
    wait_seconds: float  # each request waits at least so long


WORKLOADS = {
    "count": Workload("count", "CPU-bound: count the visits, return the count", "/count", r"\d+", 0),
    "sleep200": Workload("sleep200", "I/O-bound: wait 200 ms", "/sleep200", r"[ -~\n]{0,64}", SLEEP_SECONDS),
}

# Where a handler of ours runs: what follows the path.
MODES = {"loop": "", "worker": "/worker", "coroutine": "/coroutine"}

SWEEP_DEFAULT = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def ideal_per_second(workload: Workload, connections: int) -> float | None:
    """What a server without any cost of its own would do in a closed loop."""
    return connections / workload.wait_seconds if workload.wait_seconds else None
