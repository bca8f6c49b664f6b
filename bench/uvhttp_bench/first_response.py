"""Owns: the first response of a server of which nothing is known: it says what every other one has to be, and whether the
server can be measured at all."""

import ssl
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from uvhttp_bench.exits import BenchError
from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import HOST, Running, send_request

SHOWN = 60  # characters of a body
SECONDS = 30


@dataclass(frozen=True)
class Response:
    server: str
    request: str
    status: int
    reason: str
    content_type: str
    body: bytes
    varies: bool  # its body need not be that of others

    def line(self) -> str:
        text = self.body[: 4 * SHOWN].decode(errors="replace")
        readable = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        shown = readable[:SHOWN] + ("..." if len(readable) > SHOWN or len(self.body) > 4 * SHOWN else "")
        size = f"{len(self.body):,} bytes" + (", which may vary" if self.varies else "")
        what = f"{self.status} {self.reason}".strip()
        return f"{self.server}: {self.request}: {what}, {size}, {self.content_type or 'no Content-Type'}: {shown}"

    def expected_by(self, scenario: Scenario) -> Scenario:
        """The scenario that every later response of this server is compared with."""
        if self.varies:
            return replace(scenario, status=self.status, response_bytes=None)
        return replace(scenario, status=self.status, response_bytes=len(self.body), response_body=self.body)


def first_response(running: Running, scenario: Scenario, server: str, status: int | None, vary: bool) -> Response:
    """Asks twice on one connection. `status` is what it has to be; None: any success."""
    request = f"{scenario.method} {scenario.path}"
    where = f"{server}: {request}"
    connection = HTTPConnection(HOST, running.port("http"), timeout=SECONDS)
    if scenario.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # its certificate is its own affair
        connection = HTTPSConnection(HOST, running.port("https"), timeout=SECONDS, context=context)

    def ask() -> Response:
        send_request(connection, scenario.path, scenario.method, scenario.request_body, scenario.headers)
        came = connection.getresponse()
        body = came.read()
        found = Response(server, request, came.status, came.reason, came.getheader("Content-Type", ""), body, vary)
        if came.will_close:
            version = "HTTP/1.0" if came.version == 10 else "Connection: close"
            raise BenchError(
                f"{where}: it closes the connection after a response ({version}): connecting would be measured; make it"
                " keep connections open, as in python3 -m http.server --protocol HTTP/1.1"
            )
        return found

    try:
        first = ask()
        _check_status(first, where, status)
        try:
            second = ask()
        except (OSError, HTTPException) as error:
            raise BenchError(
                f"{where}: it closes the connection after a response without saying so ({_why(error)}): make it keep"
                " connections open"
            ) from error
    except (OSError, HTTPException) as error:
        what = "TLS" if scenario.scheme == "https" else "HTTP/1.1"
        raise BenchError(
            f"{where}: it does not respond in {what}: {_why(error)}; its last line: {running.log_tail()}"
        ) from error
    finally:
        connection.close()
    if (first.status, first.body) != (second.status, second.body) and not vary:
        raise BenchError(
            f"{where}: the second response differs from the first ({_difference(first, second)}): --vary compares the status only"
        )
    return first


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _check_status(found: Response, where: str, status: int | None) -> None:
    if status is None and not 200 <= found.status < 300:
        raise BenchError(
            f"{where}: status {found.status}: name a path that it serves with --url, or --expect-status {found.status}"
        )
    if status is not None and found.status != status:
        raise BenchError(f"{where}: status {found.status} instead of {status}: name a path that both serve alike with --url")


def _difference(first: Response, second: Response) -> str:
    if first.status != second.status:
        return f"status {first.status}, then {second.status}"
    if len(first.body) != len(second.body):
        return f"{len(first.body)} bytes, then {len(second.body)}"
    at = next(place for place, (a, b) in enumerate(zip(first.body, second.body, strict=True)) if a != b)
    return f"{len(first.body)} bytes, another one at {at}"
