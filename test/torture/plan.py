"""Owns: which failures a scenario gets, one after the other, and the count of what became of them."""
import collections
import contextlib
import os
import signal
import subprocess
import time

from clients import Fault
from errors import ERRORS
from life import AT_START, END_SECONDS, LIFE
from scenarios import NAMES
from torture import Torture

import wire

MISSED_MAX = 2  # numbers in a row that were not reached: the scenario makes no more such calls
BACKEND_ENDED = "the kernel no longer allows io_uring_enter"
ENDS_BACKEND = {("io_uring_enter", "EBADR")}  # docs/internals/system_calls.md
NEEDS = {
    "asks_others": ("upstream",), "rate_limit": ("redis",), "access_log": ("log",), "admin": ("service",), "traces": ("collector",),
    "service_start": ("service", "nobody", "collector", "log"), "service_stop": ("service", "nobody", "collector"),
    "upgrade": ("service",), "stop_in_upgrade": ("service",), "access_log_pipe": ("access pipe",), "log_pipe": ("log pipe",),
    "activated": ("listener",),
}  # fmt: skip
FAULTS_MAX = 12  # of a scenario
FAILED_MIN, CALLS_MIN = 6, 4  # of a scenario, however little time there is
TROUBLE = (Fault, AssertionError, OSError, wire.Closed)


