"""The program of Member: whether the digit that is asked for is among those on the images."""

from collections.abc import Sequence

import dolphin as dl


def member(
    digits: Sequence[dl.Distribution[int]], asked: dl.Distribution[int]
) -> dl.Distribution[bool]:
    """Whether one of the digits is the one that is asked for.

    >>> digits = [dl.Distribution([0.5, 0.5], [3, 8]), dl.Distribution([0.2, 0.8], [3, 5])]
    >>> member(digits, dl.Distribution.certain(3)).row(0)
    [(True, 0.6), (False, 0.4)]
    """
    answer = dl.apply(digits[0], asked, _same)
    for digit in digits[1:]:
        answer = dl.apply(answer, dl.apply(digit, asked, _same), _either)
    return answer


def _same(digit: int, asked: int) -> bool:
    return digit == asked


def _either(a: bool, b: bool) -> bool:
    return a or b
