"""What the benchmark needs to know about a program, and the numbers that it is run on."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

Inputs = Literal["early", "confident"]


class Other(NamedTuple):
    """The same loss, computed in another way."""

    name: str
    loss: Callable[[Tensor, Any], Tensor]
    at_least: float
    """The target: at least this many times as long as the program."""


class Program(abc.ABC):
    """A network, the program behind it and its loss.

    `draw` replaces the network: scores that it could give for `rows` samples, and their labels. The
    symbolic part that is timed is `loss`, from the network's scores to a number.
    """

    @abc.abstractmethod
    def network(self) -> nn.Module:
        """The network of the task, as it is trained."""

    @abc.abstractmethod
    def pictures(self, rows: int) -> Tensor:
        """Random input of the network for `rows` samples: images, clips or words."""

    @abc.abstractmethod
    def draw(self, rows: int, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, Any]:
        """Scores that the network could give for `rows` samples, and the labels of the samples."""

    @abc.abstractmethod
    def loss(self, scores: Tensor, labels: Any) -> Tensor:
        """The program and the loss."""

    def others(self) -> tuple[Other, ...]:
        """Other ways to write the program, to compare with."""
        return ()


def class_scores(truth: Tensor, classes: int, inputs: Inputs, generator: torch.Generator) -> Tensor:
    """Scores (..., classes) for a softmax whose right answers are `truth`.

    "early" is a network that has hardly been trained: every class is about as likely as any other.
    "confident" is one near the end of training: right in about 98 of 100 cases, and sure of it.
    """
    noise = torch.randn(*truth.shape, classes, generator=generator)
    if inputs == "early":
        return 0.3 * noise
    other = torch.randint(classes, truth.shape, generator=generator)
    wrong = torch.rand(truth.shape, generator=generator) < 0.02
    seen = torch.where(wrong, other, truth)
    return noise + 8.0 * torch.nn.functional.one_hot(seen, classes)


def fact_scores(truth: Tensor, inputs: Inputs, generator: torch.Generator) -> Tensor:
    """Scores for a sigmoid each, of independent facts that hold where `truth` is true."""
    noise = torch.randn(truth.shape, generator=generator)
    if inputs == "early":
        return 0.3 * noise
    wrong = torch.rand(truth.shape, generator=generator) < 0.02
    return noise + torch.where(truth ^ wrong, 5.0, -5.0)
