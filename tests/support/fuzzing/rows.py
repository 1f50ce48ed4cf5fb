"""Symbols with tags, one dictionary per row: what a distribution is by its definition."""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fuzzing.jets import Jet
from fuzzing.semirings import RefusedError, Semiring

if TYPE_CHECKING:
    from fuzzing.reference import Reference


def key_of(symbol: Any) -> Hashable:
    """What tells symbols apart: equality, except that all nan are one, in tuples as well."""
    if isinstance(symbol, tuple):
        return tuple(map(key_of, symbol))
    try:
        hash(symbol)
    except TypeError:
        raise RefusedError("a symbol must be hashable") from None
    if isinstance(symbol, (Value, types.GeneratorType, types.CoroutineType)):
        raise RefusedError("not a symbol")
    return symbol if symbol == symbol else ("nan",)


class Row:
    """Symbols in order of first appearance, and their tags."""

    def __init__(self) -> None:
        self.entries: dict[Hashable, tuple[Any, list[tuple[Any, ...]]]] = {}
        self.group_of: dict[Hashable, int] = {}  # of the symbols of an input

    def add(self, symbol: Any, *factors: Any) -> None:
        """A combination that gives the symbol: the tags of what it consists of."""
        symbol = math.nan if symbol != symbol else symbol  # numpy's, too
        self.entries.setdefault(key_of(symbol), (symbol, []))[1].append(factors)

    def settled(self, semiring: Semiring) -> Row:
        """With one tag for each symbol."""
        row = Row()
        row.entries = {
            key: (symbol, [(semiring.sum_of_products(products),)])
            for key, (symbol, products) in self.entries.items()
        }
        return row

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter((symbol, tag) for symbol, [(tag,)] in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def symbols(self) -> list[Any]:
        return [symbol for symbol, _ in self.entries.values()]

    def tag(self, symbol: Any, otherwise: Any) -> Any:
        found = self.entries.get(key_of(symbol))
        return otherwise if found is None else found[1][0][0]


class Value:
    """A distribution: one dictionary per row.

    As algebras of numbers know it: `exclusive`, at most one symbol of a row holds; `given`, this is
    an input, or rows of inputs, whose symbols have the exclusive groups that their rows name (None:
    perhaps).
    """

    def __init__(
        self,
        reference: Reference,
        rows: Sequence[Row],
        *,
        exclusive: bool = False,
        given: bool | None = False,
    ) -> None:
        self.reference, self.each = reference, list(rows)
        self.exclusive, self.given = exclusive, given

    @property
    def batch_size(self) -> int:
        return len(self.each)

    @property
    def symbols(self) -> list[Any]:
        """Those of all rows, by first appearance."""
        every: dict[Hashable, Any] = {}
        for row in self.each:
            for symbol in row.symbols:
                every.setdefault(key_of(symbol), symbol)
        return list(every.values())

    def row_of(self, number: int) -> Row:
        return self.each[0 if len(self.each) == 1 else number]

    def probability(self, row: int, symbol: Any) -> Jet:
        semiring = self.reference.semiring
        return semiring.probability(self.row_of(row).tag(symbol, semiring.zero))

    # -- what the texts call -----------------------------------------------------------------------

    def __getitem__(self, rows: Any) -> Value:
        if isinstance(rows, slice):
            chosen = self.each[rows]
        elif isinstance(rows, int):
            chosen = [self.each[rows]]
        elif all(isinstance(r, bool) for r in rows):
            chosen = [row for row, wanted in zip(self.each, rows, strict=True) if wanted]
        else:
            chosen = [self.each[r] for r in rows]
        if not chosen:
            raise RefusedError("no rows")
        return Value(self.reference, chosen, exclusive=self.exclusive, given=self.given)

    def detach(self) -> Value:
        rows = []
        for old in self.each:
            row = Row()
            for symbol, tag in old:
                row.add(symbol, Jet(tag.real))
            row.group_of = old.group_of
            rows.append(row)
        return Value(self.reference, rows, exclusive=self.exclusive, given=self.given)

    def rows(self) -> list[Value]:
        return [self[row] for row in range(len(self.each))]

    def map(self, function: Callable, **options: Any) -> Value:
        return self.reference.apply(self, function, **options)

    def normalized(self) -> Value:
        return self.reference.normalized(self)

    def __len__(self) -> int:
        return len(self.symbols)

    def probs(self, symbols: Any = None) -> Scratch:
        return Scratch()

    def _with(self, other: Any, function: Callable) -> Value:
        if isinstance(other, Value):
            return self.reference.apply(self, other, function)
        return self.map(lambda symbol: function(symbol, other))

    def __add__(self, other: Any) -> Value:
        return self._with(other, operator.add)

    def __mul__(self, other: Any) -> Value:
        return self._with(other, operator.mul)

    def __rsub__(self, other: Any) -> Value:
        return self.map(lambda symbol: other - symbol)

    def __eq__(self, other: Any) -> Any:
        return self._with(other, operator.eq)

    def __le__(self, other: Any) -> Value:
        return self._with(other, operator.le)

    __hash__ = object.__hash__


class Scratch:
    """Numbers that a text reads only to write into them."""

    def detach(self) -> Scratch:
        return self

    def zero_(self) -> None:
        pass
