"""Remembered results of user functions, found for whole arrays of combinations at once.

Results for one operand are stored in an array, at the index of the symbol's number. A combination
of several is packed into one 64-bit key, and keys are stored in an open-addressing hash table made
of two arrays, so that looking up a million of them takes a few numpy calls instead of a million
steps of Python. Combinations of more than two operands are packed two at a time: the pair of the
first two gets its own number, which is paired with the third. Where the symbols of two operands are
few enough, their results are stored in a grid instead, which is six times faster to look up (12
instead of 75 ns per combination).

A numpy call takes as long as looking up ten combinations in a dictionary, so where few combinations
are looked up at a time, their results wait in one. Captions of videos, which are new in every step:
a step takes four fifths of the time. A grid pays sooner than a hash table: 320 new combinations of
two symbols take 65 microseconds in a grid and 180 in a dictionary, those of three symbols 470 in
hash tables and 195 in a dictionary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dolphin.symbolic.locking import lock

MISSING = -2  # instead of a result: this combination was not seen before
_FREE = -1  # no key: keys are packed from numbers, which are not negative
_FEWEST = 64  # places of an empty table, a power of two
_LARGEST = 1 << 22  # cells of a grid, of four bytes each
_EMPTIEST = 64  # cells of a grid for each result, at most
_SMALL = 1 << 14  # a grid up to this size may be almost empty
_FEW_PAIRS, _FEW = 64, 640  # combinations that are looked up one by one: of two symbols, of more
_MOST_WAITING = 4096  # results in a dictionary

_Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # left numbers, right numbers, results


class Memo:
    """The results of one function for combinations of `arity` symbols. Only grows; thread-safe.

    >>> memo = Memo(arity=2)
    >>> memo.add([np.array([3, 4]), np.array([7, 7])], np.array([70, 71]))
    2
    >>> memo.find([np.array([4, 5, 3]), np.array([7, 7, 7])]).tolist()
    [71, -2, 70]
    >>> len(memo)
    2
    """

    __slots__ = ("_few", "_newest", "_pairs", "_results", "_waiting", "arity")

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self._pairs = [_HashTable() for _ in range(arity - 2)]
        self._results = _Numbered() if arity == 1 else _Pairs() if arity == 2 else _HashTable()
        self._waiting: dict[tuple[int, ...], int] = {}  # results that are not in arrays yet
        self._few = False  # whether few combinations were looked up the last time
        self._newest = -1  # the largest number of a symbol in arrays

    def __len__(self) -> int:
        return self._results.size + len(self._waiting)

    def find(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The result for each combination, `MISSING` where none is remembered."""
        with lock:
            few = _FEW_PAIRS if self.arity == 2 else _FEW
            self._few = self.arity > 1 and len(columns[0]) <= few
            if not self._few:
                self._put_away()
                return self._find(columns)
            waiting, newest = self._waiting, self._newest
            keys = _combinations(columns)
            results = np.array([waiting.get(key, MISSING) for key in keys], dtype=np.int64)
            left = [n for n, key in enumerate(keys) if key not in waiting and max(key) <= newest]
            if left:
                results[left] = self._find([column[left] for column in columns])
            return results

    def add(
        self, columns: Sequence[np.ndarray], results: np.ndarray, since: int | None = None
    ) -> int:
        """Remember results of distinct combinations. Returns how many of them are new.

        `since`: the number of results when none of these combinations was found. They are looked up
        again only if there are more by now, because another thread or an inner call may have added
        them. Skipping this saves 5 % of a step of mugen, whose captions are new each time.
        """
        with lock:
            if since != len(self):
                new = self.find(columns) == MISSING
                columns, results = [column[new] for column in columns], results[new]
            if self._few:
                self._waiting.update(zip(_combinations(columns), results.tolist(), strict=True))
                if len(self._waiting) > _MOST_WAITING:
                    self._put_away()
            else:
                self._put_away()
                self._add(columns, results)
            return len(results)

    def _put_away(self) -> None:
        """Move results from the dictionary into arrays."""
        if self._waiting:
            columns = np.array(list(self._waiting), dtype=np.int64).T
            self._add(list(columns), np.array(list(self._waiting.values()), dtype=np.int64))
            self._waiting = {}

    def _find(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """`find`, in arrays."""
        if isinstance(self._results, _Pairs):
            return self._results.find(*columns)
        key = columns[0]
        for column, pairs in zip(columns[1:-1], self._pairs, strict=True):
            key = pairs.find(_packed(key, column))
        if self.arity > 1:
            key = _packed(key, columns[-1])
        return self._results.find(key)

    def _add(self, columns: Sequence[np.ndarray], results: np.ndarray) -> None:
        """Store results of combinations that are in no array yet."""
        if isinstance(self._results, _Pairs):
            self._results.add((columns[0], columns[1], results))
        else:
            key = columns[0]
            for column, pairs in zip(columns[1:-1], self._pairs, strict=True):
                key = pairs.number(_packed(key, column))
            if self.arity > 1:
                key = _packed(key, columns[-1])
            self._results.add(key, results)
        self._newest = max(self._newest, *(int(column.max(initial=0)) for column in columns))


def _combinations(columns: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _packed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One key for two numbers; where the left one is `MISSING`, a key that no table has."""
    return (left << 32) | right


class _Pairs:
    """Results for pairs of numbers: in a grid, or in a hash table.

    The grid is not used if it would be too large, or too empty to be worth its memory.
    """

    __slots__ = ("_grid", "_table")

    def __init__(self) -> None:
        self._grid: _Grid | None = _Grid()
        self._table: _HashTable | None = None  # instead of cells

    @property
    def size(self) -> int:
        if self._table is not None:
            return self._table.size
        return 0 if self._grid is None else self._grid.size

    def find(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The result of each pair, `MISSING` where there is none."""
        if self._table is not None:
            return self._table.find(_packed(left, right))
        assert self._grid is not None
        return self._grid.find(left, right)

    def add(self, new: _Entries) -> None:
        """Store new results of distinct pairs."""
        left, right, results = new
        if max(left.max(initial=0), right.max(initial=0)) >= _LARGEST:
            self._leave_grid()  # numbers of a table that is about to be replaced
            self._grid = None
        if self._grid is not None and self._grid.takes(left, right, self.size + len(left)):
            if self._table is not None:
                self._grid.add(self._table.entries())
                self._table = None
            self._grid.add(new)
            return
        self._leave_grid()
        assert self._table is not None
        self._table.add(_packed(left, right), results)

    def _leave_grid(self) -> None:
        if self._table is None:
            self._table = _HashTable()
            assert self._grid is not None
            left, right, results = self._grid.emptied()
            self._table.add(_packed(left, right), results)


class _Grid:
    """Results for pairs of numbers: a row for each left number, a column for each right one.

    What a grid has is in no hash table, and a grid that grows is copied, not filled again: storing
    the 12,000 new results in a step of formulas of up to 19 symbols took 6 of 66 ms before.
    """

    __slots__ = ("_cells", "_columns", "_rows", "size")

    def __init__(self) -> None:
        self.size = 0
        # Unseen numbers have row 0 or column 0, which stay empty.
        self._rows, self._columns = _Numbered(missing=0), _Numbered(missing=0)
        self._cells = np.full((1, 1), MISSING, dtype=np.int32)

    def find(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The result of each pair, `MISSING` where there is none."""
        cell = self._rows.find(left)
        cell *= self._cells.shape[1]
        cell += self._columns.find(right)
        return self._cells.reshape(-1).take(cell, mode="clip").astype(np.int64)

    def takes(self, left: np.ndarray, right: np.ndarray, results: int) -> bool:
        """Make rows and columns for numbers; whether so many results are worth all cells."""
        for numbers, places in ((left, self._rows), (right, self._columns)):
            unseen = numbers[places.find(numbers) == 0]
            if len(unseen):
                unseen = np.unique(unseen)
                places.add(unseen, 1 + places.size + np.arange(len(unseen)))
        return math.prod(self._shape) <= max(_SMALL, min(_LARGEST, _EMPTIEST * results))

    @property
    def _shape(self) -> tuple[int, int]:
        rows, columns = (1 << each.size.bit_length() for each in (self._rows, self._columns))
        return rows, columns

    def add(self, new: _Entries) -> None:
        """Store new results of distinct pairs whose numbers have rows and columns."""
        left, right, results = new
        if self._cells.shape != self._shape:
            cells = np.full(self._shape, MISSING, dtype=np.int32)
            rows, columns = self._cells.shape
            cells[:rows, :columns] = self._cells
            self._cells = cells
        self._cells[self._rows.find(left), self._columns.find(right)] = results
        self.size += len(results)

    def emptied(self) -> _Entries:
        """All pairs and their results, which are removed."""
        row, column = np.nonzero(self._cells != MISSING)
        results = self._cells[row, column].astype(np.int64)
        self._cells, self.size = np.full((1, 1), MISSING, dtype=np.int32), 0
        return self._rows.keys()[row], self._columns.keys()[column], results


class _Numbered:
    """From small numbers to values: the number is the place."""

    __slots__ = ("_missing", "_values", "size")

    def __init__(self, missing: int = MISSING) -> None:
        self.size = 0
        self._missing = missing
        self._values = np.full(_FEWEST, missing, dtype=np.int64)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The value of each key, `missing` where there is none."""
        return self._values.take(keys, mode="clip")  # the last place stays free

    def add(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Store distinct keys that are not there yet."""
        top = int(keys.max(initial=0))
        if top >= len(self._values) - 1:
            grown = np.full(1 << (top + 2).bit_length(), self._missing, dtype=np.int64)
            grown[: len(self._values)] = self._values
            self._values = grown
        self._values[keys] = values
        self.size += len(keys)

    def keys(self) -> np.ndarray:
        """The key of each value, if they are distinct; nothing is known of other numbers."""
        there = np.flatnonzero(self._values != self._missing)
        values = self._values[there]
        keys = np.zeros(1 + int(values.max(initial=0)), dtype=np.int64)
        keys[values] = there
        return keys


class _HashTable:
    """From keys to values, with linear probing. At most half of the places are taken."""

    __slots__ = ("_keys", "_values", "size")

    def __init__(self) -> None:
        self.size = 0
        self._keys = np.full(_FEWEST, _FREE, dtype=np.int64)
        self._values = np.empty(_FEWEST, dtype=np.int64)

    def _places(self, keys: np.ndarray) -> np.ndarray:
        """Where the search for each key starts: multiplication spreads neighbouring keys."""
        bits = len(self._keys).bit_length() - 1
        mixed = (keys ^ (keys >> 29)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - bits)).astype(np.int64)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The value of each key, `MISSING` where there is none."""
        place = self._places(keys)
        seen = self._keys[place]
        results = np.where(seen == keys, self._values[place], MISSING)
        waiting = np.flatnonzero((seen != keys) & (seen != _FREE))
        while len(waiting):
            wanted = keys[waiting]
            at = (place[waiting] + 1) & (len(self._keys) - 1)
            place[waiting] = at
            seen = self._keys[at]
            hit = seen == wanted
            results[waiting[hit]] = self._values[at[hit]]
            waiting = waiting[~hit & (seen != _FREE)]
        return results

    def add(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Store distinct keys that are not there yet."""
        if 2 * (self.size + len(keys)) > len(self._keys):
            self._grow(self.size + len(keys))
        self._store(keys, values)
        self.size += len(keys)

    def number(self, keys: np.ndarray) -> np.ndarray:
        """The number of each key, assigned now where it is new."""
        numbers = self.find(keys)
        new = np.unique(keys[numbers == MISSING])
        if len(new) == 0:
            return numbers
        self.add(new, self.size + np.arange(len(new)))
        return self.find(keys)

    def entries(self) -> _Entries:
        """Both numbers of all keys, and the values."""
        taken = self._keys != _FREE
        keys = self._keys[taken]
        return keys >> 32, keys & 0xFFFFFFFF, self._values[taken]

    def _grow(self, size: int) -> None:
        old = self._keys != _FREE
        keys, values = self._keys[old], self._values[old]
        self._keys = np.full(1 << (4 * size - 1).bit_length(), _FREE, dtype=np.int64)
        self._values = np.empty(len(self._keys), dtype=np.int64)
        self._store(keys, values)

    def _store(self, keys: np.ndarray, values: np.ndarray) -> None:
        place = self._places(keys)
        while len(keys):
            free = np.flatnonzero(self._keys[place] == _FREE)
            self._keys[place[free]] = keys[free]  # of several keys for one place, one stays
            stored = self._keys[place] == keys
            self._values[place[stored]] = values[stored]
            left = ~stored
            keys, values = keys[left], values[left]
            place = (place[left] + 1) & (len(self._keys) - 1)
