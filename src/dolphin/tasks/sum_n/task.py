"""SumN for the trainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

import dolphin as dl
from dolphin.tasks.digits import DigitBatch, DigitConfig, DigitTask
from dolphin.tasks.sum_n import data, model, program
from dolphin.training.task import Outputs


@dataclass(frozen=True, kw_only=True)
class SumConfig(DigitConfig):
    """Learn to read digits from sums of N of them."""

    n: int = 5
    """Digits a sample."""


class SumTask(DigitTask[SumConfig]):
    """Learn to read digits from sums of N of them."""

    name = "sum"
    summary = "read N handwritten digits, knowing only their sum"
    config_class = SumConfig

    def target(self, digits: Sequence[int]) -> int:
        return data.target(digits)

    def _result(self, outputs: Outputs) -> dl.Distribution:
        with dl.using(self.provenance):
            return program.add_up(model.digit_distributions(outputs[0]))

    def losses(self, outputs: Outputs, batch: DigitBatch) -> Tensor:
        loss = self.config.make_loss()
        return loss(self._result(outputs), self.targets(batch), reduction="none")

    def answers(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return self._result(outputs).argmax()

    def between(self) -> list[str]:
        return ["", *["+"] * (self.config.n - 1)]
