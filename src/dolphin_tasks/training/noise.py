"""Random numbers that depend on the step and the row, not on which process handles the row.

Every process draws the numbers of the whole global batch and takes its own rows. So two processes
with half a batch each see the same noise as one process with all of it, and a resumed run
needs no stored generator states.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


def seed_of(*parts: int) -> int:
    """One well-mixed seed from several numbers.

    >>> seed_of(0, 1) == seed_of(0, 1), seed_of(0, 1) == seed_of(1, 0)
    (True, False)
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Noise:
    """Random numbers for rows `before ... before + rows` of a batch of `total` rows."""

    def __init__(self, seed: int, before: int, rows: int, total: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._own = slice(before, before + rows)
        self._total = total
        self.rows = rows

    def uniform(self, *shape: int) -> Tensor:
        """Numbers in [0, 1), (rows, *shape)."""
        return torch.rand(self._total, *shape, generator=self._generator)[self._own]

    def coins(self, share: float, *shape: int) -> Tensor:
        """1.0 with probability `share`, otherwise 0.0, (rows, *shape)."""
        whole = torch.empty(self._total, *shape).bernoulli_(share, generator=self._generator)
        return whole[self._own]


class RowDropout(nn.Module):
    """Dropout whose masks come from a `Noise`, set before each training step."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.noise: Noise | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries and scale up the rest while training; the identity otherwise."""
        if not self.training or self.p == 0.0:
            return x
        if self.noise is None:
            return nn.functional.dropout(x, self.p, training=True)
        keep = self.noise.coins(1 - self.p, *x.shape[1:]).to(x.device, x.dtype)
        return x * keep / (1 - self.p)


def use_row_dropout(module: nn.Module) -> nn.Module:
    """Replace every `nn.Dropout` inside `module` by a `RowDropout`."""
    for name, child in module.named_children():
        if isinstance(child, nn.Dropout):
            setattr(module, name, RowDropout(child.p))
        else:
            use_row_dropout(child)
    return module


def set_noise(module: nn.Module, noise: Noise | None) -> None:
    """Give every `RowDropout` of `module` its noise for the coming step."""
    for child in module.modules():
        if isinstance(child, RowDropout):
            child.noise = noise
