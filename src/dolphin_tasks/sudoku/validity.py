"""Visual Sudoku 4×4 for the trainer: learn to read digits from whether boards are valid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.fetch import DataError
from dolphin_tasks.scan import read_pictures
from dolphin_tasks.sudoku import data, drawing, program
from dolphin_tasks.sudoku.task import BoardConfig, BoardTask
from dolphin_tasks.training.task import Outputs, Samples


@dataclass(frozen=True, kw_only=True)
class SudokuConfig(BoardConfig):
    """Learn to read digits from whether 4×4 boards of them are valid."""

    epochs: int = 6
    """Passes over the training boards."""
    boards: int = 2000
    """Training boards, half of them spoilt."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        self.at_least(2, "boards", "validation_boards", "test_boards")


class SudokuTask(BoardTask[SudokuConfig]):
    """Learn to read digits from whether 4×4 boards of them are valid."""

    name = "sudoku"
    summary = "read digits of 4×4 Sudokus, knowing only which boards are valid"
    config_class = SudokuConfig
    digits = 4
    make = staticmethod(data.validity_boards)

    def program(self, *outputs: Tensor) -> dl.Distribution:
        return program.valid(dl.Distribution.each_from_logits(outputs[0], range(1, 5)))

    def targets(self, batch: data.BoardBatch) -> Sequence[Any]:
        return batch.valid

    @property
    def classes(self) -> Sequence[str]:
        return "1234"

    def perceived(self, outputs: Outputs, batch: data.BoardBatch) -> tuple[Tensor, Tensor]:
        """Digits up to renaming: labels don't say which of the four is called 1."""
        read, true = outputs[0].argmax(2).cpu().flatten(), batch.digits.flatten() - 1
        return naming(read, true)[read], true

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.BoardBatch, path: Path
    ) -> None:
        read, true = self.perceived(outputs, batch)
        marks = self.right(answers, batch)
        notes = [
            f"read as {'valid' if answer else 'invalid'}" + ("" if mark else ": wrong")
            for answer, mark in zip(answers, marks, strict=True)
        ]
        drawing.draw_boards(batch, read.view(-1, 16) + 1, true.view(-1, 16) + 1, notes, marks, path)

    def given(self, inputs: Sequence[str]) -> data.BoardBatch:
        """Pictures that show sixteen digits, row by row, one or several each."""
        images = read_pictures([Path(name) for name in inputs], size=28, box=20)
        if len(images) != 16:
            raise DataError(
                f"a 4×4 board has 16 digits, the pictures show {len(images)}. Give them row by "
                "row, with a gap between digits."
            )
        cells = torch.ones(1, 16, dtype=torch.int64)
        return data.BoardBatch(images, cells > 0, cells)

    def describe(self, outputs: Outputs, batch: data.BoardBatch) -> list[str]:
        read = (outputs[0][0].argmax(1) + 1).tolist()
        likeliest = likeliest_boards(outputs[0][:1])[0]
        lines = [
            "".join(map(str, read[row : row + 4])) + "   " + "".join(map(str, board))
            for row, board in ((r, likeliest[r : r + 4]) for r in (0, 4, 8, 12))
        ]
        prob = float(self._result(outputs).prob_of([True])[0])
        return [
            "cell by cell, and the likeliest valid board (digits up to their names):",
            *lines,
            f"valid with probability {prob:.4f}",
        ]

    @torch.no_grad()
    def more_results(self, network: nn.Module, samples: Samples[Any]) -> dict[str, Any]:
        """AUROC of validity, and how good the likeliest valid board of each valid one is."""
        batch, outputs = self.read_all(network, samples)
        valid = torch.tensor(batch.valid)
        scores = self._result(outputs).log_probs([True])[:, 0].cpu()
        read, true = outputs[0].argmax(2).cpu(), batch.digits - 1
        names = naming(read.flatten(), true.flatten())
        solved = torch.tensor(likeliest_boards(outputs[0][valid.to(outputs[0].device)])) - 1
        wanted = true[valid]
        return {
            "auroc": auroc(scores, valid),
            "digits_of_valid_boards": float((names[read[valid]] == wanted).float().mean()),
            "digits_of_likeliest_valid_board": float((names[solved] == wanted).float().mean()),
            "valid_boards_read_whole": float((names[read[valid]] == wanted).all(1).float().mean()),
            "likeliest_valid_boards_right": float((names[solved] == wanted).all(1).float().mean()),
        }


def likeliest_boards(logits: Tensor) -> list[tuple[int, ...]]:
    """The valid board of greatest probability for each row of logits (B, 16, 4)."""
    cells = dl.Distribution.each_from_logits(logits, range(1, 5), provenance="exact")
    boards = dl.most_likely(cells, program.valid(cells), [True] * len(logits))
    return [board for board in boards if board is not None]


def naming(read: Tensor, true: Tensor) -> Tensor:
    """Names for four classes, (4,): the permutation under which most of them are right.

    >>> naming(torch.tensor([3, 3, 0, 1, 2]), torch.tensor([0, 0, 1, 2, 3]))
    tensor([1, 2, 3, 0])
    """
    pairs = torch.bincount(read * 4 + true, minlength=16).view(4, 4).tolist()
    best = max(
        itertools.permutations(range(4)),
        key=lambda names: sum(pairs[place][name] for place, name in enumerate(names)),
    )
    return torch.tensor(best)


def auroc(scores: Tensor, positive: Tensor) -> float:
    """How often a positive has a higher score than a negative; ties count half.

    >>> auroc(torch.tensor([0.9, 0.4, 0.4]), torch.tensor([True, True, False]))
    0.75
    """
    ahead = scores[positive][:, None] - scores[~positive]
    return float((ahead.sign().double() + 1).mean() / 2)
