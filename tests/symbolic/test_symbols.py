"""Any hashable Python object is a symbol like any other."""

from __future__ import annotations

import dataclasses
import enum
import fractions
import math
import operator
from collections import namedtuple
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.symbolic.tables import SymbolTable


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Weekday(enum.IntEnum):
    MONDAY = 0
    TUESDAY = 1


@dataclasses.dataclass(frozen=True)
class Card:
    suit: str
    rank: int


class Modulo:
    """An object with its own idea of equality."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Modulo) and (self.value - other.value) % 3 == 0

    def __hash__(self):
        return hash(self.value % 3)


Point = namedtuple("Point", ["x", "y"])

ODD = {
    "none": [None, 0],
    "nan": [math.nan, 1.0],
    "infinities": [math.inf, -math.inf],
    "tuples": [(), (1,), (1, (2, "x"))],
    "strings": ["", "a", "ä", "a" * 1000],
    "bytes": [b"", b"a"],
    "enums": list(Colour),
    "int enums": list(Weekday),
    "dataclasses": [Card("spades", 1), Card("hearts", 1)],
    "frozensets": [frozenset(), frozenset({1}), frozenset({1, "x"})],
    "named tuples": [Point(0, 1), Point(1, 0)],
    "mixed": [None, 0, "0", (0,), Colour.RED, math.nan, frozenset({0})],
    "huge integers": [9**40, 9**40 + 1, -(9**40)],
    "exact numbers": [fractions.Fraction(1, 3), Decimal("0.1"), 1j],
    "functions and classes": [len, int, operator.add, Card],
    "own equality": [Modulo(1), Modulo(2)],
    "plain objects": [object(), object()],
    "booleans": [True, False],
    "ranges": [range(3), range(0)],
    "ellipsis": [..., NotImplemented],
}
odd_symbols = pytest.mark.parametrize("symbols", ODD.values(), ids=ODD.keys())
both = pytest.mark.parametrize(
    "provenance", [dl.DAMP(), dl.TopKProofs(k=20)], ids=["damp", "top-k"]
)


def uniform(symbols, provenance=None, batch=2):
    symbols = list(symbols)
    probs = torch.full((batch, len(symbols)), 1 / len(symbols))
    return dl.Distribution(probs, symbols, provenance=provenance)


@both
@odd_symbols
def test_in_and_out(symbols, provenance):
    d = uniform(symbols, provenance)
    assert len(d) == len(symbols)
    for given, kept in zip(symbols, d.symbols, strict=True):
        assert kept is given or kept == given
        assert type(kept) is type(given)
    for symbol in symbols:
        probs = dl.get_probs(d, symbols=[symbol])
        torch.testing.assert_close(probs, torch.full((2, 1), 1 / len(symbols)))
    torch.testing.assert_close(
        d.prob_of([symbols[0], symbols[-1]]), torch.full((2,), 1 / len(symbols))
    )


@both
@odd_symbols
def test_through_every_operation(symbols, provenance):
    n = len(symbols)
    d, e = uniform(symbols, provenance), uniform(symbols, provenance)
    pairs = dl.apply(d, e, lambda x, y: (x, y))
    assert len(pairs) == n * n
    firsts = dl.apply(pairs, lambda pair: pair[0])
    assert len(firsts) == n
    torch.testing.assert_close(dl.get_probs(firsts), torch.full((2, n), 1 / n))
    assert len(dl.union(d, e)) == n
    assert len(dl.filter(d, lambda x: x is symbols[0] or x == symbols[0])) in (1, 0)
    joined = dl.apply_if(d, e, lambda x, y: x, on=(lambda x: x, lambda y: y))
    torch.testing.assert_close(dl.get_probs(joined, symbols=symbols), torch.full((2, n), 1 / n**2))
    rows = dl.Distribution.certain_rows([symbols[0], symbols[-1]], provenance=provenance)
    picked = dl.apply(rows, lambda x: x)
    torch.testing.assert_close(picked.prob_of([symbols[0], symbols[-1]]), torch.ones(2))
    assert len(dl.sample(d, 1).row(0)) == 1


@both
def test_every_nan_is_the_same_symbol(provenance):
    d = uniform([0, 1, 2], provenance)
    quotient = dl.apply(d, lambda x: float("nan") if x < 2 else 1.0)
    assert len(quotient) == 2
    torch.testing.assert_close(quotient.prob_of([math.nan] * 2), torch.full((2,), 2 / 3))
    torch.testing.assert_close(quotient.prob_of([np.float64("nan")] * 2), torch.full((2,), 2 / 3))
    joined = dl.union(quotient, dl.Distribution.certain(math.nan, batch=2, provenance=provenance))
    assert len(joined) == 2
    inside = dl.apply(d, lambda x: (float("nan"), "x"))
    assert len(inside) == 1


def test_two_nans_given_are_duplicates():
    with pytest.raises(dl.DolphinError, match="nan"):
        dl.Distribution(torch.tensor([0.5, 0.5]), [math.nan, float("nan")])


@both
def test_equal_symbols_are_one(provenance):
    """1 == 1.0 == True in Python, so they are one symbol, the first that appeared."""
    ones = dl.union(uniform([1, 2], provenance), uniform([True, 3.0], provenance))
    assert [repr(s) for s in ones.symbols] == ["1", "2", "3.0"]
    probs = dl.get_probs(ones, symbols=[1.0, True, 1, 2.0, 3])
    assert probs[0].tolist() == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.5])
    d = uniform([1, 2], provenance)
    merged = dl.apply(d, lambda x: True if x == 1 else 1.0)
    assert len(merged) == 1
    assert merged.prob_of([1, 1.0]).tolist() == pytest.approx([1.0, 1.0])


def test_equal_symbols_given_are_duplicates():
    with pytest.raises(dl.DolphinError, match=r"duplicate|twice|same"):
        dl.Distribution(torch.tensor([0.5, 0.5]), [1, True])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], [True, 2]),
        ([1, 2], [1.0, 2.0]),
        ([True, False], [1, 0]),
        ([0.0, 1.0], [-0.0, 1.0]),
        ([(1, "a")], [(True, "a")]),
        ([(1.0, (2,))], [(1, (2.0,))]),
        ([Point(0, 1)], [(0, 1)]),
        ([frozenset({1})], [frozenset({True})]),
        ([Card("x", 1)], [Card("x", True)]),
        ([Weekday.TUESDAY, 5], [1, 5]),
        ([fractions.Fraction(1, 2)], [0.5]),
        ([1 + 0j], [1]),
    ],
    ids=lambda symbols: str(symbols)[:40],
)
def test_the_cache_does_not_confuse_equal_symbols(first, second):
    """`str(1)` is not `str(True)`, although 1 == True."""

    def describe(x):
        return repr(x)

    for symbols in (first, second, first):
        for layout in ("shared", "rows"):
            p = torch.full((len(symbols),), 1 / len(symbols))
            d = (
                dl.Distribution(p, symbols)
                if layout == "shared"
                else dl.Distribution.from_rows([(symbols, p)])
            )
            found = dl.apply(d, describe)
            assert list(found.symbols) == [describe(s) for s in symbols]


def test_equal_results_of_other_kinds_in_a_second_step():
    """The function after a function gets what the first one returned, not something equal."""

    def names(make):
        d = uniform([1, 2])
        return list(dl.apply(dl.apply(d, make), lambda x: type(x).__name__).symbols)

    assert names(int) == ["int"]
    assert names(float) == ["float"]
    assert names(lambda x: x == 1) == ["bool"]
    assert names(int) == ["int"]


def test_symbols_of_one_dtype_come_back_as_python_numbers():
    """numpy's integers overflow: products of digits must not."""
    d = uniform(np.arange(1, 4) * 10**6)
    assert all(type(symbol) is int for symbol in d.symbols)
    product = d
    for _ in range(3):
        product = dl.apply(product, d, operator.mul)
    assert max(product.symbols) == (3 * 10**6) ** 4
    tensor_symbols = uniform(torch.arange(3).tolist())
    assert list(tensor_symbols.symbols) == [0, 1, 2]


