"""Owns: what the standard asks of the build, the machine and the tools. A run that is not of it is recorded with a warning, and is
neither a baseline nor published: "performance baselines must use the standard configuration" (S0, 5.1)."""

import re
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.exits import BenchError
from uvhttp_bench.model.record import Check, Configuration, Environment, Record

CONFIGURATION, THRESHOLDS = "standard configuration", "standard's thresholds"
WRK_MIN = (4, 2, 0)
CORES_MIN = 4
MEMORY_GB_MIN = 8
SOMAXCONN_MIN = 65535
SYN_BACKLOG_MIN = 8192
FILES_MIN = 65535


def version_of(text: str) -> tuple[int, ...]:
    """ "4.1.0-3+b2" -> (4, 1, 0)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def somaxconn() -> int:
    try:
        return int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        return 0


def configuration(found: Configuration) -> Check:
    """A warning of a run; `refuse` makes it an error of a baseline."""
    off = [
        name for name, on in (("mimalloc", found.build_with_mimalloc), ("websocket", found.build_with_websocket)) if not on
    ]
    advice = "cmake --preset standard, and build again, for a baseline"
    detail = f"built without {' and '.join(off)}: {advice}" if off else "mimalloc and websocket are on"
    return Check(CONFIGURATION, not off, detail, "")


def thresholds(environment: Environment, tool: str, waiting: int) -> Check:
    """`waiting`: connections that wait to be accepted, at most (net.core.somaxconn)."""
    memory = version_of(environment.memory)
    wrk = environment.tools.get("wrk", "")
    low = [
        f"{what}, the standard asks for {least}"
        for what, least, good in (
            (f"wrk {wrk}", ".".join(map(str, WRK_MIN)), tool != "wrk" or version_of(wrk) >= WRK_MIN),
            (f"{environment.cores} cores", CORES_MIN, environment.cores >= CORES_MIN),
            (f"{environment.memory} of memory", f"{MEMORY_GB_MIN}GB", not memory or memory[0] >= MEMORY_GB_MIN),
            (f"somaxconn {waiting}", SOMAXCONN_MIN, waiting >= SOMAXCONN_MIN),
        )
        if not good
    ]
    return Check(THRESHOLDS, not low, "; ".join(low) or "met", "")


def refuse(records: Sequence[Record]) -> None:
    """What is not of the standard's configuration: no baseline, and not published. Servers of others have none."""
    for record in records:
        if record.configuration.revision:
            check = configuration(record.configuration)
            if not check.passed:
                raise BenchError(f"{record.test_scenario.name}: not of the standard's configuration: {check.detail}")


def warnings(records: Sequence[Record]) -> list[str]:
    """What is not as the standard asks, each once."""
    found = [c for r in records for c in r.checks if c.name in (CONFIGURATION, THRESHOLDS) and not c.passed]
    return list(dict.fromkeys(f"{check.name}: {check.detail}" for check in found))
