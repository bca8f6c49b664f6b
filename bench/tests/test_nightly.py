"""The nightly job: every step runs, what it says is kept, and the gravest exit code is the job's."""

import os
import subprocess
from pathlib import Path

import pytest

from uvhttp_bench import cli, repository

SCRIPT = repository.ROOT / "bench" / "nightly" / "nightly.sh"


def nightly(place: Path, codes: dict[str, int], *words: str) -> tuple[int, Path]:
    cases = "".join(f"{verb}) exit {code};; " for verb, code in codes.items())
    stand_in = place / "bench"
    stand_in.write_text(f'#!/bin/sh\necho "$@" >>{place}/asked\necho "$1 failed: do this" >&2\ncase $1 in {cases}esac\n')
    stand_in.chmod(0o755)
    where = {**os.environ, "UVHTTP_BENCH": str(stand_in), "UVHTTP_NIGHTLY": str(place / "kept")}
    done = subprocess.run([SCRIPT, *words], env=where, capture_output=True, text=True, check=False)
    kept = list((place / "kept").glob("*")) if (place / "kept").exists() else []
    return done.returncode, kept[0] if kept else place


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ({}, 0),
        ({"system": 4}, 4),
        ({"system": 4, "baseline": 3}, 3),
        ({"baseline": 77, "soak": 1, "trend": 3}, 1),
        ({"trend": 2}, 1),
    ],
)
def test_all_steps_run_and_the_gravest_code_is_the_jobs(tmp_path: Path, codes: dict[str, int], worst: int) -> None:
    code, kept = nightly(tmp_path, codes)
    assert code == worst
    names = ("system", "baseline-check", "self-check", "trend", "soak")
    assert all((kept / f"{name}.log").exists() and (kept / f"{name}.json").exists() for name in names)
    summary = (kept / "summary.txt").read_text()
    for verb, failed in codes.items():
        assert f": exit {failed}" in summary and f"{verb} failed: do this" in summary
    assert len((kept / "revision.txt").read_text().strip()) == 40


def test_an_interrupted_step_ends_the_job_and_a_wrong_option_is_usage(tmp_path: Path) -> None:
    assert nightly(tmp_path, {"system": 130})[0] == 130
    assert len((tmp_path / "asked").read_text().splitlines()) == 1
    assert nightly(tmp_path, {}, "--fast")[0] == 2


@pytest.mark.parametrize("words", [(), ("--quick",)])
def test_every_step_is_a_command_that_the_program_understands(tmp_path: Path, words: tuple[str, ...]) -> None:
    nightly(tmp_path, {}, *words)
    parser = cli.parser_of(cli.verbs())
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [parser.parse_args(line.split()).verb for line in asked] == ["system", "baseline", "self-check", "trend", "soak"]
