"""The coroutine example, with the clients that users have: many at once, some that go, and a stop under way."""
import asyncio
import pathlib
import subprocess
import time

import httpx
import pytest

import harness

pytestmark = [
    pytest.mark.neutral,
    pytest.mark.threads,
    pytest.mark.skipif(harness.build_option("BUILD_WITH_COROUTINES") != "ON", reason="built without coroutines"),
]


@pytest.fixture
def server(serve):
    return serve("coroutine")  # without SERVER: it asks itself, wherever it listens


def test_the_example_does_what_its_comment_says(server, tmp_path):
    began = time.monotonic()
    response = server.get("/wait")
    assert response.status == 200 and response.body == b"slept\n"
    assert time.monotonic() - began >= 0.2
    assert server.get("/fanout").body == b"all done\n"
    assert server.get("/file").body == pathlib.Path("/etc/hostname").read_bytes().splitlines(keepends=True)[0]
    responses = []  # it asks itself, and aborts after a second, for which the machine may stand still
    harness.poll(lambda: responses.append(server.get("/other").body) or responses[-1] != b"timed out")
    assert responses[-1].startswith(b"HTTP/1.1 200 OK\r\n") and responses[-1].endswith(b"slept\n")
    lines = tmp_path / "lines"
    lines.write_bytes(b"a line\n" * 300000)
    counted = subprocess.run(server.curl("-T", lines, server.url("/count")), capture_output=True, timeout=60, check=True)
    assert counted.stdout == b"300000\n"


def test_two_hundred_wait_together(server):
    async def ask_all():
        limits = httpx.Limits(max_connections=None)
        async with server.httpx(httpx.AsyncClient, timeout=40, limits=limits) as client:
            return await asyncio.gather(*(client.get("/wait") for _ in range(200)))

    def quick():
        began = time.monotonic()
        responses = asyncio.run(ask_all())
        assert {response.text for response in responses} == {"slept\n"}
        return time.monotonic() - began < 39

    # One after the other they would take 40 s, on any machine: to have been quicker once is proof.
    harness.poll(quick, seconds=45)


def test_clients_that_go_leave_nothing_behind(server):
    for target in ("/wait", "/fanout", "/file", "/other"):
        for reset in (False, True):
            with server.connect() as client:
                client.start(target)
                if reset:
                    client.reset()
    with server.connect() as client:
        client.start("/count", [("Content-Length", "100")], method="PUT", more=True).send(b"begun\n")
    assert server.get("/wait").body == b"slept\n"


def test_a_stop_lets_those_that_wait_finish(server):
    with server.connect() as client:
        asked = client.start("/wait")
        assert server.get("/file").status == 200 # the request before has been seen
        server.signal()
        assert asked.response().body == b"slept\n"
        client.assert_closed()
    server.stop()
