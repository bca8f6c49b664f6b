"""Owns: Ctrl-C at a bad moment. A process that has been started but not yet been noted could not be ended; inside held()
an interrupt waits until the block is over."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def install() -> None:
    """SIGTERM as well ends with everything put away."""
    for number in SIGNALS:
        signal.signal(number, _raise)


@contextlib.contextmanager
def held() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for this thread
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True

    before = [signal.signal(number, note) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
