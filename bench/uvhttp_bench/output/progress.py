"""Owns: progress on stderr. A terminal gets a bar, a log gets a line for each run; NO_COLOR is rich's to obey."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


def _bar() -> "Progress | None":
    """On a terminal. rich is needed here only, so that --help and list work before anything is installed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=console, transient=True,
    )  # fmt: skip


class Steps:
    """`with Steps(total) as steps: steps.begin("low 1/5") ... steps.done("41,000 req/s")`."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self._quiet = quiet
        self._what = ""
        self._bar = None if quiet else _bar()
        if self._bar:
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "Steps":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, what: str) -> None:
        self._what = what
        if self._bar:
            self._bar.update(self._task, description=what)

    def done(self, result: str) -> None:
        self.say(f"{self._what}: {result}")
        if self._bar:
            self._bar.advance(self._task)

    def say(self, text: str) -> None:
        if self._quiet:
            return
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)
