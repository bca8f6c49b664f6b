"""Owns: the checks that void a run. Pure: figures in, checks out. Each names the figures that its failure takes away, and
says what to do."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from uvhttp_bench.model.record import BUSY, GENERATOR, LITTLE, Check, Configuration, Environment, Results
from uvhttp_bench.stats import leak

LITTLE_MAX = 0.10  # how far mean latency and connections / throughput may be apart
BUSY_MIN = 0.5  # of the connections; with fewer the figures are wrong, not the generator slow
SERVER_BUSY = 0.90  # of its CPU: a faster generator would change rate and mean latency by a tenth at most
AT_GENERATOR_MAX = 0.10  # of the requests under way: those that wait for the generator rather than for the server
BANDWIDTH_SLACK = 1.1  # the limit is measured by another program
STEADY_MAX = 0.15  # difference between the halves of a run
OTHERS_MAX = 0.05  # of the CPUs in use, by other processes
STEAL_MAX = 0.02
IDLE_SECONDS = 0.002  # in a tenth of a second: a server that hardly works is steady
MEMORY_SECONDS_MIN = 25  # a run in which growth is looked for
LOG_BYTES_MAX = 4096  # a line now and then is no harm; one for each request is


# --- what the running binary says about its build ---


def configuration_of(build_info: str, **known: object) -> Configuration:
    """Out of uvhttp_build_info, as performance_test --version prints it."""
    options = dict(re.findall(r"(\w+)=(\S*)", _line(build_info, "options")))
    flags = _line(build_info, "flags").split()
    levels = [flag for flag in flags if re.fullmatch(r"-O\w*", flag)]
    configuration = Configuration(
        build_with_mimalloc=options.get("BUILD_WITH_MIMALLOC") == "ON",
        build_with_websocket=options.get("BUILD_WITH_WEBSOCKET") == "ON",
        debug=options.get("ENABLE_DEBUG") == "ON" or "-DNDEBUG" not in flags,
        optimization=levels[-1] if levels else "-O0",
        coverage=options.get("ENABLE_COVERAGE") == "ON" or "--coverage" in flags,
        sanitizers=options.get("UVHTTP_SANITIZE", "") or ",".join(f[11:] for f in flags if f.startswith("-fsanitize=")),
        build_type=_line(build_info, "build type"),
        version=_line(build_info, "version"),
        build_info=build_info.strip(),
    )
    return Configuration(**{**configuration.__dict__, **known})


def compiler_of(build_info: str) -> tuple[str, str]:
    name, _, version = _line(build_info, "compiler").partition(" ")
    return ("GCC" if name == "GNU" else name), version


def _line(text: str, name: str) -> str:
    found = re.search(rf"^{name}: ?(.*)$", text, re.M)
    return found[1].strip() if found else ""


def build(configuration: Configuration) -> Check:
    wrong = [
        what
        for what, bad in (
            ("debug", configuration.debug),
            ("coverage", configuration.coverage),
            (f"sanitizers {configuration.sanitizers}", bool(configuration.sanitizers)),
            (f"optimization {configuration.optimization}", configuration.optimization in ("-O0", "-O1", "-Og")),
        )
        if bad
    ]
    if not configuration.build_info:
        return Check("build", False, "the server does not say how it was built: performance_test --version")
    if wrong:
        return Check("build", False, f"not a release build ({', '.join(wrong)}): cmake --preset standard, and build again")
    return Check("build", True, f"{configuration.build_type}, {configuration.optimization}")


def log(level: str, bytes_logged: int) -> Check:
    if level.lower() == "debug":
        return Check("log", False, "the server logs at level debug: unset UVHTTP_LOG_LEVEL, or set it to warn")
    if bytes_logged > LOG_BYTES_MAX:
        return Check("log", False, f"the server wrote {bytes_logged} bytes of log during the run: find out what it reports")
    return Check("log", True, f"{bytes_logged} bytes during the run")


# --- equal conditions ---


def private_network(environment: Environment, different: Sequence[str]) -> Check:
    """A warning. `different`: the sysctls that could not be set."""
    if environment.network != "private":
        return Check("network", False, "in the machine's network, with its sysctls and whatever else is on its loopback", "")
    if different:
        return Check("network", False, f"could not be set: {'; '.join(different)}", "")
    return Check("network", True, "a network of its own")


def congestion_control(asked: str, seen: Collection[str]) -> Check:
    """`seen`: of the server's own sockets while they were under load. A server that chooses for itself is measured under another
    TCP than the others."""
    name = "congestion control"
    if not seen:
        return Check(name, False, "the kernel did not say what the server's sockets use: is the module inet_diag there?", "")
    if set(seen) == {asked}:
        return Check(name, True, f"the server's sockets use {asked}")
    return Check(
        name, False, f"the server's sockets use {', '.join(sorted(seen))}, asked was {asked}: tell it to leave TCP's alone"
    )


def placement(cpus: Sequence[int], allowed: Collection[tuple[int, ...]], descriptors: int, limits: Collection[int]) -> Check:
    """`allowed` and `limits`: CPUs of the server's threads and descriptors of its processes, as the kernel has them."""
    name = "CPUs and descriptors"
    wrong = [f"CPUs {','.join(map(str, one)) or 'unknown'}" for one in sorted(allowed) if one != tuple(sorted(cpus))]
    wrong += [f"{one} descriptors" for one in sorted(limits) if one != descriptors]
    asked = f"CPUs {','.join(map(str, sorted(cpus)))} and {descriptors} descriptors"
    if wrong:
        return Check(name, False, f"the server has {', '.join(wrong)}, asked was {asked}: it changes what it was given")
    return Check(name, True, asked)


