"""Stopping user code that doesn't return.

Python can't tell a long loop from one that never ends, so time decides. One thread checks the clock
for all code that is being watched; it raises `EndlessError` in the thread that has run for too
long, at the next line of Python there. It waits until that thread is in the user's code: an
exception in the middle of Dolphin's own could leave a lock taken or a context variable set. Code
that is stuck outside Python is not reached.

An exception that is on its way arrives where the interpreter looks for it next: at a call, or at
the end of a loop's body. Code that may just have been stopped calls `arrive` before it cleans up.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from dolphin.symbolic.locking import lock

_PERIOD = 0.25  # seconds between two checks
_SOON = 0.01  # the same while a thread is overdue but not in user code
_GRACE = 1.0  # seconds that stopped code has to end before it is stopped again
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

    def restart(self, seconds: float | None = None) -> None:
        """The code has made progress: start the time again."""
        self.deadline = time.monotonic() + (self.seconds if seconds is None else seconds)

    def is_late(self) -> bool:
        return time.monotonic() > self.deadline


class _Watchman:
    """Watches all running code in one thread, which ends when there is none."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        self._watched: dict[int, list[Watched]] = {}  # by thread; the innermost is checked
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> Watched:
        watched = Watched(seconds)
        with lock:
            self._watched.setdefault(watched.thread, []).append(watched)
            if self._thread is None or not self._thread.is_alive():
                name = "dolphin-watchman"
                self._thread = threading.Thread(target=self._look, name=name, daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread left: code runs unwatched
                    self._thread.start()
        return watched

    def end(self, watched: Watched) -> None:
        with lock:
            around = self._watched.get(watched.thread, [])
            if watched in around:  # not in a process that was forked meanwhile
                del around[around.index(watched) :]  # with what an interrupt has left inside
            if around:
                around[-1].restart()
            else:
                self._watched.pop(watched.thread, None)

    def _look(self) -> None:
        idle, pause = 0, _PERIOD
        frames: dict[int, FrameType] = {}
        while idle < _IDLE:
            time.sleep(pause)
            with lock:
                idle = 0 if self._watched else idle + 1
                if idle == _IDLE:
                    self._thread = None
                late = [around[-1] for around in self._watched.values() if around[-1].is_late()]
                frames = _frames() if late else {}
                for watched in late:
                    if _is_user_code(frames.get(watched.thread)):
                        _raise_in(watched.thread)
                        watched.restart(_GRACE)
            frames = {}  # freed after the lock, with what only they refer to
            pause = _SOON if late else _PERIOD


def _frames() -> dict[int, FrameType]:
    """The innermost frame of each thread.

    Before Python 3.12 the garbage collector may run in the middle of `sys._current_frames`, which
    holds a lock that threads need to start and to end. Where a finalizer then lets other threads
    run, as that of a tensor does, the whole process stands still (CPython issue 106883).
    """
    if sys.version_info >= (3, 12) or not gc.isenabled():
        return sys._current_frames()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        gc.enable()


def _is_user_code(frame: FrameType | None) -> bool:
    """Whether the thread with this innermost frame may be interrupted."""
    return frame is not None and not frame.f_code.co_filename.startswith(_NOT_TO_INTERRUPT)


def arrive() -> None:
    """Let an exception that is on its way to this thread be raised here."""


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
        try:
            _watchman.end(own)
        except BaseException:  # interrupted: code that is no longer watched is never stopped
            _watchman.end(own)
            raise
