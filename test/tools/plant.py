#!/usr/bin/env python3
"""Owns: planted faults: puts each fault of plants.py into the library, alone, and runs the simulation until a seed fails.

    test/tools/plant.py                    all of them; docs/internals/planted_faults.md has the table
    test/tools/plant.py credit "off by"    those whose names have one of these texts
    test/tools/plant.py --check            only that each fault can still be planted

A changed file is compiled next to two builds that have the simulation, build and build/asan, and linked in front of the
library: the tree is never changed. A text that a file no longer has exactly once ends the program: the fault must be
planted anew. Exit status 1: the simulation has missed a fault."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from build_objects import Objects
from plants import PLANTS
from source_text import ROOT

NONE = "nothing is planted"


def planted(plant):
    """The text of the file with its fault."""
    text = (ROOT / plant.file).read_text(encoding="utf-8")
    if text.count(plant.before) != 1:
        sys.exit(f"plant: {plant.file} has {text.count(plant.before)} times, instead of once, the text of \"{plant.name}\":\n{plant.before}")
    return text.replace(plant.before, plant.after)


def objects_of(build, plant, folder):
    """Compiles what has the fault."""
    text = planted(plant)
    header = plant.file.endswith(".h")
    if header:
        copy = folder / plant.file
        copy.parent.mkdir(parents=True)
        copy.write_text(text, encoding="utf-8")
    for number, path in enumerate(build.users_of(plant.file) if header else [plant.file]):
        place = folder / str(number)
        place.mkdir()
        source = place / os.path.basename(path)
        source.write_text((ROOT / path).read_text(encoding="utf-8") if header else text, encoding="utf-8")
        if not build.compile(path, source, place / "changed.o", [folder / "src"] if header else []):
            sys.exit(f"plant: \"{plant.name}\" does not compile")
        yield place / "changed.o"


def run(program, seeds):
    """What the simulation says of the first seed that fails; None: all have passed."""
    environment = os.environ | {"ASAN_OPTIONS": "abort_on_error=1", "UBSAN_OPTIONS": "abort_on_error=1"}
    done = subprocess.run([program, "1", str(seeds)], env=environment, capture_output=True, text=True, errors="replace")
    return None if done.returncode == 0 else done.stderr


def judge(said):
    """(the first seed that has failed, how)."""
    seed = re.search(r"seed (\d+) fails: (.*)", said)
    how = re.search(r"ERROR: AddressSanitizer: (\S+)|runtime error: (.*)|(Assertion .* failed)", said)
    text = next(group for group in how.groups() if group) if how else seed[2] if seed else said.strip()
    return seed[1] if seed else "?", re.sub(r"client \d+: ", "", text)


def try_plant(builds, plant, seeds):
    """A row of the table, and whether the fault was found."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build = builds[plant.memory]
        build.link("sim", list(objects_of(build, plant, folder)), folder / "sim")
        said = run(folder / "sim", seeds)
    file = plant.file.removeprefix("src/")
    if said is None:
        return f"| {plant.name} | `{file}` | **missed** | {seeds} seeds passed |", False
    seed, how = judge(said)
    return f"| {plant.name} | `{file}` | {seed} | {how} |", True


def check_untouched(builds, seeds):
    for build in builds.values():
        said = run(build.folder / "test/bin/sim", seeds)
        if said is not None:
            sys.exit(f"plant: {build.folder}: the simulation fails although {NONE}:\n{said}")


def main():
    parser = argparse.ArgumentParser(description="Which planted faults the simulation finds.")
    parser.add_argument("names", nargs="*", help="parts of names (all)")
    parser.add_argument("--check", action="store_true", help="only look for the texts")
    parser.add_argument("--seeds", type=int, default=20000, help="at most (%(default)s)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--asan", type=pathlib.Path, default=ROOT / "build/asan", help="for faults of memory")
    parser.add_argument("-j", dest="jobs", type=int, default=2, help="faults at a time (%(default)s)")
    arguments = parser.parse_args()
    plants = [plant for plant in PLANTS if not arguments.names or any(name in plant.name for name in arguments.names)]
    for plant in plants:
        planted(plant)
    if arguments.check:
        return 0
    builds = {memory: Objects(folder.resolve()) for memory, folder in ((False, arguments.build), (True, arguments.asan))}
    check_untouched(builds, 100)
    found = 0
    print("| fault | file | first seed that fails | how |\n|---|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row, is_found in pool.map(lambda plant: try_plant(builds, plant, arguments.seeds), plants):
            print(row, flush=True)
            found += is_found
    print(f"\n{found} of {len(plants)} found")
    return 0 if found == len(plants) else 1


if __name__ == "__main__":
    sys.exit(main())
