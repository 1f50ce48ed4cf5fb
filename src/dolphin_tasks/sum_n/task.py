"""SumN for the trainer."""

from collections.abc import Sequence
from dataclasses import dataclass

import dolphin as dl
from dolphin_tasks.digits import DigitBatch, DigitConfig, FoldTask, digit_data
from dolphin_tasks.sum_n import data, program
from dolphin_tasks.training.task import Data


@dataclass(frozen=True, kw_only=True)
class SumConfig(DigitConfig):
    """Learn to read digits from sums of N of them."""

    n: int = 5
    """Digits per sample."""
    sums: int | None = None
    """Make this many training sums, reusing images, and a sixth as many to validate and to test, of
    separate images. Published sums of 16 to 1,024 digits have 6,000. Default: as many as use each
    image once."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        if self.sums is not None:
            self.at_least(6, "sums")


class SumTask(FoldTask[SumConfig]):
    """Learn to read digits from sums of N of them."""

    name = "sum"
    summary = "read N handwritten digits, knowing only their sum"
    config_class = SumConfig
    sign = "+"

    def data(self) -> Data[DigitBatch]:
        sums = self.config.sums
        counts = None if sums is None else (sums, sums // 6, sums // 6)
        return digit_data(self.config, self.places(), counts or (None, None, None))

    def target(self, digits: Sequence[int]) -> int:
        return data.target(digits)

    def fold(self, digits: Sequence[dl.Distribution]) -> dl.Distribution:
        return program.add_up(digits)
