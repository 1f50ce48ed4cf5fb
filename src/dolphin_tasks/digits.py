"""The common part of the tasks over MNIST: rows of digits, reading them, and pictures."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.crops import crop
from dolphin_tasks.fetch import DataError, cache_dir
from dolphin_tasks.mnist import Mnist, digit_network, load_mnist
from dolphin_tasks.pictures import SheetRow, draw_sheet, pick_rows
from dolphin_tasks.scan import read_pictures
from dolphin_tasks.strokes import draw_symbols
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.noise import Noise, seed_of
from dolphin_tasks.training.task import Data, Outputs, Task


@dataclass(frozen=True, kw_only=True)
class DigitConfig(TrainConfig):
    """Options of the tasks over MNIST digits."""

    n: int = 5
    """Size of a sample; see the task."""
    validation: int = 3000
    """Training images held out to choose the epoch; 0 trains on all and takes the last epoch."""
    augment: bool = False
    """Shift training images by up to 2 pixels in either direction."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        self.at_least(1, "n")
        if self.validation < 0:
            raise OptionError(f"--validation must not be negative, got {self.validation}.")

    def label(self) -> str:
        """The main options in a few characters."""
        return f"{self.n}-{super().label()}"


@dataclass(frozen=True)
class DigitBatch:
    """Images (B, places, 1, 28, 28) in [0, 1] and the digits on them (B, places)."""

    images: Tensor
    digits: Tensor


