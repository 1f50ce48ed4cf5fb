"""Products of integers: which pairs of factors have a given product.

A fold that multiplies may be computed in two halves, because the order of its factors is free. Then
the probability of one product needs only the pairs of halves that make it.
"""

from __future__ import annotations

import numpy as np

from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.symbols import Symbols

_MOST = 1 << 64


def are_products(left: Symbols, right: Symbols, result: Symbols, group_of: np.ndarray) -> bool:
    """Whether all combinations, left slowest, belong to the product of their integers."""
    first, second, products = map(_integers, (left, right, result))
    if first is None or second is None or products is None:
        return False
    if int(first.max()) * int(second.max()) >= _MOST:
        return False
    return bool((np.multiply.outer(first, second).reshape(-1) == products[group_of]).all())


def _integers(symbols: Symbols) -> np.ndarray | None:
    """Symbols as unsigned integers; None if there are others."""
    members = symbols.members
    if set(map(type, members)) != {int} or min(members) < 0 or max(members) >= _MOST:
        return None
    return np.array(members, dtype=np.uint64)


class Quotients:
    """For the products of two sets of integers: the second factor, given the first one."""

    def __init__(self, first: Symbols, second: Symbols) -> None:
        divisors, others = _integers(first), _integers(second)
        assert divisors is not None and others is not None
        self._divisors, self._order = divisors[:, None], np.argsort(others)
        self._sorted = others[self._order]

    @staticmethod
    def of(first: Symbols, second: Symbols) -> Quotients:
        return _quotients.get_or_make((first, second), lambda: Quotients(first, second))

    def places(self, products: np.ndarray) -> np.ndarray:
        """(n, number of products): the place among m second factors of the one for each first.

        It is m where there is none, and m + 1 where all are: 0 times anything is 0.
        """
        size = len(self._order)
        quotients, rests = np.divmod(products, np.maximum(self._divisors, 1))
        places = np.full(quotients.shape, size, dtype=np.int64)
        rests[self._divisors[:, 0] == 0] = 1
        exact = np.nonzero(rests == 0)
        wanted = quotients[exact]
        at = np.minimum(np.searchsorted(self._sorted, wanted), size - 1)
        places[exact] = np.where(self._sorted[at] == wanted, self._order[at], size)
        places[(self._divisors == 0) & (products == 0)] = size + 1
        return places


_quotients: BoundedCache[tuple[Symbols, Symbols], Quotients] = BoundedCache(64)
register("quotients", _quotients.__len__, _quotients.clear)