# --- what came back ---


def errors(results: Results) -> Check:
    e = results.errors
    if results.total_requests == 0 and not e.total:
        return Check("errors", False, "no request got a response")
    if e.total:
        what = ", ".join(f"{count} {name}" for name, count in e.__dict__.items() if count)
        return Check("errors", False, f"{what} of {results.total_requests} requests: a run with errors measures the errors")
    return Check("errors", True, f"none in {results.total_requests} requests")


@dataclass(frozen=True)
class Expected:
    status: int
    body_bytes: int | None
    body: bytes | None = None  # None: it differs from response to response


def response(when: str, status: int, body: bytes, expected: Expected) -> Check:
    if status != expected.status:
        return Check(f"answer {when}", False, f"status {status} instead of {expected.status}: is this the right server?")
    if expected.body_bytes is not None and len(body) != expected.body_bytes:
        return Check(f"answer {when}", False, f"a body of {len(body)} bytes instead of {expected.body_bytes}")
    if expected.body is not None and body != expected.body:
        return Check(f"answer {when}", False, f"a body of {len(body)} bytes that is not the expected one")
    return Check(f"answer {when}", True, f"status {status}, {len(body)} bytes")


def length(results: Results, response_bytes: int | None, in_flight: int) -> Check:
    """All bytes that came, against requests times the known size of a response: every body's length, in one sum."""
    if response_bytes is None:
        return Check("length", True, "responses vary in length: not checked in sum")
    low = results.total_requests * response_bytes
    high = (results.total_requests + in_flight) * response_bytes
    good = low <= results.bytes_received <= high
    detail = f"{results.bytes_received} bytes came; {results.total_requests} responses of {response_bytes} are {low}"
    return Check("length", good, detail if good else f"{detail}: some responses were not the one that was checked")


def samples(results: Results, connections: int, batch: int = 1, waited: int = 0) -> Check:
    """A histogram has a sample for each request, or it is not the histogram of this run. `batch`: requests that share one
    sample (wrk, pipelined); the last batch of each connection may have no sample. `waited`: samples of requests that had no
    response when the time was up."""
    count, requests = results.histogram.count - waited, results.total_requests
    if not results.histogram.count:
        return Check("samples", True, "the tool keeps no latencies")
    good = count == requests if batch == 1 else count * batch <= requests <= (count + connections) * batch
    detail = f"{count} latencies of {requests} requests" + (f" in batches of {batch}" if batch > 1 else "")
    return Check("samples", good, detail, "throughput")


# --- what cannot be ---


