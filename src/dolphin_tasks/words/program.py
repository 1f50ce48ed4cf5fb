"""The results of problems: the model writes a calculation, the program carries it out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from torch import Tensor

import dolphin as dl

OPERATIONS = ("+", "-", "*", "/")
NUMBER = re.compile(r"\d+")


def numbers_in(text: str) -> list[int]:
    """The different numbers of a text, in order.

    >>> numbers_in("In 3 days Ann picks 12 pears a day, 3 of them green.")
    [3, 12]
    """
    return list(dict.fromkeys(map(int, NUMBER.findall(text))))


def calculations(numbers: Sequence[int]) -> list[str]:
    """Every calculation with two of the numbers.

    >>> calculations([7, 5])[:5]
    ['7+5', '7-5', '7*5', '7/5', '5+7']
    """
    pairs = [(x, y) for x in numbers for y in numbers if x != y or len(numbers) == 1]
    return [f"{x}{operation}{y}" for x, y in pairs for operation in OPERATIONS]


def carry_out(calculation: str) -> Fraction | None:
    """The value of a calculation; None for a division by zero.

    >>> carry_out("7-5"), carry_out("7/0")
    (Fraction(2, 1), None)
    """
    operation = operation_of(calculation)
    x, y = map(Fraction, calculation.split(operation))
    if operation == "/":
        return x / y if y else None
    return {"+": x + y, "-": x - y, "*": x * y}[operation]


def operation_of(calculation: str) -> str:
    """The sign in a calculation."""
    return next(sign for sign in OPERATIONS if sign in calculation)


def results(log_probs: Tensor, listed: Sequence[Sequence[str]]) -> dl.Distribution[Fraction | None]:
    """The distribution of each row's result, from log-probabilities (B, N) of its calculations."""
    return read_calculations(log_probs, listed).map(carry_out)


def read_calculations(log_probs: Tensor, listed: Sequence[Sequence[str]]) -> dl.Distribution[str]:
    """What was read in each row."""
    rows = [(own, logs[: len(own)]) for own, logs in zip(listed, log_probs, strict=True)]
    return dl.Distribution.from_rows(rows, log_probs=True)
