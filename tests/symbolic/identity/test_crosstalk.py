"""Symbols share one table, and must not notice: equality, kinds, nan, and what is no symbol."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

import dolphin as dl


def uniform(symbols):
    symbols = list(symbols)
    return dl.Distribution(torch.full((2, len(symbols)), 1 / len(symbols)), symbols)


class Card:
    """Its `__eq__` fails for everything that is not a card."""

    def __init__(self, n, note=""):
        self.n, self.note = n, note

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, other):
        return self.n == other.n


class One:
    """Equal to the number 1, and yet something else."""

    def __hash__(self):
        return hash(1)

    def __eq__(self, other):
        return isinstance(other, One) or other == 1

    def __repr__(self):
        return "One()"


CARDS = {
    "cards": lambda: [Card(1), Card(2)],
    "in tuples": lambda: [(Card(1), 1), (Card(2), 2)],
    "in frozensets": lambda: [frozenset({Card(1)}), frozenset({Card(2)})],
}
NUMBERS = {"cards": [1, 2], "in tuples": [(1, 1), (2, 2)], "in frozensets": [{1}, {2}]}


@pytest.mark.parametrize("cards_first", [True, False])
@pytest.mark.parametrize("shape", CARDS)
@pytest.mark.parametrize("layout", ["shared", "rows"])
def test_symbols_that_only_compare_with_their_own_kind(shape, cards_first, layout):
    dl.cache_clear()
    numbers = [frozenset(n) if isinstance(n, set) else n for n in NUMBERS[shape]]

    def distribution(symbols):
        d = uniform(symbols)
        return d if layout == "shared" else dl.Distribution.from_rows([(symbols, [0.5, 0.5])] * 2)

    for cards in (cards_first, not cards_first, cards_first):
        symbols = CARDS[shape]() if cards else numbers
        d = distribution(symbols)
        kept = dl.filter(d, lambda s: True)
        assert len(dl.union(kept, distribution(symbols)).symbols) == 2
        assert d.probs([symbols[1]]).tolist() == [[0.5], [0.5]]
        other = numbers if cards else CARDS[shape]()
        assert d.probs(other).tolist() == [[0.0, 0.0]] * 2
        assert dl.apply(d, d, lambda x, y: x == y).probs([True]).tolist() == [[0.5]] * 2
    assert uniform([Card(1), Card(2)]).map(lambda c: c.n).symbols == (1, 2)


def test_a_distribution_of_symbols_that_cannot_be_compared_says_so():
    with pytest.raises(dl.SymbolError, match="NotImplemented"):
        uniform([Card(1), 1])


@pytest.mark.parametrize("first", [1, One()])
def test_equal_symbols_of_different_types_are_one_but_functions_see_the_real_one(first):
    dl.cache_clear()
    uniform([first, 7]).map(repr)
    for _ in range(2):
        assert uniform([One(), 2]).map(repr).symbols == ("One()", "2")
        assert uniform([1, 2]).map(repr).symbols == ("1", "2")
        assert uniform([True, 2]).map(repr).symbols == ("True", "2")
    both = dl.union(uniform([One(), 2]), uniform([1, 3]))
    assert len(both.symbols) == 3


def test_what_equality_leaves_out_reaches_the_function():
    for note in ("a", "b", "a"):
        assert uniform([Card(1, note), Card(2)]).map(lambda c: c.note).symbols == (note, "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal("1.0"), Decimal("1.00")),
        (0.0, -0.0),
        (complex(0, 0), complex(-0.0, 0)),
        (range(0), range(1, 1)),
        (1, Fraction(1)),
        ((1,), (True,)),
        (frozenset({1}), frozenset({1.0})),
    ],
    ids=repr,
)
def test_equal_but_not_alike(one, other):
    for symbol in (one, other, one):
        assert uniform([symbol, "x"]).map(repr).symbols == (repr(symbol), "'x'")
    assert len(dl.union(uniform([one, "x"]), uniform([other, "y"])).symbols) == 3


NANS = [
    math.nan, -math.nan, float("nan"), np.float16("nan"), np.float32("nan"), np.float64("nan"),
    np.longdouble("nan"),
]  # fmt: skip


@pytest.mark.parametrize("nan", NANS, ids=lambda nan: type(nan).__name__)
def test_every_nan_is_the_nan(nan):
    d = uniform([1, 2])
    (found,) = dl.apply(d, lambda s: nan).symbols
    assert type(found) is float
    for wrap in (lambda x: x, lambda x: (x, 1), lambda x: ((x,),), lambda x: frozenset({x})):
        assert len(dl.apply(d, lambda s, wrap=wrap: wrap(math.nan if s == 1 else nan)).symbols) == 1
        pair = uniform([wrap(nan), 5])
        assert pair.probs([wrap(float("nan"))]).tolist() == [[0.5], [0.5]]
        assert len(dl.union(pair, uniform([wrap(math.nan), 6])).symbols) == 3
    array = np.array([nan, 1], dtype=np.float32)
    assert uniform(array).probs([nan]).tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize(
    "make", [lambda: Decimal("nan"), lambda: complex(math.nan, 1), lambda: np.complex64("nan")]
)
def test_other_numbers_that_are_not_equal_to_themselves(make):
    assert len(dl.apply(uniform([1, 2]), lambda s: make()).symbols) == 1
    assert uniform([make(), 1]).probs([make()]).tolist() == [[0.5], [0.5]]


def test_one_symbol_for_equal_numbers():
    for group in ([1, 1.0], [True, np.int64(1)], [np.float32(1), 1]):
        assert len(dl.apply(uniform([0, 1]), lambda s, group=group: group[s]).symbols) == 1


async def asynchronous(s):
    await asyncio.sleep(0)
    return s


async def asynchronous_generator(s):
    yield s


def generator(s):
    yield s


REFUSED = {
    "generator": (generator, "tuple"),
    "generator expression": (lambda s: (x for x in (s,)), "tuple"),
    "map": (lambda s: map(abs, (s,)), "tuple"),
    "coroutine": (asynchronous, "async def"),
    "async generator": (asynchronous_generator, "async def"),
    "distribution": (lambda s: dl.Distribution([0.5, 0.5], [s, s + 1]), "operand"),
    "tensor": (lambda s: torch.tensor(s), "item"),
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize(("function", "advice"), REFUSED.values(), ids=REFUSED)
def test_results_that_cannot_be_meant_are_refused(function, advice, cache):
    with pytest.raises(dl.DolphinError, match=advice) as caught:
        dl.apply(uniform([1, 2]), function, cache=cache)
    assert str(caught.value).startswith("apply")
    if function is asynchronous:  # it must not be found unawaited in a later test
        del caught
        gc.collect()


@dataclasses.dataclass(frozen=True)
class Hidden:
    n: int
    note: str = dataclasses.field(default="", compare=False)


def test_fields_that_are_not_compared():
    for note in ("a", "b", "a"):
        assert uniform([Hidden(1, note), Hidden(2)]).map(lambda c: c.note).symbols == (note, "")


class Fails:
    def __init__(self, error):
        self.error = error

    def __hash__(self):
        return 5

    def __eq__(self, other):
        raise self.error


@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), RecursionError("x")])
def test_hostile_equality(error):
    with pytest.raises(dl.SymbolError):
        uniform([Fails(error), Fails(error)])
    assert uniform([Fails(error), 6]).map(lambda s: 1).symbols == (1,)


class Unhashable:
    def __hash__(self):
        raise KeyError("hash")


def test_hostile_hash():
    with pytest.raises(dl.SymbolError, match="unhashable"):
        uniform([Unhashable(), 1])
    with pytest.raises(dl.SymbolError, match="unhashable"):
        uniform([1, 2]).map(lambda s: Unhashable())
