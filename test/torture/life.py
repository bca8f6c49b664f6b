"""Owns: what is failed between the start of a process and its end: each attempt takes a server of its own, and an upgrade two.
`run` is a Torture; run.arm lets a call fail from then on."""
import contextlib
import os
import re
import signal
import subprocess
import time

from clients import Fault
from readers import activated
from scenarios import NAMES

import harness
import wire

END_SECONDS = 20
UPGRADE_SECONDS = 40  # of 60 that upgrade_timeout is: a failure is seen at once, and not waited out
FAILED_UPGRADE = re.compile(r"upgrade: .*(this one continues|this process continues|not started|this one stops, too)")


def started(run):
    """A server of which any call of its start may fail: it ends with a message and a status, or it serves."""
    run.launch(*run.armed)
    run.server.says_start = False  # the write of that line may be what fails
    try:
        run.server.wait_ready()
    except AssertionError as error:
        if run.server.process.poll() is None or run.server.process.returncode not in (1, 2):
            raise Fault(f"start: {error}") from error
        if not run.server.stderr().strip():
            raise Fault(f"it ended with {run.server.process.returncode} and did not say why") from error
        run.note("error")
        return
    run.disarm()
    try:
        run.probe()
        run.note("ok")
    except (OSError, wire.Closed):
        if run.server.process.wait(END_SECONDS) != 1:  # a backend that has failed ends the server in order; anything else is none of it
            raise
        run.note("error")


def stopped(run):
    """A server that is asked to stop while a client waits for it, with one that is idle."""
    NAMES["keep_alive"](run)
    idle = wire.Connection(run.address)
    idle.get("/")
    run.arm()
    NAMES["workers"](run)
    run.server.close_control()
    run.server.signal()
    idle.rest()
    run.end((0, 1))


def service_started(run):
    """The same for all that a service has; once it serves, it is complete."""
    run.service.forget()
    started(run)
    if run.server.process.poll() is None:
        run.service.check(run.server)


def service_stopped(run):
    """The same for a service, with an event stream of the admin listener open, and spans that wait."""
    run.service.forget()
    events = run.service.events()
    known = len(run.collector.paths)
    run.collector.gate.clear()
    try:
        run.probe()
        harness.poll(lambda: len(run.collector.paths) > known, END_SECONDS, message="no span arrives")
        run.probe()  # its span waits until the collector has responded for the one before
        run.arm()
        run.server.close_control()
        run.server.signal()
    finally:
        run.collector.gate.set()
    run.end((0, 1))
    events.close()
    run.note("ok")


def upgraded(run):
    """The new process serves and the old one ends, or the old one says why not and continues. Both of them are failed."""
    run.service.forget()
    run.probe()
    run.server.close_control()
    run.arm()
    os.kill(run.server.pid(), signal.SIGUSR2)
    replaced = await_upgrade(run)
    run.disarm()
    run.probe()
    run.server.close_control()
    run.note("ok" if replaced else "error")
    if not replaced:
        left = run.service.processes(but=run.server.pid())
        if left:
            raise Fault(f"processes of a failed upgrade are left: {left}")
        return
    (new,) = run.service.processes(but=run.server.pid())
    os.kill(new, signal.SIGTERM)
    status = run.service.reap(new, END_SECONDS)
    if status != 0:
        raise Fault(f"the new process ended with {status}: {run.server.stderr()[-1000:]}")
    run.end((0,))


def await_upgrade(run):
    """Whether the server is replaced."""
    deadline = time.monotonic() + UPGRADE_SECONDS
    while run.server.process.poll() is None:
        if FAILED_UPGRADE.search(run.server.stderr()):
            return False
        if time.monotonic() > deadline:
            raise Fault(f"the upgrade has no end: {run.server.stderr()[-1000:]}")
        time.sleep(0.003)
    if run.server.process.returncode != 0:
        raise Fault(f"the old process ended with {run.server.process.returncode}: {run.server.stderr()[-1000:]}")
    return True


def stop_in_upgrade(run):
    """The server is asked to stop when an upgrade has begun: it does not wait for a process that will not replace it."""
    run.service.forget()
    run.probe()
    run.server.close_control()
    run.arm()
    os.kill(run.server.pid(), signal.SIGUSR2)
    run.server.signal()
    try:
        run.server.process.wait(END_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Fault(f"it does not stop: {run.server.stderr()[-1000:]}") from error
    finally:
        run.disarm()
        for new in run.service.processes(but=run.server.pid()):  # it was quicker, and has replaced the old one
            with contextlib.suppress(ProcessLookupError):
                os.kill(new, signal.SIGTERM)
            run.service.reap(new, END_SECONDS)
    run.end((0,))
    run.note("ok")


LIFE = {"start": started, "stop": stopped, "service_start": service_started, "service_stop": service_stopped,
        "upgrade": upgraded, "stop_in_upgrade": stop_in_upgrade, "activated": activated}  # fmt: skip
AT_START = {started, service_started, activated}