class Plan:
    def __init__(self, directory, backend, name, options):
        self.run_of = Torture(directory, backend, NEEDS.get(name, ()))
        self.backend, self.name, self.options = backend, name, options
        self.faults = []
        self.failed = collections.Counter()
        self.began = time.monotonic()
        self.deadline = self.began + options.seconds

    # --- what is failed ---

    def wanted(self, counts):
        for call in sorted(counts, key=lambda call: (call != "alloc", call)):
            if not self.options.call or call in self.options.call:
                yield call

    def errors_of(self, call):
        found = {name: number for name, number in ERRORS[call].items() if not self.options.error or name in self.options.error}
        return found.items()

    def each(self, counts, attempt):
        """attempt(call, number, error name, error) -> whether it was reached. In brief: one error for each number."""
        for call in self.wanted(counts):
            errors = list(self.errors_of(call))
            for row in [errors] if self.options.brief else [[one] for one in errors]:
                number = missed = 0
                while missed < MISSED_MAX and not self.is_over(call) and len(self.faults) < FAULTS_MAX:
                    number += 1
                    reached = attempt(call, number, *row[number % len(row)])
                    missed = 0 if reached else missed + 1
                    self.failed[call] += reached

    def is_over(self, call):
        """The time is up, for this call. On a slow machine, too, some failures of some calls are tested: two of each until there are
        enough."""
        if time.monotonic() <= self.deadline:
            return False
        calls = min(CALLS_MIN, len(self.options.call) or CALLS_MIN)
        enough = sum(self.failed.values()) >= FAILED_MIN and len(self.failed) >= calls
        return enough or (len(self.failed) < calls and self.failed[call] >= FAILED_MIN // calls + 1)

    def fault(self, text, call, number, name):
        self.faults.append(f"{call} {number} {name}: {text[:600]} [{self.run_of.control.place(self.run_of.program)}]")

    def run(self):
        try:
            if self.name in LIFE:
                self.life(LIFE[self.name])
            else:
                self.scenario(NAMES[self.name])
        finally:
            self.run_of.close()

    # --- scenarios: one server, many failures; and a server each, for what is done at the first request only ---

    def scenario(self, scenario):
        run = self.run_of
        run.start()
        run.look_around()
        cold = run.count(scenario)
        self.begin(scenario)
        warm = collections.Counter()
        for _ in range(2):
            warm |= run.count(scenario)
        run.outcomes = {}
        self.each(warm, lambda *failure: self.attempt(scenario, *failure))
        self.finish("-", 0, "at the end")
        if self.options.brief:
            return
        self.each({call for call in cold if call == "alloc" or call not in warm}, lambda *failure: self.attempt_cold(scenario, *failure))

    def attempt_cold(self, scenario, *failure):
        self.run_of.start()
        self.run_of.look_around()
        reached = self.attempt(scenario, *failure, begin=lambda _: None)
        if not self.run_of.server.stopped:
            self.finish(*failure[:3])
        return reached

    def begin(self, scenario):
        if self.run_of.server.stopped:
            self.run_of.start()
        self.run_of.warm(scenario)

    def finish(self, *failure):
        try:
            self.run_of.end()
        except TROUBLE as error:
            self.run_of.server.kill()
            self.fault(f"{type(error).__name__} {error}", *failure)

    def attempt(self, scenario, call, number, name, error, begin=None):
        run = self.run_of
        outcomes = dict(run.outcomes)
        try:
            reached = run.fail(scenario, call, number, error, may_end=(call, name) in ENDS_BACKEND)
            ended = run.server.process.poll()
            if ended is None:
                return reached
            if ended != 1 or (call, name) not in ENDS_BACKEND:
                raise Fault(f"the server has ended with {ended}: {run.server.stderr()[-500:]}")
            run.end((1,))
        except TROUBLE as problem:
            self.fault(f"{type(problem).__name__} {problem}", call, number, name)
            reached = run.control.has_failed
            if run.server.process.poll() is None:
                self.finish(call, number, name)
            else:
                run.server.kill()
        outcomes = run.outcomes
        (begin or self.begin)(scenario)
        run.outcomes = outcomes
        return reached

    # --- start and stop: a server for each ---

    def life(self, scenario):
        run = self.run_of
        run.start()
        run.end()
        self.each(self.count_life(scenario), lambda *failure: self.attempt_life(scenario, *failure))

    def count_life(self, scenario):
        self.live_once(scenario, None)
        return self.run_of.control.counts()

    def live_once(self, scenario, failure):
        run = self.run_of
        if scenario in AT_START:
            run.armed = run.make()
            run.arm = None
            if failure:
                run.control.fail(*failure)
        else:
            run.start()
            run.arm = (lambda: run.control.fail(*failure)) if failure else run.control.relieve
        scenario(run)
        if not run.server.stopped:
            run.end((0, 1, 2) if run.server.process.poll() is not None else (0,))

    def attempt_life(self, scenario, call, number, name, error):
        run = self.run_of
        try:
            self.live_once(scenario, (call, number, error))
        except TROUBLE as problem:
            if (call, name) not in ENDS_BACKEND or not self.has_ended_in_order():
                self.fault(f"{type(problem).__name__} {problem}", call, number, name)
            run.server.kill()
            if run.service:
                run.service.kill_all()
        return run.control.has_failed

    def has_ended_in_order(self):
        """One of the processes has said that its backend ended. They all end with 0 or 1, at the latest when they are asked to."""
        server, service = self.run_of.server, self.run_of.service
        if BACKEND_ENDED not in server.stderr():
            return False
        others = service.processes(but=server.pid()) if service else []
        for pid in others + ([server.pid()] if server.process.poll() is None else []):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(END_SECONDS)
        return all(status in (0, 1) for status in [server.process.poll(), *(service.reap(pid, END_SECONDS) for pid in others)])

    # --- the table ---

    def row(self):
        outcomes = self.run_of.outcomes
        calls = sum(count for call, count in self.failed.items() if call != "alloc")
        return {"calls": calls, "allocations": self.failed["alloc"], "faults": len(self.faults), **{key: outcomes.get(key, 0) for key in ("ok", "error", "cut", "closed")}}

    def line(self):
        row, different = self.row(), len([call for call in self.failed if call != "alloc" and self.failed[call]])
        values = [self.backend, self.name, row["calls"], different, row["allocations"], row["ok"], row["error"], row["cut"], row["closed"], row["faults"]]
        return "| " + " | ".join(map(str, [*values, f"{time.monotonic() - self.began:.0f}"])) + " |"

