"""The network of Terrain: each cell's cost from the pixels of its own tile."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dolphin_tasks.terrain.world import TILE

STEP = 8.0
"""Costs are learnt this many times as fast as other weights: they are few, and larger."""


class GroundNetwork(nn.Module):
    """Pictures (n, 3, 8 · side, 8 · side) in [0, 1] to scores (n, side, side), 9,400 weights.

    A convolution whose kernel and stride are one tile, and two layers that see one tile each,
    classify the kind of ground; each kind has a learnt cost. So light and noise don't change what a
    cell costs, as long as its kind is clear: many small differences add up along a path. There may
    be more kinds than kinds of ground; their true number is not given.

    >>> GroundNetwork()(torch.zeros(2, 3, 96, 96)).shape
    torch.Size([2, 12, 12])
    """

    def __init__(self, kinds: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, TILE, stride=TILE),
            nn.ReLU(),
            nn.Conv2d(32, 64, 1),
            nn.ReLU(),
            nn.Conv2d(64, kinds, 1),
        )
        self.costs = nn.Parameter(torch.linspace(0, 1, kinds))

    def forward(self, pictures: Tensor) -> Tensor:
        """The score of every tile: the mean of the costs of what it may be."""
        kinds = self.layers(pictures - 0.5).softmax(1)
        return torch.einsum("nkrc,k->nrc", kinds, STEP * self.costs)
