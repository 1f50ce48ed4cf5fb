"""All rounds of a linear recursion over per-row symbols, as one planning pass.

A round of `union(start, extend(state, other))` only adds symbols after those of the round before,
and these are all that the next round has to extend: whatever is derived from a symbol is found once
(semi-naive evaluation), in arrays for all rows together. Symbols are numbered as they appear, round
by round. Chains of ten relatives in 64 rows: 9 ms instead of 23 for the plans of ten rounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dolphin.symbolic.calling import ABSENT, Watch
from dolphin.symbolic.chance import Sources
from dolphin.symbolic.joins import Matches, Sorted, in_rows
from dolphin.symbolic.plans import RowSymbols, caches, check_size
from dolphin.symbolic.row_planning import first_appearances
from dolphin.symbolic.tables import SymbolTable
from dolphin.symbolic.tasks import Task, join_keys, results_of

_MOST_PLACES = 1 << 22  # numbers of symbols times rows, above which rounds are planned one by one


@dataclass(frozen=True, eq=False)
class Growth:
    """The symbols of all rounds of a recursion, and what combines into them.

    Combination m takes the symbol sources[m] and the tag others[m] of the other operand, and
    belongs to the symbol group_of[m]. Round t has the first `combinations[t]` of them, and ends
    with the first `sizes[t]` symbols; round 0 is the start.
    """

    start: np.ndarray  # places of the first sizes[0] symbols among the tags of the start
    sources: np.ndarray
    others: np.ndarray
    group_of: np.ndarray
    sizes: Sequence[int]
    combinations: Sequence[int]
    domain: RowSymbols
    places: np.ndarray  # of all symbols among the tags of the result

    @property
    def rounds(self) -> int:
        return len(self.sizes) - 1

    def size(self, turn: int) -> int:
        """How many symbols there are after this many rounds."""
        return self.sizes[min(turn, self.rounds)]


class _Entries(NamedTuple):
    """Symbols in the order of their numbers."""

    symbols: np.ndarray
    rows: np.ndarray


def grown(
    task: Task, start: RowSymbols, other: RowSymbols, sources: Sources, most_rounds: int
) -> Growth | None:
    """What follows from `start` by `task`, which extends a symbol by one of `other`.

    None where rounds have to be planned one by one: for functions that are not remembered, or that
    return chances, and if nothing has settled after `most_rounds`.
    """
    changing = (*start.changing, *other.changing)
    key = task.key(sources, changing)
    watch = task.watch(key, sources, changing)
    if watch is None or sources.tensors:
        return None
    table = caches.current_table()
    first, right = start.in_table(table), other.in_table(table)
    batch = len(first)
    ordered = Sorted(in_rows(_keys(task, key, 1, table, right, watch), batch, None))
    present = np.flatnonzero(first.reshape(-1) != ABSENT)
    rounds = [_Entries(first.reshape(-1)[present], present // first.shape[1])]
    places = _Places(batch, table)
    if not places.has_room():
        return None
    places.set(rounds[0], 0)
    lists: list[tuple[np.ndarray, ...]] = []
    sizes, counts = [len(present)], [0]
    while len(rounds[-1].symbols):
        if len(lists) == most_rounds:
            return None
        symbols, rows = rounds[-1]
        before = sizes[-1] - len(symbols)
        wanted = (rows << 32) | _keys(task, key, 0, table, symbols, watch)
        matches = Matches(wanted, ordered)
        check_size(task.operation, (sizes[-1], right.shape[1]), counts[-1] + matches.size)
        own, others = matches.places()
        columns = [symbols.take(own), right.reshape(-1).take(others)]
        results = results_of(task, key, table, columns, watch, sources, distinct=False)
        if results.min(initial=0) < ABSENT or not places.has_room():
            return None
        kept = np.flatnonzero(results != ABSENT)
        own, results = own[kept], results[kept]
        group_of, new = places.groups(results, rows.take(own), sizes[-1])
        lists.append((own + before, others[kept], group_of))
        rounds.append(new)
        sizes.append(sizes[-1] + len(new.symbols))
        counts.append(counts[-1] + len(own))
    if not watch.steady or len(lists) == 0:
        return None
    whole = _Entries(*map(np.concatenate, zip(*rounds, strict=True)))
    seen = set(map(id, changing))
    if any(id(each) not in seen for each in table.changing(whole.symbols)):
        return None
    domain, at = _in_rows(whole, batch, table)
    origins, others, group_of = map(np.concatenate, zip(*lists, strict=True))
    return Growth(present, origins, others, group_of, sizes, counts, domain, at)


def _keys(
    task: Task,
    key: Hashable,
    operand: int,
    table: SymbolTable,
    numbers: np.ndarray,
    watch: Watch,
) -> np.ndarray:
    """The join keys of some symbols; without `on`, all have the same."""
    if task.on is None:
        return np.where(numbers == ABSENT, ABSENT, 0)
    return join_keys(task, key, operand, table, numbers, watch)


class _Places:
    """The number of each symbol of each row that was found, by its class in the table."""

    def __init__(self, batch: int, table: SymbolTable) -> None:
        self._batch, self._table = batch, table
        self._width = max(1, len(table))
        self._numbers = np.full(batch * self._width, -1, dtype=np.int32)

    def has_room(self) -> bool:
        """Make room for symbols that the table has now; False if that would take too much."""
        size = len(self._table)
        if self._batch * size > _MOST_PLACES:
            return False
        if size > self._width:
            grown = np.full((self._batch, 2 * size), -1, dtype=np.int32)
            grown[:, : self._width] = self._numbers.reshape(self._batch, -1)
            self._width, self._numbers = 2 * size, grown.reshape(-1)
        return True

    def _codes(self, symbols: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return rows * self._width + self._table.classes(symbols)

    def set(self, entries: _Entries, first: int) -> None:
        self._numbers[self._codes(*entries)] = first + np.arange(len(entries.symbols))

    def groups(
        self, results: np.ndarray, rows: np.ndarray, first: int
    ) -> tuple[np.ndarray, _Entries]:
        """The number of each result, and those that are new: from `first` on, as they appear."""
        codes = self._codes(results, rows)
        numbers = self._numbers.take(codes)
        unknown = np.flatnonzero(numbers < 0)
        appearing, rank = first_appearances(codes[unknown], len(self._numbers))
        at = unknown[appearing]
        new = _Entries(results[at], rows[at])
        self.set(new, first)
        numbers[unknown] = first + rank
        return numbers.astype(np.int64), new


def _in_rows(entries: _Entries, batch: int, table: SymbolTable) -> tuple[RowSymbols, np.ndarray]:
    """Symbols as those of a distribution, and the place of each among its tags."""
    counts = np.bincount(entries.rows, minlength=batch)
    width = max(1, int(counts.max(initial=0)))
    by_row = np.argsort(entries.rows, kind="stable")
    starts = np.arange(batch) * width - (np.cumsum(counts) - counts)
    places = np.empty_like(by_row)
    places[by_row] = np.arange(len(by_row)) + np.repeat(starts, counts)
    numbers = np.full(batch * width, ABSENT, dtype=np.int64)
    numbers[places] = entries.symbols
    return RowSymbols(table, numbers.reshape(batch, width)), places
