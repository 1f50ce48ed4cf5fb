"""Formulas over facts: and, or, not. Equal formulas are stored once and are equal numbers.

A fact is named by the position of its input in a tag's list of inputs and by its column, never by
the input itself: a training step with new numbers builds the formulas of the last step again, finds
that they exist, and with them everything that was compiled from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from typing import Any

from dolphin.errors import SizeError
from dolphin.symbolic.bounded import register
from dolphin.symbolic.locking import held_at_fork

FALSE, TRUE = 0, 1
CONSTANT, FACT, NOT, AND, OR = range(5)
FLATTEN = 16  # conjunctions of conjunctions are written as one up to this length
REMEMBERED_BYTES = 200_000_000

_generations = itertools.count()


class FormulaTable:
    """All formulas until the next reset; formulas have larger numbers than their parts."""

    lock = held_at_fork()  # of all tables; what is compiled is compiled while it is held

    def __init__(self, limit: int = 1_000_000) -> None:
        self.limit = limit
        self.generation = next(_generations)
        self.kinds: list[int] = [CONSTANT, CONSTANT]
        self.parts: list[tuple[int, ...]] = [(FALSE,), (TRUE,)]
        self.remembered: dict[Any, Any] = {}  # results of whole operations, by their arguments
        self.remembered_bytes = 0
        self.diagrams: dict[Any, Any] = {}  # what was compiled from the formulas
        self.sentential: dict[Any, Any] = {}  # the same by PySDD
        self.exclusive: set[int] = set()  # disjunctions of which at most one part can hold
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        self._moved: dict[tuple[int, tuple[int, ...]], dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def full(self) -> bool:
        """Whether a new table should be started."""
        return len(self.kinds) > self.limit // 2 or self.remembered_bytes > REMEMBERED_BYTES

    def _make(self, kind: int, parts: tuple[int, ...]) -> int:
        number = self._known.get((kind, parts))
        if number is None:
            number = len(self.kinds)
            if number >= self.limit:
                raise SizeError(
                    f"Exact: the program's formulas have more than {self.limit:,} different parts. "
                    "Keep fewer symbols (dolphin.sample, dolphin.filter), or use "
                    "dolphin.TopKProofs(k=...)."
                )
            self.kinds.append(kind)
            self.parts.append(parts)
            self._known[kind, parts] = number
        return number

    def fact(self, position: int, column: int) -> int:
        """This column of the input at this position holds."""
        return self._make(FACT, (position, column))

    def negation(self, formula: int) -> int:
        """¬ formula."""
        if formula <= TRUE:
            return TRUE - formula
        if self.kinds[formula] == NOT:
            return self.parts[formula][0]
        return self._make(NOT, (formula,))

    def conjunction(self, formulas: Iterable[int]) -> int:
        """∧ of the formulas."""
        return self._join(AND, OR, TRUE, FALSE, formulas)

    def disjunction(self, formulas: Iterable[int]) -> int:
        """∨ of the formulas."""
        return self._join(OR, AND, FALSE, TRUE, formulas)

    def exclusive_disjunction(self, formulas: Sequence[int]) -> int:
        """∨ of formulas no two of which can hold together, whatever the inputs are."""
        result = self.disjunction(formulas)
        if self.kinds[result] != OR or result in self.exclusive:
            return result
        members = {formula for formula in formulas if formula > TRUE}
        flat = set()
        for formula in members:
            flat.update(self.parts[formula] if formula in self.exclusive else (formula,))
        if set(self.parts[result]) in (members, flat):
            self.exclusive.add(result)
        return result

    def _join(
        self, kind: int, other: int, neutral: int, final: int, formulas: Iterable[int]
    ) -> int:
        kinds, parts = self.kinds, self.parts
        members: set[int] = set()
        for formula in formulas:
            if formula == final:
                return final
            if formula != neutral:
                members.add(formula)
        for formula in list(members):
            if kinds[formula] == kind and len(members) + len(parts[formula]) <= FLATTEN:
                members.discard(formula)
                members.update(parts[formula])
        for formula in list(members):
            if kinds[formula] == NOT and parts[formula][0] in members:
                return final
            if kinds[formula] == other and not members.isdisjoint(parts[formula]):
                members.discard(formula)  # a ∨ (a ∧ b) = a, and the other way round
        if len(members) <= 1:
            return members.pop() if members else neutral
        return self._make(kind, tuple(sorted(members)))

    def reachable(self, roots: Iterable[int], known: Container[int] = ()) -> list[int]:
        """All parts of the roots, in ascending order: parts before what they are parts of.

        Without those that are `known`, and what only these are made of.
        """
        seen: set[int] = set()
        waiting = list(roots)
        while waiting:
            formula = waiting.pop()
            if formula in seen or formula in known:
                continue
            seen.add(formula)
            if self.kinds[formula] >= NOT:
                waiting.extend(self.parts[formula])
        return sorted(seen)

    def written_down(self, roots: Sequence[int]) -> list[tuple[int, int, tuple[int, ...]]]:
        """Number, kind and parts of all formulas behind the roots, parts first."""
        return [(f, self.kinds[f], self.parts[f]) for f in self.reachable(roots) if f > TRUE]

    def read_back(self, written: Sequence[tuple[int, int, tuple[int, ...]]]) -> dict[int, int]:
        """The numbers in this table of formulas of another one."""
        number = {FALSE: FALSE, TRUE: TRUE}
        for formula, kind, parts in written:
            if kind == FACT:
                number[formula] = self.fact(parts[0], parts[1])
            elif kind == NOT:
                number[formula] = self.negation(number[parts[0]])
            else:
                make = self.conjunction if kind == AND else self.disjunction
                number[formula] = make(number[part] for part in parts)
        return number

    def moved(
        self, roots: Sequence[int], source: FormulaTable, positions: tuple[int, ...]
    ) -> list[int]:
        """Formulas of `source` in this table, with input i now at `positions[i]`."""
        if source is self and positions == tuple(range(len(positions))):
            return list(roots)
        numbers = self._moved.setdefault((source.generation, positions), {FALSE: FALSE, TRUE: TRUE})
        if any(root not in numbers for root in roots):
            for formula in source.reachable(roots):
                if formula not in numbers:
                    numbers[formula] = self._moved_one(source, formula, positions, numbers)
        return [numbers[root] for root in roots]

    def _moved_one(
        self,
        source: FormulaTable,
        formula: int,
        positions: tuple[int, ...],
        numbers: dict[int, int],
    ) -> int:
        kind, parts = source.kinds[formula], source.parts[formula]
        if kind == FACT:
            return self.fact(positions[parts[0]], parts[1])
        if kind == NOT:
            return self.negation(numbers[parts[0]])
        if formula in source.exclusive:
            return self.exclusive_disjunction([numbers[part] for part in parts])
        make = self.conjunction if kind == AND else self.disjunction
        return make(numbers[part] for part in parts)


class Tables:
    """The table in use; a new one is started when it has grown large."""

    def __init__(self) -> None:
        self._table = FormulaTable()

    def current(self) -> FormulaTable:
        """The table for new formulas."""
        if self._table.full:
            self._table = FormulaTable()
        return self._table

    def clear(self) -> None:
        """Forget all formulas. Distributions that exist keep theirs."""
        self._table = FormulaTable()


tables = Tables()
register("formulas", lambda: len(tables.current()), tables.clear)