def little(results: Results, connections: int, pipeline: int = 1, batch: int = 1, waited: int = 0) -> Check:
    """A closed loop: requests under way = throughput times mean latency. A tool that counts twice, or forgets, breaks this; one
    that is the bottleneck lets connections wait for it, and has less than there are. What shares a latency (`batch`) counts
    once.

    The request that each connection has under way when time is up is in no histogram. Its age is that of a renewal process,
    E[L^2] / 2 E[L], and is added, unless the tool has recorded it (`waited`)."""
    mean, stdev = results.latency_avg_ms, results.latency_stdev_ms or 0.0
    if not mean:
        return Check(LITTLE, True, "the tool measures no latency", "throughput")
    under_way = connections * pipeline // batch
    age = (stdev**2 + mean**2) / (2 * mean)
    busy_ms = (results.total_requests / batch + waited) * mean + max(0, under_way - waited) * age
    seen = busy_ms / 1000 / results.seconds if results.seconds else 0.0
    what = "connections" if pipeline == batch else "pipelined requests"
    detail = f"{seen:.1f} of {under_way} {what} are explained by throughput times latency"
    if under_way * BUSY_MIN <= seen < under_way * (1 - LITTLE_MAX):
        return Check(BUSY, False, f"{detail}: the generator did not keep all busy", "throughput")
    good = abs(seen / under_way - 1) <= LITTLE_MAX
    return Check(LITTLE, good, detail if good else f"{detail}: the figures cannot be", "throughput")


def bandwidth(results: Results, limit_mb: float) -> Check:
    good = results.transfer_rate_mbps <= limit_mb * BANDWIDTH_SLACK
    detail = f"{results.transfer_rate_mbps:.1f} MB/s, the generator can take {limit_mb:.0f} MB/s"
    return Check("bandwidth", good, detail if good else f"{detail}: the figure cannot be")


def generator(generator_part: float, server_part: float, under_way: int, cpus: int = 1) -> Check:
    """Whether rate and latency are the server's. Parts are those of the CPUs that each may use.

    By Little's law the mean latency of a closed loop is N / X. A server that is busy for the part u of the time can do X / u at
    most, whatever asks: with u >= 0.9 no generator would get a rate, or a mean latency, that differs by more than a tenth.
    Else the server waits for something. It must not be the generator: of the N requests under way, those that wait for a CPU
    of the generator are about r / (1 - r) when it is busy for the part r, the mean length of an M/M/1 queue."""
    waiting = cpus * generator_part / (1 - generator_part) if generator_part < 1 else float("inf")
    good = server_part >= SERVER_BUSY or waiting <= AT_GENERATOR_MAX * under_way
    detail = f"the generator used {generator_part:.0%} of its CPUs, the server {server_part:.0%}"
    advice = "the generator was the bottleneck; give it more CPUs (--generator-cpus), or compare CPU time per request"
    return Check(GENERATOR, good, detail if good else f"{detail}: {advice}", "throughput")


# --- how the machine behaved ---


def steady(series: Sequence[float]) -> Check:
    """CPU seconds of the server in equal parts of the run."""
    half = len(series) // 2
    if half < 5:
        return Check("steady", True, "too short to tell", "throughput", unstable=True)
    first, second = sum(series[:half]) / half, sum(series[-half:]) / half
    largest = max(first, second)
    apart = abs(first - second) / largest if largest > IDLE_SECONDS else 0.0
    detail = f"the server's load differs by {apart:.0%} between the halves of the run"
    good = apart <= STEADY_MAX
    return Check("steady", good, detail if good else f"{detail}: measure longer", "throughput", unstable=True)


def memory(samples: Sequence[tuple[float, float]]) -> tuple[Check, float | None]:
    """With the growth in MB per hour; None of a run that is too short to tell."""
    if len(samples) < 2 or samples[-1][0] < MEMORY_SECONDS_MIN:
        return Check("memory", True, "too short to tell", ""), None
    found = leak.growth(samples)
    detail = f"{found.start_mb:.1f} MB, then {found.end_mb:.1f} MB: {found.mb_per_hour:.1f} MB an hour"
    return Check("memory", not found.leaks, f"{detail}: it grows" if found.leaks else detail, ""), found.mb_per_hour


def machine(others_seconds: float, steal_seconds: float, capacity_seconds: float) -> Check:
    """Of the CPUs that server and generator use."""
    if capacity_seconds <= 0:
        return Check("machine", True, "CPUs are not told apart here", "throughput", unstable=True)
    others, steal = max(0.0, others_seconds) / capacity_seconds, steal_seconds / capacity_seconds
    good = others <= OTHERS_MAX and steal <= STEAL_MAX
    detail = f"other processes used {others:.0%} of the CPUs, the host {steal:.0%}"
    return Check("machine", good, detail if good else f"{detail}: repeat on an idle machine", "throughput", unstable=True)
