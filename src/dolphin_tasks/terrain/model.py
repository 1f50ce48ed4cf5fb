"""The network of Terrain: each cell's cost from the pixels of its own tile."""

from __future__ import annotations

from torch import Tensor, nn

from dolphin_tasks.terrain.world import TILE


class GroundNetwork(nn.Module):
    """Pictures (n, 3, 8 · side, 8 · side) in [0, 1] to scores (n, side, side), 8,400 weights.

    A convolution as large as a tile and as wide as its stride, and two layers that look at one tile
    each.

    >>> import torch
    >>> GroundNetwork()(torch.zeros(2, 3, 96, 96)).shape
    torch.Size([2, 12, 12])
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, TILE, stride=TILE),
            nn.ReLU(),
            nn.Conv2d(32, 64, 1),
            nn.ReLU(),
            nn.Conv2d(64, 1, 1),
        )

    def forward(self, pictures: Tensor) -> Tensor:
        return self.layers(pictures - 0.5)[:, 0]
