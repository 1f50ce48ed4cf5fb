"""Sums and products of handwritten digits, from the result alone."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.networks import digit_network
from dolphin_tasks.bench.program import Inputs, Program, class_scores


def add(digits: list[dl.Distribution]) -> dl.Distribution:
    """One digit after the other."""
    return functools.reduce(lambda total, d: dl.apply(total, d, lambda x, y: x + y), digits)


def add_many(digits: list[dl.Distribution]) -> dl.Distribution:
    """As a balanced tree: additions of equals, ten deep for 1024 digits."""
    return dl.reduce(lambda x, y: x + y, digits)


def multiply(digits: list[dl.Distribution]) -> dl.Distribution:
    """With Python's integers, which don't overflow: 9²⁰ does not fit 64 bits."""
    return functools.reduce(lambda total, d: dl.apply(total, d, lambda x, y: x * y), digits)


def read_digits(scores: Tensor) -> list[dl.Distribution]:
    """A distribution for each of the N places of scores (B, N, 10)."""
    return dl.Distribution.each_from_logits(scores, range(10))


class _Digits(Program):
    """What sums and products have in common: N digits a row."""

    n: int

    def network(self) -> nn.Module:
        return digit_network()

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * self.n, 1, 28, 28)

    def _digits(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        digits = torch.randint(10, (rows, self.n), generator=generator)
        return class_scores(digits, 10, inputs, generator), digits


@dataclass(frozen=True)
class Sum(_Digits):
    """The sum of N digits."""

    n: int

    def draw(self, rows: int, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        scores, digits = self._digits(rows, inputs, generator)
        return scores, digits.sum(1)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        digits = read_digits(scores)
        total = add(digits) if self.n <= 64 else add_many(digits)
        return dl.nll_loss(total, labels)


@dataclass(frozen=True)
class Product(_Digits):
    """The product of N digits."""

    n: int

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[int]]:
        scores, digits = self._digits(rows, inputs, generator)
        return scores, [math.prod(row) for row in digits.tolist()]

    def loss(self, scores: Tensor, labels: list[int]) -> Tensor:
        return dl.nll_loss(multiply(read_digits(scores)), labels)
