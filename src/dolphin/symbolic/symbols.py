"""Symbols: what counts as one symbol, and how symbols get numbers.

Two questions are kept apart:

* *equal* symbols (Python's `==`) are one symbol of a distribution: `1`, `1.0` and `True`;
* *alike* symbols (equal, and of the same types all the way down) may share a remembered result of
  a user function: `str(1)` must not be answered with what was found for `str(True)`.

A `SymbolTable` numbers symbols so that the rest of the symbolic stage can work on integer arrays.
It only grows. A table that has become too large is replaced as a whole and never edited: whoever
still holds its numbers also holds the table, and what was remembered in it is found again.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from dolphin.errors import SymbolError, shorten
from dolphin.symbolic.bounded import BoundedCache

NAN = math.nan
_SCALARS = frozenset({int, str, bool, bytes, type(None), complex})


def kind(symbol: Any) -> Any:
    """What, besides equality, makes two symbols interchangeable as arguments of a function.

    >>> kind(1) == kind(True), kind((1, "a")) == kind((1.0, "a")), kind(0.0) == kind(-0.0)
    (False, False, False)
    """
    cls = type(symbol)
    if cls in _SCALARS:
        return cls
    if cls is float:
        return (float, math.copysign(1.0, symbol)) if symbol == 0.0 else float
    if isinstance(symbol, tuple):
        return (cls, *map(kind, symbol))
    if isinstance(symbol, frozenset):
        return (cls, frozenset((member, kind(member)) for member in symbol))
    if dataclasses.is_dataclass(symbol) and cls is not type:
        names = (field.name for field in dataclasses.fields(symbol))
        return (cls, *(kind(getattr(symbol, name)) for name in names))
    return cls


def canonical(symbol: Any) -> Any:
    """One object for all `nan`, Python numbers for numpy's; everything else as it is."""
    cls = type(symbol)
    if cls in _SCALARS or (cls is float and symbol == symbol):
        return symbol
    if isinstance(symbol, tuple):
        for member in symbol:
            inner = type(member)
            if inner in _SCALARS or (inner is float and member == member):
                continue
            if canonical(member) is not member:
                make: Any = getattr(cls, "_make", cls)
                return make(map(canonical, symbol))
        return symbol
    if isinstance(symbol, float) and symbol != symbol:
        return NAN
    if isinstance(symbol, np.generic):  # numpy integers overflow, Python's don't
        return symbol.item()
    if cls.__module__.startswith("torch") and hasattr(symbol, "requires_grad"):
        raise SymbolError(
            f"a tensor can't be a symbol: {shorten(symbol)} compares elementwise and hashes by "
            "identity. Return a Python number, e.g. tensor.item()."
        )
    return symbol


def _obviously_alike(symbol: Any, equal: Any) -> bool:
    """Are two equal symbols of the same kind, as far as can be told quickly?"""
    cls = type(symbol)
    if symbol is equal:
        return True
    if cls is not type(equal):
        return False
    if cls in _SCALARS:
        return True
    if cls is float:
        return symbol != 0.0
    if cls is not tuple:
        return False
    for member, other in zip(symbol, equal, strict=True):
        inner = type(member)
        if inner is not type(other) or not (inner in _SCALARS or (inner is float and member != 0)):
            return False
    return True


