"""Owns: the verb `list`."""

import argparse

from uvhttp_bench.exits import FINE

HELP = "the scenarios that run knows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    return FINE
