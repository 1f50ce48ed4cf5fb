"""The networks that the programs are measured against."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dolphin_tasks.mnist import digit_network

__all__ = [
    "ClipNetwork",
    "SentenceNetwork",
    "digit_network",
    "grid_network",
    "symbol_network",
]


def symbol_network(classes: int = 14) -> nn.Sequential:
    """The paper's network for handwritten formulas: images (n, 1, 45, 45) to scores.

    >>> symbol_network()(torch.zeros(2, 1, 45, 45)).shape
    torch.Size([2, 14])
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * 20 * 20, 128),
        nn.BatchNorm1d(128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )


def grid_network(facts: int) -> nn.Sequential:
    """The paper's network for 32×32 path images: images (n, 1, 32, 32) to scores of facts.

    Convolutions are padded: contours run along the border of the image, too.

    >>> grid_network(156)(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 156])
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, facts),
    )


class SentenceNetwork(nn.Module):
    """A transformer encoder of 6 layers, 384 wide: words (n, length) to scores of relations.

    The first two words stand for the two people whose relation is asked for, in both directions.

    >>> SentenceNetwork(21, layers=1)(torch.zeros(3, 24, dtype=torch.long)).shape
    torch.Size([3, 2, 21])
    """

    def __init__(self, relations: int, words: int = 4000, layers: int = 6) -> None:
        super().__init__()
        width = 384
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.relation = nn.Linear(2 * width, relations)

    def forward(self, sentences: Tensor) -> Tensor:
        places = torch.arange(sentences.shape[1], device=sentences.device)
        encoded = self.encoder(self.words(sentences) + self.places(places))
        pairs = torch.stack([encoded[:, [0, 1]], encoded[:, [1, 0]]], dim=1)
        return self.relation(pairs.flatten(2))


class ClipNetwork(nn.Module):
    """A small video network: clips (n, 3, 32, 64, 64) to scores of actions for 16 frame pairs.

    >>> ClipNetwork(8)(torch.zeros(1, 3, 32, 64, 64)).shape
    torch.Size([1, 16, 8])
    """

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.seen = nn.Sequential(
            nn.Conv3d(3, 32, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2)),
            nn.ReLU(),
            nn.Conv3d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv3d(64, 128, 3, stride=(1, 2, 2), padding=1),
            nn.ReLU(),
        )
        self.action = nn.Linear(128, actions)

    def forward(self, clips: Tensor) -> Tensor:
        return self.action(self.seen(clips).mean(dim=(3, 4)).transpose(1, 2))
