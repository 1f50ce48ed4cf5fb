"""ProductN for the trainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

import dolphin as dl
from dolphin.tasks.digits import DigitBatch, DigitConfig, DigitTask
from dolphin.tasks.product_n import data, model, program
from dolphin.training.task import Outputs


@dataclass(frozen=True, kw_only=True)
class ProductConfig(DigitConfig):
    """Learn to read digits from products of N of them."""

    n: int = 4
    """Digits a sample."""


class ProductTask(DigitTask[ProductConfig]):
    """Learn to read digits from products of N of them."""

    name = "product"
    summary = "read N handwritten digits, knowing only their product"
    config_class = ProductConfig

    def target(self, digits: Sequence[int]) -> int:
        return data.target(digits)

    def _result(self, outputs: Outputs) -> dl.Distribution:
        with dl.using(self.provenance):
            return program.multiply(model.digit_distributions(outputs[0]))

    def losses(self, outputs: Outputs, batch: DigitBatch) -> Tensor:
        loss = self.config.make_loss()
        return loss(self._result(outputs), self.targets(batch), reduction="none")

    def answers(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return self._result(outputs).argmax()

    def between(self) -> list[str]:
        return ["", *["×"] * (self.config.n - 1)]
