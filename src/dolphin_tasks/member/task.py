"""Member for the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

import dolphin as dl
from dolphin_tasks.digits import DigitBatch, DigitConfig, DigitTask, digit_distributions
from dolphin_tasks.member import data, program
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Data, Outputs


@dataclass(frozen=True, kw_only=True)
class MemberConfig(DigitConfig):
    """Learn to read digits from whether one is among N of them."""

    n: int = 3
    """Digits per sample, at most 9, so that some digit is not among them."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        if self.n > 9:
            raise OptionError(f"--n must be at most 9, got {self.n}: ten may be all digits.")


class MemberTask(DigitTask[MemberConfig]):
    """Learn to read digits from whether one is among N of them."""

    name = "member"
    summary = "read N digits, knowing only whether a given one is among them"
    config_class = MemberConfig

    def data(self) -> Data[DigitBatch]:
        return data.member_data(self.config)  # pyright: ignore[reportReturnType]

    def targets(self, batch: DigitBatch) -> list[bool]:
        """Whether the digit that is asked for is there: all that training sees."""
        asked = _asked(batch)
        return (batch.digits == asked[:, None]).any(1).tolist()

    def _answer(self, outputs: Outputs, batch: DigitBatch) -> dl.Distribution[bool]:
        with dl.using(self.provenance):
            asked = dl.Distribution.certain_rows(_asked(batch).tolist())
            return program.member(digit_distributions(outputs[0]), asked)

    def losses(self, outputs: Outputs, batch: DigitBatch) -> Tensor:
        loss = self.config.make_loss()
        return loss(self._answer(outputs, batch), self.targets(batch), reduction="none")

    def answers(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return self._answer(outputs, batch).argmax()

    def guesses(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return self.answers(outputs, batch)

    def told(self, answer: Any, batch: DigitBatch, row: int) -> str:
        """An answer with its question."""
        return f"{int(_asked(batch)[row])} {'in' if answer else 'not in'}"

    def given(self, inputs: Sequence[str]) -> DigitBatch:
        """The digit that is asked for, then pictures."""
        if not inputs or not (inputs[0].isdigit() and len(inputs[0]) == 1):
            raise OptionError("member starts with a digit: dolphin predict RUN 7 a.png b.png c.png")
        batch = super().given(inputs[1:])
        asked = batch.digits.new_tensor([int(inputs[0])])
        return data.MemberBatch(batch.images, batch.digits, asked)


def _asked(batch: DigitBatch) -> Tensor:
    assert isinstance(batch, data.MemberBatch)
    return batch.asked
