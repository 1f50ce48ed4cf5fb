"""Products of integers: found among plans, and taken apart again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dolphin.symbolic.products import Quotients, are_products
from dolphin.symbolic.symbols import Symbols


def table(left, right, function):
    """The symbols of all results by first appearance, and the group of every combination."""
    results = [function(x, y) for x, y in itertools.product(left, right)]
    symbols = list(dict.fromkeys(results))
    return Symbols.of(symbols), np.array([symbols.index(result) for result in results])


@pytest.mark.parametrize(
    ("left", "right", "function", "expected"),
    [
        (range(10), range(10), lambda x, y: x * y, True),
        ([7, 0, 3], [2], lambda x, y: x * y, True),
        ([2**32], [2**31], lambda x, y: x * y, True),
        ([2**32], [2**32], lambda x, y: x * y, False),  # passes 64 bits
        ([2**70], [0], lambda x, y: x * y, False),
        ([-1, 1], [2], lambda x, y: x * y, False),
        ([False, True], [1, 2], lambda x, y: x * y, False),
        ([1.0, 2.0], [1, 2], lambda x, y: x * y, False),
        (range(10), range(10), lambda x, y: x + y, False),
        (range(10), range(10), lambda x, y: 80 if (x, y) == (9, 9) else x * y, False),
    ],
)
def test_only_products_of_all_pairs_are_products(left, right, function, expected):
    result, groups = table(left, right, function)
    assert are_products(Symbols.of(left), Symbols.of(right), result, groups) is expected


def test_quotients_are_all_pairs_with_a_product():
    first, second = [6, 0, 1, 4, 12, 3], [2, 1, 0, 12, 5]
    products = [0, 12, 60, 7, 144, 2]
    places = Quotients.of(Symbols.of(first), Symbols.of(second)).places(np.array(products, "u8"))
    for (row, x), (column, product) in itertools.product(enumerate(first), enumerate(products)):
        partners = [j for j, y in enumerate(second) if x * y == product]
        place = places[row, column]
        every = {len(second): [], len(second) + 1: list(range(len(second)))}
        assert every.get(place, [place]) == partners


def test_products_beyond_63_bits():
    nines = Symbols.of([9**10, 1])
    places = Quotients.of(nines, nines).places(np.array([9**20, 9**10, 1], "u8"))
    assert places.tolist() == [[0, 1, 2], [2, 0, 1]]
