"""The program of HWF: symbols are strung together into a formula, and the formula is evaluated."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from torch import Tensor

import dolphin as dl

DIGITS = tuple(range(10))
OPERATORS = ("+", "-", "*", "/")
SYMBOLS: tuple[Any, ...] = DIGITS + OPERATORS
"""The classes of the network, in the order of its outputs."""

Formula = tuple[Any, ...]
"""Numbers and operators in turn, with no * or / left to reduce: (3, "+", 20.0)."""

TOLERANCE = 0.01


def _divide(x: float, y: float) -> float:
    return x / y if y else math.nan


CALCULATE = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide}


def is_digit(symbol: Any) -> bool:
    """Whether it is one of 0...9."""
    return symbol in DIGITS


def is_operator(symbol: Any) -> bool:
    """Whether it is one of the four operators."""
    return symbol in OPERATORS


def append(formula: Formula, symbol: Any) -> Formula:
    """The formula with one more symbol; products and quotients are worked out at once.

    >>> append((3, "+", 4), "*"), append((3, "+", 4, "*"), 5)
    ((3, '+', 4, '*'), (3, '+', 20))
    """
    if formula[-1] in ("*", "/"):
        *before, left, sign = formula
        return (*before, CALCULATE[sign](left, symbol))
    return (*formula, symbol)


def fits(formula: Formula, symbol: Any) -> bool:
    """Whether this symbol may come next. Numbers and operators alternate.

    >>> fits((3, "+"), 4), fits((3, "+"), "-")
    (True, False)
    """
    return is_operator(symbol) == complete(formula)


def complete(formula: Formula) -> bool:
    """Whether the formula ends with a number."""
    return len(formula) % 2 == 1


def evaluate(formula: Formula) -> float:
    """The value of a formula with only sums and differences left, from left to right.

    >>> evaluate((3, "+", 20, "-", 1))
    22
    """
    total = formula[0]
    for sign, number in zip(formula[1::2], formula[2::2], strict=True):
        total = CALCULATE[sign](total, number)
    return total


def value(symbols: Sequence[Any]) -> float:
    """The value of a formula given as symbols; nan where it divides by zero.

    >>> value([3, "+", 4, "*", 5, "/", 2]), value([1, "/", 0])
    (13.0, nan)
    """
    formula: Formula = (symbols[0],)
    for symbol in symbols[1:]:
        formula = append(formula, symbol)
    return float(evaluate(formula))


def same(a: float, b: float) -> bool:
    """Whether two values are the same, within the tolerance. nan is the same as nan.

    >>> same(0.333, 1 / 3), same(math.nan, math.nan), same(1, math.nan)
    (True, True, False)
    """
    return abs(a - b) <= TOLERANCE or (a != a and b != b)


def readings(logits: Tensor, lowest: int = 0) -> list[dl.Distribution]:
    """The symbol at each place, from logits (B, places, 14): digits and operators alternate.

    Each place's probabilities are those of the symbols that it can hold, and add up to one: they
    are conditioned on the formula being well-formed. Filtering without conditioning would leave a
    loophole for losses that push wrong results down: all results are unlikely if the network reads
    digits as operators and operators as digits, and it would learn just that. For the same reason
    digits below `lowest`, which no formula has, are not among the choices.

    >>> import torch
    >>> readings(torch.zeros(1, 3, 14))[1].row(0)[0]
    ('+', 0.25)
    """
    first = len(DIGITS)
    digits = dl.Distribution.each_from_logits(logits[:, ::2, lowest:first], DIGITS[lowest:])
    signs = dl.Distribution.each_from_logits(logits[:, 1::2, first:], OPERATORS)
    return [(signs if place % 2 else digits)[place // 2] for place in range(logits.shape[1])]


def calculate_one(symbols: Sequence[dl.Distribution], keep: int = 7) -> dl.Distribution:
    """The values of one formula, from a distribution over symbols per place.

    `calculate` for one sample: formulas of different lengths need no mask. Batched by
    `dolphin.batched(calculate_one)`.
    """
    formula = dl.sample(dl.filter(symbols[0], is_digit).map(lambda s: (s,)), keep)
    for place, symbol in enumerate(symbols[1:], start=1):
        choices = dl.sample(dl.filter(symbol, is_operator if place % 2 else is_digit), keep)
        formula = dl.sample(dl.apply_if(formula, choices, append, fits), keep)
    return dl.apply_if(formula, evaluate, complete)


def calculate(
    symbols: Sequence[dl.Distribution], lengths: Tensor, keep: int = 7
) -> dl.Distribution:
    """The values of formulas of different lengths, from one distribution over symbols per place.

    Digits are at even places, operators at odd ones. After each place every row keeps its
    likeliest few formulas; rows whose formula has ended stay as they are.
    """
    formula = dl.apply(dl.filter(symbols[0], is_digit), lambda s: (s,))
    formula = dl.sample(formula, keep)
    for place, symbol in enumerate(symbols[1:], start=1):
        allowed = dl.filter(symbol, is_operator if place % 2 else is_digit)
        choices = dl.sample(allowed, keep)
        formula = dl.apply_if(formula, choices, append, fits, where=lengths > place)
        formula = dl.sample(formula, keep)
    return dl.apply_if(formula, evaluate, complete)
