#!/usr/bin/env python3
"""Owns: what the log and the access log cost, as a table: instructions in user space per request and per connection,
counted by callgrind as instructions.py does, on the loop and on all threads. Run by hand:

    UVHTTP_BUILD_DIR=build python3 test/gates/support/log_cost.py [--performance-mode build/performance_mode]

The second build has -DUVHTTP_PERFORMANCE_MODE=ON."""
import argparse
import os
import pathlib
import re
import tempfile

import gate

GET = b"GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: gate\r\n\r\n"
FEW, MANY = 100, 1100


def count(build, run, level, arguments=()):
    """Instructions of the first thread, which runs the loop, and of all threads."""
    server = build / "test" / "bin" / "http_test_server"
    with tempfile.TemporaryDirectory() as directory:
        port, path = gate.free_port(), pathlib.Path(directory) / "callgrind"
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={path}", server, "--listen",
                   f"{gate.HOST}:{port}", "--log-rate", "0", "--set", "handler_warn_ms=never", *arguments]  # fmt: skip
        environment = dict(os.environ, UVHTTP_ENGINE="epoll", UVHTTP_LOG_LEVEL=level)
        with gate.running([str(word) for word in command], port, env=environment):
            run(port)
        totals = {
            file.name: int(re.search(r"^(?:summary|totals): (\d+)", file.read_text(), re.M)[1])
            for file in pathlib.Path(directory).iterdir()
            if re.search(r"-\d\d$", file.name)
        }
        first = next(value for name, value in totals.items() if name.endswith("-01"))
        return first, sum(totals.values())


def requests(rounds):
    def run(port):
        with gate.connect(port) as client:
            gate.lock_step([client], rounds, gate.response_size(client, GET), GET)

    return run


def connections(rounds):
    def run(port):
        for _ in range(rounds):
            with gate.connect(port) as client:
                gate.response_size(client, GET)

    return run


def row(name, build, load, level, arguments=()):
    few, many = (count(build, load(rounds), level, arguments) for rounds in (FEW, MANY))
    loop, all_threads = ((b - a) / (MANY - FEW) for a, b in zip(few, many))
    print(f"| {name} | {loop:,.0f} | {all_threads:,.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--performance-mode", type=pathlib.Path)
    builds = [("", gate.BUILD_DIR)]
    given = parser.parse_args()
    if given.performance_mode:
        builds.append((", UVHTTP_PERFORMANCE_MODE", given.performance_mode))
    with tempfile.TemporaryDirectory() as directory:
        print("| a request | on its loop | all threads |\n|---|---|---|")
        for name, build in builds:
            for level in ("none", "warn", "info", "debug"):
                row(f"level {level}{name}", build, requests, level)
        row("level warn, enable_statistics false", gate.BUILD_DIR, requests, "warn", ("--set", "enable_statistics=false"))
        for form in ("common", "combined", "json"):
            row(f"level warn, access log {form}", gate.BUILD_DIR, requests, "warn", ("--access-log", f"{form}:{directory}/{form}"))
        print("\n| a connection with one request | on its loop | all threads |\n|---|---|---|")
        for name, build in builds:
            for level in ("warn", "info", "debug"):
                row(f"level {level}{name}", build, connections, level)
        row("level debug, log_format json", gate.BUILD_DIR, connections, "debug", ("--set", "log_format=json"))


main()
