"""Samples of Member: N images and a digit, which is on one of them every second time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dolphin_tasks.digits import DigitBatch, DigitConfig, DigitRows, digit_data
from dolphin_tasks.training.noise import Noise, seed_of
from dolphin_tasks.training.task import Data


@dataclass(frozen=True)
class MemberBatch(DigitBatch):
    """Images, the digits on them, and the digit that is asked for."""

    asked: Tensor
    """(B,)"""


class MemberRows:
    """Rows of images with a question each."""

    def __init__(self, rows: DigitRows, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.rows = rows
        digits = rows.labels[rows.order]
        there = torch.rand(len(digits), generator=generator) < 0.5
        place = torch.randint(digits.shape[1], (len(digits), 1), generator=generator)
        chance = torch.rand(len(digits), 10, generator=generator)
        absent = chance.scatter(1, digits, -1.0).argmax(1)
        self.asked = torch.where(there, digits.gather(1, place)[:, 0], absent)

    def __len__(self) -> int:
        return len(self.rows)

    def reads(self, index: Tensor) -> int:
        """Images of these rows."""
        return self.rows.reads(index)

    def batch(self, index: Tensor, noise: Noise | None = None) -> MemberBatch:
        """These rows."""
        row = self.rows.batch(index, noise)
        return MemberBatch(row.images, row.digits, self.asked[index])


def member_data(config: DigitConfig) -> Data[MemberBatch]:
    """MNIST as rows with questions."""
    plain = digit_data(config, config.n)
    splits = []
    for number, rows in enumerate((plain.train, plain.validation, plain.test)):
        assert isinstance(rows, DigitRows)
        splits.append(MemberRows(rows, seed_of(config.seed, 5, number)))
    train, validation, test = splits
    return Data(train, validation, test, plain.source)
