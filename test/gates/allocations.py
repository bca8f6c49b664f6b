#!/usr/bin/env python3
"""Allocations per request: none, by the library's hook and by malloc of the whole process, on both engines, for every
kind of request that allocations.c makes. The client has no allocations of its own in the counted part."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

PROGRAM = gate.BUILD_DIR / "test" / "bin" / "gate_allocations"


def main():
    for engine in ("uring", "epoll"):
        run = subprocess.run([PROGRAM, engine], capture_output=True, text=True, timeout=gate.SECONDS)
        if "not supported by this" in run.stderr:
            gate.skip(f"the engine does not work here: {run.stderr.strip()}")
        if run.returncode != 0:
            sys.exit(f"BROKEN  {PROGRAM.name} {engine}: {run.stderr.strip()}")
        for line in run.stdout.splitlines():
            engine_name, kind, requests, hook, everybody = line.split()
            if kind == "control":  # its handler allocates: who counts nothing there is blind
                gate.check(f"{engine_name}, {kind}: allocations not seen",
                           int(requests) - min(int(hook), int(everybody), int(requests)), 0)
                continue
            what = f"{engine_name}, {kind}: in {requests} requests"
            gate.check(f"{what}, allocations of the library", int(hook), 0)
            gate.check(f"{what}, malloc calls of the process", int(everybody), 0)
    gate.finish()


main()
