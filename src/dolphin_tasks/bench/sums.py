"""Sums and products of handwritten digits, from the result alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.digits import digit_distributions
from dolphin_tasks.mnist import digit_network
from dolphin_tasks.product_n.program import multiply
from dolphin_tasks.sum_n.program import add_up


def add_many(digits: list[dl.Distribution]) -> dl.Distribution:
    """The sum as a balanced tree, ten levels of additions for 1024 digits."""
    return dl.reduce(lambda x, y: x + y, digits)


class _Digits(Program):
    """The common part of sums and products: N digits per row."""

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
        digits = digit_distributions(scores)
        total = add_up(digits) if self.n <= 64 else add_many(digits)
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
        return dl.nll_loss(multiply(digit_distributions(scores)), labels)
