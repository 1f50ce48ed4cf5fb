"""Stopping user code that doesn't return.

Python can't tell a long loop from one that never ends, so time decides. One thread checks the clock
for all code that is being watched; it raises `EndlessError` in the thread that has run for too
long, at the next line of Python there. It waits until that thread is in the user's code: an
exception in the middle of Dolphin's own could leave a lock taken or a context variable set. Code
that is stuck outside Python is not reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_PERIOD = 0.25  # seconds between two checks
_SOON = 0.01  # the same while a thread is overdue but not in user code
_IDLE = 20  # checks with nothing to watch before the thread ends
_NOT_TO_INTERRUPT = (str(Path(__file__).parents[1]), contextlib.__file__, threading.__file__)


class EndlessError(BaseException):
    """Raised in code that has run for too long. Not an `Exception`: programs don't catch it."""


class Watched:
    """Code that is running, and until when it may."""

    __slots__ = ("deadline", "seconds", "thread")

    def __init__(self, seconds: float) -> None:
        self.thread = threading.get_ident()
        self.seconds = seconds
        self.restart()

    def restart(self) -> None:
        """The code has made progress: start the time again."""
        self.deadline = time.monotonic() + self.seconds

    def is_late(self) -> bool:
        return time.monotonic() > self.deadline


class _Watchman:
    """Watches all running code in one thread, which ends when there is none."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, list[Watched]] = {}  # by thread; the innermost is checked
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> Watched:
        watched = Watched(seconds)
        with self._lock:
            self._watched.setdefault(watched.thread, []).append(watched)
            if self._thread is None or not self._thread.is_alive():
                name = "dolphin-watchman"
                self._thread = threading.Thread(target=self._look, name=name, daemon=True)
                self._thread.start()
        return watched

    def end(self, watched: Watched) -> None:
        with self._lock:
            around = self._watched[watched.thread]
            around.remove(watched)
            if around:
                around[-1].restart()
            else:
                del self._watched[watched.thread]

    def _look(self) -> None:
        idle, pause = 0, _PERIOD
        while idle < _IDLE:
            time.sleep(pause)
            with self._lock:
                idle = 0 if self._watched else idle + 1
                if idle == _IDLE:
                    self._thread = None
                late = [around[-1] for around in self._watched.values() if around[-1].is_late()]
                for watched in late:
                    if _in_user_code(watched.thread):
                        _raise_in(watched.thread)
            pause = _SOON if late else _PERIOD


def _in_user_code(thread: int) -> bool:
    """Whether the innermost frame of a thread may be interrupted."""
    frame = sys._current_frames().get(thread)
    return frame is not None and not frame.f_code.co_filename.startswith(_NOT_TO_INTERRUPT)


def _raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(EndlessError)
    )


_watchman = _Watchman()
if hasattr(os, "register_at_fork"):  # threads don't survive in a forked process
    os.register_at_fork(after_in_child=_watchman.start_anew)


@contextlib.contextmanager
def watched(seconds: float) -> Iterator[Watched | None]:
    """A block that may run for this long since the last `restart`.

    Not enforced under a debugger, which may pause the block for any time.
    """
    if sys.gettrace() is not None:
        yield None
        return
    own = _watchman.begin(seconds)
    try:
        yield own
    finally:
        _watchman.end(own)
