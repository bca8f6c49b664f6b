#!/usr/bin/env python3
"""Owns: the torture: the n-th allocation and the n-th system call of a server fail, each with each error of its manual page, for
every n of every scenario, and of start and stop. By hand; test/integration/test_torture.py runs a small part of it in CI.

    ./dev torture [--backend uring|epoll] [--only SCENARIO] [--call CALL] [--seconds N]

Judged: clients get the right bytes, a clean error, or the end of their connection, never silence; the server lives, serves the
next client, and holds no connection, descriptor or allocation more than before. Prints a table, and what was wrong."""
import argparse
import collections
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def parse():
    parser = argparse.ArgumentParser(prog="./dev torture", description="The n-th allocation and the n-th system call of a server fail, each with each error of its manual page, for every n of every scenario, and of start and stop.")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--backend", choices=("uring", "epoll"), help="one backend only")
    parser.add_argument("--only", action="append", default=[], help="these scenarios; also start, stop")
    parser.add_argument("--call", action="append", default=[], help="these calls; alloc: allocations")
    parser.add_argument("--error", action="append", default=[], help="these errors")
    parser.add_argument("--seconds", type=float, default=1800, help="for each scenario of a backend, at most")
    parser.add_argument("--brief", action="store_true", help="each number with one error, as in CI")
    return parser.parse_args()


def main():
    options = parse()
    os.environ["UVHTTP_BUILD_DIR"] = str(options.build.absolute())
    sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
    from plan import LIFE, Plan
    from scenarios import SCENARIOS

    names = [one.__name__ for one in SCENARIOS] + list(LIFE)
    chosen = [name for name in names if not options.only or name in options.only]
    total, started = collections.Counter(), time.monotonic()
    print("| backend | scenario | calls failed | different | allocations failed | ok | error | cut | closed | faults | seconds |")
    print("|---" * 11 + "|")
    for backend in [options.backend] if options.backend else ["uring", "epoll"]:
        for name in chosen:
            with tempfile.TemporaryDirectory(dir="/tmp") as directory:
                plan = Plan(directory, backend, name, options)
                plan.run()
            total.update(plan.row())
            print(plan.line(), flush=True)
            for fault in plan.faults:
                print(f"  {fault}", flush=True)
    print(f"\n{dict(total)}, {time.monotonic() - started:.0f} s")
    sys.exit(1 if total["faults"] else 0)


if __name__ == "__main__":
    main()