class SymbolTable:
    """Numbers symbols, and holds what user functions returned for them (`memos`)."""

    __slots__ = (
        "__weakref__",
        "_class_of",
        "_lock",
        "_numbers",
        "_variants",
        "chances",
        "memos",
        "programs",
        "remembered",
        "symbols",
    )

    def __init__(self) -> None:
        self.symbols: list[Any] = []
        self.memos: dict[Hashable, dict[Any, int]] = {}
        self.programs: dict[Hashable, Any] = {}  # what programs ask for after which choices
        self.chances: list[Any] = []  # results that are a matter of chance
        self.remembered = 0  # entries in all memos, kept up to date by `functions.evaluate`
        self._numbers: dict[Any, int] = {}
        # Equal symbols of another kind get numbers of their own; `_class_of` leads from every
        # number to the number of the symbol that was first in its class of equals.
        self._variants: dict[int, list[int]] = {}
        self._class_of = np.empty(1024, dtype=np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.symbols)

    def number(self, symbol: Any) -> int:
        """The number of `symbol`, given out now if it is new."""
        try:
            known = self._numbers.get(symbol)
        except TypeError:
            raise SymbolError(
                f"unhashable symbol {shorten(symbol)} of type {type(symbol).__name__}. Symbols are "
                "hashable Python objects: use a tuple instead of a list, a frozenset instead of a "
                "set, a frozen dataclass instead of a dict."
            ) from None
        if known is not None and _obviously_alike(symbol, self.symbols[known]):
            return known
        symbol = canonical(symbol)
        with self._lock:
            return self._number_canonical(symbol)

    def numbers(self, symbols: Iterable[Any]) -> np.ndarray:
        return np.fromiter(map(self.number, symbols), dtype=np.int64)

    def _number_canonical(self, symbol: Any) -> int:
        first = self._numbers.get(symbol)
        if first is None:
            self._numbers[symbol] = number = self._append(symbol)
            self._class_of[number] = number
            return number
        wanted = kind(symbol)
        for number in (first, *self._variants.get(first, ())):
            if kind(self.symbols[number]) == wanted:
                return number
        number = self._append(symbol)
        self._variants.setdefault(first, []).append(number)
        self._class_of[number] = first
        return number

    def _append(self, symbol: Any) -> int:
        number = len(self.symbols)
        if number == len(self._class_of):
            self._class_of = np.concatenate([self._class_of, np.empty_like(self._class_of)])
        self.symbols.append(symbol)
        return number

    def classes(self, numbers: np.ndarray) -> np.ndarray:
        """The same number for all symbols that are equal."""
        return self._class_of[numbers] if self._variants else numbers


class Symbols(Sequence[Any]):
    """The symbols that all rows of a distribution share: distinct, ordered, immutable.

    Made by `Symbols.of`, which returns the same object for the same symbols, so that plans can be
    looked up by identity.
    """

    __slots__ = ("__weakref__", "_distinct", "_index", "_looked_up", "_numbered", "members")

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = members
        self._distinct = False  # known to be, that is
        self._looked_up: tuple[Symbols, np.ndarray] | None = None
        self._index: dict[Any, int] | None = None
        self._numbered: tuple[weakref.ref[SymbolTable], np.ndarray] | None = None

    @classmethod
    def of(cls, members: Iterable[Any]) -> Symbols:
        """The `Symbols` of these members, which must be distinct."""
        if isinstance(members, range):
            return _known.get_or_make(members, lambda: cls.of(tuple(members)))
        members = tuple(map(canonical, members))
        try:
            key = (members, tuple(map(kind, members)))
            return _known.get_or_make(key, lambda: cls(members))
        except TypeError:
            SymbolTable().numbers(members)  # names the unhashable one
            raise

    def __reduce__(self) -> Any:
        return Symbols.of, (self.members,)

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, item: Any) -> Any:
        return self.members[item]

    @property
    def _places(self) -> dict[Any, int]:
        if self._index is None:
            index: dict[Any, int] = {}
            for place, member in enumerate(self.members):
                index.setdefault(member, place)
            self._index = index
        return self._index

    def indices_of(self, symbols: Sequence[Any]) -> np.ndarray:
        """The places of some symbols, -1 for those that are not there."""
        known = self._places
        try:
            return np.array([known[symbol] for symbol in symbols], dtype=np.int64)
        except (KeyError, TypeError):  # a symbol that is not there, or not in this form
            return np.array([self.index_of(symbol) for symbol in symbols], dtype=np.int64)

    def index_of(self, symbol: Any) -> int:
        """The place of `symbol`, or -1."""
        index = self._places
        try:
            place = index.get(symbol)
        except TypeError:
            raise SymbolError(f"unhashable symbol {shorten(symbol)}") from None
        if place is None:
            place = index.get(canonical(symbol), -1)
        return place

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


# Many programs share few sets of symbols. What is evicted is only made again.
_known: BoundedCache[Hashable, Symbols] = BoundedCache(1024)


def known_symbols() -> BoundedCache[Hashable, Symbols]:
    """The cache behind `Symbols.of`."""
    return _known
