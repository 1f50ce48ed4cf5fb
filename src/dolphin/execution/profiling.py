"""Where the time of a program goes: operations, user functions, tags."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import torch

from dolphin.display import html
from dolphin.symbolic.identity.functions import name_of
from dolphin.symbolic.surroundings import surrounded, surroundings

_P = ParamSpec("_P")
_R = TypeVar("_R")

_HEAD = (
    "operation", "function", "calls", "combinations", "f calls", "f ms", "plan ms", "tag ms", "ms",
)  # fmt: skip


def profiled(name: str, *, tags: bool = False) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a function an operation of the profile. `tags`: all its work is on tags."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            active = surroundings().profile
            if active is None:
                return function(*args, **kwargs)
            with active.operation(name), active.tags(0) if tags else contextlib.nullcontext():
                result = function(*args, **kwargs)
            active.made(name, None, args, result)
            return result

        return run

    return decorate


@dataclass
class Entry:
    """The total cost of all calls of one operation with one function; times in seconds."""

    operation: str
    function: str
    calls: int = 0
    combinations: int = 0
    function_calls: int = 0
    function_seconds: float = 0.0
    tag_seconds: float = 0.0
    seconds: float = 0.0
    not_remembered: str = ""  # which function is not, and why

    @property
    def other_seconds(self) -> float:
        """Plans: building them and looking them up."""
        return max(0.0, self.seconds - self.function_seconds - self.tag_seconds)


class Profile:
    """A table of operations. `print` it, or read `entries` and `total`."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._current: Entry | None = None
        self._batched: dict[str, list[int]] = {}
        self.parts = 0  # larger operations that are running

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Operations that are part of a larger one, each of which counts by itself."""
        self.parts += 1
        try:
            yield
        finally:
            self.parts -= 1

    @property
    def batched(self) -> dict[str, tuple[int, int]]:
        """Operations inside `dolphin.batched`: how many were requested, and how many ran."""
        return {name: (asked, ran) for name, (asked, ran) in self._batched.items()}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The operations, those that took longest first."""
        return tuple(sorted(self._entries.values(), key=lambda entry: -entry.seconds))

    @property
    def total(self) -> Entry:
        """The sum of all entries."""
        whole = Entry("total", "")
        for entry in self._entries.values():
            whole.calls += entry.calls
            whole.combinations += entry.combinations
            whole.function_calls += entry.function_calls
            whole.function_seconds += entry.function_seconds
            whole.tag_seconds += entry.tag_seconds
            whole.seconds += entry.seconds
        return whole

    # -- what the engine reports -------------------------------------------------------------------

    def asked(self, operation: str) -> None:
        """A sample requested an operation, to be run with those of other samples."""
        self._batched.setdefault(operation, [0, 0])[0] += 1

    def ran(self, operation: str) -> None:
        """An operation ran for some samples at once."""
        self._batched.setdefault(operation, [0, 0])[1] += 1

    @contextlib.contextmanager
    def operation(
        self, operation: str, function: Callable[..., Any] | None = None
    ) -> Iterator[None]:
        """A call of an operation. What it calls in turn counts as part of it."""
        if self._current is not None:
            yield
            return
        key = (operation, name_of(function))
        entry = self._current = self._entries.setdefault(key, Entry(*key))
        entry.calls += 1
        start = time.perf_counter()
        try:
            yield
        finally:
            entry.seconds += time.perf_counter() - start
            self._current = None

    def made(
        self,
        operation: str,
        function: Callable[..., Any] | None,
        operands: Sequence[Any],
        result: Any,
        task: Any = None,
    ) -> None:
        """The result of an operation; a profile doesn't keep it.

        `task`: all that the user asked for.
        """

    @contextlib.contextmanager
    def functions(self, calls: int) -> Iterator[None]:
        """A block with this many calls of user functions."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self._current is not None:
                self._current.function_calls += calls
                self._current.function_seconds += time.perf_counter() - start

    @contextlib.contextmanager
    def tags(self, combinations: int) -> Iterator[None]:
        """The tag stage of this many combinations. Waits for the device, to include its time."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self._current is not None:
                _wait_for_devices()
                self._current.combinations += combinations
                self._current.tag_seconds += time.perf_counter() - start

    def not_remembered(self, reason: str) -> None:
        """The current operation runs its functions again in every call."""
        if self._current is not None:
            self._current.not_remembered = reason

    # -- for inspection ----------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [_HEAD, *(_cells(entry) for entry in self.entries), _cells(self.total)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
        rows = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "-" * max(map(len, rows))
        return "\n".join([rows[0], rule, *rows[1:-1], rule, rows[-1], *self._notes()])

    def _repr_html_(self) -> str:
        lines = [*(_cells(entry) for entry in self.entries), _cells(self.total)]
        return html.table(_HEAD, lines, texts=2) + html.notes(self._notes())

    def _notes(self) -> list[str]:
        """The lines below the table."""
        notes = [f"not remembered: {e.not_remembered}" for e in self.entries if e.not_remembered]
        together = [
            f"batched: {asked:,} x {name} ran as {ran:,}"
            for name, (asked, ran) in self.batched.items()
        ]
        return [*dict.fromkeys(notes), *together]

    def __repr__(self) -> str:
        return f"<Profile of {self.total.calls} calls of {len(self._entries)} operations>"


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Measure where the time of a block goes, in this thread or task only.

    The table has a line for each operation with each user function: how often it was called; for
    how many combinations of symbols tags were computed, after conditions and joins; how often user
    functions ran, and for how long; the time of plans, of tags, and the total. Gradients are not
    included: `loss.backward()` calls no operation. Below the table are the functions that are not
    remembered between calls, and why (`Entry.not_remembered`).

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.5, 0.5], [1, 2])
    >>> with dl.profile() as seen:
    ...     for _ in range(3):
    ...         total = dl.apply(d, d, lambda x, y: x + y, cache=False)
    >>> entry = seen.entries[0]
    >>> entry.operation, entry.calls, entry.combinations, entry.function_calls
    ('apply', 3, 12, 12)
    """
    with profiling_with(Profile()) as current:
        yield current


@contextlib.contextmanager
def profiling_with(current: Profile) -> Iterator[Profile]:
    """A block whose operations report to a given profile."""
    with surrounded(profile=current):
        yield current


def _cells(entry: Entry) -> tuple[str, ...]:
    seconds = (
        entry.function_seconds, entry.other_seconds, entry.tag_seconds, entry.seconds,
    )  # fmt: skip
    counts = (entry.calls, entry.combinations, entry.function_calls)
    return (
        entry.operation,
        entry.function,
        *(f"{count:,}" for count in counts),
        *(f"{1000 * s:,.2f}" for s in seconds),
    )


def _wait_for_devices() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
