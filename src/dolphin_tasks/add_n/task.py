"""AddN for the trainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

import dolphin as dl
from dolphin_tasks.add_n import data, model, program
from dolphin_tasks.digits import DigitBatch, DigitConfig, DigitTask
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Outputs


@dataclass(frozen=True, kw_only=True)
class AddConfig(DigitConfig):
    """Learn to read digits from sums of two N-digit numbers."""

    n: int = 4
    """Digits of each of the two numbers."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        if self.loss != "nll":
            raise OptionError(
                "--loss bce can't be used with add: its program only follows results that end in "
                "the label's digits, so there are no others to push down."
            )


class AddTask(DigitTask[AddConfig]):
    """Learn to read digits from sums of two N-digit numbers."""

    name = "add"
    summary = "read two N-digit handwritten numbers, knowing only their sum"
    config_class = AddConfig

    def places(self) -> int:
        return 2 * self.config.n

    def target(self, digits: Sequence[int]) -> int:
        return data.target(digits)

    def _numbers(self, outputs: Outputs) -> tuple[program.Number, program.Number]:
        with dl.using(self.provenance):
            digits = model.digit_distributions(outputs[0])
        return digits[: self.config.n], digits[self.config.n :]

    def losses(self, outputs: Outputs, batch: DigitBatch) -> Tensor:
        sums = self.targets(batch)
        carry = program.carry_on(*self._numbers(outputs), sums)
        first = [s // 10**self.config.n for s in sums]
        return dl.nll_loss(carry, first, reduction="none")

    def answers(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return program.add(*self._numbers(outputs)).argmax()

    def between(self) -> list[str]:
        marks = [""] * self.places()
        marks[self.config.n] = "+"
        return marks
