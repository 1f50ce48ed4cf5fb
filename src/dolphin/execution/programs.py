"""The tag stage of programs: ⊕ over executions of ⊗ of the choices made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dolphin.execution import draws as drawing
from dolphin.execution.run import Outcome, left_out, run, run_shared
from dolphin.execution.tagged import Tagged, agreed, alike, like_of
from dolphin.provenance.contract import Tags
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.chance import Chance, DrawLabels, Draws
from dolphin.symbolic.executions import Leaf, Node
from dolphin.symbolic.planning import grouped
from dolphin.symbolic.plans import Plan, RowAddress
from dolphin.symbolic.row_planning import group_rows
from dolphin.symbolic.tables import SymbolTable


class Choices:
    """A distribution that a program chooses from, by numbers of symbols."""

    def __init__(self, tagged: Tagged, table: SymbolTable) -> None:
        self.tagged = tagged
        self._numbers = tagged.domain.in_table(table)  # (rows or 1, width)
        self._per_row = not tagged.shared
        self._with: dict[int, np.ndarray] = {}
        flat = self._numbers.reshape(-1)
        _, first = np.unique(flat, return_index=True)
        self._all = [n for n in flat[np.sort(first)].tolist() if n != ABSENT]
        self.places = {number: place for place, number in enumerate(self._numbers[0].tolist())}

    def candidates(self, alive: np.ndarray | None) -> list[int]:
        if not self._per_row or alive is None or 1 in (len(alive), len(self._numbers)):
            return self._all
        own = {n for n in self._numbers[alive].reshape(-1).tolist() if n != ABSENT}
        return [number for number in self._all if number in own]

    def rows_with(self, number: int) -> np.ndarray | None:
        if not self._per_row:
            return None
        rows = self._with.get(number)
        if rows is None:
            rows = self._with[number] = (self._numbers == number).any(1)
        return rows

    @property
    def in_order(self) -> bool:
        """Whether the symbols of each row come in the order of all of them."""
        if not self._per_row or not self._all:
            return True
        sorting = np.argsort(self._all)
        at = np.searchsorted(np.array(self._all)[sorting], self._numbers)
        ranks = sorting[at.clip(max=len(sorting) - 1)]
        ranks[self._numbers == ABSENT] = len(sorting)  # after the last symbol of a row
        return bool((np.diff(ranks) >= 0).all())

    def places_in(self, row: np.ndarray, number: np.ndarray) -> np.ndarray:
        """The places of symbols in their rows."""
        own = self._numbers[row] if len(self._numbers) > 1 else self._numbers[0][None, :]
        return (own == number[:, None]).argmax(1)


@dataclass(frozen=True)
class ProgramPlan:
    """All executions: which choices combine into which results."""

    plan: Plan
    asked: tuple[int, ...]  # the distributions that take part, by number
    partly: tuple[bool, ...]  # of each: whether some execution doesn't ask for it
    draws: tuple[Draws, ...]  # the first draws of executions, their second ones, ...

    @property
    def weight(self) -> int:
        """The number of stored numbers."""
        return self.plan.weight * (1 + len(self.asked) + len(self.draws))

    @property
    def simple(self) -> bool:
        """Whether every execution asks for the same distributions and draws nothing."""
        return not self.draws and not any(self.partly)


_NOT_ASKED = -1


def _table_of(executions: Sequence[Leaf], asked: Sequence[int]) -> np.ndarray:
    """(executions, distributions) numbers of the symbols chosen."""
    rows = [[leaf.choices.get(number, _NOT_ASKED) for number in asked] for leaf in executions]
    return np.array(rows, dtype=np.int64).reshape(len(executions), len(asked))


def asked_by(executions: Sequence[Leaf]) -> tuple[int, ...]:
    """The distributions that executions ask for, by first appearance."""
    return tuple(dict.fromkeys(number for leaf in executions for number in leaf.choices))


def _draws_of(
    name: str, table: SymbolTable, executions: Sequence[Leaf]
) -> tuple[list[Draws], list[np.ndarray]]:
    """The draws of executions, level by level, and which column each execution drew."""
    depth = max((len(leaf.draws) for leaf in executions), default=0)
    every, columns = [], []
    for level in range(depth):
        own = [leaf for leaf in executions if len(leaf.draws) > level]
        start: dict[int, int] = {}
        nodes: list[Node] = []
        paths: list[tuple[object, ...]] = []
        width = 0
        for leaf in own:
            node, _ = leaf.draws[level]
            if id(node) not in start:
                start[id(node)] = width
                nodes.append(node)
                paths.append(_path_to(leaf, level))
                width += len(_chance(node).outcomes)
        chances = [_chance(node) for node in nodes]
        labels = DrawLabels(
            name,
            tuple(paths),
            tuple(table.symbols[n] for chance in chances for n in chance.outcomes),
            tuple(c for c, chance in enumerate(chances) for _ in chance.outcomes),
        )
        every.append(Draws(chances, labels, mixed=len(own) < len(executions)))
        columns.append(
            np.array(
                [
                    start[id(leaf.draws[level][0])] + leaf.draws[level][1]
                    if len(leaf.draws) > level
                    else width
                    for leaf in executions
                ],
                dtype=np.int64,
            )
        )
    return every, columns


def _chance(node: Node) -> Chance:
    assert isinstance(node.chance, Chance)
    return node.chance


def _path_to(leaf: Leaf, level: int) -> tuple[object, ...]:
    """The choices before a draw."""
    return leaf.path[: leaf.steps[level]]


def shared_plan(
    name: str, table: SymbolTable, executions: Sequence[Leaf], choices: Sequence[Choices]
) -> ProgramPlan:
    """The plan of executions over symbols that all rows share."""
    asked = asked_by(executions)
    chosen = _table_of(executions, asked)
    results = np.array([leaf.result for leaf in executions], dtype=np.int64)
    every, columns = _draws_of(name, table, executions)
    given = [choices[number] for number in asked]
    skipped = left_out(given[0].tagged.provenance, [c.tagged for c in given]) if given else []
    sizes = [c.tagged.width for c in given]
    places = [
        np.array([c.places.get(n, c.tagged.width) for n in chosen[:, i].tolist()], dtype=np.int64)
        for i, c in enumerate(given)
    ]
    partly = tuple(bool((chosen[:, i] == _NOT_ASKED).any()) for i in range(len(given)))
    whole = not every and not any(partly) and _in_order(places, sizes)
    plan = grouped(
        table,
        results,
        None if whole else [*places, *columns],
        [*sizes, *map(len, every)],
        [*skipped, *([False] * len(every))],
    )
    return ProgramPlan(plan, asked, partly, tuple(every))


def _in_order(places: Sequence[np.ndarray], sizes: Sequence[int]) -> bool:
    """Whether these are all combinations, the first operand slowest."""
    if not places or len(places[0]) != int(np.prod(sizes, dtype=object)):
        return False
    number = np.zeros(len(places[0]), dtype=np.int64)
    for place, size in zip(places, sizes, strict=True):
        number = number * size + place
    return bool((number == np.arange(len(number))).all())


def run_plan(
    whole: ProgramPlan,
    operands: Sequence[Tagged],
    tensors: Sequence[Tensor],
    outcome: Outcome,
    site: Hashable,
) -> Tagged:
    """The result of a plan over shared symbols."""
    if operands and alike(operands):
        skipped = [False] * len(operands)
    else:
        operands = agreed(operands)
        skipped = left_out(outcome.provenance, operands) if operands else []
    if whole.simple and operands:
        return run_shared(whole.plan, operands, skipped, outcome)
    like = like_of(operands)
    provenance = outcome.provenance
    tags = []
    for d, skip, partly in zip(operands, skipped, whole.partly, strict=True):
        if skip:
            continue
        own = d.tags_like(like)
        tags.append(provenance.concat([own, provenance.one(1, own)]) if partly else own)
    tags, constant = with_draws(whole.draws, tags, tensors, outcome, site, flat=False)
    return outcome.tagged(whole.plan.domain, run(whole.plan, tags, provenance), constant)


def with_draws(
    every: Sequence[Draws],
    tags: list[Tags],
    tensors: Sequence[Tensor],
    outcome: Outcome,
    site: Hashable,
    *,
    flat: bool,
) -> tuple[list[Tags], bool]:
    """Tags with those of the draws, and whether they depend on no input and no weight."""
    constant = outcome.constant
    for level, draws in enumerate(every):
        tags = drawing.tags_of(
            draws, tensors, tags, outcome.provenance, outcome.batch, (site, level), flat=flat,
            constant=constant,
        )  # fmt: skip
        constant = constant and not draws.from_tensors
    return tags, constant


def _order_of_rows(
    row: np.ndarray, execution: np.ndarray, executions: Sequence[Leaf], choices: Sequence[Choices]
) -> np.ndarray:
    """The order of executions in rows, by the order that symbols have in the row itself.

    Of equal executions the first is preferred, so which one that is must not depend on other rows.
    """
    depth = max((len(leaf.path) for leaf in executions), default=0)
    steps = np.full((len(executions), depth, 2), -1, dtype=np.int64)
    for number, leaf in enumerate(executions):
        steps[number, : len(leaf.path)] = _steps(leaf)
    keys = []
    for asked, place in steps[execution].transpose(1, 2, 0):
        for number in set(asked[asked >= 0].tolist()):
            own = asked == number
            place[own] = choices[number].places_in(row[own], place[own])
        keys.append(place)
    return np.lexsort((*reversed(keys), row))


def _steps(leaf: Leaf) -> list[tuple[int, int]]:
    """What an execution chose, in order: (a distribution, a symbol), or (-1, the outcome drawn)."""
    steps = list(leaf.choices.items())
    for depth, (_, place) in zip(leaf.steps, leaf.draws, strict=True):
        steps.insert(depth, (-1, place))
    return steps


def run_rows(
    name: str,
    table: SymbolTable,
    executions: Sequence[Leaf],
    choices: Sequence[Choices],
    tensors: Sequence[Tensor],
    outcome: Outcome,
    site: Hashable,
) -> Tagged:
    """The executions of every row, in per-row layout."""
    asked = asked_by(executions)
    chosen = _table_of(executions, asked)
    batch, provenance = outcome.batch, outcome.provenance
    every, columns = _draws_of(name, table, executions)
    alive = np.ones((len(executions), batch), dtype=bool)
    for number, leaf in enumerate(executions):
        if leaf.alive is not None:
            alive[number] = leaf.alive
    row, execution = np.nonzero(alive.T)
    if not all(choices[number].in_order for number in asked):
        order = _order_of_rows(row, execution, executions, choices)
        row, execution = row[order], execution[order]
    operands = agreed([choices[number].tagged for number in asked])
    skipped = left_out(provenance, operands)
    like = like_of(operands)
    tags, indices = [], []
    for i, (d, skip) in enumerate(zip(operands, skipped, strict=True)):
        if skip:
            continue
        own, address = d.flat_tags(like)
        number = chosen[execution, i]
        place = address.at(row, choices[asked[i]].places_in(row, number))
        missing = number == _NOT_ASKED
        if missing.any():  # **1**, one per row
            rows = batch if address.per_row else 1
            own = provenance.concat([own, provenance.flatten(provenance.one(1, own), rows)])
            place = np.where(missing, address.size(batch) + (row if rows > 1 else 0), place)
        tags.append(own)
        indices.append(place)
    apart = drawing.own_facts(provenance, batch)
    for draws, column in zip(every, columns, strict=True):
        width = RowAddress(len(draws) + draws.mixed, per_row=apart)
        indices.append(width.at(row, column[execution]))
    results = np.array([leaf.result for leaf in executions], dtype=np.int64)[execution]
    plan = group_rows(table, results, row, batch, indices)
    tags, constant = with_draws(every, tags, tensors, outcome, site, flat=True)
    return outcome.tagged(plan.domain, run(plan, tags, provenance), constant)
