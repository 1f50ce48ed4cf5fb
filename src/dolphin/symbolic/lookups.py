"""Joins with symbols that all rows share: equal keys are looked up in an index.

The keys of symbols that all rows share are sorted once and remembered by the symbols and the key
function's identity. Afterwards, a join of such an operand with a per-row one costs only what
matches, whatever the size of the shared one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.calling import ABSENT, Watch, evaluate
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tables import SymbolTable

Key = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """The keys of symbols that all rows share, sorted."""

    keys: np.ndarray  # (n,) the class of the key of each symbol
    order: np.ndarray  # places in the order of their keys
    ordered: np.ndarray  # keys in that order
    table: SymbolTable | None = None  # that classes belong to

    @classmethod
    def of(cls, keys: np.ndarray, table: SymbolTable | None = None) -> KeyIndex:
        order = np.argsort(keys, kind="stable")
        return cls(keys, order, keys[order], table)

    @property
    def weight(self) -> int:
        return 3 * len(self.keys)

    def matches(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the symbols with each wanted key start in `order`, and how many there are."""
        start = np.searchsorted(self.ordered, wanted, side="left")
        return start, np.searchsorted(self.ordered, wanted, side="right") - start


Side = KeyIndex | np.ndarray  # of an operand: symbols that all rows share, or keys (rows, width)

_MAX_WEIGHT = 4_000_000
_indices: BoundedCache[Hashable, KeyIndex] = BoundedCache(_MAX_WEIGHT, lambda index: index.weight)
register("indices of joins", _indices.__len__, _indices.clear)


@dataclass(frozen=True)
class KeyReader:
    """Runs key functions once per symbol."""

    operation: str
    table: SymbolTable
    watch: Watch | None  # None: key functions are not remembered

    def shared(self, function: Key, domain: Symbols) -> KeyIndex:
        """The index of symbols that all rows share; built once where the function has a key."""
        cached = None if self.watch is None else self.watch.key_of(function)
        if cached is None:
            return KeyIndex.of(self._keys(function, None, domain.numbers(self.table)))
        index = _indices.get((cached, domain))
        if index is not None and index.table is self.table:
            return index
        keys = self._keys(function, cached, domain.numbers(self.table))
        index = KeyIndex.of(keys, self.table)
        if self.watch is not None and self.watch.steady:
            _indices.replace((cached, domain), index)
        return index

    def in_rows(self, function: Key, numbers: np.ndarray, batch: int) -> Side:
        """The key of each symbol of each row, `ABSENT` where there is no symbol."""
        identity = None if self.watch is None else self.watch.key_of(function)
        keys = np.full(numbers.shape, ABSENT, dtype=np.int64)
        present = numbers != ABSENT
        keys[present] = self._keys(function, identity, numbers[present])
        if len(numbers) == 1 and batch > 1:  # one row for all: absent symbols are at its end
            return KeyIndex.of(keys[present])
        return keys

    def _keys(self, function: Key, identity: Hashable | None, numbers: np.ndarray) -> np.ndarray:
        results = evaluate(
            f"{self.operation}(on=...)",
            function,
            None,
            None if identity is None else ("key", identity),
            self.table,
            [numbers],
            distinct=False,
            watch=self.watch,
        )
        return self.table.classes(results)


def joined(
    sides: Sequence[Side], active: np.ndarray, check: Callable[[int], None]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Row and place in each operand of all combinations with equal keys.

    Rows are slowest, then the first operand. `active`, (rows,), marks those that take part, and
    `check` is called with the number of combinations before they are created.
    """
    # Per-row operands come first: what all rows share is only looked up.
    order = sorted(range(len(sides)), key=lambda number: isinstance(sides[number], KeyIndex))
    row, place, key = _entries(sides[order[0]], active)
    places = {order[0]: place}
    for number in order[1:]:
        index, where, wanted = _lookup(sides[number], row, key)
        start, counts = index.matches(wanted)
        check(int(counts.sum()))
        before = np.repeat(np.arange(len(row)), counts)
        within = np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)
        at = index.order[np.repeat(start, counts) + within]
        row, key = row[before], key[before]
        places = {other: place[before] for other, place in places.items()}
        places[number] = at if where is None else where[at]
    every = [places[number] for number in range(len(sides))]
    if order != sorted(order):
        sort = np.lexsort((*reversed(every), row))
        row, every = row[sort], [place[sort] for place in every]
    return row, every


def _entries(side: Side, active: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, place and key of all symbols of an operand."""
    if isinstance(side, KeyIndex):
        rows, size = np.flatnonzero(active), len(side.keys)
        places = np.tile(np.arange(size), len(rows))
        return np.repeat(rows, size), places, np.tile(side.keys, len(rows))
    row, place = np.nonzero((side != ABSENT) & active[:, None])
    return row, place, side[row, place]


def _lookup(
    side: Side, row: np.ndarray, key: np.ndarray
) -> tuple[KeyIndex, np.ndarray | None, np.ndarray]:
    """An index of an operand, the places that it covers (None for all), and what to look up."""
    if isinstance(side, KeyIndex):
        return side, None, key
    rows, places = np.nonzero(side != ABSENT)
    return KeyIndex.of((rows << 32) | side[rows, places]), places, (row << 32) | key
