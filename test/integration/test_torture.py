"""The short part of the torture (test/torture/run.py, ./dev torture): each allocation and each system call of a server in the middle
of a scenario fails once, with one of its errors; clients get right bytes or a clean error, and nothing is left behind."""
import argparse
import errno
import pathlib
import sys

import pytest

import harness
from harness import ENGINE, TEST_PROGRAMS

sys.path.append(str(pathlib.Path(__file__).parent.parent / "torture"))

from control import UNTIL_RELIEF
from plan import CALLS_MIN, FAILED_MIN, LIFE, Plan
from scenarios import NAMES
from torture import Torture

SECONDS = 30
BRIEF = argparse.Namespace(brief=True, call=[], error=[], seconds=SECONDS)
BY_HAND = {"access_log_pipe", "log_pipe", "activated"}  # ./dev torture
BACKEND = "epoll" if ENGINE == "epoll" else "uring"

pytestmark = [
    pytest.mark.skipif(not (TEST_PROGRAMS / "pattern_server").exists(), reason="this build has no server whose calls fail"),
    pytest.mark.skipif(not harness.sanitizer(), reason="a sanitizer sees more of it; ./dev torture is all of it"),
]


def tortured(tmp_path, name, options=BRIEF):
    plan = Plan(tmp_path, BACKEND, name, options)
    plan.run()
    assert not plan.faults, "\n".join(plan.faults)
    return plan


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_HAND])
def test_each_failure_is_borne(tmp_path, name):
    options = argparse.Namespace(**{**vars(BRIEF), "seconds": 8 if name == "traces" else SECONDS})  # what failed is tried again after a second
    failed = tortured(tmp_path, name, options).failed
    assert sum(failed.values()) >= FAILED_MIN and len(failed) >= CALLS_MIN, "it was not tested"


@pytest.mark.parametrize("name", [name for name in LIFE if name not in BY_HAND])
def test_allocations_that_fail_at(tmp_path, name):
    """Only some: each takes a process."""
    options = argparse.Namespace(brief=True, call=["alloc"], error=[], seconds=3)
    assert tortured(tmp_path, name, options).failed["alloc"] > 0


@pytest.mark.parametrize("call, error", [("stat", errno.EIO), ("fstat", errno.ENOMEM), ("flock", errno.EINTR), ("flock", errno.ENOLCK)])
def test_a_pid_file_that_cannot_be_had_ends_the_start(tmp_path, call, error):
    """Whatever fails does so each time."""
    run = Torture(tmp_path, BACKEND, ("service",))
    try:
        run.start()
        run.end()
        command, environment = run.make()
        run.control.fail(call, 1, error, until=UNTIL_RELIEF)
        assert run.launch(command, environment).wait(20) == 1
        assert f"pid_file \"{run.service.pid_file}\": " in run.server.stderr()
    finally:
        run.close()


def test_a_fault_is_seen(tmp_path):
    """A body that is not the one that was asked for, as a client of the torture sees it."""
    from clients import Client, Fault

    run = Torture(tmp_path, BACKEND)
    try:
        run.start()
        with pytest.raises(Fault, match="foreign bytes"):
            Client(run).ask("/copy/1/100", b"x" * 100, 1)
        with pytest.raises(Fault, match="foreign bytes"):
            Client(run).ask("/copy/1/100", b"x", 1)
        run.control["live"] += 1
        with pytest.raises(Fault, match="1 blocks of memory are left"):
            run.end()
    finally:
        run.close()
