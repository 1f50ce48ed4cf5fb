"""Notes of what the rounds of a fixpoint do to tags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dolphin.execution.indices import IndexLists
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Tags
from dolphin.symbolic.surroundings import surrounded, surroundings


class Operation(NamedTuple):
    """Index lists over operands, one after the other if it is a union, and what came out."""

    lists: IndexLists
    operands: Sequence[Tags | Tagged]  # see `known_as`
    union: bool
    result: Tags


def known_as(d: Tagged) -> Tags | Tagged:
    """What distinguishes an operand from others: its tags, or itself if it is certain."""
    return d if d.made is None else d.made


@dataclass(frozen=True)
class Round:
    """A call of a fixpoint's step."""

    before: Tagged
    operations: Sequence[Operation]
    after: Tagged

    @property
    def growth(self) -> tuple[Operation, Operation] | None:
        """The union that the step returned, and what its last operand is made of; or None."""
        union = self.by(self.after.made)
        last = self.by(union.operands[-1]) if union is not None and union.union else None
        if union is None or last is None or last.union:
            return None
        return union, last

    def by(self, tags: Tags | Tagged) -> Operation | None:
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

    def note(
        self, lists: IndexLists, operands: Sequence[Tagged], union: bool, result: Tags
    ) -> None:
        known = [known_as(operand) for operand in operands]
        self._operations.append(Operation(lists, known, union, result))

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
