"""The trainer's view of a task: data, a network, a program, and how to inspect the results."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.training.config import OptionError, TrainConfig
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


@dataclass(frozen=True)
class Batch:
    """The batches of the simplest tasks: one tensor for the network, one target per row."""

    inputs: Tensor
    targets: list[Any]


class TensorSamples:
    """A split in tensors, for the simplest tasks: row i of `inputs` has the target i.

    >>> import torch
    >>> samples = TensorSamples(torch.arange(6).view(3, 2), ["a", "b", "c"])
    >>> samples.batch(torch.tensor([2, 0]))
    Batch(inputs=tensor([[4, 5],
            [0, 1]]), targets=['c', 'a'])
    """

    def __init__(self, inputs: Tensor, targets: Sequence[Any] | Tensor) -> None:
        given: Any = inputs
        if not isinstance(given, Tensor):
            raise OptionError(
                f"the inputs of TensorSamples must be a tensor, got {type(given).__name__}; "
                "convert them with torch.as_tensor."
            )
        if len(inputs) != len(targets):
            raise OptionError(f"there are {len(inputs)} inputs and {len(targets)} targets.")
        # a tensor or an array: targets are compared with symbols, which are Python objects
        plain = targets if isinstance(targets, Sequence) else targets.tolist()
        self.inputs, self.targets = inputs, list(plain)

    def __len__(self) -> int:
        return len(self.targets)

    def reads(self, index: Tensor) -> int:
        """One input per sample."""
        return len(index)

    def batch(self, index: Tensor, noise: Noise | None = None) -> Batch:
        """These samples."""
        return Batch(self.inputs[index], [self.targets[i] for i in index.tolist()])


class Task(abc.ABC, Generic[C, B]):
    """A program behind a network, and the data that both are tried on.

    The simplest task has three members: `data`, `network` and `program`. Everything else has a
    default. The trainer calls `read` (neural), then `losses` (symbolic) on detached outputs, so
    that it can time the two parts separately.
    """

    name: ClassVar[str] = ""
    """Its name on the command line (default: the name of the class)."""
    summary: ClassVar[str] = ""
    """What is learnt, in a few words (default: the first line of the docstring)."""
    config_class: ClassVar[type[TrainConfig]] = TrainConfig
    """Its options, a dataclass that inherits from `TrainConfig`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()
        if "summary" not in cls.__dict__:
            cls.summary = ((cls.__doc__ or cls.name).strip().splitlines() or [cls.name])[0]

    def __init__(self, config: C) -> None:
        self.config = config
        self.provenance = config.make_provenance()

    # -- the parts ---------------------------------------------------------------------------------

    @abc.abstractmethod
    def data(self) -> Data[B]:
        """Load or make the three splits."""

    def data_elsewhere(self, trained_in: Path | None) -> Data[B]:
        """What `dolphin eval RUN --data-dir FOLDER` tests; `trained_in` was the folder of training.

        A task whose folders don't say which samples are for testing can take all of them.
        """
        return self.data()

    @abc.abstractmethod
    def network(self) -> nn.Module:
        """The perception, freshly initialised."""

    def program(self, *outputs: Tensor) -> dl.Distribution:
        """From the network's outputs to the distribution over results, one row per sample.

        Distributions made here get the provenance of the options. Tasks whose loss or answers need
        more than that define `losses` and `answers` instead.
        """
        raise NotImplementedError(f"{type(self).__name__} needs program(), or losses and answers")

    @classmethod
    def whereabouts(cls) -> str:
        """Where the data would come from now, without fetching it."""
        return "its own"

    def read(self, network: nn.Module, batch: B) -> Outputs:
        """The neural part: what the network says about a batch; by default about `batch.inputs`."""
        device = next((p.device for p in network.parameters()), None)
        outputs = network(cast("Any", batch).inputs.to(device))
        return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

    def targets(self, batch: B) -> Sequence[Any]:
        """The expected result of each row; by default `batch.targets`."""
        return cast("Any", batch).targets

    def losses(self, outputs: Outputs, batch: B) -> Tensor:
        """The symbolic part: one loss per row, (B,); by default --loss of the targets."""
        return self.config.make_loss()(self._result(outputs), self.targets(batch), reduction="none")

    def answers(self, outputs: Outputs, batch: B) -> list[Any]:
        """The program's likeliest result for each row."""
        return self._result(outputs).argmax()

    def right(self, answers: Sequence[Any], batch: B) -> list[bool]:
        """Which answers are right; by default those that equal the targets."""
        return [a == target for a, target in zip(answers, self.targets(batch), strict=True)]

    def _result(self, outputs: Outputs) -> dl.Distribution:
        with dl.using(self.provenance):
            result: Any = self.program(*outputs)
        if not isinstance(result, dl.Distribution):
            kind = type(result).__name__
            raise OptionError(
                f"{type(self).__name__}.program() must return a Distribution, got {kind}."
            )
        return result

    def lesson(self, samples: Samples[B], epoch: int) -> Tensor | None:
        """Which training samples this epoch (from 0) draws from; None: each of them once.

        A curriculum starts with easy ones. They are drawn with replacement, as many as there are
        samples in all, so that all epochs take the same number of steps.
        """
        return None

    # -- inspection --------------------------------------------------------------------------------

    def guesses(self, outputs: Outputs, batch: B) -> list[Any]:
        """A quick answer, to show progress while training; by default the real one."""
        return self.answers(outputs, batch)

    @property
    def classes(self) -> Sequence[str]:
        """The classes of the network, where perception is measured."""
        return ()

    def perceived(self, outputs: Outputs, batch: B) -> tuple[Tensor, Tensor]:
        """(read, true), class numbers of every input of the batch, for accuracy and confusions."""
        nothing = torch.zeros(0, dtype=torch.int64)
        return nothing, nothing

    def draw(self, outputs: Outputs, answers: Sequence[Any], batch: B, path: Path) -> None:
        """Draw a sheet of samples with what was read and answered; by default nothing."""
        return

    def given(self, inputs: Sequence[str]) -> B:
        """What a user gives to `dolphin predict`, files or text, as a batch of one row."""
        raise OptionError(f"the task {self.name} can't read inputs: it defines no given().")

    def looks(self, batch: B) -> Tensor | None:
        """The inputs of the network as pictures (n, height, width); None where they are not.

        `dolphin predict` uses them to detect unfamiliar inputs.
        """
        return None

    def describe(self, outputs: Outputs, batch: B) -> list[str]:
        """Lines that say what was read in the first row, the result, and why."""
        return [f"result: {self.answers(outputs, batch)[0]}"]

    def reasons(self, outputs: Outputs, answer: Any) -> list[str]:
        """Lines with the likeliest proofs of an answer to the first row; by default the program's.

        Whatever provenance a run was trained with, the program runs once more with proofs.
        """
        try:
            with dl.using(dl.TopKProofs(k=3)):
                result = self.program(*(rows[:1] for rows in outputs))
        except NotImplementedError:
            return []
        return str(result.explain(answer)).splitlines() if answer in result.symbols else []

    def portray(self, outputs: Outputs, batch: B, path: Path) -> bool:
        """Draw what was read in the first row; False if the task has no such picture."""
        return False

    # -- more figures ------------------------------------------------------------------------------

    group_names: Sequence[str] = ()
    """Kinds of samples whose right answers are counted separately (lengths, for example)."""
    group_title: str = ""
    """What distinguishes the kinds, in a word or two."""

    def groups(self, batch: B) -> list[int]:
        """The place of each row in `group_names`; called only if there are any."""
        raise OptionError(f"{type(self).__name__} has group_names, but no groups().")

    @torch.no_grad()
    def read_all(self, network: nn.Module, samples: Samples[B]) -> tuple[B, Outputs]:
        """The samples that a run is tested on as one batch, and what the network says about it."""
        network.eval()
        count = min(len(samples), self.config.test_samples or len(samples))
        batch = samples.batch(torch.arange(count))
        return batch, self.read(network, batch)

    def more_results(self, network: nn.Module, samples: Samples[B]) -> dict[str, Any]:
        """Further figures for the results, from the test samples and the chosen weights."""
        return {}
