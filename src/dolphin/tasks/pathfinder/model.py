"""Networks of PathFinder: images to scores of ends and edges of a grid, or of the answer alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

UNSURE = (-6.0, 3.0)
"""Scores of a first guess at edges: what starts surer than that takes long to unlearn."""


class GlobalNetwork(nn.Module):
    """The paper's: every fact is decided by all that the image shows.

    >>> network = GlobalNetwork(32, ends=36, edges=120)
    >>> [tuple(out.shape) for out in network(torch.zeros(2, 1, 32, 32))]
    [(2, 36), (2, 120)]
    """

    def __init__(self, size: int, ends: int, edges: int) -> None:
        super().__init__()
        self.counts = [ends, edges]
        self.features = paper_features(size)
        self.facts = nn.Linear(256, ends + edges)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Scores of all ends and of all directed edges."""
        return self.facts(self.features(images)).split(self.counts, dim=1)


class FirstGuess(nn.Module):
    """What anyone would guess at first: discs are bright all over, contours leave ink in blocks.

    Scores of ends (B, 1, side, side), and how much ink a block has (B, 1, side, side). Where the
    guesses draw their lines is learnt like everything else.
    """

    def __init__(self, side: int, radius: float) -> None:
        super().__init__()
        self.window = 2 * int(radius) + 1
        self.blocks = nn.AdaptiveMaxPool2d(side)
        self.slope = nn.Parameter(torch.tensor([40.0, 20.0]))
        self.level = nn.Parameter(torch.tensor([0.95, 0.1]))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of ends and of ink, a block each."""
        bright = self.blocks(box_mean(images, self.window))
        seen = (bright / bright.amax((2, 3), keepdim=True).clamp(min=1e-3), self.blocks(images))
        ends, ink = (self.slope[i] * (seen[i] - self.level[i]) for i in range(2))
        return ends, ink.clamp(*UNSURE)


def box_mean(images: Tensor, window: int) -> Tensor:
    """The mean of a square of pixels around each one, by sums of sums: any window costs the same.

    >>> box_mean(torch.tensor([[0.0, 9.0, 0.0], [0.0, 0.0, 0.0]])[None, None], 3)
    tensor([[[[1., 1., 1.],
              [1., 1., 1.]]]])
    """
    before, after = window // 2 + 1, window // 2
    sums = F.pad(images, (before, after, before, after)).cumsum(2)
    sums = (sums[:, :, window:] - sums[:, :, :-window]).cumsum(3)
    return (sums[..., window:] - sums[..., :-window]) / window**2


class LocalNetwork(nn.Module):
    """Facts read off local features: an end in its block, an edge in the two blocks it joins.

    It starts from a first guess, which the features correct. Scores of ends, and of undirected
    edges in the order of `program.grid_edges`.

    >>> network = LocalNetwork(32, 8, radius=1.5)
    >>> [tuple(out.shape) for out in network(torch.zeros(2, 1, 32, 32))]
    [(2, 64), (2, 210)]
    """

    def __init__(self, size: int, side: int, radius: float, width: int = 40) -> None:
        super().__init__()
        self.features = local_features(size, side, width)
        self.guess = FirstGuess(side, radius)
        self.ends = _head(width, 1, 1)
        self.edges = _head(width, 2, 4)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Scores of all ends and of all edges."""
        found = self.features(images)
        ends, ink = self.guess(images)
        # squares of four blocks, one from each block on: the last ones hang over the border
        right, down, falling, rising = self.edges(F.pad(found, (0, 1, 0, 1))).split(1, dim=1)
        edges = (
            right[..., :-1] + torch.minimum(ink[..., :-1], ink[..., 1:]),
            down[:, :, :-1] + torch.minimum(ink[:, :, :-1], ink[:, :, 1:]),
            falling[:, :, :-1, :-1] + torch.minimum(ink[:, :, :-1, :-1], ink[:, :, 1:, 1:]),
            rising[:, :, :-1, :-1] + torch.minimum(ink[:, :, :-1, 1:], ink[:, :, 1:, :-1]),
        )
        flat = [scores.flatten(1) for scores in edges]
        return (self.ends(found) + ends).flatten(1), torch.cat(flat, dim=1)


class PlainNetwork(nn.Module):
    """The features of one of the others, and an answer without a program, for comparison.

    What a first guess sees of ends and ink, it sees as well.

    >>> PlainNetwork(paper_features(32), 256)(torch.zeros(2, 1, 32, 32))[0].shape
    torch.Size([2, 1])
    """

    def __init__(self, features: nn.Module, count: int, guess: FirstGuess | None = None) -> None:
        super().__init__()
        self.features, self.guess = features, guess
        self.answer = nn.Sequential(nn.Linear(count, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """The score of the answer."""
        seen = [self.features(images), *(self.guess(images) if self.guess else ())]
        return (self.answer(torch.cat([each.flatten(1) for each in seen], dim=1)),)


def paper_features(size: int) -> nn.Sequential:
    """256 features of an image; convolutions are padded, contours run along the border, too."""
    pool = max(2, size // 32)
    left = size // pool // pool
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(pool),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(pool),
        nn.Flatten(),
        nn.Linear(64 * left * left, 256), nn.ReLU(),
    )  # fmt: skip


def local_features(size: int, side: int, width: int) -> nn.Sequential:
    """Features (B, width, side, side): each block of the grid, and what lies around it.

    Larger images are read in larger strides, so a pixel of the first layer is always about half a
    dash, and the cost hardly grows.
    """
    stride = 1 if size < 96 else 2 if size < 192 else 4
    return nn.Sequential(
        *_layer(1, width // 2, 2 * stride + 3, stride),
        *_layer(width // 2, width, 3, 2),
        Residual(width),
        nn.AdaptiveMaxPool2d(side),
        Residual(width),
        Residual(width),
    )


class Residual(nn.Module):
    """A layer that adds to its input: it can look further without losing what is near."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(*_layer(width, width, 3, 1))

    def forward(self, features: Tensor) -> Tensor:
        """The same features, and what their surroundings add."""
        return features + self.layer(features)


def _layer(inside: int, outside: int, size: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    ]


def _head(inside: int, blocks: int, outside: int) -> nn.Sequential:
    """A correction of the first guess from a square of blocks; little to begin with."""
    last = nn.Conv2d(64, outside, 1)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)  # pyright: ignore[reportArgumentType]
    return nn.Sequential(nn.Conv2d(inside, 64, blocks), nn.ReLU(), last)
