"""How symbols get numbers, and the symbols of a distribution.

A `SymbolTable` numbers symbols so that the rest of the symbolic stage can work on integer arrays.
Equal symbols that are not alike (`kinds`) have numbers of their own. A table only grows: one that
has become too large is replaced as a whole and never edited: whatever still uses its numbers also
holds the table, and what was remembered in it is found again.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from dolphin.errors import SymbolError, shorten
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.changing import Changing, changing_among, is_plain
from dolphin.symbolic.kinds import (
    SCALARS,
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

_UNKNOWN = -1  # instead of a number that takes a closer look


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

    def remember(self, memo: Memo, columns: Sequence[np.ndarray], results: np.ndarray) -> None:
        """Add results of distinct combinations to a memo of this table."""
        new = memo.add(columns, results)
        with lock:
            self.remembered += new

    def classes(self, numbers: np.ndarray) -> np.ndarray:
        """The same number for all symbols that are equal."""
        return self._class_of[numbers] if self._variants else numbers


class Symbols(Sequence[Any]):
    """The symbols that all rows of a distribution share: distinct, ordered, immutable.

    Made by `Symbols.of`, which returns the same object for the same symbols, so that plans can be
    looked up by identity.
    """

    __slots__ = (
        "__weakref__",
        "_changing",
        "_distinct",
        "_index",
        "_looked_up",
        "_numbered",
        "members",
    )

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = members
        self._distinct = False  # True once that is known
        self._looked_up: tuple[Symbols, np.ndarray] | None = None
        self._index: dict[Any, int] | None = None
        self._changing: Changing | None = None
        self._numbered: tuple[weakref.ref[SymbolTable], np.ndarray] | None = None

    @classmethod
    def of(cls, members: Iterable[Any]) -> Symbols:
        """The `Symbols` of these members, which must be distinct."""
        if isinstance(members, range):
            return _known.get_or_make(members, lambda: cls.of(tuple(members)))
        given = tuple(members)  # the same object if it is a tuple
        address = _address(given)
        again = None if address is None else _given.get(address)
        if again is not None and _same_objects(again[0], given):
            return again[1]
        kinds = _quick_kinds(given)
        if kinds is None:
            return cls._slowly(given)
        found = _known.get_or_make((kinds, given), lambda: cls(given))
        if address is not None:
            _given.replace(address, (given, found))
        return found

    @classmethod
    def _slowly(cls, given: tuple[Any, ...]) -> Symbols:
        """The same for arbitrary symbols."""
        members = tuple(map(canonical, given))
        try:
            # Kinds come first: members of different types must not be compared.
            key = (tuple(map(kind, members)), members)
            return _known.get_or_make(key, lambda: cls(members))
        except Exception:
            SymbolTable().numbers(members)  # raises for an unhashable one
            return cls(members)  # an `__eq__` that fails among its own kind: not remembered

    def __reduce__(self) -> Any:
        return Symbols.of, (self.members,)

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, item: Any) -> Any:
        return self.members[item]

    @property
    def changing(self) -> Changing:
        """What may change about them."""
        if self._changing is None:
            self._changing = changing_among(self.members)
        return self._changing

    @property
    def _places(self) -> dict[Any, int]:
        if self._index is None:
            index: dict[Any, int] = {}
            for place, member in enumerate(self.members):
                try:
                    index.setdefault(member, place)
                except Exception as error:
                    raise SymbolError(
                        f"the symbol {shorten(member)} can't be compared with the others: its "
                        f"__eq__ raised {type(error).__name__}: {error}. Return NotImplemented for "
                        "objects of other types."
                    ) from error
            self._index = index
        return self._index

    def indices_of(self, symbols: Sequence[Any]) -> np.ndarray:
        """The places of some symbols, -1 for those that are not there."""
        known = self._places
        try:
            return np.array([known[symbol] for symbol in symbols], dtype=np.int64)
        except Exception:  # a symbol that is not there, or not in this form
            return np.array([self.index_of(symbol) for symbol in symbols], dtype=np.int64)

    def index_of(self, symbol: Any) -> int:
        """The place of `symbol`, or -1."""
        index = self._places
        try:
            hash(symbol)
        except Exception:
            raise SymbolError(f"unhashable symbol {shorten(symbol)}") from None
        try:
            place = index.get(symbol)
            return index.get(canonical(symbol), -1) if place is None else place
        except SymbolError:
            raise
        except Exception:  # an `__eq__` that takes only its own type
            places = (place for place, member in enumerate(self.members) if equal(symbol, member))
            return next(places, -1)

    def places_of(self, wanted: Symbols) -> np.ndarray:
        """The place of each wanted symbol, or -1. The last answer is remembered."""
        known = self._looked_up
        if known is None or known[0] is not wanted:
            places = self.indices_of(wanted)
            known = self._looked_up = (wanted, places)
        return known[1]

    def first_duplicate(self) -> tuple[int, int] | None:
        """The places of the first two equal members, if there are any."""
        if self._distinct:
            return None
        for place, member in enumerate(self.members):
            first = self.index_of(member)
            if first != place:
                return first, place
        self._distinct = True
        return None

    def numbers(self, table: SymbolTable) -> np.ndarray:
        """The numbers of the members in `table`."""
        known = self._numbered
        if known is not None and known[0]() is table:
            return known[1]
        numbers = table.numbers(self.members)
        self._numbered = (weakref.ref(table), numbers)
        return numbers

    def in_table(self, table: SymbolTable) -> np.ndarray:
        """The numbers as a single row, (1, N)."""
        return self.numbers(table)[None, :]


def _quick_kinds(members: tuple[Any, ...]) -> Any:
    """The kinds of plain symbols and of (named) tuples of them, in a few calls; None for others.

    Of 50,000 triples: 6 ms, instead of 140 ms symbol by symbol.
    """
    types = set(map(type, members))
    parts: Iterable[Any] = members
    if len(types) == 1 and is_tuple(*types):
        (cls,) = types
        parts = list(itertools.chain.from_iterable(members))
        types = set(map(type, parts))
        if types <= SCALARS:
            return cls, types.pop() if len(types) == 1 else tuple(map(type, parts))
        return None
    if types <= SCALARS:
        return types.pop() if len(types) == 1 else tuple(map(type, parts))
    return None


_FEW = 64  # symbols that are read fast enough anyway


def _address(members: tuple[Any, ...]) -> Hashable | None:
    """The key under which the same objects are looked up."""
    return (len(members), id(members[0]), id(members[-1])) if len(members) > _FEW else None


def _same_objects(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one is other or all(map(operator.is_, one, other))


# Symbols of large inputs as they were given, so that they are read once and not at every step.
# Only symbols that can't change are remembered like this, together with the tuple that holds them.
_given: BoundedCache[Hashable, tuple[tuple[Any, ...], Symbols]] = BoundedCache(
    2_000_000, lambda pair: len(pair[0])
)
register("symbols as given", _given.__len__, _given.clear)

# Many programs share few sets of symbols. Evicted entries are rebuilt.
_known: BoundedCache[Hashable, Symbols] = BoundedCache(1024)
register("sets of symbols", _known.__len__, _known.clear)
