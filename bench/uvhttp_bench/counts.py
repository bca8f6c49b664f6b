"""Owns: whether the counts of one run agree: what the load generator says it did, what the kernel moved, and what the server
itself has counted. Over the whole life of the server: probe, warm-up and load. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench.loads.base import Job, Outcome
from uvhttp_bench.model.record import Check, Counts
from uvhttp_bench.sockets import Moved

PROBE_HEAD_BYTES_MAX = 256  # of the harness's own request
HEAD_BYTES_MAX = 1024  # of a response to it in chunks, of a WebSocket handshake, of SETTINGS and WINDOW_UPDATE of HTTP/2
TLS_HANDSHAKE_BYTES_MAX = 16 * 1024  # either side, of a connection
HTTP2 = "h2"  # a scheme here: HTTP/2 in clear, whose connections begin with frames of their own
TLS_RECORD_BYTES, TLS_RECORD_OVERHEAD = 1000, 40  # the smallest records and the most that one adds


@dataclass(frozen=True)
class Range:
    low: int = 0
    high: int = 0

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Said:
    """What a client says it did. High ends count what may have been under way when the client stopped."""

    requests: Range = Range()
    request_bytes: Range | None = Range()  # None: the client does not say how long its requests are
    response_bytes: Range = Range()
    unread: int = 0  # bytes of requests that the server may have left unread at the end
    connections: int = 0

    def __add__(self, other: "Said") -> "Said":
        known = self.request_bytes is not None and other.request_bytes is not None
        return Said(
            self.requests + other.requests,
            self.request_bytes + other.request_bytes if known and self.request_bytes and other.request_bytes else None,
            self.response_bytes + other.response_bytes,
            self.unread + other.unread,
            self.connections + other.connections,
        )


NOTHING = Said()


def _on_the_wire(size: int, count: int, connections: int, scheme: str) -> int:
    """The most bytes that `count` messages of `size` bytes and the handshakes of the connections take."""
    if scheme == "https":
        records = 1 + size // TLS_RECORD_BYTES
        return count * (size + records * TLS_RECORD_OVERHEAD) + connections * TLS_HANDSHAKE_BYTES_MAX
    return count * size + connections * (HEAD_BYTES_MAX if scheme in ("ws", HTTP2) else 1)  # a FIN counts as a byte


def scheme_of(scheme: str, http2: bool) -> str:
    return HTTP2 if http2 and scheme == "http" else scheme


def of_probe(scheme: str, request_body: int, response: int | None, response_body: int) -> Said:
    """One request of the harness. `response`: bytes of head and body; None: it came in chunks."""
    most = response if response is not None else response_body + response_body // 8 + HEAD_BYTES_MAX
    return Said(
        Range(1, 1),
        Range(request_body, _on_the_wire(request_body + PROBE_HEAD_BYTES_MAX, 1, 1, scheme)),
        Range(response if response is not None else response_body, _on_the_wire(most, 1, 1, scheme)),
        unread=1,
        connections=1,
    )


def of_load(job: Job, outcome: Outcome) -> Said:
    results, scheme = outcome.results, scheme_of(job.url.partition(":")[0], job.http2)
    opened = outcome.connections or job.connections
    done = max(results.total_requests, outcome.responses)
    most = done + results.errors.total + job.connections * job.pipeline
    size, response = outcome.request_bytes, outcome.response_bytes or job.answer_bytes
    if response is not None:
        responses = Range(done * response, _on_the_wire(response, most, opened, scheme))
    else:  # their lengths vary: what the generator has read in its window, and twice the mean for what came outside of it
        mean = -(-2 * results.bytes_received // max(1, results.total_requests))
        outside = _on_the_wire(mean, most - results.total_requests, opened, scheme)
        responses = Range(results.bytes_received, results.bytes_received + outside)
        if scheme == "https":
            responses = Range(responses.low, _on_the_wire(mean, most, opened, scheme))
    return Said(
        Range(done, most),
        None if size is None else Range(done * size, _on_the_wire(size, most, opened, scheme)),
        responses,
        unread=_on_the_wire(size or results.bytes_received, most - done, opened, scheme),
        connections=opened,
    )


def counts(said: Sequence[Said], moved: Moved | None, server: int | None) -> tuple[Check, Counts]:
    """`server`: requests that it has counted itself; None: it does not count, or does not say."""
    total = sum(said, NOTHING)
    found = Counts(
        generator_requests_min=total.requests.low,
        generator_requests_max=total.requests.high,
        server_requests=server,
        kernel_connections=moved.connections if moved else None,
        kernel_request_bytes=moved.received if moved else None,
        kernel_unread_bytes=moved.unread if moved else None,
        kernel_response_bytes=moved.sent if moved else None,
    )
    missing = moved is not None and moved.connections < total.connections
    wrong = []
    if server is not None and server not in total.requests:
        wrong.append(f"the server counted {server:,} requests, its clients {total.requests}")
    if moved is not None:
        wrong += _against_kernel(total, moved, missing)
    if wrong:
        return Check("counts", False, "; ".join(wrong) + ": a client or the server does not say what happened"), found
    if missing and moved:
        why = f"{moved.connections} of {total.connections} connections were closed in time: the kernel's count is not whole"
        return Check("counts", False, why, "throughput", unstable=True), found
    agree = ["clients", *(["kernel"] if moved else []), *(["server"] if server is not None else [])]
    detail = f"{' and '.join(agree)} agree: {total.requests} requests"
    return Check("counts", True, detail if len(agree) > 1 else "neither the kernel nor the server counts here"), found


def _against_kernel(total: Said, moved: Moved, missing: bool) -> list[str]:
    """What more than the clients say is wrong at once; what is less only if no connection is missing."""
    wrong = []
    for what, bytes_moved, expected in (
        ("requests", moved.received, total.request_bytes),
        ("responses", moved.sent, total.response_bytes),
    ):
        if expected is not None and (bytes_moved > expected.high or (bytes_moved < expected.low and not missing)):
            wrong.append(f"the kernel moved {bytes_moved:,} bytes of {what}, the clients account for {expected}")
    if moved.unread > total.unread:
        wrong.append(f"the server never read {moved.unread:,} bytes of requests, {total.unread:,} can have been under way")
    return wrong
