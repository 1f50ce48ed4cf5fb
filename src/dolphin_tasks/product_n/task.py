"""ProductN for the trainer."""

from collections.abc import Sequence
from dataclasses import dataclass

import dolphin as dl
from dolphin_tasks.digits import DigitConfig, FoldTask
from dolphin_tasks.product_n import data, program


@dataclass(frozen=True, kw_only=True)
class ProductConfig(DigitConfig):
    """Learn to read digits from products of N of them."""

    n: int = 4
    """Digits per sample."""


class ProductTask(FoldTask[ProductConfig]):
    """Learn to read digits from products of N of them."""

    name = "product"
    summary = "read N handwritten digits, knowing only their product"
    config_class = ProductConfig
    sign = "×"

    def target(self, digits: Sequence[int]) -> int:
        return data.target(digits)

    def fold(self, digits: Sequence[dl.Distribution]) -> dl.Distribution:
        return program.multiply(digits)
