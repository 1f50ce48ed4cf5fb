"""Products of many integers of which one per row is read: two halves that meet in the middle.

The order of factors is free, so the first and the second half of them are multiplied apart, both as
rows of one batch, and only pairs with the product that is read are joined. The product of 20 digits
has 53,362 values, that of 10 digits 4,357: 159,000 instead of 2,034,520 combinations per row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dolphin.execution.indices import IndexLists, to_device
from dolphin.execution.regrouping import Halves
from dolphin.provenance.damp.steps import OneByOne, step_gradients, step_sums


class InHalves:
    """How one product per row is read, of `count` operands with `width` symbols each."""

    def __init__(self, plans: Sequence[IndexLists], width: int, halves: Halves) -> None:
        self.count, self.width, self.halves = len(plans) + 1, width, halves
        self.half = self.count // 2
        self.steps = OneByOne(plans[: self.half - 1], [width] * self.half, None)
        self.extra = plans[self.half - 1] if self.count % 2 else None

    def padding(self, like: Tensor) -> list[Tensor]:
        return []

    def read(self, numbers: Tensor) -> tuple[Tensor, list[Tensor]]:
        """One product per row, (r,), and what gradients need."""
        rows = numbers.shape[1]
        both, rest = self._as_rows(numbers)
        value, values = self.steps.read(both) if self.half > 1 else (both, [])
        left, right = value.split(rows, 1)
        if self.extra is not None:
            left = step_sums(left, rest, self.extra)
        to_left, to_right = self._others(right, 0), self._others(left, 1)
        return (left * to_left).sum(0), [both, to_left, to_right, *values]

    def _as_rows(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the second half as rows of one batch, and an operand that is left over."""
        size = self.half * self.width
        return torch.cat((numbers[:size], numbers[size : 2 * size]), 1), numbers[2 * size :]

    def _others(self, factors: Tensor, side: int) -> Tensor:
        """(n, r): for each symbol of one half the probability of the factor that it needs."""
        total = factors.sum(0, keepdim=True)
        longer = torch.cat((factors, torch.zeros_like(total), total))
        device = factors.device
        which = to_device(self.halves.which, device)
        return longer.gather(0, to_device(self.halves.places[side], device).index_select(1, which))

    def gradients(self, numbers: Tensor, kept: Sequence[Tensor], share: Tensor) -> Tensor:
        """The gradient of all operands from that of what was read."""
        both, to_left, to_right, *values = kept
        rows = len(share)
        of_left, of_right = to_left * share, to_right * share
        of_rest = []
        if self.extra is not None:
            left = (values[-1] if values else both)[:, :rows]
            rest = numbers[2 * self.half * self.width :]
            of_left, grads = step_gradients(left, rest, of_left, self.extra)
            of_rest.append(grads)
        grads = torch.cat((of_left, of_right), 1)
        if self.half > 1:
            grads = self.steps.gradients(both, values, grads)
        return torch.cat((*grads.split(rows, 1), *of_rest))
