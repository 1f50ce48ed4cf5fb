"""The common part of both Sudoku tasks: boards of digits, and a network that reads cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from torch import Tensor, nn

from dolphin_tasks.digits import digit_whereabouts, find_digits
from dolphin_tasks.sudoku import data, model
from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.noise import seed_of
from dolphin_tasks.training.task import Data, Outputs, Task


@dataclass(frozen=True, kw_only=True)
class BoardConfig(TrainConfig):
    """Options of the tasks over boards."""

    batch: int = 32
    """Boards per step."""
    boards: int = 2000
    """Training boards."""
    validation_boards: int = 400
    """Boards to choose the epoch on, of images held out from training."""
    test_boards: int = 1000
    """Boards of test images."""


S = TypeVar("S", bound=BoardConfig)


class BoardTask(Task[S, data.BoardBatch], Generic[S]):
    """A program over boards: what its samples and its network are."""

    config: S
    digits: ClassVar[int]
    """A cell holds one of the digits from 1 to this one."""
    make: Callable[[int, tuple[Tensor, Tensor], int], data.Boards]
    """Boards of this number, of images and labels, with a seed."""

    def data(self) -> Data[data.BoardBatch]:
        config = self.config
        mnist = find_digits(config.data_dir, config.download)
        counts = (config.boards, config.validation_boards, config.test_boards)
        train, validation, test = (
            self.make(count, pool, seed_of(config.seed, self.digits**2, split))
            for split, (count, pool) in enumerate(zip(counts, data.pools(mnist), strict=True))
        )
        return Data(train, validation, test, f"boards made here, of MNIST from {mnist.source}")

    @classmethod
    def whereabouts(cls) -> str:
        return digit_whereabouts()

    def network(self) -> nn.Module:
        return model.cell_network(self.digits)

    def read(self, network: nn.Module, batch: data.BoardBatch) -> Outputs:
        return (model.read_cells(network, batch),)
