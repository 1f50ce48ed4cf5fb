"""Networks of HWF: images (n, 1, 45, 45) to logits (n, 14)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 14


def paper_network() -> nn.Sequential:
    """The paper's network.

    >>> paper_network().eval()(torch.zeros(2, 1, 45, 45)).shape
    torch.Size([2, 14])
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * 22 * 22, 128),
        nn.BatchNorm1d(128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, CLASSES),
    )


def better_network() -> nn.Sequential:
    """Deeper, and less than a tenth of the cost: the ink is halved in size first.

    Strokes are one pixel wide. Averaging 2x2 pixels keeps where a stroke lies as a shade, so that
    a stroke looks much the same wherever it falls between pixels.

    >>> better_network().eval()(torch.zeros(2, 1, 45, 45)).shape
    torch.Size([2, 14])
    """

    def block(inside: int, outside: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
        ]

    return nn.Sequential(
        nn.AvgPool2d(2, ceil_mode=True),
        *block(1, 24), nn.MaxPool2d(2),
        *block(24, 48), nn.MaxPool2d(2),
        *block(48, 96),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(96 * 5 * 5, 128),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(128, CLASSES),
    )  # fmt: skip


def read(network: nn.Module, images: Tensor, lengths: Tensor) -> Tensor:
    """Logits (B, greatest length, 14) of formulas whose images follow one another."""
    device = next(network.parameters()).device
    logits = network(images.to(device, memory_format=torch.channels_last))
    present = torch.arange(int(lengths.max())) < lengths[:, None]
    padded = logits.new_zeros(*present.shape, CLASSES)
    return padded.masked_scatter(present[..., None].to(device), logits)
