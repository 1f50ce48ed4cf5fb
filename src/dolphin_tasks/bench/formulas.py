"""Handwritten formulas: digits and operators in turn, from the value of the formula alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.networks import symbol_network
from dolphin_tasks.bench.program import Inputs, Program, class_scores

SYMBOLS: tuple[Any, ...] = (*range(10), "+", "-", "×", "÷")
RIGHT = math.inf  # stands for all results that are close enough; no formula gives it
KEPT = 7  # likeliest partial formulas, and likeliest symbols of a place, that a row keeps


def is_digit(symbol: Any) -> bool:
    """What may stand at even places."""
    return isinstance(symbol, int)


def is_operator(symbol: Any) -> bool:
    """What may stand at odd places."""
    return isinstance(symbol, str)


def first(digit: int) -> tuple[float, float]:
    """A formula is (sum of its finished terms, the term at its end)."""
    return 0.0, float(digit)


def add_operator(formula: tuple[float, float], operator: str) -> tuple[float, float, str]:
    """+ and − finish the term before them; × and ÷ go on with it."""
    total, term = formula
    return (total + term, 0.0, operator) if operator in "+-" else (total, term, operator)


def add_digit(formula: tuple[float, float, str], digit: int) -> tuple[float, float]:
    """Now both sides of the operator are there."""
    total, term, operator = formula
    if operator == "+":
        return total, float(digit)
    if operator == "-":
        return total, -float(digit)
    if operator == "×":
        return total, term * digit
    return total, term / digit if digit else math.nan


def value(formula: tuple[float, float]) -> float:
    """The value of a formula that ends with a digit."""
    return formula[0] + formula[1]


def judge(result: float, label: float) -> float:
    """All results that are close enough are one."""
    return RIGHT if close(result, label) else result


def close(result: float, label: float) -> bool:
    """Equal up to 0.01; dividing by zero is a result like any other."""
    return math.isnan(label) if math.isnan(result) else abs(result - label) <= 0.01


def evaluate(places: list[dl.Distribution]) -> dl.Distribution:
    """The values that the formula may have, given what each place may hold."""
    digits = [dl.sample(dl.filter(place, is_digit), KEPT) for place in places[::2]]
    operators = [dl.sample(dl.filter(place, is_operator), KEPT) for place in places[1::2]]
    formula = dl.apply(digits[0], first)
    for operator, digit in zip(operators, digits[1:], strict=True):
        formula = dl.sample(dl.apply(formula, operator, add_operator), KEPT)
        formula = dl.sample(dl.apply(formula, digit, add_digit), KEPT)
    return dl.apply(formula, value)


@dataclass(frozen=True)
class Formula(Program):
    """Formulas of `length` symbols."""

    length: int

    def network(self) -> nn.Module:
        return symbol_network(len(SYMBOLS))

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * self.length, 1, 45, 45)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[float]]:
        truth = torch.randint(1, 10, (rows, self.length), generator=generator)
        truth[:, 1::2] = torch.randint(10, 14, truth[:, 1::2].shape, generator=generator)
        labels = [calculate([SYMBOLS[place] for place in row]) for row in truth.tolist()]
        return class_scores(truth, len(SYMBOLS), inputs, generator), labels

    def loss(self, scores: Tensor, labels: list[float]) -> Tensor:
        results = evaluate(dl.Distribution.each_from_logits(scores, SYMBOLS))
        # The label is to become likelier, and every other result of a row less likely.
        judged = dl.apply(results, dl.Distribution.certain_rows(labels), judge)
        return dl.bce_loss(judged, [RIGHT] * len(labels))


def calculate(symbols: list[Any]) -> float:
    """The value of a formula that is known."""
    formula = first(symbols[0])
    for operator, digit in zip(symbols[1::2], symbols[2::2], strict=True):
        formula = add_digit(add_operator(formula, operator), digit)
    return value(formula)
