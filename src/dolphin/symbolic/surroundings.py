"""What an operation runs inside of: a `program`, a sample of `batched`, a recursion, a profile.

All of it is one record in one context variable. An operation reads it once; where it is `PLAIN`,
there is nothing around, and the operation takes the direct path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dolphin.execution.batching.nodes import Sample
    from dolphin.execution.profiling import Profile
    from dolphin.execution.recursion.noting import Notes
    from dolphin.execution.recursion.renewing import Recursion
    from dolphin.execution.recursion.sketching import Sketch
    from dolphin.execution.tagged import Tagged
    from dolphin.symbolic.executions import Execution


class Surroundings(NamedTuple):
    """What operations run inside of."""

    execution: Execution | None = None
    """The run of a `program`, whose runs share results."""
    sample: Sample | None = None
    """The sample of a `batched` program, which records operations to run them with others'."""
    profile: Profile | None = None
    """What measures operations, or draws them."""
    recursion: Recursion | None = None
    """The last round of a fixpoint, whose tags are reused."""
    notes: Notes | None = None
    """Notes of what the rounds of a fixpoint do."""
    sketch: Sketch | None = None
    """What writes down the operations of a step instead of running them."""
    unions: Callable[[Sequence[Tagged]], Tagged] | None = None
    """What a fixpoint with a goal does instead of a union."""


PLAIN = Surroundings()
_surroundings: ContextVar[Surroundings] = ContextVar("dolphin_surroundings", default=PLAIN)

surroundings = _surroundings.get
"""The surroundings of the current thread or task."""


@contextlib.contextmanager
def surrounded(**parts: Any) -> Iterator[None]:
    """A block in which these parts of the surroundings are replaced, None for nothing."""
    inside = surroundings()._replace(**parts)
    token = _surroundings.set(inside if any(part is not None for part in inside) else PLAIN)
    try:
        yield
    finally:
        _surroundings.reset(token)


def in_operation() -> contextlib.AbstractContextManager[None]:
    """The block of an operation on distributions, which may look at numbers."""
    notes = surroundings().notes
    return contextlib.nullcontext() if notes is None else notes.looks.operation()


def numbers_are_read() -> None:
    """Note that a program reads numbers, or rows: it is not remembered, since they may differ."""
    around = surroundings()
    if around.execution is not None:
        around.execution.explorer.sources.remembered = False
    if around.notes is not None:
        around.notes.looks.look()


class _Calls:
    """How many user functions were called, in any thread."""

    count = 0


def calls_so_far() -> int:
    """Grows with every call of a user function, in any thread."""
    return _Calls.count


def calls_of_functions(calls: int) -> contextlib.AbstractContextManager[None]:
    """The block in which user functions are called this many times."""
    _Calls.count += calls
    profile = surroundings().profile
    return contextlib.nullcontext() if profile is None else profile.functions(calls)
