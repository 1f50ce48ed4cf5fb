"""The probabilistic sum of products in plain numbers: only sums and products per combination.

For float32 numbers, computed in double precision. CLUTRR with chains of four, forward and
backward: three times faster than with logarithms, which take four transcendental functions per
combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.execution.buckets import BucketTensors
from dolphin.provenance.differentiation import Formula
from dolphin.provenance.logarithms import (
    chunk_indices,
    log_products,
    padded,
    without_padding,
)
from dolphin.provenance.numerics import ZERO, floor, underflows

_SMALL = 1e-8  # a sum below this is the result, to the precision of float32


def plain_or(
    bucket: BucketTensors, step: int, either: Any, operands: Sequence[Tensor]
) -> Tensor | None:
    """log(1 - Π_d (1 - Π_i exp(operand_i[index_i[d, w]]))) for every group w of a bucket.

    None if that underflows. `either` is the same in ordinary operations, of the logarithms of
    products along their first dimension.
    """
    with torch.no_grad():
        plain = [logs.double().exp() for logs in operands]
        parts = [_either(product) for _, product in _products(bucket, step, plain)]
        out = torch.cat([out for out, _ in parts])
        if underflows(out):
            return None
        none = torch.cat([none for _, none in parts])
    return _PlainOr.of(bucket, step, either, [(out, none, *plain)], *operands)


def _products(
    bucket: BucketTensors, step: int, plain: Sequence[Tensor]
) -> Iterator[tuple[int, Tensor]]:
    """Products (depth, width of the chunk, rows), some groups at a time; 0 in the padding."""
    ready = padded(bucket, plain, 0.0)
    for start in range(0, bucket.width, step):
        indices = chunk_indices(bucket, start, step)
        product = ready[0].index_select(0, indices[0])
        for numbers, index in zip(ready[1:], indices[1:], strict=True):
            product.mul_(numbers.index_select(0, index))
        yield start, product.view(bucket.depth, -1, product.shape[-1])


def _fails(product: Tensor) -> Tensor:
    """1 - p, above 0: whatever is divided by it has a factor as small."""
    return (1.0 - product).clamp_(min=floor(torch.float32))


def _either(product: Tensor) -> tuple[Tensor, Tensor]:
    """The probability that one of some independent events happens, and that none does."""
    none, total = _fails(product).prod(0), product.sum(0)
    return torch.where(total < _SMALL, total, 1.0 - none), none


class _PlainOr(Formula):
    """The logarithm of a result that was computed before."""

    @staticmethod
    def value(
        ctx: Any,
        bucket: BucketTensors,
        step: int,
        either: Any,
        computed: list[tuple[Tensor, ...]],
        *operands: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        ctx.bucket, ctx.step = bucket, step
        saved = computed.pop()  # only what the backward pass needs stays alive
        return saved[0].log().to(operands[0].dtype), saved

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        bucket: BucketTensors = ctx.bucket
        out, none, *plain = saved
        share = (grad.double() / out).mul_(none)
        grads = [torch.zeros_like(numbers) for numbers in padded(bucket, plain, 0.0)]
        for start, product in _products(bucket, ctx.step, plain):
            part = product.div_(_fails(product)).mul_(share[start : start + ctx.step])
            flat = part.view(-1, part.shape[-1])
            for total, index in zip(grads, chunk_indices(bucket, start, ctx.step), strict=True):
                total.index_add_(0, index, flat)
        return [total.to(grad.dtype) for total in without_padding(bucket, grads)]

    @staticmethod
    def formula(
        bucket: BucketTensors,
        step: int,
        either: Any,
        computed: list[tuple[Tensor, ...]],
        *operands: Tensor,
    ) -> Tensor:
        ready = padded(bucket, operands, ZERO)
        return either(log_products(bucket, ready, 0, bucket.width), 0)
