"""How symbols get numbers.

A `SymbolTable` numbers symbols so that the rest of the symbolic stage can work on integer arrays.
Equal symbols that are not alike (`kinds`) have numbers of their own. A table only grows. One that
has become too large is replaced as a whole, never edited: whatever still uses its numbers also
holds the table, and finds what was remembered in it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from dolphin.errors import SymbolError
from dolphin.symbolic.flat_kinds import NOT_FLAT, FlatKinds, flat_members, unite_nans
from dolphin.symbolic.identity.changing import Changing, changing_among, is_plain
from dolphin.symbolic.kinds import (
    address_in,
    canonical,
    compares_with_anything,
    equal,
    is_tuple,
    kind,
    means_alike,
    obviously_alike,
    simple_type,
    unhashable,
)
from dolphin.symbolic.locking import lock
from dolphin.symbolic.memos import Memo

_UNKNOWN = -1  # in place of the number of a symbol that needs a closer look
_NOT_ASKED = -1  # in place of the number of a kind that nobody has asked for


class SymbolTable:
    """Numbers symbols, and holds what user functions returned for them (`memos`)."""

    __slots__ = (
        "__weakref__",
        "_addresses",
        "_changeable",
        "_changes",
        "_class_of",
        "_classes",
        "_flat",
        "_kind_of",
        "_kinds",
        "_numbers",
        "_simple",
        "_special",
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
        self._changes = False  # whether anything may change about some symbol
        self._classes: list[type | None] = [None]
        self._numbers: dict[Any, int] = {}
        self._special: dict[int, list[int]] = {}  # by hash, see `_number_special`
        # Equal symbols of another kind get different numbers; `_class_of` leads from every
        # number to the number of the symbol that was first in its class of equals.
        self._variants: dict[int, list[int]] = {}
        self._class_of = np.empty(1024, dtype=np.int64)
        # Flat ones are found by the number of the equal symbol in `_numbers` and of their kind.
        self._flat: dict[tuple[int, int], int] = {}
        self._kinds = FlatKinds()
        self._kind_of = np.zeros(1024, dtype=np.int64)
        # The type of each symbol for which equal means alike, by number; 0 for others.
        self._simple = np.zeros(1024, dtype=np.int64)
        self._addresses: set[int] = set()  # of objects in memory: symbols that tell them

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
            raise unhashable(symbol) from None
        with lock:
            if compares_with_anything(symbol):
                return self._number_ordinary(symbol, hashed)
            return self._number_special(symbol, hashed)

    def numbers(self, symbols: Iterable[Any]) -> np.ndarray:
        """The numbers of some symbols, assigned now where they are new."""
        symbols = list(symbols)
        with lock:
            members = flat_members(symbols)
            if members is not None:
                numbers = self._flat_numbers(symbols, members)
            else:
                flat = self._kinds.of(symbols) != NOT_FLAT
                some = list(itertools.compress(symbols, flat))
                numbers = np.full(len(symbols), _UNKNOWN, dtype=np.int64)
                numbers[flat] = self._flat_numbers(some, flat_members(some) or set())
        left = np.flatnonzero(numbers == _UNKNOWN).tolist()
        known = self.known_numbers(symbols) if len(left) == len(symbols) else None
        if known is not None:
            return known
        for place in left:
            numbers[place] = self.number(symbols[place])
        return numbers

    def known_numbers(self, symbols: list[Any]) -> np.ndarray | None:
        """The same without a Python loop; None unless all are known and obviously alike.

        0.2 instead of 1.4 microseconds per symbol, 0.1 for objects that the table has itself.
        """
        try:
            numbers: list[Any] = list(map(self._numbers.get, symbols))
        except Exception:  # unhashable, or an `__eq__` that takes only its own type
            return None
        if None in numbers:
            return None
        found = np.array(numbers, dtype=np.int64)
        if all(map(operator.is_, symbols, map(self.symbols.__getitem__, numbers))):
            return found
        cls = simple_type(symbols)
        if cls is None:
            return None
        with lock:
            self._ask_for_kinds(found)
            simple = self._simple[found] == self._kinds.type_number(cls)
        return found if simple.all() else None

    def _flat_numbers(self, symbols: list[Any], members: set[Any]) -> np.ndarray:
        """The same for flat symbols that consist of these members, without a Python loop.

        `_UNKNOWN` for those that need a closer look. Formulas of up to 15 symbols, 64 rows, with
        17,000 new ones in a step: a step takes a tenth less than with a loop. The kind of a new
        symbol is not asked for before an equal one comes along: with `address_among` and the grids
        of `memos`, formulas of up to 19 symbols take 0.86 of the time.
        """
        unite_nans(symbols, members)
        known = self._numbers
        found = map(known.get, symbols, itertools.repeat(_UNKNOWN))
        numbers = np.fromiter(found, np.int64, len(symbols))
        unknown = np.flatnonzero(numbers == _UNKNOWN)
        doubtful = np.arange(len(symbols))  # which may equal one that is not alike
        fresh: dict[Any, int] = {}
        if len(unknown) and self._special:  # they may equal one of these
            doubtful = np.flatnonzero(numbers != _UNKNOWN)
        elif len(unknown):
            new, first = [symbols[place] for place in unknown.tolist()], len(self.symbols)
            found = map(fresh.setdefault, new, itertools.count(first))
            at = np.fromiter(found, np.int64, len(new))
            own = np.flatnonzero(at == first + np.arange(len(at)))
            if len(own) < len(new):  # some are equal: numbers without gaps
                fresh = dict(zip(fresh, itertools.count(first), strict=False))
                at = first + np.searchsorted(own, at - first)
            numbers[unknown] = at
            self._extend(list(fresh), members=members)
            doubtful = np.delete(doubtful, unknown[own])
        some = [symbols[place] for place in doubtful.tolist()]
        numbers[doubtful] = self._flat_variants(some, numbers[doubtful])
        known.update(fresh)  # other threads find a number once all about it is known
        return numbers

    def _flat_variants(self, symbols: list[Any], firsts: np.ndarray) -> np.ndarray:
        """The numbers of flat symbols that are equal to those numbered `firsts`."""
        if not symbols:
            return firsts
        self._ask_for_kinds(firsts)
        kinds = self._kinds.of(symbols)
        others = np.flatnonzero(self._kind_of[firsts] != kinds)
        if not len(others):
            return firsts
        numbers = firsts.copy()
        wanted = list(zip(firsts[others].tolist(), kinds[others].tolist(), strict=True))
        new = {
            pair: place
            for pair, place in zip(reversed(wanted), others[::-1].tolist(), strict=True)
            if pair not in self._flat
        }
        if new:
            places = list(new.values())
            first = self._extend([symbols[place] for place in places], kinds[places])
            self._flat.update(zip(new, itertools.count(first), strict=False))
            for number, (other, _) in enumerate(new, first):
                self._join(number, other)
        numbers[others] = [self._flat[pair] for pair in wanted]
        return numbers

    def _ask_for_kinds(self, numbers: np.ndarray) -> None:
        """Fill in the kinds of the symbols with these numbers."""
        unasked = numbers[self._kind_of[numbers] == _NOT_ASKED]
        if len(unasked):
            kinds = self._kinds.of([self.symbols[number] for number in unasked.tolist()])
            self._kind_of[unasked], self._simple[unasked] = kinds, self._kinds.simple[kinds]

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
        own = self._kinds.of([symbol])
        if own[0] != NOT_FLAT:
            return int(self._flat_variants([symbol], np.array([first]))[0])
        wanted = kind(symbol)
        for number in (first, *self._variants.get(first, ())):
            if kind(self.symbols[number]) == wanted:
                return number
        return self._join(self._append(symbol), first)

    def _join(self, number: int, other: int) -> int:
        """Put `number` into the class of equals of `other`."""
        first = int(self._class_of[other])
        self._variants.setdefault(first, []).append(number)
        self._class_of[number] = first
        return number

    def _append(self, symbol: Any) -> int:
        own = self._kinds.of([symbol])
        number = self._extend([symbol], own)
        if own[0] == NOT_FLAT:
            if means_alike(symbol):
                self._simple[number] = self._kinds.type_number(type(symbol))
            if not is_plain(symbol):
                self._changeable[number] = self._may_change(symbol)
                self._changes = True
        return number

    def _may_change(self, symbol: Any) -> int:
        cls = type(symbol)
        if not is_tuple(cls) or hasattr(symbol, "__dict__") or not all(map(is_plain, symbol)):
            return -1
        if cls not in self._classes:
            self._classes.append(cls)
        return self._classes.index(cls)

    def _extend(
        self,
        symbols: list[Any],
        kinds: np.ndarray | int = _NOT_ASKED,
        members: Iterable[Any] | None = None,
    ) -> int:
        """Add new symbols whose kinds have these numbers; returns the number of the first one.

        `members`: all that flat symbols consist of.
        """
        first = len(self.symbols)
        self.symbols += symbols
        last = len(self.symbols)
        while last > len(self._class_of):
            self._class_of = np.concatenate([self._class_of, np.empty_like(self._class_of)])
            self._simple, self._changeable, self._kind_of = (
                np.concatenate([old, np.zeros_like(old)])
                for old in (self._simple, self._changeable, self._kind_of)
            )
        self._class_of[first:last] = np.arange(first, last)
        self._kind_of[first:last] = kinds
        if isinstance(kinds, np.ndarray):
            self._simple[first:last] = self._kinds.simple[kinds]
        if address_in(symbols if members is None else members):
            self._addresses.update(n for n in range(first, last) if address_in([self.symbols[n]]))
        return first

    def address_among(self, numbers: np.ndarray) -> str:
        """A text with an address among the symbols with these numbers; "" if there is none.

        Only new symbols are searched for one, once, by what they consist of: see `_flat_numbers`
        for the gain.
        """
        found = self._addresses.intersection(numbers.tolist()) if self._addresses else ()
        return address_in(self.symbols[number] for number in found)

    def changing(self, numbers: np.ndarray) -> Changing:
        """What may change about the symbols with these numbers."""
        if not self._changes:
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
