"""Notes of what the rounds of a fixpoint do to tags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dolphin.execution.indices import IndexLists
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Tags
from dolphin.symbolic.surroundings import surrounded, surroundings


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
        """The union that the step returned, and the pairs in its last operand; or None."""
        union = self.by(self.after.made)
        last = self.by(union.operands[-1]) if union is not None and union.union else None
        if union is None or last is None or last.union or len(last.operands) != 2:
            return None
        return union, last

    def by(self, tags: Tags) -> Operation | None:
        """The operation that made these tags."""
        return next((each for each in self.operations if each.result is tags), None)


class Looks:
    """Whether a step looked at numbers, other than by operations on distributions."""

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


@contextlib.contextmanager
def noting(notes: Notes | None) -> Iterator[None]:
    """A block for the rounds of a fixpoint; without notes, all of it counts as a look."""
    outer = surroundings().notes
    if outer is not None:
        outer.looks.look()
    with surrounded(notes=notes):
        yield
