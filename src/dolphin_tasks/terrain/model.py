"""The network of Terrain: each cell's cost from the pixels of its own tile."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dolphin_tasks.terrain.world import TILE

STEP = 8.0
"""Costs change this many times as fast as weights: there are few of them, and they are larger."""


class GroundNetwork(nn.Module):
    """Pictures (n, 3, 8 · side, 8 · side) in [0, 1] to scores (n, side, side), 9,400 weights.

    A convolution as large as a tile and as wide as its stride, and two layers that look at one tile
    each, say what kind of ground it is; each kind has a cost that is learnt. So light and noise
    don't change what a cell costs, as long as its kind is clear: many small differences along a
    path decide about it. There may be more kinds than kinds of ground; nobody says how many there
    are.

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
