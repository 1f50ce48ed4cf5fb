"""Samples of SumN: N images and the sum of their digits."""

from collections.abc import Sequence


def target(digits: Sequence[int]) -> int:
    """The label.

    >>> target([3, 1, 4])
    8
    """
    return sum(digits)
