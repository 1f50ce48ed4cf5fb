"""Samples of AddN: 2 N images, two numbers with the most significant digit first, and their sum."""

from collections.abc import Sequence


def number(digits: Sequence[int]) -> int:
    """The number that these digits write.

    >>> number([0, 4, 2])
    42
    """
    return int("".join(map(str, digits)))


def target(digits: Sequence[int]) -> int:
    """The label: the sum of both halves.

    >>> target([1, 9, 0, 3])
    22
    """
    half = len(digits) // 2
    return number(digits[:half]) + number(digits[half:])
