"""The video network: clips (n, 32, 3, 64, 64) to logits (n, 16, 8), one action per frame pair.

The two frames of a pair are read together, so that motion is visible; then each pair is combined
with its neighbours in time: the first frames of a kill look like a jump.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dolphin_tasks.mugen.program import ACTIONS


def _halve(inputs: int, outputs: int) -> list[nn.Module]:
    """A convolution that halves height and width, batch normalisation, ReLU."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


class PairNetwork(nn.Module):
    """A small video network.

    >>> PairNetwork()(torch.zeros(2, 32, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 16, 8])
    """

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.PixelUnshuffle(2),  # cheaper than a convolution over 6 channels at full size
            *_halve(24, 32),
            *_halve(32, 48),
            *_halve(48, 64),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(64 * 4 * 4, width, bias=False),
            nn.BatchNorm1d(width),  # without it learning stays on its first plateau
            nn.ReLU(),
        )
        self.compare = nn.Conv1d(width, width, 3, padding=1)
        self.name = nn.Conv1d(width, len(ACTIONS), 1)

    def forward(self, clips: Tensor) -> Tensor:
        count, frames = clips.shape[:2]
        pairs = clips.reshape(count * frames // 2, 6, *clips.shape[3:])
        pairs = pairs.contiguous(memory_format=torch.channels_last).float().div_(255)
        seen = self.look(pairs).view(count, frames // 2, -1).transpose(1, 2)
        seen = seen + torch.relu(self.compare(seen))
        return self.name(seen).transpose(1, 2)
