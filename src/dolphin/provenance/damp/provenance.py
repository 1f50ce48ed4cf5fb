"""Differentiable add-mult probabilities: a number for each symbol, sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from dolphin.execution.buckets import BucketTensors
from dolphin.execution.indices import Contraction, Convolution, IndexLists
from dolphin.execution.recursion.recurrences import Limit, Loop, Recurrence
from dolphin.inputs.arguments import option
from dolphin.provenance.contract import Deferral
from dolphin.provenance.damp.chains import (
    PlainChains,
    plain_chain,
    spread_rows,
    worth_plain_numbers,
)
from dolphin.provenance.damp.convolution import log_convolution
from dolphin.provenance.damp.flat import flat_sums
from dolphin.provenance.damp.formulas import log_sums
from dolphin.provenance.damp.recursion import plain_rounds
from dolphin.provenance.damp.row_recursion import Rounds, rounds_in_rows
from dolphin.provenance.differentiation import Formula, followed, reading_is_free
from dolphin.provenance.logarithms import (
    LogTags,
    chunk_indices,
    chunk_size,
    log_products,
    padded,
    without_padding,
)
from dolphin.provenance.numerics import (
    ZERO,
    clip_above_one,
    cut_above_one,
    gradient_above_one,
    plain_share,
    underflows,
)
from dolphin.symbolic.growth import Growth


class DAMP(LogTags):
    """Add-mult probabilities (`damp`): a ⊕ b = min(1, a + b), a ⊗ b = a·b.

    Exact where summands exclude each other and factors are independent. Tags are logarithms, so
    products of any length keep their value and their gradient.

    Gradients: those of the sum of products. Where a sum exceeds 1, its value is clipped to 1 and
    its gradient is 0 (`above_one="clip"`, the paper's choice), or that of the unclipped sum
    (`above_one="pass"`), which keeps learning where facts are counted more than once.

    Cost: O(B) per combination of symbols, in time and, during one operation, in memory.

    Args:
        above_one: the gradient where a sum exceeds 1: "clip" or "pass", see above.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=dl.DAMP())
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.68), (False, 0.32)]
    """

    name = "damp"
    adds = adds_disjoint = True
    laws = frozenset(
        {
            "commutative", "associative", "identities", "annihilation", "one-absorbs",
            "double-negation", "excluded-middle", "negated-zero",
        }
    )  # fmt: skip

    def __init__(self, above_one: Literal["clip", "pass"] = "clip") -> None:
        option("DAMP", "above_one", above_one, ("clip", "pass"))
        self.above_one = above_one

    def parameters(self) -> dict[str, Any]:
        return {"above_one": self.above_one}

    def add(self, tags: Tensor, dim: int) -> Tensor:
        return clip_above_one(tags.logsumexp(dim), keep_gradient=self.above_one == "pass")

    def contract(self, operands: Sequence[Tensor], plan: Contraction) -> Tensor:
        if followed():  # a compiler fuses better, a transform can't trace fused code
            return super().contract(operands, plan)
        clip = self.above_one == "clip"
        rows = max(tags.shape[1] for tags in operands)
        spread = spread_rows(operands)
        result = self._plain(spread, plan)
        if result is None:
            result = flat_sums(spread, plan, clip, super().contract)
        if result is not None:
            return result
        parts = []
        for bucket in plan.on(operands[0].device):
            step = chunk_size(bucket.width, bucket.depth * rows)
            parts.append(_SumOfProducts.of(bucket, step, clip, *spread))
        return self._assemble(parts, plan, operands)

    def convolve(self, operands: Sequence[Tensor], plan: Convolution) -> Tensor:
        if followed():
            return super().convolve(operands, plan)
        spread = spread_rows(operands)
        result = self._plain(spread, plan)
        if result is not None:
            return result
        return log_convolution(*spread, clip=self.above_one == "clip")

    def _plain(self, spread: Sequence[Tensor], plan: IndexLists) -> Tensor | None:
        """The result in plain numbers, where that is possible and pays."""
        if plan.sizes is None or len(spread) != 2 or not worth_plain_numbers(plan):
            return None
        return plain_chain(spread, [plan]) if reading_is_free(spread[0]) else None

    has_loops = True

    def looped(
        self, form: Recurrence, limit: Limit, start: Tensor, constant: Tensor, other: Tensor
    ) -> Tensor | None:
        rounds = limit.rounds if limit.enough else len(form.sizes) - 1  # symbols alone decide
        return plain_rounds(form, rounds, self.above_one == "clip", start, constant, other)

    has_row_loops = True

    def looped_in_rows(
        self,
        growth: Growth,
        starts: bool,
        keeps: bool,
        most_rounds: int,
        start: Tensor,
        other: Tensor,
    ) -> Tensor | None:
        clip = self.above_one == "clip"
        return rounds_in_rows(Rounds(growth, starts, keeps), clip, start, other)

    def folds_freely(self, operands: Sequence[Tensor | None], exclusive: bool) -> bool:
        return exclusive  # then no sum passes 1, and without clipping ⊗ distributes over ⊕

    def deferral(self, plan: IndexLists | Loop, operands: Sequence[Tensor]) -> Deferral | None:
        on_cpu = operands[0].device.type == "cpu"  # where chains may look at their numbers
        return PlainChains(self, _FEW) if on_cpu and not isinstance(plan, Loop) else None


_FEW = 2_000_000  # combinations


class _SumOfProducts(Formula):
    """log of Σ_d Π_i exp(operand_i[index_i[d, w]]) for every w, in chunks, nothing large saved.

    Where reading values costs nothing, plain products are tried first: they need fewer
    exponentials. If any sum comes near underflow, everything is done again with logarithms.
    """

    @staticmethod
    def value(
        ctx: Any, bucket: BucketTensors, step: int, clip: bool, *operands: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        ctx.bucket, ctx.step, ctx.clip, ctx.plain = bucket, step, clip, False
        if reading_is_free(operands[0]):
            plain = [logs.exp() for logs in operands]
            sums = _plain_sums(bucket, step, padded(bucket, plain, 0.0))
            if not underflows(sums):
                ctx.plain = True
                return sums.clamp(max=1.0).log_(), (sums, *plain)
        sums = _log_sums(bucket, step, padded(bucket, operands, ZERO))
        return sums.clamp(max=0.0), (sums, *operands)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        sums, *operands = saved
        backward = _plain_gradients if ctx.plain else _log_gradients
        return backward(ctx.bucket, ctx.step, operands, sums, grad, ctx.clip)

    @staticmethod
    def cut(ctx: Any, saved: Sequence[Tensor]) -> tuple[int, int]:
        return cut_above_one(saved[0], plain=ctx.plain) if ctx.clip else (0, 0)

    @staticmethod
    def formula(bucket: BucketTensors, step: int, clip: bool, *operands: Tensor) -> Tensor:
        return clip_above_one(log_sums(operands, bucket), keep_gradient=not clip)


def _plain_sums(bucket: BucketTensors, step: int, operands: Sequence[Tensor]) -> Tensor:
    parts = []
    for start in range(0, bucket.width, step):
        product: Tensor | None = None
        for numbers, index in zip(operands, chunk_indices(bucket, start, step), strict=True):
            gathered = numbers.index_select(0, index)
            product = gathered if product is None else product.mul_(gathered)
        assert product is not None
        product = product.view(bucket.depth, -1, product.shape[-1])
        parts.append(product.squeeze(0) if bucket.depth == 1 else product.sum(0))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _log_sums(bucket: BucketTensors, step: int, operands: Sequence[Tensor]) -> Tensor:
    starts = range(0, bucket.width, step)
    parts = [_log_sum(log_products(bucket, operands, start, step)).squeeze(0) for start in starts]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _plain_gradients(
    bucket: BucketTensors,
    step: int,
    plain: Sequence[Tensor],
    sums: Tensor,
    grad: Tensor,
    clip: bool,
) -> list[Tensor]:
    """Gradients of logarithms: of operands, from those of sums, given both as plain numbers."""
    operands = padded(bucket, plain, 0.0)
    grads = [torch.zeros_like(operand) for operand in operands]
    share = plain_share(grad, sums, clip=clip)
    for start in range(0, bucket.width, step):
        indices = chunk_indices(bucket, start, step)
        gathered = [o.index_select(0, i) for o, i in zip(operands, indices, strict=True)]
        spread = share[start : start + step].expand(bucket.depth, -1, -1)
        for number, (total, index) in enumerate(zip(grads, indices, strict=True)):
            part = spread
            for other in (*gathered[:number], *gathered[number + 1 :]):
                part = part * other.view(part.shape)
            total.index_add_(0, index, part.reshape(-1, share.shape[-1]))
    grads = [total.mul_(numbers) for total, numbers in zip(grads, operands, strict=True)]
    return without_padding(bucket, grads)


def _log_gradients(
    bucket: BucketTensors,
    step: int,
    logs: Sequence[Tensor],
    sums: Tensor,
    grad: Tensor,
    clip: bool,
) -> list[Tensor]:
    operands = padded(bucket, logs, ZERO)
    grads = [torch.zeros_like(operand) for operand in operands]
    grad = gradient_above_one(grad, sums, clip=clip)
    for start in range(0, bucket.width, step):
        chunk = slice(start, start + step)
        share = log_products(bucket, operands, start, step)
        share = share.sub_(sums[chunk]).exp_().mul_(grad[chunk])
        flat = share.view(-1, share.shape[-1])
        for total, index in zip(grads, chunk_indices(bucket, start, step), strict=True):
            total.index_add_(0, index, flat)
    return without_padding(bucket, grads)


def _log_sum(logs: Tensor) -> Tensor:
    """logsumexp over the first dimension, kept. In place: `logs` is spent."""
    if logs.shape[0] == 1:
        return logs
    largest = logs.amax(0, keepdim=True)
    return logs.sub_(largest).exp_().sum(0, keepdim=True).log_().add_(largest)
