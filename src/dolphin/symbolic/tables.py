"""How symbols get numbers.

A `SymbolTable` numbers symbols so that the rest of the symbolic stage can work on integer arrays.
Equal symbols that are not alike (`kinds`) have numbers of their own. A table only grows: one that
has become too large is replaced as a whole and never edited: whatever still uses its numbers also
holds the table, and what was remembered in it is found again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from dolphin.errors import SymbolError, shorten
from dolphin.symbolic.changing import Changing, changing_among, is_plain
from dolphin.symbolic.kinds import (
    canonical,
    compares_with_anything,
    equal,
    flat_kind,
    is_flat,
    is_tuple,
    kind,
    means_alike,
    obviously_alike,
    simple_type,
)
from dolphin.symbolic.locking import lock
from dolphin.symbolic.memos import Memo

_UNKNOWN = -1  # in place of the number of a symbol that needs a closer look


class SymbolTable:
    """Numbers symbols, and holds what user functions returned for them (`memos`)."""

    __slots__ = (
        "__weakref__",
        "_changeable",
        "_class_of",
        "_classes",
        "_flat",
        "_numbers",
        "_simple",
        "_special",
        "_types",
        "_variants",
        "chances",
        "memos",
        "programs",
        "remembered",
        "symbols",
    )

    def __init__(self) -> None:
        self.symbols: list[Any] = []
        self.memos: dict[Hashable, Memo] = {}
        self.programs: dict[Hashable, Any] = {}  # trees of executions of programs
        self.chances: list[Any] = []  # results that are random
        self.remembered = 0  # entries in all memos
        # What may change about each symbol, by number: nothing (0), its class, as a place in
        # `_classes`, or anything (-1), which is looked at each time.
        self._changeable = np.zeros(1024, dtype=np.int64)
        self._classes: list[type | None] = [None]
        self._numbers: dict[Any, int] = {}
        self._special: dict[int, list[int]] = {}  # by hash, see `_number_special`
        # Equal symbols of another kind get different numbers; `_class_of` leads from every
        # number to the number of the symbol that was first in its class of equals.
        self._variants: dict[int, list[int]] = {}
        self._flat: dict[Any, int] = {}  # variants by their kind, see `flat_kind`
        self._class_of = np.empty(1024, dtype=np.int64)
        # The type of each symbol for which equal means alike, by number; 0 for others.
        self._types: dict[type, int] = {}
        self._simple = np.zeros(1024, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.symbols)

    def number(self, symbol: Any) -> int:
        """The number of `symbol`, assigned now if it is new."""
        try:
            known = self._numbers.get(symbol)
        except Exception:  # unhashable, or an `__eq__` that takes only its own type
            known = None
        if known is not None and obviously_alike(symbol, self.symbols[known]):
            return known
        try:
            symbol = canonical(symbol)
            hashed = hash(symbol)
        except SymbolError:
            raise
        except Exception:
            raise SymbolError(
                f"unhashable symbol {shorten(symbol)} of type {type(symbol).__name__}. Symbols are "
                "hashable Python objects: use a tuple instead of a list, a frozenset instead of a "
                "set, a frozen dataclass instead of a dict."
            ) from None
        with lock:
            if compares_with_anything(symbol):
                return self._number_ordinary(symbol, hashed)
            return self._number_special(symbol, hashed)

    def numbers(self, symbols: Iterable[Any]) -> np.ndarray:
        """The numbers of some symbols, assigned now where they are new."""
        symbols = list(symbols)
        known = self.known_numbers(symbols)
        return self._new_numbers(symbols) if known is None else known

    def known_numbers(self, symbols: list[Any]) -> np.ndarray | None:
        """The same without a Python loop; None unless all are known and obviously alike.

        0.2 instead of 1.4 microseconds per symbol.
        """
        cls = simple_type(symbols)
        if cls is None:
            return None
        numbers: list[Any] = list(map(self._numbers.get, symbols))
        if None in numbers:
            return None
        found = np.array(numbers, dtype=np.int64)
        return found if (self._simple[found] == self._types.get(cls, -1)).all() else None

    def _new_numbers(self, symbols: list[Any]) -> np.ndarray:
        """The same where some may be new. Flat ones (`is_flat`) need no closer inspection.

        About 2 instead of 5 microseconds for a new tuple of nine members.
        """
        numbers = np.full(len(symbols), _UNKNOWN, dtype=np.int64)
        with lock:
            first, known = len(self.symbols), self._numbers
            fresh: dict[Any, int] = {}
            new: list[Any] = []
            for place, symbol in enumerate(symbols):
                if not is_flat(symbol):
                    continue
                number = known.get(symbol)
                if number is not None:
                    equal_one = self.symbols[number]
                elif self._special:  # it may equal one of these
                    continue
                else:
                    number = fresh.setdefault(symbol, first + len(new))
                    if number == first + len(new):
                        new.append(symbol)
                    equal_one = new[number - first]
                if symbol is equal_one or obviously_alike(symbol, equal_one):
                    numbers[place] = number
                elif (variant := self._flat.get((symbol, flat_kind(symbol)))) is not None:
                    numbers[place] = variant
            self.symbols += new
            self._note_types(first)
            known.update(fresh)  # other threads find a number once all about it is known
        for place in np.flatnonzero(numbers == _UNKNOWN).tolist():
            numbers[place] = self.number(symbols[place])
        return numbers

    def _number_ordinary(self, symbol: Any, hashed: int) -> int:
        first = self._numbers.get(symbol)
        if first is None:
            self._numbers[symbol] = number = self._append(symbol)
            for special in self._special.get(hashed, ()):
                if equal(symbol, self.symbols[special]):
                    return self._join(number, special)
            return number
        return self._variant(symbol, first)

    def _number_special(self, symbol: Any, hashed: int) -> int:
        """A symbol with a user-defined `__eq__`, which may raise for objects of other types.

        It never becomes a key of a dictionary, where it would be compared with anything.
        """
        alike = self._special.setdefault(hashed, [])
        for number in alike:
            other = self.symbols[number]
            if other is symbol:
                return number
            if type(other) is type(symbol) and equal(symbol, other):
                return self._variant(symbol, int(self._class_of[number]))
        number = self._append(symbol)
        for candidate in (*alike, self._ordinary_like(symbol)):
            if candidate is not None and equal(symbol, self.symbols[candidate]):
                self._join(number, candidate)
                break
        alike.append(number)
        return number

    def _ordinary_like(self, symbol: Any) -> int | None:
        try:
            return self._numbers.get(symbol)
        except Exception:
            return None

    def _variant(self, symbol: Any, first: int) -> int:
        """The number of the symbol of this kind that is equal to the one with number `first`."""
        flat = flat_kind(symbol)
        if flat is not None:
            return self._flat_variant(symbol, flat, first)
        wanted = kind(symbol)
        for number in (first, *self._variants.get(first, ())):
            if kind(self.symbols[number]) == wanted:
                return number
        return self._join(self._append(symbol), first)

    def _flat_variant(self, symbol: Any, flat: Any, first: int) -> int:
        """The same, for symbols that have a `flat_kind`: 4 instead of 25 microseconds."""
        if flat_kind(self.symbols[first]) == flat:
            return first
        number = self._flat.get((symbol, flat))
        if number is None:
            number = self._flat[symbol, flat] = self._join(self._append(symbol), first)
        return number

    def _join(self, number: int, other: int) -> int:
        """Put `number` into the class of equals of `other`."""
        first = int(self._class_of[other])
        self._variants.setdefault(first, []).append(number)
        self._class_of[number] = first
        return number

    def _append(self, symbol: Any) -> int:
        number = len(self.symbols)
        self.symbols.append(symbol)
        self._note_types(number)
        if not is_plain(symbol):
            self._changeable[number] = self._may_change(symbol)
        return number

    def _may_change(self, symbol: Any) -> int:
        cls = type(symbol)
        if not is_tuple(cls) or hasattr(symbol, "__dict__") or not all(map(is_plain, symbol)):
            return -1
        if cls not in self._classes:
            self._classes.append(cls)
        return self._classes.index(cls)

    def _note_types(self, first: int) -> None:
        """Fill in what is known of the symbols from number `first` on, which are new."""
        last = len(self.symbols)
        while last > len(self._class_of):
            self._class_of = np.concatenate([self._class_of, np.empty_like(self._class_of)])
            self._simple, self._changeable = (
                np.concatenate([old, np.zeros_like(old)])
                for old in (self._simple, self._changeable)
            )
        self._class_of[first:last] = np.arange(first, last)
        for number, symbol in enumerate(self.symbols[first:], first):
            if means_alike(symbol):
                self._simple[number] = self._types.setdefault(type(symbol), 1 + len(self._types))

    def changing(self, numbers: np.ndarray) -> Changing:
        """What may change about the symbols with these numbers."""
        if not self._changeable[: len(self.symbols)].any():
            return ()
        there = numbers[numbers >= 0]
        marks = self._changeable[there]
        some = np.unique(there[marks < 0]).tolist()
        classes = (self._classes[place] for place in np.flatnonzero(np.bincount(marks[marks > 0])))
        return tuple(
            dict.fromkeys([*changing_among([self.symbols[number] for number in some]), *classes])
        )

    def memo(self, key: Hashable, arity: int) -> Memo:
        """The remembered results of a function with this many arguments."""
        memo = self.memos.get((arity, key))
        return self.memos.setdefault((arity, key), Memo(arity)) if memo is None else memo

    def remember(
        self,
        memo: Memo,
        columns: Sequence[np.ndarray],
        results: np.ndarray,
        since: int | None = None,
    ) -> None:
        """Add results of distinct combinations to a memo of this table; `since`: see `Memo.add`."""
        new = memo.add(columns, results, since)
        with lock:
            self.remembered += new

    def classes(self, numbers: np.ndarray) -> np.ndarray:
        """The same number for all symbols that are equal."""
        return self._class_of[numbers] if self._variants else numbers
