"""A limit on the time that a program may take."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class TooSlowError(BaseException):  # not an Exception: a program, or Dolphin, might catch that
    """The time is up."""


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """A block that is ended with `TooSlowError` when it takes longer.

    Only where there are alarms, and in the main thread; elsewhere nothing ends it.
    """
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not alarms:
        yield
        return

    def end(*_: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
