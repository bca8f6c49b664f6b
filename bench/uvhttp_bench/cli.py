"""Owns: parsing and dispatch. Only main() exits.

A verb is a module of commands/ with three things: HELP (one line), add_arguments(parser) and run(args) -> exit code.
Data goes to stdout, progress and errors to stderr."""

import argparse
import importlib
import pkgutil
import sqlite3
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from uvhttp_bench import commands, interrupt, network
from uvhttp_bench.exits import ERROR, INTERRUPTED, BenchError


def verbs() -> dict[str, ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
    return {name.replace("_", "-"): importlib.import_module(f"uvhttp_bench.commands.{name}") for name in names}


def version() -> str:
    project = Path(__file__).parents[1] / "pyproject.toml"
    return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def parser_of(modules: dict[str, ModuleType]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="uvhttp-bench", description="The performance testing standard as a program.")
    parser.add_argument("--version", action="version", version=f"uvhttp-bench {version()}")
    parser.add_argument("--debug", action="store_true", help="show a traceback with an error")
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, module in modules.items():
        sub = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        sub.add_argument("--format", choices=("text", "json", "md"), default="text", help="of stdout (default text)")
        module.add_arguments(sub)
    return parser


def dispatch(argv: list[str]) -> int:
    interrupt.install()
    modules = verbs()
    args = parser_of(modules).parse_args(argv)
    try:
        with network.of(args):
            return int(modules[args.verb].run(args))
    except KeyboardInterrupt:
        print(f"uvhttp-bench {args.verb}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return ERROR
    except (OSError, sqlite3.Error) as error:
        if args.debug:
            raise
        print(f"uvhttp-bench {args.verb}: {error}", file=sys.stderr)
        return ERROR
    except BenchError as error:
        if args.debug:
            raise
        print(f"uvhttp-bench {args.verb}: {error}", file=sys.stderr)
        return error.exit_code


def main() -> None:
    sys.exit(dispatch(sys.argv[1:]))
