"""The probabilistic sum of products in plain numbers: only sums and products per combination.

For float32 numbers, computed in double precision. CLUTRR with chains of four, forward and
backward: three times faster than with logarithms, which take four transcendental functions per
combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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
    learns = torch.is_grad_enabled() and any(logs.requires_grad for logs in operands)
    with torch.no_grad():
        ready = padded(bucket, [logs.double().exp() for logs in operands], 0.0)
        parts: list[tuple[Tensor, Tensor]] = []
        odds: Tensor | None = None
        for _, product in _products(bucket, step, ready):
            fails = _fails(product)
            parts.append(_either(product, fails))
            if learns and step >= bucket.width:
                odds = product.div_(fails)
        out, none = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        if underflows(out):
            return None
    computed = _Computed(out, none, odds, ready)
    return _PlainOr.of(bucket, step, either, [computed], *operands)


class _Computed(NamedTuple):
    """What the forward pass leaves for the backward pass."""

    out: Tensor  # (width, rows), the probability that one of the events of a group happens
    none: Tensor  # and that none does
    odds: Tensor | None  # p / (1 - p) of every product, (depth, width, rows), if all fit at once
    ready: list[Tensor]  # the padded numbers that are multiplied


def _products(
    bucket: BucketTensors, step: int, ready: Sequence[Tensor]
) -> Iterator[tuple[int, Tensor]]:
    """Products (depth, width of the chunk, rows), some groups at a time; 0 in the padding."""
    for start in range(0, bucket.width, step):
        indices = chunk_indices(bucket, start, step)
        product = ready[0].index_select(0, indices[0])
        for numbers, index in zip(ready[1:], indices[1:], strict=True):
            product.mul_(numbers.index_select(0, index))
        yield start, product.view(bucket.depth, -1, product.shape[-1])


def _fails(product: Tensor) -> Tensor:
    """1 - p, above 0: whatever is divided by it has a factor as small."""
    return (1.0 - product).clamp_(min=floor(torch.float32))


def _either(product: Tensor, fails: Tensor) -> tuple[Tensor, Tensor]:
    """The probability that one of some independent events happens, and that none does."""
    none, total = fails.prod(0), product.sum(0)
    return torch.where(total < _SMALL, total, 1.0 - none), none


class _PlainOr(Formula):
    """The logarithm of a result that was computed before.

    What is computed at once, at most 2 MB of numbers, leaves p / (1 - p) of every product for the
    backward pass. Of more than that, the backward pass computes the products again, so that memory
    grows with results only. A step of CLUTRR with chains of four takes 0.93 of the time.
    """

    @staticmethod
    def value(
        ctx: Any,
        bucket: BucketTensors,
        step: int,
        either: Any,
        computed: list[_Computed],
        *operands: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        out, none, odds, ready = computed.pop()  # only what the backward pass needs stays alive
        ctx.bucket, ctx.step, ctx.at_once = bucket, step, odds is not None
        ctx.sizes = list(map(len, ready))
        rest = ready if odds is None else [odds]
        return out.log().to(operands[0].dtype), (out, none, *rest)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        bucket: BucketTensors = ctx.bucket
        out, none, *rest = saved
        share = (grad.double() / out).mul_(none)
        grads = [share.new_zeros(size, share.shape[-1]) for size in ctx.sizes]
        for start, odds in [(0, rest[0])] if ctx.at_once else _odds(bucket, ctx.step, rest):
            part = odds * share[start : start + ctx.step]
            flat = part.view(-1, part.shape[-1])
            for total, index in zip(grads, chunk_indices(bucket, start, ctx.step), strict=True):
                total.index_add_(0, index, flat)
        return [total.to(grad.dtype) for total in without_padding(bucket, grads)]

    @staticmethod
    def formula(
        bucket: BucketTensors,
        step: int,
        either: Any,
        computed: list[_Computed],
        *operands: Tensor,
    ) -> Tensor:
        ready = padded(bucket, operands, ZERO)
        return either(log_products(bucket, ready, 0, bucket.width), 0)


def _odds(
    bucket: BucketTensors, step: int, ready: Sequence[Tensor]
) -> Iterator[tuple[int, Tensor]]:
    """p / (1 - p) of every product, some groups at a time."""
    for start, product in _products(bucket, step, ready):
        yield start, product.div_(_fails(product))