def test_products_beyond_any_machine_integer():
    d = dl.Distribution(torch.tensor([0.5, 0.5]), [1, 9])
    product = d
    for _ in range(39):
        product = dl.apply(product, dl.Distribution(torch.tensor([0.5, 0.5]), [1, 9]), operator.mul)
    assert list(product.symbols) == [9**n for n in range(41)]
    assert product.prob_of([9**40]).item() == pytest.approx(0.5**40)


def test_own_equality_merges_results():
    d = uniform(range(6), dl.TopKProofs(k=6))
    classes = dl.apply(d, Modulo)
    assert len(classes) == 3
    torch.testing.assert_close(dl.get_probs(classes), torch.full((2, 3), 1 / 3))


def test_none_is_no_sentinel():
    d = uniform([None, 1])
    assert d.argmax() in ([None, None], [1, 1])
    result = dl.apply(d, d, lambda x, y: None)
    assert list(result.symbols) == [None]
    kept = dl.filter(d, lambda x: x is None)
    assert kept.argmax() == [None, None]
    assert dl.get_probs(d, symbols=[None]).tolist() == [[0.5], [0.5]]


def test_results_keep_order_of_first_appearance():
    d, e = uniform([0, 1, 2]), uniform([0, 10])
    assert list(dl.apply(d, e, lambda x, y: x - y).symbols) == [0, -10, 1, -9, 2, -8]
    assert list(dl.union(uniform([3, 1]), uniform([2, 1])).symbols) == [3, 1, 2]


