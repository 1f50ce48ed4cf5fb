"""Whether a 4×4 board of digits is a valid Sudoku."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.sudoku.boards import random_board
from dolphin_tasks.sudoku.data import spoilt
from dolphin_tasks.sudoku.model import cell_network
from dolphin_tasks.sudoku.program import valid


@dataclass(frozen=True)
class Sudoku(Program):
    """The validity of 4×4 boards, every second one spoilt."""

    def network(self) -> nn.Module:
        return cell_network(4)

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * 16, 1, 28, 28)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[bool]]:
        rng = random.Random(int(torch.randint(2**31, (), generator=generator)))
        boards = [random_board(4, rng) for _ in range(rows)]
        boards = [spoilt(b, rng) if row % 2 else b for row, b in enumerate(boards)]
        scores = class_scores(torch.tensor(boards) - 1, 4, inputs, generator)
        return scores, [row % 2 == 0 for row in range(rows)]

    def loss(self, scores: Tensor, labels: list[bool]) -> Tensor:
        cells = dl.Distribution.each_from_logits(scores, range(1, 5))
        return dl.nll_loss(valid(cells), labels)
