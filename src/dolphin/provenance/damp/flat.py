"""Sums of products for one row of tags, in plain numbers and without padding.

In per-row layout the tags of all rows follow each other in a single row, and the index lists are
new in every step. Then arranging groups in rectangles costs more than adding each product where it
belongs. Ten rounds of 7,000 to 71,000 products, forward and backward: 14 ms instead of 46.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.execution.indices import Contraction
from dolphin.provenance.differentiation import Formula, reading_is_free
from dolphin.provenance.numerics import (
    ZERO,
    chunk_elements,
    cut_above_one,
    plain_share,
    underflows,
)

Contract = Callable[[Sequence[Tensor], Contraction], Tensor]


def flat_sums(
    operands: Sequence[Tensor], plan: Contraction, clip: bool, contract: Contract
) -> Tensor | None:
    """log Σ over each group of Π exp(operand), (groups, 1), clipped at log 1.

    None where it doesn't pay: for tags of many rows, on devices where reading values means waiting,
    and if double precision is not enough. `contract` does the same in ordinary operations.
    """
    if any(logs.shape[1] != 1 for logs in operands) or not reading_is_free(operands[0]):
        return None
    if not 0 < plan.combinations <= chunk_elements():
        return None
    with torch.no_grad():
        indices, group_of, empty = plan.flat_on(operands[0].device)
        product = _gathered(operands[0], indices[0])
        for logs, index in zip(operands[1:], indices[1:], strict=True):
            product.mul_(_gathered(logs, index))
        sums = product.new_zeros(plan.groups).scatter_add_(0, group_of, product)
        if empty is not None:
            sums.index_fill_(0, empty, 1.0)
        if underflows(sums):
            return None
    return _FlatSums.of(plan, clip, contract, [(product, sums)], *operands)


def _gathered(logs: Tensor, index: Tensor) -> Tensor:
    return logs.reshape(-1).double().exp().index_select(0, index)


def _coarsest(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    return min(dtypes, key=lambda dtype: dtype.itemsize)


class _FlatSums(Formula):
    """The logarithm of `sums`, which were computed before, as were the products."""

    @staticmethod
    def value(
        ctx: Any,
        plan: Contraction,
        clip: bool,
        contract: Contract,
        computed: list[tuple[Tensor, Tensor]],
        *operands: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        product, sums = computed.pop()  # only what the backward pass needs stays alive
        ctx.plan, ctx.clip = plan, clip
        ctx.sizes = [len(logs) for logs in operands]
        ctx.dtypes = [logs.dtype for logs in operands]
        values = sums.clamp(max=1.0).log_()
        empty = plan.flat_on(sums.device)[2]
        if empty is not None:
            values.index_fill_(0, empty, ZERO)
        return values.to(_coarsest(ctx.dtypes)).view(-1, 1), (product, sums)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        product, sums = saved
        indices, group_of, _ = ctx.plan.flat_on(grad.device)
        share = plain_share(grad.view(-1).double(), sums, clip=ctx.clip)
        part = share.index_select(0, group_of).mul_(product)
        return [
            part.new_zeros(size).scatter_add_(0, index, part).to(dtype).view(-1, 1)
            for index, size, dtype in zip(indices, ctx.sizes, ctx.dtypes, strict=True)
        ]

    @staticmethod
    def cut(ctx: Any, saved: Sequence[Tensor]) -> tuple[int, int]:
        return cut_above_one(saved[1], plain=True) if ctx.clip else (0, 0)

    @staticmethod
    def formula(
        plan: Contraction,
        clip: bool,
        contract: Contract,
        computed: list[tuple[Tensor, Tensor]],
        *operands: Tensor,
    ) -> Tensor:
        return contract(operands, plan)
