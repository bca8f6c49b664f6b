"""Owns: what a record keeps so that somebody else can check it: who was measured, the inputs of its figures and checks, and its
place in the chain of records."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Identity:
    """Who was measured, by hashes (SHA-256). "before" and "after" are the running server before and after the load."""

    ours: bool = False  # performance_test or another program of this repository, which says more about itself than others
    planned: str = ""  # of the program's file when the run was planned; empty for the servers of others
    first: str = ""  # of the program in the first run of this server in the session
    before: str = ""  # of /proc/PID/exe
    after: str = ""
    libraries_before: dict[str, str] = field(default_factory=dict)  # libuvhttp.so and what is preloaded, where mapped
    libraries_after: dict[str, str] = field(default_factory=dict)
    sources: str = ""  # as the running server says
    sources_expected: str = ""  # of the tree or the commit that it is to be of; empty: a commit older than this check
    settings_expected: dict[str, str] = field(default_factory=dict)  # as the command line asks for
    settings_before: dict[str, str] = field(default_factory=dict)  # those in force that are not the default
    settings_after: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # of the server's environment: those that change figures
    variables_permitted: dict[str, str] = field(default_factory=dict)  # set on purpose, or to what holds anyway
    variables_of_harness: dict[str, str] = field(default_factory=dict)
    generator: str = ""  # of the load generator's file
    generator_first: str = ""
    generator_expected: str = ""  # where UVHTTP_BENCH_LOAD names one: of the one that was built here
    harness: str = ""  # of the sources of this program


@dataclass(frozen=True)
class Inputs:
    """Of the figures and checks, as they were measured. Empty in records of schema version 1."""

    wall_seconds: float = 0.0  # 0: not recorded
    user_seconds: float = 0.0  # of the server
    system_seconds: float = 0.0
    switches: int = 0
    processes_seconds: float = 0.0  # of all processes, on the CPUs of server and generator
    steal_seconds: float = 0.0
    capacity_seconds: float = 0.0
    generator_cpu_seconds: float = 0.0
    generator_wall_seconds: float = 0.0
    bandwidth_mb: float = 0.0  # that the generator's CPUs can receive
    pipeline: int = 1
    answer_bytes: int | None = None
    answer_bytes_checked: bool = False  # by the generator, for each response
    batch: int = 1  # requests that share one latency
    waited: int = 0  # latencies of requests that had no response when the time was up
    log_bytes: int = 0
    cpu_series: tuple[float, ...] = ()
    memory_series: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Chain:
    """See model/chain.py."""

    previous: str = ""  # hash of the record before, in the store
    whole: str = ""  # of the record with its full histograms
    hash: str = ""  # of the record as it is committed, with the two above
