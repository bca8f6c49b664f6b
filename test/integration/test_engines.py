"""Which engine runs, why, and what happens when it cannot."""
import json
import re
import subprocess

import pytest

import harness
from harness import ENGINE, TEST_PROGRAMS


def name_of(engine):
    return {"uring": "io_uring", "epoll": "epoll"}[engine]


def test_the_start_line_says_version_engine_and_reason_once(serve):
    server = serve("performance_test")
    lines = server.stderr().splitlines()
    assert len(lines) == 1, lines
    assert "0.1.0" in lines[0] and f"{server.address[0]}:{server.address[1]}" in lines[0]
    if ENGINE in ("uring", "epoll"):
        assert re.search(rf"on {name_of(ENGINE)} \(.+\)", lines[0]), lines[0]


def test_the_environment_decides_where_the_program_leaves_it_open(serve):
    if ENGINE not in ("uring", "epoll"):
        pytest.skip("UVHTTP_ENGINE is not set")
    seen = json.loads(serve().ask("/metrics").body)
    assert seen["engine"] == name_of(ENGINE) and seen["reason"]


def test_the_program_wins_over_the_environment(serve):
    server = serve(settings={"engine": "epoll"}, env={"UVHTTP_ENGINE": "uring"})
    assert json.loads(server.ask("/metrics").body)["engine"] == "epoll"
    server = serve("performance_test", "--engine", "epoll", env={"UVHTTP_ENGINE": "uring"})
    assert "epoll" in server.stderr() and "io_uring," not in server.stderr()


@pytest.mark.parametrize("value", ["epoll", "URING!", "2"])
def test_a_wrong_engine_in_the_environment_is_an_error(serve, value):
    server = serve("performance_test", env={"UVHTTP_ENGINE": value}, wait=False)
    assert server.wait() == 2
    lines = server.stderr().splitlines()
    assert len(lines) == 1
    assert "UVHTTP_ENGINE" in lines[0] and value in lines[0] and "epoll" in lines[0]


def without_io_uring(serve, *args, **options):
    server = serve("performance_test", *args, prefix=[TEST_PROGRAMS / "without_io_uring"], wait=False, **options)
    return server


def test_auto_falls_back_to_epoll_where_io_uring_is_refused(serve):
    server = without_io_uring(serve, env={"UVHTTP_ENGINE": None})
    server.wait_ready()
    assert server.get("/").body == b"Hello, World!"
    line = server.stderr()
    assert "epoll" in line and "io_uring" in line, "what was wrong with the first choice is said"


def test_uring_that_was_asked_for_and_is_refused_is_an_error(serve):
    server = without_io_uring(serve, "--engine", "uring", env={"UVHTTP_ENGINE": None})
    assert server.wait() == 1
    assert "io_uring" in server.stderr() and "not permitted" in server.stderr()


def test_the_programs_say_how_they_were_built():
    out = subprocess.run([harness.EXAMPLES / "performance_test", "--version"], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("uvhttp 0.1.0\n") and out.stderr == ""
    assert "-std=gnu17" in out.stdout and "BUILD_WITH_MIMALLOC" in out.stdout
    assert re.search(r"^revision: ([0-9a-f]{40}|unknown)\ndirty: (no|yes|unknown)\nsources: [0-9a-f]{64}$", out.stdout, re.M)


def test_the_measured_server_says_how_many_requests_it_has_counted(serve):
    """What a benchmark holds its load generator against; the question itself is counted."""
    server = serve("performance_test")
    for _ in range(3):
        server.ask("/")
    counters = json.loads(server.ask("/counters").body)
    assert counters["requests"] == 4 and counters["responses_2xx"] == 3
