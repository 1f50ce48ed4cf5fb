"""Notes of what the rounds of a fixpoint do to tags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from dolphin.execution.indices import IndexLists
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Tags
from dolphin.symbolic.watching import Looks, looks_noted


class Operation(NamedTuple):
    """Index lists over operands, one after the other if it is a union, and what came out."""

    lists: IndexLists
    operands: Sequence[Tags]
    union: bool
    result: Tags


@dataclass(frozen=True)
class Round:
    """A call of a fixpoint's step."""

    before: Tagged
    operations: Sequence[Operation]
    after: Tagged

    @property
    def growth(self) -> tuple[Operation, Operation] | None:
        """The union that the step returned, and the pairs that are its last operand, if so made."""
        union = self.by(self.after.made)
        last = self.by(union.operands[-1]) if union is not None and union.union else None
        if union is None or last is None or last.union or len(last.operands) != 2:
            return None
        return union, last

    def by(self, tags: Tags) -> Operation | None:
        """The operation that made these tags."""
        return next((each for each in self.operations if each.result is tags), None)


class Notes:
    """What the rounds of one fixpoint do."""

    def __init__(self) -> None:
        self.looks = Looks()
        self.rounds: list[Round] = []
        self._operations: list[Operation] = []

    def note(self, *about: Any) -> None:
        self._operations.append(Operation(*about))

    def end_round(self, before: Tagged, after: Tagged) -> None:
        self.rounds.append(Round(before, self._operations, after))
        self._operations = []


_notes: ContextVar[Notes | None] = ContextVar("dolphin_notes", default=None)


def current_notes() -> Notes | None:
    """Those of the innermost fixpoint, if they are taken."""
    return _notes.get()


@contextlib.contextmanager
def noting(notes: Notes | None) -> Iterator[None]:
    """A block for the rounds of a fixpoint, with or without notes."""
    token = _notes.set(notes)
    try:
        with looks_noted(None if notes is None else notes.looks):
            yield
    finally:
        _notes.reset(token)
