"""Owns: what the body of every response must be, byte for byte: known from the scenario, or from the file that is served."""

from pathlib import Path

from uvhttp_bench.scenarios.catalog import OWN, Scenario

HELLO = b"Hello, World!"
_FIXED = {
    ("GET", "/"): HELLO,
    ("GET", "/api"): b'{"message":"Hello, World!","status":"ok"}',
    ("DELETE", "/api"): b'{"deleted":true}',
    ("GET", "/sleep200"): b"slept\n",
}
ALPHABET = b"abcdefghijklmnopqrstuvwxyz"
LARGE = "/large/"


def is_echo(scenario: Scenario) -> bool:
    return scenario.group != OWN and scenario.method in ("POST", "PUT") and bool(scenario.request_body)


def expected(scenario: Scenario, static: Path, made: Path, large: bytes = ALPHABET) -> Path | None:
    """A file that holds it, written to `made` unless it is one of those served from `static`; None: it differs from response to
    response. `large`: what a server repeats to fill the bodies below /large/."""
    if scenario.scheme not in ("http", "https") or (scenario.group == OWN and scenario.response_body is None):
        return None
    if scenario.path.startswith("/static/") and scenario.group != OWN:
        return static / scenario.path.removeprefix("/static/")
    size = scenario.response_bytes
    body = scenario.response_body
    if body is not None:
        pass
    elif scenario.path.startswith(LARGE) and size is not None:
        body = (large * (size // len(large) + 1))[:size]
    elif is_echo(scenario):
        body = scenario.request_body
    else:
        body = _FIXED.get((scenario.method, scenario.path))
    if body is None:
        return None
    path = made / "expected-body"
    path.write_bytes(body)
    return path
