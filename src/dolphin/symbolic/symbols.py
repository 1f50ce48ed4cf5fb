"""The symbols of a distribution."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from dolphin.errors import SymbolError, shorten
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.identity.changing import Changing, changing_among
from dolphin.symbolic.kinds import (
    SCALARS,
    canonical,
    equal,
    is_tuple,
    kind,
    unhashable,
)
from dolphin.symbolic.tables import SymbolTable


class Symbols(Sequence[Any]):
    """The symbols that all rows of a distribution share: distinct, ordered, immutable.

    Made by `Symbols.of`, which returns the same object for the same symbols, so that plans can be
    looked up by identity.
    """

    __slots__ = (
        "__weakref__",
        "_distinct",
        "_index",
        "_looked_up",
        "_numbered",
        "changing",
        "members",
        "width",
    )

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = members
        self.width = len(members)
        self.changing: Changing = changing_among(members)  # what may change about them
        self._distinct = False  # True once that is known
        self._looked_up: tuple[Symbols, np.ndarray] | None = None
        self._index: dict[Any, int] | None = None
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
        result = _known.get_or_make((kinds, given), lambda: cls(given))
        if address is not None:
            _given.replace(address, (given, result))
        return result

    @classmethod
    def numbered(cls, table: SymbolTable, numbers: np.ndarray) -> Symbols:
        """The `Symbols` of the members with these numbers in a table."""
        result = cls.of(tuple(map(table.symbols.__getitem__, numbers.tolist())))
        result._numbered = (weakref.ref(table), numbers)
        return result

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
        return self.width

    def __getitem__(self, item: Any) -> Any:
        return self.members[item]

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
        places = self._places
        try:
            return np.array([places[symbol] for symbol in symbols], dtype=np.int64)
        except Exception:  # a symbol that is not there, or not in this form
            return np.array([self.index_of(symbol) for symbol in symbols], dtype=np.int64)

    def index_of(self, symbol: Any) -> int:
        """The place of `symbol`, or -1."""
        index = self._places
        try:
            hash(symbol)
        except Exception:
            raise unhashable(symbol) from None
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
        last = self._looked_up
        if last is None or last[0] is not wanted:
            places = self.indices_of(wanted)
            last = self._looked_up = (wanted, places)
        return last[1]

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
        cached = self._numbered
        if cached is not None and cached[0]() is table:
            return cached[1]
        numbers = table.numbers(self.members)
        self._numbered = (weakref.ref(table), numbers)
        return numbers

    def in_table(self, table: SymbolTable) -> np.ndarray:
        """The numbers as a single row, (1, N)."""
        return self.numbers(table)[None, :]


def _quick_kinds(members: tuple[Any, ...]) -> Any:
    """The kinds of plain symbols and of (named, nested) tuples of them; None for others.

    In a few calls for all symbols: of 50,000 triples 6 ms, instead of 140 ms symbol by symbol; of
    the 24 edges between pairs of numbers of a 4×4 grid 3 instead of 51 µs.
    """
    parts: Sequence[Any] = members
    classes: list[type] = []
    types = set(map(type, parts))
    while len(types) == 1 and is_tuple(*types):
        classes += types
        parts = list(itertools.chain.from_iterable(parts))
        types = set(map(type, parts))
    if not types <= SCALARS:
        return None
    kinds = types.pop() if len(types) == 1 else tuple(map(type, parts))
    return (*classes, kinds) if classes else kinds


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
