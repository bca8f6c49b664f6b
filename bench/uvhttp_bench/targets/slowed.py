"""Owns: performance_test, slowed by a known number of nanoseconds per request; with 0 of them it is as fast as ever, and
everything else about it is the same."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench import repository
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import build
from uvhttp_bench.targets.uvhttp import Uvhttp

SOURCE = repository.ROOT / "bench" / "self_check" / "slow_send.c"
LIBRARY = repository.BUILD / "bench" / "self_check" / "slow_send.so"


class Slowed(Uvhttp):
    """On the epoll engine, which hands over each answer by a call of its own."""

    def __init__(self, name: str, slow_ns: int, program: Path | None = None) -> None:
        super().__init__("epoll", program=program, name=name)
        self.slow_ns = slow_ns

    @property
    def variables(self) -> dict[str, str]:
        """Set on purpose: the one use of LD_PRELOAD that a run permits."""
        return {"LD_PRELOAD": str(LIBRARY), "UVHTTP_SLOW_NS": str(self.slow_ns)}

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        compiler: list[str | Path] = ["cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", SOURCE, "-o", LIBRARY]
        build("slow_send", compiler, [SOURCE], LIBRARY)
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        return ["env", *variables, *super().command(scenario, ports, workspace)]
