"""Two numbers of N digits, from their sum alone: exact, without listing 10¹⁵ sums.

The sum is known in training, so each row is conditioned on the digits of its own label, from the
least significant one on. All that has to be remembered between two columns is the carry.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.networks import digit_network
from dolphin_tasks.bench.program import Inputs, Program, class_scores


def fits(
    columns: list[tuple[dl.Distribution, dl.Distribution]], sums: list[int]
) -> dl.Distribution:
    """True: the numbers add up to each row's sum. Columns from the most significant one on."""
    carry = dl.Distribution.certain(0, batch=len(sums))
    for place, (x, y) in enumerate(reversed(columns)):
        digit = dl.Distribution.certain_rows([total // 10**place % 10 for total in sums])
        carry = dl.apply_if(
            carry,
            dl.apply(x, y, lambda x, y: x + y),
            digit,
            lambda carry, column, digit: (carry + column) // 10,
            lambda carry, column, digit: (carry + column) % 10 == digit,
        )
    rest = dl.Distribution.certain_rows([total // 10 ** len(columns) for total in sums])
    return dl.apply_if(carry, rest, lambda carry, rest: True, lambda carry, rest: carry == rest)


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
        x, y = (dl.Distribution.each_from_logits(number, range(10)) for number in scores.unbind(1))
        right = fits(list(zip(x, y, strict=True)), labels)
        return dl.nll_loss(right, [True] * len(labels))
