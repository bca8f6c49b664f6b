"""Owns: one request before a run, which says what every answer has to look like."""

import http.client
import ssl
from dataclasses import dataclass

from uvhttp_bench.exits import BenchError


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    head_bytes: int  # as received, with the empty line

    @property
    def total_bytes(self) -> int:
        return self.head_bytes + len(self.body)


def ask(url: str, seconds_max: float = 10) -> Answer:
    """A GET on a new connection, on which wrk's own headers are sent, so that the answer is the one wrk will get."""
    scheme, rest = url.split("://", 1)
    authority, _, path = rest.partition("/")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = http.client.HTTPSConnection(authority, timeout=seconds_max, context=context)
    else:
        connection = http.client.HTTPConnection(authority, timeout=seconds_max)
    try:
        connection.putrequest("GET", f"/{path}", skip_accept_encoding=True)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{url}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    lines = sum(len(name) + len(value) + 4 for name, value in answer.getheaders())
    return Answer(answer.status, body, len(f"HTTP/1.1 {answer.status} {answer.reason}\r\n") + lines + 2)


def wrong_total(received: int, requests: int, answer: Answer, connections: int, slack_bytes: int = 0) -> str | None:
    """Whether `received` bytes can be `requests` answers like this one; the last of each connection may be cut. With
    slack_bytes an answer may be longer or shorter by so much (a number in it that grows, spaces in its head)."""
    low = requests * (answer.total_bytes - slack_bytes)
    high = (requests + connections) * (answer.total_bytes + slack_bytes)
    if low <= received <= high:
        return None
    return f"{received} bytes are not {requests} answers of {answer.total_bytes} bytes"
