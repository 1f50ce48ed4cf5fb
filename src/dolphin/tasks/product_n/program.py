"""The program of ProductN: digits in, their product out."""

from collections.abc import Sequence

import dolphin as dl


def multiply(digits: Sequence[dl.Distribution]) -> dl.Distribution:
    """The distribution of the product.

    Halves are multiplied first: products of few digits have few distinct values, so the large
    sets of symbols meet only once, at the end.

    >>> multiply([dl.Distribution.certain(9)] * 20).argmax()
    [12157665459056928801]
    """
    if len(digits) == 1:
        return digits[0]
    half = len(digits) // 2
    return dl.apply(multiply(digits[:half]), multiply(digits[half:]), lambda x, y: x * y)
