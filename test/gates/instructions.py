#!/usr/bin/env python3
"""Instructions per request in user space, counted by callgrind: the difference of two runs with a different number of
requests, so that start and stop drop out. The libuv engine, because valgrind knows no io_uring; what is above src/io is
the same. The bounds are what was counted with gcc 12 -O2 and 10 %."""
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gate

FEW, MANY = 100, 1100
# (requests per write, bound): counted 2789 and 1537
BOUNDS = ((1, 3100), (16, 1680))


def instructions(rounds, per_write):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "callgrind"
        prefix = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}"]
        with gate.server("libuv", prefix=prefix) as (_, port):
            with gate.connect(port) as client:
                size = gate.answer_size(client)
                gate.lock_step([client], rounds, size, per_write=per_write)
        total = re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.M)
        return int(total[1])


def main():
    if not shutil.which("valgrind"):
        gate.skip("valgrind is not installed")
    for per_write, bound in BOUNDS:
        more = instructions(MANY, per_write) - instructions(FEW, per_write)
        gate.check(f"libuv, c=1, {per_write} per write: instructions per request", more / ((MANY - FEW) * per_write), bound)
    gate.finish()


main()
