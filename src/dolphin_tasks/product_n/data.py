"""Samples of ProductN: N images and the product of their digits, a Python integer."""

import math
from collections.abc import Sequence


def target(digits: Sequence[int]) -> int:
    """The label. It may be larger than any machine integer.

    >>> target([9] * 20)
    12157665459056928801
    """
    return math.prod(digits)
