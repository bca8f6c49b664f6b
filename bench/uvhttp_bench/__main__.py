"""Owns: `python -m uvhttp_bench`."""

from uvhttp_bench.cli import main

main()
