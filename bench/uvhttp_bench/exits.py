"""Owns: the exit codes, and the errors that carry them to cli.py, which alone exits."""

FINE = 0
ERROR = 1
USAGE = 2
REGRESSION = 3
UNSTABLE = 4
MISSING = 77
INTERRUPTED = 130


class BenchError(Exception):
    """Something went wrong; the text is one line that says what to do."""

    exit_code = ERROR


class UsageError(BenchError):
    exit_code = USAGE


class MissingError(BenchError):
    """What is to be measured, or a tool, is not there."""

    exit_code = MISSING
