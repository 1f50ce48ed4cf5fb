"""SumN for the trainer."""

from collections.abc import Sequence
from dataclasses import dataclass

import dolphin as dl
from dolphin_tasks.digits import DigitConfig, FoldTask
from dolphin_tasks.sum_n import data, program


@dataclass(frozen=True, kw_only=True)
class SumConfig(DigitConfig):
    """Learn to read digits from sums of N of them."""

    n: int = 5
    """Digits a sample."""


class SumTask(FoldTask[SumConfig]):
    """Learn to read digits from sums of N of them."""

    name = "sum"
    summary = "read N handwritten digits, knowing only their sum"
    config_class = SumConfig
    sign = "+"

    def target(self, digits: Sequence[int]) -> int:
        return data.target(digits)

    def fold(self, digits: Sequence[dl.Distribution]) -> dl.Distribution:
        return program.add_up(digits)
