"""Handwritten formulas: digits and operators in turn, from the value of the formula alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.hwf.model import paper_network
from dolphin_tasks.hwf.program import SYMBOLS, calculate, readings, same, value


@dataclass(frozen=True)
class Formula(Program):
    """Formulas of `length` symbols."""

    length: int

    def network(self) -> nn.Module:
        return paper_network()

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * self.length, 1, 45, 45)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[float]]:
        truth = torch.randint(1, 10, (rows, self.length), generator=generator)
        truth[:, 1::2] = torch.randint(10, 14, truth[:, 1::2].shape, generator=generator)
        labels = [value([SYMBOLS[place] for place in row]) for row in truth.tolist()]
        return class_scores(truth, len(SYMBOLS), inputs, generator), labels

    def loss(self, scores: Tensor, labels: list[float]) -> Tensor:
        lengths = torch.full((len(labels),), self.length)
        return dl.bce_loss(calculate(readings(scores), lengths), labels, match=same)
