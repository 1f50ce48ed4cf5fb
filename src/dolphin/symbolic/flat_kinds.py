"""Numbers of the kinds of flat symbols, found for many symbols at once.

A flat symbol is a scalar, or a tuple of scalars, that is canonical as it is. Most symbols that user
functions return are, and tens of thousands of them may be new in a step. Two equal ones are alike
(see `kinds`) if their kinds have the same number.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dolphin.symbolic.kinds import FLAT, SCALARS, UNMISTAKABLE, is_flat, kind

NOT_FLAT = 0  # instead of the number of a kind


class FlatKinds:
    """Kinds, numbered from 1 on.

    The kind of a tuple is that of its members: types, and the signs of zeros that have one.

    >>> FlatKinds().of([1, 2, (2, "+", 0.5), (3, "-", 1.5), (1, (2,)), (float("nan"),)]).tolist()
    [1, 1, 2, 2, 0, 0]
    """

    __slots__ = ("_floats", "_numbers", "_types", "simple")

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._types: dict[type, int] = {}
        self._floats = np.zeros(1, dtype=bool)  # by number: whether such symbols have floats
        # By number: that of the type if equal symbols of it are alike (`means_alike`), or 0.
        self.simple = np.zeros(1, dtype=np.int64)

    def of(self, symbols: Sequence[Any]) -> np.ndarray:
        """The number of each symbol's kind, `NOT_FLAT` if it is not flat."""
        known = self._numbers
        numbers = np.array(
            [known[tuple(map(type, s)) if type(s) is tuple else type(s)] for s in symbols],
            dtype=np.int64,
        )
        self._note_new()
        with_floats = np.flatnonzero(self._floats[numbers]).tolist()
        if with_floats and not _ordinary([symbols[place] for place in with_floats]):
            for place in with_floats:
                numbers[place] = self._number(symbols[place])
            self._note_new()
        return numbers

    def type_number(self, cls: type) -> int:
        """A number from 1 on for a type."""
        return self._types.setdefault(cls, 1 + len(self._types))

    def _number(self, symbol: Any) -> int:
        """The same for one symbol, which may contain zeros or nan."""
        if not is_flat(symbol):
            return NOT_FLAT
        own = tuple(map(kind, symbol)) if type(symbol) is tuple else kind(symbol)
        return self._numbers.setdefault(own, 1 + len(self._numbers))

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


def _ordinary(symbols: Sequence[Any]) -> bool:
    """Whether no number among flat symbols is nan, or a zero, whose sign matters."""
    tuples = [symbol for symbol in symbols if type(symbol) is tuple]
    members = set().union(*tuples, (symbol for symbol in symbols if type(symbol) is not tuple))
    return 0 not in members and all(map(operator.eq, members, members))