def test_symbols_compare_like_lists():
    """`merged.symbols == paths.symbols` is how a recursion in Python finds its end."""
    d, e = uniform([0, 1]), uniform([0, 1])
    assert d.symbols == e.symbols
    assert d.symbols != uniform([1, 0]).symbols
    assert d.symbols != uniform([0, 1, 2]).symbols
    assert 1 in d.symbols


def test_what_a_person_looks_at():
    probs = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]])
    d = dl.Distribution(probs, ["a", "b", "c"])
    assert d.argmax() == ["b", "a"]
    assert [[s for s, _ in row] for row in d.top(2)] == [["b", "c"], ["a", "c"]]
    assert dict(d.row(1)) == pytest.approx({"a": 0.5, "b": 0.2, "c": 0.3})
    assert len(d) == 3
    assert d.batch_size == 2
    for word in ("Distribution", "'a'", "2 rows"):
        assert word in repr(d)


def test_explain_names_facts():
    d = dl.Distribution(torch.tensor([0.3, 0.7]), ["tail", "head"], provenance=dl.TopKProofs(k=3))
    e = dl.Distribution(torch.tensor([0.4, 0.6]), ["tail", "head"], provenance=dl.TopKProofs(k=3))
    same = dl.apply(d, e, operator.eq)
    text = str(same.explain(True))
    for word in ("tail", "head", "0.42", "0.12"):
        assert word in text


class _Pair(NamedTuple):
    number: object
    name: str


@pytest.mark.parametrize("first", range(5))
def test_numbers_of_many_symbols_are_those_of_each(first):
    """Equal symbols that are not alike have other numbers, whichever came first."""
    alike = [(1, "a"), (True, "a"), (1.0, "a"), _Pair(1, "a"), _Pair(True, "a")]
    table = SymbolTable()
    known = [table.number(symbol) for symbol in alike[first:] + alike[:first]]
    expected = dict(zip(map(repr, alike[first:] + alike[:first]), known, strict=True))
    assert len(set(known)) == 5
    for symbol in alike:
        for symbols in ([symbol], [symbol, symbol], [(2, "b"), symbol], [symbol, 3]):
            numbers = table.numbers(symbols)
            assert numbers.tolist() == [table.number(each) for each in symbols]
        assert table.numbers([symbol]).tolist() == [expected[repr(symbol)]]
    assert table.numbers([]).tolist() == []
    assert len(set(table.classes(table.numbers(alike)).tolist())) == 1


FLAT = [1, True, 1.0, 0, False, 0.0, -0.0, "a", b"a", None, 2**70, 0.5, math.inf]


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_flat_symbols_in_any_order(seed):
    generator = np.random.default_rng(seed)

    def flat():
        members = tuple(FLAT[at] for at in generator.integers(len(FLAT), size=2).tolist())
        return members if generator.random() < 0.7 else members[0]

    together, alone = SymbolTable(), SymbolTable()
    for _ in range(5):
        symbols = [flat() for _ in range(30)]
        found = together.numbers(symbols)
        expected = [alone.number(symbol) for symbol in symbols]
        for at, symbol in zip(found.tolist(), symbols, strict=True):
            assert repr(together.symbols[at]) == repr(symbol)
        assert [repr(alone.symbols[at]) for at in expected] == list(map(repr, symbols))
        classes = together.classes(found)
        for at in range(1, len(symbols)):
            assert (symbols[at] == symbols[0]) == (classes[at] == classes[0])


def test_flat_symbols_equal_to_an_object_with_its_own_equality():
    class Seven:
        def __eq__(self, other):
            return other == 7

        def __hash__(self):
            return hash(7)

    table = SymbolTable()
    special = table.number(Seven())
    numbers = table.numbers([5, 7, (7,)])
    classes = table.classes(np.array([special, *numbers]))
    assert classes[0] == classes[2] and len(set(classes.tolist())) == 3
