"""Symbols numbered together have the numbers that their equality and their kinds ask for."""

from __future__ import annotations

import itertools
import random
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from math import nan
from typing import Any

import numpy as np
import pytest

from dolphin.symbolic.flat_kinds import NOT_FLAT, FlatKinds, flat_members, unite_nans
from dolphin.symbolic.kinds import NAN, canonical, kind
from dolphin.symbolic.tables import SymbolTable

Point = namedtuple("Point", ["x", "y"])


class Same:
    """Equal to a number."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return self.value == (other.value if isinstance(other, Same) else other)

    def __hash__(self) -> int:
        return hash(self.value)


SCALARS = [0, 1, 2, True, False, 0.0, -0.0, 1.0, 2.5, nan, float("nan"), "a", b"a", None]
OTHERS = [Decimal(1), Decimal("1.0"), Fraction(1), np.int64(1), np.float64(2.5), (), frozenset({1})]


def some_symbols(draw: random.Random, count: int, odd: list[Any]) -> list[Any]:
    """Scalars, tuples of them, and a few others."""

    def one() -> Any:
        what = draw.random()
        if what < 0.3:
            return draw.choice(SCALARS)
        if what < 0.4:
            return draw.choice(OTHERS + odd)
        members = [draw.choice(SCALARS) for _ in range(draw.randint(1, 3))]
        if what < 0.5:
            members.append(tuple(members))
        return Point(*members) if what > 0.9 and len(members) == 2 else tuple(members)

    return [one() for _ in range(count)]


@pytest.mark.parametrize("odd", [[], [Same(1), Same(2)]])
@pytest.mark.parametrize("seed", range(6))
def test_alike_symbols_have_one_number_and_equal_ones_one_class(seed: int, odd: list[Any]) -> None:
    draw, table = random.Random(seed), SymbolTable()
    symbols, numbers = [], []
    for count in (1, 40, 3, 120, 60):
        new = some_symbols(draw, count, odd)
        numbers += (
            [table.number(symbol) for symbol in new] if count == 60 else table.numbers(new).tolist()
        )
        symbols += new
    classes = table.classes(np.array(numbers)).tolist()
    plain = [canonical(symbol) for symbol in symbols]
    for (a, one), (b, other) in itertools.combinations(enumerate(plain), 2):
        same = one is other or one == other
        assert (classes[a] == classes[b]) == same, (one, other)
        assert (numbers[a] == numbers[b]) == (same and kind(one) == kind(other)), (one, other)
    for symbol, number in zip(plain, numbers, strict=True):
        assert kind(table.symbols[number]) == kind(symbol)


def test_kinds_of_flat_symbols() -> None:
    kinds = FlatKinds()
    symbols = [(1, "a"), (2, "b"), (1.0, "a"), (0.0, "a"), (-0.0, "a"), (0, "a"), 0.0, -0.0, 0]
    first, again, *others = kinds.of(symbols).tolist()
    assert first == again == others[3]
    assert len({first, *others}) == len(others)
    assert kinds.of([((1,),), Point(1, 2), np.int64(1)]).tolist() == [NOT_FLAT] * 3


def test_members_of_flat_symbols() -> None:
    assert flat_members([(1, "a"), (2, "a")]) == {1, 2, "a"}
    assert flat_members([(1, "a"), "b", None]) == {1, "a", "b", None}
    assert flat_members([(1, ("a",))]) is None
    assert flat_members([(1,), np.int64(1)]) is None  # equal to a member that is flat
    assert flat_members([]) == set()


def test_new_symbols_that_tell_addresses_are_found_again() -> None:
    table = SymbolTable()
    flat = table.numbers([(1, "a"), (1, "<object at 0x7f>"), "b"])
    nested = table.numbers([(1, ("<object at 0x7e>",)), (2, (3,))])
    assert table.address_among(flat[[0, 2]]) == table.address_among(nested[1:]) == ""
    assert "0x7f" in table.address_among(flat)
    assert "0x7e" in table.address_among(nested)
    again = table.numbers([(1, "<object at 0x7f>")])
    assert "0x7f" in table.address_among(again)


def test_the_kind_of_a_symbol_is_asked_for_when_an_equal_one_comes_along() -> None:
    table = SymbolTable()
    first = table.numbers([(1, "a"), (2, "a"), (2.0, "a"), (2, "a")])
    assert first[1] == first[3] != first[2]
    later = table.numbers([(1.0, "a"), (1, "a"), (True, "a")])
    assert later[1] == first[0]
    assert len({*later.tolist()}) == 3
    assert len({*table.classes(later).tolist()}) == 1
    assert table.known_numbers([(1, "a"), (2, "a")]) is not None


def test_symbols_with_nan_are_flat_and_made_canonical() -> None:
    symbols = [float("nan"), 2.5, (1, float("nan"), -0.0), (1, 2.5, -0.0), (1, 2.5, 0.0)]
    one, other, nan_first, number_first, unsigned = FlatKinds().of(symbols).tolist()
    assert NOT_FLAT not in {one, nan_first}
    assert (one, nan_first) == (other, number_first)
    assert nan_first != unsigned
    members = flat_members(symbols)
    assert members is not None
    unite_nans(symbols, members)
    assert symbols[0] is NAN
    assert symbols[2][1] is NAN
