"""Folds whose order is free, though they were written from left to right: products of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dolphin.execution.indices import Contraction, IndexLists
from dolphin.symbolic.plans import Domain
from dolphin.symbolic.products import Quotients, are_products
from dolphin.symbolic.symbols import Symbols

_FEWEST = 4  # factors
_CHEAPER = 4  # times fewer combinations, at least


class Link(NamedTuple):
    """A step of a chain, with the symbols of its operands and of its result."""

    lists: IndexLists
    before: Domain
    other: Domain
    result: Domain


class Halves(NamedTuple):
    """Which symbols of one half of a product make what is wanted with which of the other half.

    `places` has, for the symbols of the left and of the right half, (n, products), the place among
    the m symbols of the other half, m for none, m + 1 for all; `which` the product of each row.
    """

    places: tuple[np.ndarray, np.ndarray]
    which: np.ndarray


def halves_of(chain: Sequence[Link], wanted: np.ndarray) -> Halves | None:
    """The halves of a product of integers, of which one symbol per row is read.

    None for other chains, and where halves are hardly cheaper. With n factors the right half has
    n // 2 of them. All have the same symbols, so the steps of both are the first ones of the chain.
    """
    count = len(chain) + 1
    if count < _FEWEST or wanted.min() < 0:
        return None
    half = count // 2
    each = [link.lists.combinations for link in chain]
    in_halves = sum(each[: half - 1]) + sum(each[: count - half - 1])
    if _CHEAPER * in_halves > sum(each) or not _multiplies(chain):
        return None
    left, right, result = chain[count - half - 1].before, chain[half - 1].before, chain[-1].result
    assert isinstance(left, Symbols) and isinstance(right, Symbols) and isinstance(result, Symbols)
    groups, which = np.unique(wanted, return_inverse=True)
    products = np.array([result.members[group] for group in groups], dtype=np.uint64)
    ways = Quotients.of(left, right), Quotients.of(right, left)
    return Halves((ways[0].places(products), ways[1].places(products)), which.reshape(-1))


def _multiplies(chain: Sequence[Link]) -> bool:
    """Whether every step multiplies by one of the same integers, and the first one starts there."""
    first = chain[0].before
    if not all(link.other is first for link in chain):
        return False
    return all(map(_is_product, chain))


def _is_product(link: Link) -> bool:
    """Whether a step makes all products of two sets of integers. Checked once per plan."""
    lists, before, other, result = link
    if not isinstance(lists, Contraction) or lists.sizes is None:
        return False
    if lists.multiplies is None:
        assert isinstance(before, Symbols) and isinstance(other, Symbols)
        assert isinstance(result, Symbols)
        lists.multiplies = are_products(before, other, result, lists.group_of)
    return lists.multiplies
