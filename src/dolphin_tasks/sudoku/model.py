"""The network of visual Sudoku: a small CNN reads each cell on its own."""

from __future__ import annotations

from torch import Tensor, nn

from dolphin_tasks.sudoku.data import BoardBatch


def cell_network(digits: int) -> nn.Sequential:
    """Images (n, 1, 28, 28) to logits (n, digits), 80,000 weights.

    >>> import torch
    >>> cell_network(4)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 4])
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 128),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(128, digits),
    )


def read_cells(network: nn.Module, batch: BoardBatch) -> Tensor:
    """Logits (B, cells, digits), 0 in cells without an image."""
    device = next(network.parameters()).device
    read = network(batch.images.to(device))
    logits = read.new_zeros(*batch.given.shape, read.shape[1])
    return logits.masked_scatter(batch.given[..., None].to(device), read)
