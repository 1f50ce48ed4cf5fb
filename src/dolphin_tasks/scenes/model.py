"""The network of Scenes: what one thing looks like."""

from __future__ import annotations

from torch import Tensor, nn

from dolphin_tasks.scenes.world import ATTRIBUTES


class ThingNetwork(nn.Module):
    """Cells (n, 3, 16, 16) in [0, 1] to scores (n, 9), of shapes, colours and sizes.

    >>> import torch
    >>> ThingNetwork()(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 9])
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(48 * 16, 64),
            nn.ReLU(),
            nn.Linear(64, sum(map(len, ATTRIBUTES.values()))),
        )

    def forward(self, cells: Tensor) -> Tensor:
        """The scores of every cell."""
        return self.layers(cells - 0.5)