class DigitRows:
    """Images dealt into rows: no image is used twice, unless more rows are requested.

    Args:
        rows: how many; images are then dealt again and again, each as often as any other.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        places: int,
        seed: int,
        augment: bool = False,
        rows: int | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        count = len(labels) // places if rows is None or not len(labels) else rows
        rounds = max(1, math.ceil(count * places / max(1, len(labels))))
        order = [torch.randperm(len(labels), generator=generator) for _ in range(rounds)]
        self.order = torch.cat(order)[: count * places].view(count, places)
        self.images, self.labels, self.augment = images, labels, augment

    def dealt(self, order: Tensor) -> DigitRows:
        """The same images in other rows: `order` (rows, places) are their numbers."""
        rows = copy.copy(self)
        rows.order = order
        return rows

    def __len__(self) -> int:
        return len(self.order)

    def reads(self, index: Tensor) -> int:
        """Images of these rows."""
        return len(index) * self.order.shape[1]

    def batch(self, index: Tensor, noise: Noise | None = None) -> DigitBatch:
        """These rows; their images are shifted a little if there is noise and that is on."""
        chosen = self.order[index]
        images = self.images[chosen]
        if noise is not None and self.augment:
            images = shift(images.flatten(0, 1), noise.uniform(2)).view(images.shape)
        return DigitBatch(images.float().div_(255).unsqueeze(2), self.labels[chosen])


def shift(images: Tensor, noise: Tensor, most: int = 2) -> Tensor:
    """Images (n, h, w), each moved by up to `most` pixels; `noise` (n, 2) in [0, 1) says where."""
    height, width = images.shape[1:]
    return crop(F.pad(images, (most,) * 4), (noise * (2 * most + 1)).long(), height, width)


def digit_data(
    config: DigitConfig, places: int, counts: Sequence[int | None] = (None, None, None)
) -> Data[DigitBatch]:
    """MNIST as rows of this many places; the last training images are held out for validation.

    Args:
        counts: rows of each split; None: as many as use each image once.
    """
    mnist = find_digits(config.data_dir, config.download)
    held = min(config.validation, len(mnist.train_labels) // 2)
    cut = len(mnist.train_labels) - held
    seeds = [seed_of(config.seed, 3, split) for split in range(3)]
    return Data(
        DigitRows(
            mnist.train_images[:cut],
            mnist.train_labels[:cut],
            places,
            seeds[0],
            config.augment,
            counts[0],
        ),
        DigitRows(
            mnist.train_images[cut:], mnist.train_labels[cut:], places, seeds[1], rows=counts[1]
        ),
        DigitRows(mnist.test_images, mnist.test_labels, places, seeds[2], rows=counts[2]),
        f"MNIST from {mnist.source}",
    )


def find_digits(data_dir: Path | None, download: bool) -> Mnist:
    """MNIST; if it is not available, drawn digits, with a source that says so."""
    if data_dir is not None:
        inside = data_dir / "mnist"
        return load_mnist(inside if inside.is_dir() else data_dir)
    try:
        return load_mnist(download=download)
    except DataError:
        shared = os.environ.get("DOLPHIN_DATA")
        if shared and (Path(shared) / "mnist").is_dir():
            raise  # data that is there and broken must not be replaced silently
        return drawn_digits()


def drawn_digits() -> Mnist:
    """12,000 drawn digits: nothing like real handwriting, but enough to try a program."""
    labels = torch.arange(12_000) % 10
    images = draw_symbols(labels, 28, seed=0)
    return Mnist(
        images[:10_000], labels[:10_000], images[10_000:], labels[10_000:],
        "a generator: no real MNIST was found or could be fetched, these digits are DRAWN",
    )  # fmt: skip


def digit_whereabouts() -> str:
    """Where digits would come from now."""
    shared = os.environ.get("DOLPHIN_DATA")
    if shared and (Path(shared) / "mnist").is_dir():
        return f"{shared}/mnist"
    cache = cache_dir("mnist")
    if cache.is_dir() and any(cache.iterdir()):
        return f"the cache {cache}"
    return f"fetched into {cache}; drawn where there is no network"


def digit_distributions(logits: Tensor) -> list[dl.Distribution]:
    """Logits (B, places, 10) as one distribution over the digits 0...9 per place."""
    return dl.Distribution.each_from_logits(logits, range(10))


def read_digits(network: nn.Module, images: Tensor) -> Tensor:
    """Images (B, places, 1, 28, 28) to logits (B, places, 10)."""
    device = next(network.parameters()).device
    flat = images.flatten(0, 1).to(device, memory_format=torch.channels_last)
    return network(flat).view(*images.shape[:2], 10)


D = TypeVar("D", bound=DigitConfig)


class DigitTask(Task[D, DigitBatch], Generic[D]):
    """A program over MNIST digits: what its samples, its network and its pictures are."""

    config: D

    def places(self) -> int:
        """Images per sample."""
        return self.config.n

    def target(self, digits: Sequence[int]) -> Any:
        """The label of a sample with these digits: all that training sees."""
        raise NotImplementedError

    def targets(self, batch: DigitBatch) -> list[Any]:
        """The labels of a batch."""
        return [self.target(digits) for digits in batch.digits.tolist()]

    def data(self) -> Data[DigitBatch]:
        return digit_data(self.config, self.places())

    @classmethod
    def whereabouts(cls) -> str:
        return digit_whereabouts()

    def network(self) -> nn.Module:
        return digit_network().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def read(self, network: nn.Module, batch: DigitBatch) -> Outputs:
        return (read_digits(network, batch.images),)

    def guesses(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return [self.target(digits) for digits in outputs[0].argmax(2).tolist()]

    @property
    def classes(self) -> Sequence[str]:
        return [str(digit) for digit in range(10)]

    def perceived(self, outputs: Outputs, batch: DigitBatch) -> tuple[Tensor, Tensor]:
        return outputs[0].argmax(2).flatten(), batch.digits.flatten()

    def told(self, answer: Any, batch: DigitBatch, row: int) -> str:
        """An answer on a sheet."""
        return str(answer)

    def between(self) -> list[str]:
        """The text before each image on a sheet."""
        return [""] * self.places()

    def draw(self, outputs: Outputs, answers: Sequence[Any], batch: DigitBatch, path: Path) -> None:
        right = torch.tensor(self.right(answers, batch))
        targets, read = self.targets(batch), outputs[0].argmax(2).tolist()
        rows = [
            SheetRow(
                batch.images[row, :, 0],
                [str(digit) for digit in read[row]],
                [str(digit) for digit in batch.digits[row].tolist()],
                self.told(answers[row], batch, row),
                self.told(targets[row], batch, row),
                bool(right[row]),
                self.between(),
            )
            for row in pick_rows(right, 6)
        ]
        draw_sheet(rows, path)

    def looks(self, batch: DigitBatch) -> Tensor:
        return batch.images.flatten(0, 2)

    def portray(self, outputs: Outputs, batch: DigitBatch, path: Path) -> bool:
        read = [str(digit) for digit in outputs[0][0].argmax(1).tolist()]
        answer = str(self.answers(outputs, batch)[0])
        draw_sheet([SheetRow.alone(batch.images[0, :, 0], read, answer, self.between())], path)
        return True

    def given(self, inputs: Sequence[str]) -> DigitBatch:
        images = read_pictures([Path(name) for name in inputs], size=28, box=20, by_mass=True)
        if len(images) != self.places():
            raise DataError(
                f"this network was trained on {self.places()} digits per sample; the pictures show "
                f"{len(images)}. Leave a gap between digits, and give as many as in training."
            )
        return DigitBatch(images[None], torch.zeros(1, len(images), dtype=torch.int64))

    def describe(self, outputs: Outputs, batch: DigitBatch) -> list[str]:
        probs, read = outputs[0][0].softmax(1).max(1)
        lines = [
            f"digit {place}: {digit} (probability {prob:.4f})"
            for place, (digit, prob) in enumerate(
                zip(read.tolist(), probs.tolist(), strict=True), 1
            )
        ]
        return [*lines, f"result: {self.answers(outputs, batch)[0]}"]


class FoldTask(DigitTask[D], Generic[D]):
    """A program that folds the digits of a sample into one result."""

    sign: ClassVar[str]
    """The text between two digits."""

    def fold(self, digits: Sequence[dl.Distribution]) -> dl.Distribution:
        """The program."""
        raise NotImplementedError

    def program(self, *outputs: Tensor) -> dl.Distribution:
        return self.fold(digit_distributions(outputs[0]))

    def losses(self, outputs: Outputs, batch: DigitBatch) -> Tensor:
        loss = self.config.make_loss()
        return loss(self._result(outputs), self.targets(batch), reduction="none")

    def answers(self, outputs: Outputs, batch: DigitBatch) -> list[Any]:
        return self._result(outputs).argmax()

    def between(self) -> list[str]:
        return ["", *[self.sign] * (self.places() - 1)]
