"""Visual Sudoku 9×9 for the trainer: learn to read the given digits from what was filled in.

The label of a puzzle is its solution without the cells that show images: no image has a label. The
rules say which digits the images may show; often there are several ways, as two digits can be
exchanged in four cells. Training maximises the probability of reading one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.sudoku import data, drawing, program
from dolphin_tasks.sudoku.boards import Board, Candidates, candidates_of
from dolphin_tasks.sudoku.task import BoardConfig, BoardTask
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Outputs, Samples


@dataclass(frozen=True, kw_only=True)
class Sudoku9Config(BoardConfig):
    """Learn to read and solve 9×9 Sudokus from the digits that were filled in."""

    epochs: int = 2
    """Passes over the training boards."""
    boards: int = 9000
    """Training puzzles."""
    validation_boards: int = 100
    """Puzzles to choose the epoch on, of images held out from training."""
    beam: int = 8
    """Boards followed while solving; four times as many, up to 512, where none has a solution."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        self.at_least(1, "boards", "validation_boards", "test_boards", "beam")
        if self.loss != "nll":
            raise OptionError("--loss must be nll: every label completes a board, none fails to.")


class Sudoku9Task(BoardTask[Sudoku9Config]):
    """Learn to read and solve 9×9 Sudokus from the digits that were filled in."""

    name = "sudoku-9"
    summary = "solve handwritten 9×9 Sudokus, knowing only what was filled in"
    config_class = Sudoku9Config
    digits = 9
    make = staticmethod(data.puzzles)

    def losses(self, outputs: Outputs, batch: data.BoardBatch) -> Tensor:
        with dl.using(self.provenance):
            return -completed(outputs[0].log_softmax(2), batch)

    def answers(self, outputs: Outputs, batch: data.BoardBatch) -> list[Any]:
        """The solution of each puzzle; None where no reading has one."""
        logs = outputs[0].log_softmax(2).cpu()
        return list(program.read_puzzles(logs, batch.given, self.config.beam))

    def guesses(self, outputs: Outputs, batch: data.BoardBatch) -> list[Any]:
        """The given digits as they are read, nothing solved."""
        read = torch.where(batch.given, outputs[0].argmax(2).cpu() + 1, 0)
        return [tuple(row) for row in read.tolist()]

    def right(self, answers: Sequence[Any], batch: data.BoardBatch) -> list[bool]:
        """Whether all digits of an answer are right; 0 is not a digit (see `guesses`)."""
        return [
            answer is not None and all(a in (0, d) for a, d in zip(answer, board, strict=True))
            for answer, board in zip(answers, batch.digits.tolist(), strict=True)
        ]

    @property
    def classes(self) -> Sequence[str]:
        return "123456789"

    def perceived(self, outputs: Outputs, batch: data.BoardBatch) -> tuple[Tensor, Tensor]:
        return outputs[0].argmax(2).cpu()[batch.given], batch.digits[batch.given] - 1

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.BoardBatch, path: Path
    ) -> None:
        marks = self.right(answers, batch)
        solved = torch.tensor([answer or (0,) * 81 for answer in answers])
        read = torch.where(batch.given, outputs[0].argmax(2).cpu() + 1, solved)
        notes = ["solved" if mark else "not solved" for mark in marks]
        drawing.draw_boards(batch, read, batch.digits, notes, marks, path)

    @torch.no_grad()
    def more_results(self, network: nn.Module, samples: Samples[Any]) -> dict[str, Any]:
        """How many puzzles could be solved if all digits were certain."""
        batch, outputs = self.read_all(network, samples)
        whole = self.right(self.guesses(outputs, batch), batch)
        return {"boards_read_without_mistake": sum(whole) / len(whole)}


def completed(log_probs: Tensor, batch: data.BoardBatch) -> Tensor:
    """The log-probability of reading digits that complete the label to a valid board, (B,).

    Cells whose digit follows from the label are read at once; the program goes through the
    others.
    """
    labels = [_label(tuple(row)) for row in batch.digits.where(~batch.given, 0).tolist()]
    masks = torch.tensor([[ord(mask) for mask in board] for board in labels])
    several = (masks & (masks - 1)) > 0
    digits = masks.masked_fill(several, 1).log2().round().long()[..., None].to(log_probs.device)
    certain = log_probs.gather(2, digits)[..., 0]
    settled = (certain * (batch.given & ~several).to(certain)).sum(1)
    order = program.reading_order(torch.zeros(log_probs.shape), several)
    boards = program.fill(dl.Distribution.certain_rows(labels), log_probs, order)
    return settled + dl.exists(boards).log_probs([True])[:, 0]


@functools.lru_cache(maxsize=20_000)  # every epoch needs them again
def _label(puzzle: Board) -> Candidates:
    """What is possible on a board with these digits, which are those of a valid one."""
    candidates = candidates_of(puzzle)
    assert candidates is not None
    return candidates
