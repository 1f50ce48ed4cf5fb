"""The program of SumN: digits in, their sum out."""

from collections.abc import Sequence

import dolphin as dl


def add_up(digits: Sequence[dl.Distribution]) -> dl.Distribution:
    """The distribution of the sum.

    >>> add_up([dl.Distribution.certain(d) for d in (3, 1, 4)]).argmax()
    [8]
    """
    total = digits[0]
    for digit in digits[1:]:
        total = dl.apply(total, digit, lambda x, y: x + y)
    return total
