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
"""Numbers and operators in turn, worked out as far as it goes: (3, "+", 20.0), or (23.0, "-")."""

TOLERANCE = 0.01


def _divide(x: float, y: float) -> float:
    return x / y if y else math.nan


CALCULATE = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide}


def append(formula: Formula, symbol: Any) -> Formula:
    """The formula with one more symbol; what can be worked out is, at once.

    So formulas that go on alike are the same symbol. Their number, and with it the time of a step,
    grows less with their length: up to 19 symbols take 31 instead of 54 ms.

    >>> append((3, "+", 4), "*"), append((3, "+", 4, "*"), 5), append((3, "+", 20), "-")
    ((3, '+', 4, '*'), (3, '+', 20), (23, '-'))
    """
    if formula[-1] in ("*", "/"):
        *before, left, sign = formula
        return (*before, CALCULATE[sign](left, symbol))
    if len(formula) == 3 and symbol in ("+", "-"):
        return (evaluate(formula), symbol)
    return (*formula, symbol)


def complete(formula: Formula) -> bool:
    """Whether the formula ends with a number."""
    return len(formula) % 2 == 1


def evaluate(formula: Formula) -> float:
    """The value of a formula that is complete: a number, or a sum or difference of two.

    >>> evaluate((3, "+", 20)), evaluate((23,))
    (23, 23)
    """
    if len(formula) == 1:
        return formula[0]
    left, sign, right = formula
    return CALCULATE[sign](left, right)


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
    formula = dl.sample(symbols[0].map(lambda s: (s,)), keep)
    for symbol in symbols[1:]:
        formula = dl.sample(dl.apply(formula, dl.sample(symbol, keep), append), keep)
    return dl.apply_if(formula, evaluate, complete)


def calculate(
    symbols: Sequence[dl.Distribution], lengths: Tensor, keep: int = 7
) -> dl.Distribution:
    """The values of formulas of different lengths, from one distribution over symbols per place.

    Digits are at even places, operators at odd ones (`readings`). After each place every row keeps
    its likeliest few formulas; rows whose formula has ended stay as they are.
    """
    formula = dl.sample(dl.apply(symbols[0], lambda s: (s,)), keep)
    for place, symbol in enumerate(symbols[1:], start=1):
        choices = dl.sample(symbol, keep)
        formula = dl.apply(formula, choices, append, where=lengths > place)
        formula = dl.sample(formula, keep)
    return dl.apply_if(formula, evaluate, complete)
