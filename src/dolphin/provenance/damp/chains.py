"""Chains of sums of products, in plain numbers, as one node of the autograd graph.

A program often folds one operation over many operands: total = f(f(f(d0, d1), d2), d3). As long as
no number can underflow there is no need for logarithms between its steps, and a single autograd
function can do them all, at a fraction of the cost of many small ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Contraction, IndexLists, to_device
from dolphin.execution.regrouping import Halves
from dolphin.provenance.contract import Deferral, Steps
from dolphin.provenance.damp.formulas import log_sums_of_pairs
from dolphin.provenance.damp.halves import InHalves
from dolphin.provenance.damp.steps import OneByOne
from dolphin.provenance.damp.sums import Tree
from dolphin.provenance.differentiation import Formula, array_of, reading_is_free
from dolphin.provenance.numerics import at_most_one, excess, floor


class PlainChains(Deferral):
    """Chains computed as one node of the autograd graph, where numbers allow it."""

    regroups = True

    def chain(self, first: Tensor, steps: Steps) -> Tensor:
        result = self._plain(first, steps, None)
        return super().chain(first, steps) if result is None else result

    def read(
        self, first: Tensor, steps: Steps, wanted: np.ndarray, halves: Halves | None = None
    ) -> Tensor | None:
        return self._plain(first, steps, wanted, halves)

    def _plain(
        self, first: Tensor, steps: Steps, wanted: np.ndarray | None, halves: Halves | None = None
    ) -> Tensor | None:
        operands = spread_rows([first, *(other for _, other in steps)])
        plans = [plan for plan, _ in steps]
        if not reading_is_free(first) or not all(map(worth_plain_numbers, plans)):
            return None
        if wanted is not None and operands[0].shape[1] != len(wanted):
            return None
        return plain_chain(operands, plans, wanted, halves)


def spread_rows(operands: Sequence[Tensor]) -> list[Tensor]:
    """All with the same number of rows."""
    rows = max(tags.shape[1] for tags in operands)
    return [tags if tags.shape[1] == rows else tags.expand(-1, rows) for tags in operands]


_LARGEST_PLAIN_CONVOLUTION = 125_000  # products per row


def worth_plain_numbers(plan: IndexLists) -> bool:
    """Whether plain numbers are worth a try. Large convolutions are faster in blocks."""
    return isinstance(plan, Contraction) or plan.combinations <= _LARGEST_PLAIN_CONVOLUTION


def plain_chain(
    operands: Sequence[Tensor],
    plans: Sequence[IndexLists],
    wanted: np.ndarray | None = None,
    halves: Halves | None = None,
) -> Tensor | None:
    """Fold logarithms (n_i, r) with plans over all pairs; None where numbers don't allow it.

    Numbers are plain in between, in the precision of the operands, or in double precision if that
    is not enough. They don't allow it if double precision is not enough either, or if sums may
    pass 1. With `wanted` only the symbol at place wanted[row] of each row is read, (r,), and
    underflow matters only there: in a trained network all but the label may be nearly impossible.
    """
    sizes = [operand.shape[0] for operand in operands]
    if not min(sizes) or not operands[0].shape[1]:
        return None
    with torch.no_grad():
        way = _way(operands, plans, wanted, halves)
        logs = torch.cat([*operands, *way.padding(operands[0])])
        plain = logs.exp()
        if not _within_one(plain, sizes):
            return None
        # No product is smaller than this.
        lowest = logs[: sum(sizes)].amin().item() * len(operands) if wanted is None else 0.0
        for dtype in dict.fromkeys((logs.dtype, torch.float64)):
            if wanted is None and lowest < math.log(floor(dtype)):
                continue
            numbers = plain if dtype == plain.dtype else logs.double().exp_()
            read, kept = way.read(numbers)
            if wanted is None or array_of(read).min() >= floor(dtype):
                break
        else:
            return None
    computed = [(read, numbers, kept)]
    return _Chain.apply(way, plans, computed, wanted, *operands)  # type: ignore[return-value]


Way = Tree | InHalves | OneByOne


def _way(
    operands: Sequence[Tensor],
    plans: Sequence[IndexLists],
    wanted: np.ndarray | None,
    halves: Halves | None,
) -> Way:
    if halves is not None:
        return InHalves(plans, len(operands[0]), halves)
    tree = Tree.of(operands, plans, wanted)
    return OneByOne(plans, [len(each) for each in operands], wanted) if tree is None else tree


_FEW = 1 << 15  # numbers that numpy adds up as fast, without an operation of torch


def _within_one(numbers: Tensor, sizes: Sequence[int]) -> bool:
    """Whether no operand has more than 1 in total; then no sum of products has, either."""
    if min(sizes) < max(sizes):
        totals = array_of(torch.stack([part.sum(0) for part in numbers.split(sizes)]))
    elif numbers.numel() <= _FEW:
        every = array_of(numbers).reshape(-1, sizes[0], numbers.shape[-1])
        totals = every.sum(1, dtype=np.float64)
    else:
        totals = array_of(numbers.view(-1, sizes[0], numbers.shape[-1]).sum(1))
    return bool(totals.max() <= 1.0 + excess(numbers.dtype))


class _Chain(Formula):
    """The logarithm of what was read at the end of a chain. All was computed before."""

    @staticmethod
    def value(
        ctx: Any,
        way: Way,
        plans: Sequence[IndexLists],
        computed: list[tuple[Tensor, Tensor, list[Tensor]]],
        wanted: np.ndarray | None,
        *operands: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        read, numbers, kept = computed.pop()  # removed from the list, so that it isn't kept twice
        ctx.sizes = [operand.shape[0] for operand in operands]
        ctx.way = way
        return read.log().clamp_(max=0.0).to(operands[0].dtype), (read, numbers, *kept)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        read, numbers, *kept = saved
        grads = ctx.way.gradients(numbers, kept, grad / read)
        parts = grads.mul_(numbers).to(grad.dtype).split([*ctx.sizes, len(grads) - sum(ctx.sizes)])
        return parts[:-1]

    @staticmethod
    def formula(
        way: Way,
        plans: Sequence[IndexLists],
        computed: Any,
        wanted: np.ndarray | None,
        *operands: Tensor,
    ) -> Tensor:
        logs = operands[0]
        for plan, other in zip(plans, operands[1:], strict=True):
            logs = at_most_one(log_sums_of_pairs(logs, other, plan))
        return logs if wanted is None else logs.gather(0, to_device(wanted, logs.device)[None])[0]
