"""The results of the symbolic stage: plans, and the symbols, rows and limits they refer to.

A plan depends on symbols alone, never on probabilities: it says what combines into what. `planning`
builds one from a user function.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dolphin.errors import SizeError
from dolphin.settings import current_settings
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.chance import Draws
from dolphin.symbolic.identity.changing import Changing
from dolphin.symbolic.joins import Joined
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tables import SymbolTable


class RowSymbols:
    """Different symbols in every row: numbers in a table, `ABSENT` after the last one."""

    __slots__ = ("_members", "numbers", "table")

    def __init__(self, table: SymbolTable, numbers: np.ndarray) -> None:
        self.table = table
        self.numbers = numbers  # (rows, width)
        self._members: tuple[Any, ...] | None = None

    @property
    def width(self) -> int:
        return self.numbers.shape[1]

    @property
    def members(self) -> tuple[Any, ...]:
        """The symbols of all rows, by first appearance."""
        if self._members is None:
            flat = self.numbers[self.numbers != ABSENT]
            _, first = np.unique(self.table.classes(flat), return_index=True)
            self._members = tuple(self.table.symbols[n] for n in flat[np.sort(first)])
        return self._members

    @property
    def changing(self) -> Changing:
        """What may change about the symbols of all rows."""
        return self.table.changing(self.numbers)

    def in_table(self, table: SymbolTable) -> np.ndarray:
        """The numbers of the same symbols in another table."""
        if table is self.table:
            return self.numbers
        old, inverse = np.unique(self.numbers, return_inverse=True)
        new = old.copy()
        there = old != ABSENT
        new[there] = table.numbers(self.table.symbols[n] for n in old[there].tolist())
        return new[inverse].reshape(self.numbers.shape)

    def __reduce__(self) -> Any:  # a table belongs to its process: symbols are sent, not numbers
        return _rows_from_symbols, ([self.row(i) for i in range(len(self.numbers))], self.width)

    def row(self, row: int) -> list[Any]:
        return [self.table.symbols[n] for n in self.numbers[row] if n != ABSENT]


def _rows_from_symbols(rows: list[list[Any]], width: int) -> RowSymbols:
    table = caches.current_table()
    numbers = np.full((len(rows), width), ABSENT, dtype=np.int64)
    for number, members in zip(numbers, rows, strict=True):
        number[: len(members)] = table.numbers(members)
    return RowSymbols(table, numbers)


Domain = Symbols | RowSymbols


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowAddress:
    """The place of the tag of a row's symbol among flattened tags, rows slowest."""

    width: int  # symbols per row
    per_row: bool = True  # whether each row has its own tags

    def at(self, row: Any, place: Any) -> Any:
        """The tag of the symbol at `place` of `row`."""
        return row * self.width + place if self.per_row else place + 0 * row

    def split(self, tag: Any) -> tuple[Any, Any]:
        """Row and place of a tag: the inverse of `at`, where each row has its own tags."""
        return np.divmod(tag, self.width)

    def every(self, batch: int) -> np.ndarray:
        """The tags of all rows, (batch, width)."""
        return self.at(np.arange(batch)[:, None], np.arange(self.width))

    def size(self, batch: int) -> int:
        """The number of tags."""
        return self.width * batch if self.per_row else self.width


@dataclass(frozen=True)
class Rows:
    """The rows of an operation in per-row layout."""

    batch: int
    addresses: Sequence[RowAddress]  # of each operand's tags
    active: np.ndarray | None = None  # (batch,) which rows take part
    draw_apart: bool = False  # whether the draws of each row have their own tags
    kept: bool = False  # whether the others keep what the first operand has, combined with **1**


# -- plans -----------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Combinations:
    """Which places of the operands combine, and into which symbol of the result.

    Combination m takes the symbol at indices[i][m] of operand i and belongs to group_of[m].
    """

    indices: Sequence[np.ndarray]
    group_of: np.ndarray
    groups: int
    sizes: tuple[int, ...] | None = None  # of the operands, if all their combinations are here
    address: RowAddress | None = None  # of the groups, where rows are flattened
    lists: Any = None  # what the tag stage derives from this, once

    @property
    def weight(self) -> int:
        return len(self.group_of)


@dataclass(eq=False)
class AntiDiagonals:
    """Two operands whose combination (i, j) belongs to group i + j: a sum of integers."""

    sizes: tuple[int, int]
    lists: Any = None
    weight = 0


@dataclass(frozen=True)
class Plan:
    """Output symbols, and what combines into them; the last operand is the draws if there are any.

    The place after the last draw stands for **1**: a result that is not random.
    """

    domain: Domain
    combinations: Combinations | AntiDiagonals
    draws: Draws | None = None
    kept: bool = False  # see `Rows.kept`: each operand but the first is followed by a tag **1**

    @property
    def weight(self) -> int:
        """The number of stored numbers."""
        return self.combinations.weight


# -- caches ----------------------------------------------------------------------------------------


_MAX_PLAN_WEIGHT = 4_000_000


class Caches:
    """Everything that is remembered between operations. Nothing here can change a result."""

    def __init__(self) -> None:
        # A plan weighs as much as its index lists.
        self.plans: BoundedCache[Hashable, Any] = BoundedCache(
            _MAX_PLAN_WEIGHT, lambda plan: 1000 + plan.weight
        )
        # The last join of each function in per-row layout.
        self.joined: BoundedCache[Hashable, Joined] = BoundedCache(
            _MAX_PLAN_WEIGHT, lambda joined: joined.weight
        )
        self.table = SymbolTable()
        self.restarts = 0

    def current_table(self) -> SymbolTable:
        """The table to use now: a fresh one once the last has grown too large."""
        settings = current_settings()
        table = self.table
        if len(table) > settings.max_symbols or table.remembered > settings.max_remembered:
            table = self.restart()
        return table

    def forget_symbols(self) -> None:
        self.restart()
        self.restarts = 0  # those that the limits caused, since then

    def restart(self) -> SymbolTable:
        """Continue with an empty table."""
        if len(self.table) or self.table.memos:
            self.table = SymbolTable()
            self.joined.clear()
            self.restarts += 1
        return self.table


caches = Caches()
register("plans", lambda: len(caches.plans), caches.plans.clear)
register("joins", lambda: len(caches.joined), caches.joined.clear)
register("symbols", lambda: len(caches.table), caches.forget_symbols)
register("remembered results", lambda: caches.table.remembered, caches.forget_symbols)


# -- limits ----------------------------------------------------------------------------------------


def check_size(operation: str, sizes: Sequence[int], combinations: int, batch: int = 1) -> None:
    """Refuse more combinations than the settings allow, before they are created."""
    limit = current_settings().max_combinations
    if combinations > limit:
        product = " x ".join(f"{size:,}" for size in sizes)
        rows = f" in each of {batch:,} rows" if batch > 1 else ""
        raise SizeError(
            f"{operation}: {product} symbols{rows} make {combinations:,} combinations, more than "
            f"the limit of {limit:,}. Keep fewer symbols (dolphin.sample or dolphin.filter), join "
            "on a key (apply_if with on=), use a smaller domain, or raise the limit with "
            "dolphin.settings(max_combinations=...)."
        )
