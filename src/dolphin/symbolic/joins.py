"""Joins: which symbols of two operands have equal keys, in all rows or row by row.

A recursion joins the same operands again and again, and from round to round one of them only gets
new symbols after its old ones. So the combinations of the last join of a function are kept
(`Joined`), and the next one visits new symbols only. Chains of ten relatives in 64 rows, ten
rounds: 71,000 combinations are planned instead of 362,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.tables import SymbolTable


class Sorted:
    """The keys of a join's second operand, in order: sorted once for all joins with them."""

    def __init__(self, keys: np.ndarray) -> None:
        self.order = np.argsort(keys, kind="stable")
        ordered = keys[self.order]
        self.begins = np.flatnonzero(np.diff(ordered, prepend=ABSENT - 1))  # of each key's places
        self.keys = ordered[self.begins]
        self.counts = np.diff(self.begins, append=len(keys))


class Matches:
    """The pairs of places in two arrays of keys that have equal keys; `ABSENT` equals nothing."""

    def __init__(self, left: np.ndarray, right: Sorted) -> None:
        self._order = right.order
        self._present = np.flatnonzero(left != ABSENT)
        wanted = left[self._present]
        if not len(right.keys):
            self._start = self._counts = np.zeros_like(wanted)
            return
        at = np.minimum(np.searchsorted(right.keys, wanted), len(right.keys) - 1)
        self._start = right.begins[at]
        self._counts = np.where(right.keys[at] == wanted, right.counts[at], 0)

    @property
    def size(self) -> int:
        """The number of pairs."""
        return int(self._counts.sum())

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Both places of every pair, the first operand's slowest."""
        counts = self._counts
        first = np.repeat(self._start - (np.cumsum(counts) - counts), counts)
        first += np.arange(len(first))
        return np.repeat(self._present, counts), self._order[first]


def in_rows(keys: np.ndarray, batch: int, active: np.ndarray | None) -> np.ndarray:
    """Keys (rows or 1, width) as keys of all rows, (batch * width,), equal in no two rows.

    Rows that are not `active` have none.
    """
    spread = np.broadcast_to(keys, (batch, keys.shape[1]))
    if active is not None:
        spread = np.where(active[:, None], spread, ABSENT)
    packed = (np.arange(batch)[:, None] << 32) | spread
    return np.where(spread == ABSENT, ABSENT, packed).reshape(-1)


@dataclass(frozen=True, eq=False)
class Joined:
    """A join of symbols (rows, width) of a table: row, places and result of each combination.

    Places are those among all symbols of an operand, row after row. Combinations without a result
    are left out.
    """

    table: SymbolTable
    left: np.ndarray
    right: np.ndarray
    right_keys: Sorted
    row: np.ndarray
    places: Sequence[np.ndarray]
    results: np.ndarray

    @property
    def weight(self) -> int:
        """The number of stored numbers."""
        return 4 * len(self.row) + self.left.size + 3 * self.right.size

    def fresh(self, table: SymbolTable, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """The symbols of `left` that this join doesn't have, `ABSENT` in place of the others.

        None if this join is not part of that one: every row must begin with the same symbols. Then
        its combinations come first in every row, as if all were joined together.
        """
        if table is not self.table or not np.array_equal(right, self.right):
            return None
        old = self.left
        if len(left) != len(old) or left.shape[1] < old.shape[1]:
            return None
        present = old != ABSENT
        same = left[:, : old.shape[1]] == old
        if not (same | ~present).all():
            return None
        fresh = left.copy()
        fresh[:, : old.shape[1]][present] = ABSENT
        return fresh
