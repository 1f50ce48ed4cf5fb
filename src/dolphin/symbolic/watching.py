"""Observers of user functions: a profile, if one is active."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Watcher(Protocol):
    """Is notified of calls of user functions."""

    def functions(self, calls: int) -> contextlib.AbstractContextManager[None]:
        """A block in which user functions are called this many times."""
        ...

    def not_remembered(self, reason: str) -> None:
        """The current operation has a function whose results are not remembered."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("dolphin_watcher", default=None)


class Looks:
    """Whether a function looked at numbers, other than by operations on distributions."""

    def __init__(self) -> None:
        self.seen = False
        self._operations = 0

    def look(self) -> None:
        self.seen = self.seen or not self._operations

    @contextlib.contextmanager
    def operation(self) -> Iterator[None]:
        """A block in which looking doesn't count."""
        self._operations += 1
        try:
            yield
        finally:
            self._operations -= 1


_looks: ContextVar[Looks | None] = ContextVar("dolphin_looks", default=None)


def current_looks() -> Looks | None:
    """Those that are noted now, if any."""
    return _looks.get()


@contextlib.contextmanager
def looks_noted(looks: Looks | None) -> Iterator[None]:
    """A block in which looks at numbers are noted, or not: then all of it counts as a look."""
    outer = _looks.get()
    if outer is not None:
        outer.look()
    token = _looks.set(looks)
    try:
        yield
    finally:
        _looks.reset(token)


def in_operation() -> contextlib.AbstractContextManager[None]:
    """The block of an operation on distributions, which may look at numbers."""
    looks = _looks.get()
    return contextlib.nullcontext() if looks is None else looks.operation()


class _Calls:
    """How many user functions were called, in any thread."""

    count = 0


def calls_so_far() -> int:
    """Grows with every call of a user function, in any thread."""
    return _Calls.count


def calls_of_functions(calls: int) -> contextlib.AbstractContextManager[None]:
    """The block in which user functions are called this many times."""
    _Calls.count += calls
    watcher = _watcher.get()
    return contextlib.nullcontext() if watcher is None else watcher.functions(calls)


def tell_not_remembered(reason: str) -> None:
    """The current operation has a function whose results are not remembered."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.not_remembered(reason)


@contextlib.contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Notify `watcher` of all calls in this block, in this thread or task only."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
