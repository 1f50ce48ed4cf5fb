"""The program of ProductN: digits in, their product out."""

from collections.abc import Sequence

import dolphin as dl


def multiply(digits: Sequence[dl.Distribution]) -> dl.Distribution:
    """The distribution of the product.

    Symbols are Python integers, so nothing overflows.

    >>> multiply([dl.Distribution.certain(9)] * 20).argmax()
    [12157665459056928801]
    """
    product = digits[0]
    for digit in digits[1:]:
        product = dl.apply(product, digit, lambda x, y: x * y)
    return product
