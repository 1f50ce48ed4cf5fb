"""What a task is to the trainer: data, a network, a program, and how to look at the outcome."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from torch import Tensor, nn

from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.noise import Noise

Outputs = tuple[Tensor, ...]
"""What the network says about a batch: the tensors between the neural and the symbolic part."""

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)
C = TypeVar("C", bound=TrainConfig)


class Samples(Protocol[B_co]):
    """One split of the data, in memory."""

    def __len__(self) -> int: ...

    def reads(self, index: Tensor) -> int:
        """How many inputs (images) the network reads for these samples."""
        ...

    def batch(self, index: Tensor, noise: Noise | None = None) -> B_co:
        """These samples; `noise` is given while training, for augmentation."""
        ...


@dataclass(frozen=True)
class Data(Generic[B]):
    """The three splits, and a sentence that says where they came from."""

    train: Samples[B]
    validation: Samples[B]
    test: Samples[B]
    source: str


class Task(abc.ABC, Generic[C, B]):
    """A program behind a network, and the data that both are tried on.

    The trainer calls `read` (neural), then `losses` (symbolic) on detached outputs, so that it can
    time the two parts apart.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    config_class: ClassVar[type[TrainConfig]]

    def __init__(self, config: C) -> None:
        self.config = config
        self.provenance = config.make_provenance()

    # -- the parts ---------------------------------------------------------------------------------

    @abc.abstractmethod
    def data(self) -> Data[B]:
        """Load or make the three splits."""

    @classmethod
    @abc.abstractmethod
    def whereabouts(cls) -> str:
        """Where the data would come from now, without fetching it."""

    @abc.abstractmethod
    def network(self) -> nn.Module:
        """The perception, freshly initialised."""

    @abc.abstractmethod
    def read(self, network: nn.Module, batch: B) -> Outputs:
        """The neural part: what the network says about a batch."""

    @abc.abstractmethod
    def losses(self, outputs: Outputs, batch: B) -> Tensor:
        """The symbolic part: one loss a row, (B,)."""

    @abc.abstractmethod
    def answers(self, outputs: Outputs, batch: B) -> list[Any]:
        """The program's likeliest result for each row."""

    @abc.abstractmethod
    def right(self, answers: Sequence[Any], batch: B) -> list[bool]:
        """Which answers are right."""

    def lesson(self, samples: Samples[B], epoch: int) -> Tensor | None:
        """Which training samples this epoch (from 0) draws from; None: each of them once.

        A curriculum starts with easy ones. They are drawn with replacement, as many as there are
        samples in all, so that all epochs take the same number of steps.
        """
        return None

    # -- looking at it -----------------------------------------------------------------------------

    def guesses(self, outputs: Outputs, batch: B) -> list[Any]:
        """A quick answer, to show progress while training; by default the real one."""
        return self.answers(outputs, batch)

    @property
    @abc.abstractmethod
    def classes(self) -> Sequence[str]:
        """What the network tells apart."""

    @abc.abstractmethod
    def perceived(self, outputs: Outputs, batch: B) -> tuple[Tensor, Tensor]:
        """(read, true), class numbers of every input of the batch, for accuracy and confusions."""

    @abc.abstractmethod
    def draw(self, outputs: Outputs, answers: Sequence[Any], batch: B, path: Path) -> None:
        """Draw a sheet of samples with what was read and answered."""

    @abc.abstractmethod
    def given(self, inputs: Sequence[str]) -> B:
        """What a user gives to `dolphin predict`, files or text, as a batch of one row."""

    @abc.abstractmethod
    def describe(self, outputs: Outputs, batch: B) -> list[str]:
        """Lines that tell what was read in the first row, the result, and why."""

    def portray(self, outputs: Outputs, batch: B, path: Path) -> bool:
        """Draw what was read in the first row; False if the task has no such picture."""
        return False

    # -- more figures ------------------------------------------------------------------------------

    group_names: Sequence[str] = ()
    """Kinds of samples to count right answers of apart (lengths, say)."""
    group_title: str = ""
    """What tells the kinds apart, in a word or two."""

    def groups(self, batch: B) -> list[int]:
        """The place of each row in `group_names`; only asked where there are any."""
        raise NotImplementedError

    def more_results(self, network: nn.Module, samples: Samples[B]) -> dict[str, Any]:
        """Further figures for the results, from the test samples and the chosen weights."""
        return {}
