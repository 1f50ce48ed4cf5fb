"""Two numbers of N digits, from their sum alone: exact, without listing 10¹⁵ sums."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.add_n.program import carry_on
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.digits import digit_distributions
from dolphin_tasks.mnist import digit_network


@dataclass(frozen=True)
class Addition(Program):
    """Two numbers of `n` digits each, most significant digit first."""

    n: int

    def network(self) -> nn.Module:
        return digit_network()

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * 2 * self.n, 1, 28, 28)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[int]]:
        digits = torch.randint(10, (rows, 2, self.n), generator=generator)
        sums = [sum(int("".join(map(str, number))) for number in row) for row in digits.tolist()]
        return class_scores(digits, 10, inputs, generator), sums

    def loss(self, scores: Tensor, labels: list[int]) -> Tensor:
        x, y = (digit_distributions(number) for number in scores.unbind(1))
        carry = carry_on(x, y, labels)
        return dl.nll_loss(carry, [total // 10**self.n for total in labels])
