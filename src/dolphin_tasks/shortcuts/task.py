"""Half and Even-Odd for the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.digits import DigitBatch, DigitConfig, FoldTask, read_digits
from dolphin_tasks.shortcuts import data
from dolphin_tasks.sum_n.program import add_up
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Data, Outputs, Samples


@dataclass(frozen=True, kw_only=True)
class ShortcutConfig(DigitConfig):
    """Learn to read digits from sums that leave several readings open."""

    n: int = 2
    """Digits per sample: two."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        if self.n != 2:
            raise OptionError(f"--n must be 2, got {self.n}: samples are pairs.")


class ShortcutTask(FoldTask[ShortcutConfig]):
    """Sums of two digits, of which training sees a few pairs only.

    Several readings give these pairs their sums. Sums say nothing about which one is right, so that
    answers can be right while digits are not: a reasoning shortcut.
    """

    config_class = ShortcutConfig
    sign = "+"
    pairs: ClassVar[Sequence[data.Pair]]
    """The pairs of training, in one order."""
    digits: ClassVar[int]
    """Digits are below this one."""

    def data(self) -> Data[DigitBatch]:
        splits, self._unseen = data.pair_data(self.config, self.pairs, self.digits)
        return splits

    def target(self, digits: Sequence[int]) -> int:
        return sum(digits)

    def fold(self, digits: Sequence[dl.Distribution]) -> dl.Distribution:
        return add_up(digits)

    def program(self, *outputs: Tensor) -> dl.Distribution:
        return self.fold(dl.Distribution.each_from_logits(outputs[0], range(self.digits)))

    def read(self, network: nn.Module, batch: DigitBatch) -> Outputs:
        return (read_digits(network, batch.images)[..., : self.digits],)

    @property
    def classes(self) -> Sequence[str]:
        return [str(digit) for digit in range(self.digits)]

    @torch.no_grad()
    def more_results(self, network: nn.Module, samples: Samples[DigitBatch]) -> dict[str, Any]:
        """Calibration of the digits, and all figures again on other pairs."""
        batch, outputs = self.read_all(network, samples)
        unseen, other = self.read_all(network, self._unseen)
        right = self.right(self.answers(other, unseen), unseen)
        read, true = self.perceived(other, unseen)
        return {
            "readings_that_fit": len(data.readings(self.pairs, self.digits)),
            "calibration_error": calibration_error(outputs[0], batch.digits),
            "other_pairs": {
                "accuracy": sum(right) / len(right),
                "perception_accuracy": float((read.cpu() == true).double().mean()),
                "calibration_error": calibration_error(other[0], unseen.digits),
            },
        }


class HalfTask(ShortcutTask):
    """Learn to read the digits 0 to 4 from four sums that leave three readings open."""

    name = "half"
    summary = "read digits 0 to 4 from sums that leave several readings open"
    pairs = data.HALF
    digits = 5


class EvenOddTask(ShortcutTask):
    """Learn to read digits from sums of two even or two odd ones that leave many readings open."""

    name = "even-odd"
    summary = "read digits from sums of two even or two odd ones"
    pairs = data.EVEN_ODD
    digits = 10


def calibration_error(logits: Tensor, digits: Tensor, bins: int = 10) -> float:
    """Expected calibration error: how far confidence and accuracy are apart, on average.

    Digits are put into bins of equal width by the probability of the likeliest reading. Each bin
    counts by its share with the difference of its accuracy and its mean probability.

    >>> certain = torch.tensor([[9.0, -9.0], [9.0, -9.0]])
    >>> round(calibration_error(certain, torch.tensor([0, 0])), 3)
    0.0
    >>> round(calibration_error(certain, torch.tensor([0, 1])), 3)
    0.5
    """
    sure, read = logits.double().softmax(-1).flatten(0, -2).max(1)
    right = (read.cpu() == digits.flatten()).double()
    sure = sure.cpu()
    place = (sure * bins).long().clamp(max=bins - 1)
    apart = torch.zeros(bins, dtype=torch.float64).index_add(0, place, right - sure)
    return float(apart.abs().sum() / len(sure))
