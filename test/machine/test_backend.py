"""Owns: what becomes of the backends on the kernel of the guest. Runs there alone, next to the integration tests."""
import os

AUTOMATIC = os.environ["UVHTTP_KERNEL_AUTOMATIC"]
OLD = "io_uring: io_uring_setup: Invalid argument; Linux 6.1 or newer is needed"


def test_auto_chooses_what_this_kernel_has_and_says_why(serve):
    line = serve("performance_test", env={"UVHTTP_ENGINE": None}).stderr()
    reason = "preflight passed" if AUTOMATIC == "io_uring" else OLD
    assert f" on {AUTOMATIC} ({reason})" in line, line


def test_uring_that_was_asked_for_runs_or_is_an_error_that_says_what_it_needs(serve):
    server = serve("performance_test", "--engine", "uring", env={"UVHTTP_ENGINE": None}, wait=AUTOMATIC == "io_uring")
    if AUTOMATIC == "epoll":
        assert server.wait() == 1
        assert OLD in server.stderr(), server.stderr()
        return
    assert " on io_uring (asked for)" in server.stderr()


def test_epoll_that_was_asked_for_runs(serve):
    assert " on epoll (asked for)" in serve("performance_test", "--engine", "epoll", env={"UVHTTP_ENGINE": None}).stderr()
