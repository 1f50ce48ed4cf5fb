"""Circuits in plain numbers: one sweep up for values, one down for derivatives.

All values stand in one tensor, (nodes, rows), one level of nodes after the other. A level takes one
gather, one product and one sum by index, in each direction; nothing is padded, and no value is
copied. Everything is in double precision, where derivatives with respect to probabilities are right
at 0 and 1, too. What is lost to underflow is below 1e-300 of what a probability can be, so only
logarithms of very small ones need another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.numerics import at_once, chunk_elements


@dataclass(frozen=True)
class Level:
    """Nodes that are sums of products: node[i] has the product of left[i] and right[i]."""

    left: np.ndarray
    right: np.ndarray
    node: np.ndarray
    width: int  # how many nodes; they stand one after the other


class Sweep:
    """The index tensors of all levels on a device."""

    def __init__(self, levels: Sequence[Level], nodes: int, device: torch.device) -> None:
        self.nodes = nodes
        self.both, self.swapped, self.node = [], [], []
        for level in levels:
            sides = np.stack([level.left, level.right])
            self.both.append(to_device(sides.reshape(-1), device))
            self.swapped.append(to_device(sides[::-1].reshape(-1), device))
            self.node.append(to_device(level.node, device))
        self.counts = [len(level.node) for level in levels]  # products of each level
        self.pairs = sum(self.counts)

    def up(self, values: Tensor, keep: bool) -> list[Tensor] | None:
        """Fill in the values of all nodes; what was gathered on the way, if that is to be kept.

        `values` has those of leaves, and 0 everywhere else.
        """
        rows = values.shape[1]
        most = chunk_elements()
        keep = keep and 2 * self.pairs * rows <= most
        gathered: list[Tensor] = []
        for both, node, count in zip(self.both, self.node, self.counts, strict=True):
            if keep or 2 * count * rows <= most:
                sides = values.index_select(0, both)
                left, right = sides.split(count)
                values.index_add_(0, node, left * right)
                if keep:
                    gathered.append(sides)
                continue
            for chosen in _pieces(count, rows):
                left, right = (values.index_select(0, side[chosen]) for side in both.view(2, -1))
                values.index_add_(0, node[chosen], left.mul_(right))
        return gathered if keep else None

    def down(self, values: Tensor, gathered: list[Tensor] | None, grads: Tensor) -> None:
        """Add up the derivatives of all nodes in `grads`, which has those of the roots."""
        rows = values.shape[1]
        for at in range(len(self.node) - 1, -1, -1):
            node, both, swapped = self.node[at], self.both[at], self.swapped[at]
            if gathered is not None:
                sides = gathered[at].view(2, self.counts[at], rows)
                shares = sides * grads.index_select(0, node)
                grads.index_add_(0, swapped, shares.view(-1, rows))
                continue
            for chosen in _pieces(self.counts[at], rows):
                share = grads.index_select(0, node[chosen])
                for side, other in zip(both.view(2, -1), swapped.view(2, -1), strict=True):
                    part = values.index_select(0, side[chosen]).mul_(share)
                    grads.index_add_(0, other[chosen], part)


def _pieces(pairs: int, rows: int) -> Iterator[slice]:
    step = at_once(pairs, 2 * rows)
    return (slice(start, start + step) for start in range(0, pairs, step))
