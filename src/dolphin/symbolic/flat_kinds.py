"""Numbers of the kinds of flat symbols, found for many symbols at once.

A flat symbol is a scalar, or a tuple of scalars. Most symbols that user functions return are, and
tens of thousands of them may be new in a step. Two equal ones are alike (see `kinds`) if their
kinds have the same number.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dolphin.symbolic.kinds import FLAT, NAN, SCALARS, UNMISTAKABLE, canonical, kind

NOT_FLAT = 0  # instead of the number of a kind


class FlatKinds:
    """Kinds, numbered from 1 on.

    The kind of a tuple is that of its members: types, and the signs of zeros that have one.

    >>> FlatKinds().of([1, 2, (2, "+", 0.5), (3, "-", float("nan")), (1, (2,)), 0.0]).tolist()
    [1, 1, 2, 2, 0, 4]
    """

    __slots__ = ("_floats", "_numbers", "_types", "simple")

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._types: dict[type, int] = {}
        self._floats = np.zeros(1, dtype=bool)  # by number: whether such symbols have floats
        # By number: that of the type if equal symbols of it are alike (`means_alike`), or 0.
        self.simple = np.zeros(1, dtype=np.int64)

    def of(self, symbols: list[Any]) -> np.ndarray:
        """The number of each symbol's kind, `NOT_FLAT` if it is not flat."""
        known = self._numbers
        numbers = np.array(
            [known[tuple(map(type, s)) if type(s) is tuple else type(s)] for s in symbols],
            dtype=np.int64,
        )
        self._note_new()
        with_floats = np.flatnonzero(self._floats[numbers]).tolist()
        if 0 in _members_of([symbols[place] for place in with_floats]):  # its sign may matter
            for place in with_floats:
                symbol = symbols[place]
                if 0 in (symbol if type(symbol) is tuple else (symbol,)):
                    numbers[place] = known.setdefault(_signed(symbol), 1 + len(known))
            self._note_new()
        return numbers

    def type_number(self, cls: type) -> int:
        """A number from 1 on for a type."""
        return self._types.setdefault(cls, 1 + len(self._types))

    def _note_new(self) -> None:
        """Fill in the properties of kinds that are newly numbered."""
        if len(self._numbers) < len(self.simple):
            return
        new = list(self._numbers)[len(self.simple) - 1 :]
        floats = [not SCALARS.issuperset(_members(own)) for own in new]
        simple = [
            self.type_number(tuple if isinstance(own, tuple) else own)
            if UNMISTAKABLE.issuperset(_members(own))
            else 0
            for own in new
        ]
        self._floats = np.append(self._floats, np.array(floats, dtype=bool))
        self.simple = np.append(self.simple, np.array(simple, dtype=np.int64))


class _Numbers(dict[Any, int]):
    """The numbers of kinds; one that is flat gets a number when it is first looked up."""

    def __missing__(self, own: Any) -> int:
        if not FLAT.issuperset(_members(own)):
            return NOT_FLAT
        self[own] = number = 1 + len(self)
        return number


def _members(own: Any) -> tuple[Any, ...]:
    return own if isinstance(own, tuple) else (own,)


def _members_of(symbols: Sequence[Any]) -> set[Any]:
    """All numbers in flat symbols, and whatever else is in them."""
    tuples = [symbol for symbol in symbols if type(symbol) is tuple]
    return set().union(*tuples, (symbol for symbol in symbols if type(symbol) is not tuple))


def flat_members(symbols: Sequence[Any]) -> set[Any] | None:
    """What flat symbols consist of; None if one of them is not flat."""
    parts = symbols
    if not _TUPLE.issuperset(map(type, symbols)):
        parts = [symbol if type(symbol) is tuple else (symbol,) for symbol in symbols]
    flat = FLAT.issuperset(map(type, itertools.chain.from_iterable(parts)))
    return set().union(*parts) if flat else None


_TUPLE = frozenset({tuple})


def unite_nans(symbols: list[Any], members: set[Any]) -> None:
    """Replace nan in flat symbols that consist of these members by the one that is canonical.

    Formulas of 15 symbols, 64 rows, many of which divide by zero: a step takes 0.7 of the time that
    it takes if each symbol with nan is looked up by itself.
    """
    nans = {member for member in members if member != member and member is not NAN}
    for place, symbol in enumerate(symbols if nans else ()):
        if not nans.isdisjoint(_members(symbol)):
            symbols[place] = canonical(symbol)


def _signed(symbol: Any) -> Any:
    """The kind of a flat symbol, with the signs of its zeros."""
    if type(symbol) is not tuple:
        return kind(symbol)
    return tuple([kind(m) if type(m) is float and not m else type(m) for m in symbol])
