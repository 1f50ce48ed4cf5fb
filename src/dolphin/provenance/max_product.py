"""Max-product: the likeliest proof alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.execution.buckets import BucketTensors
from dolphin.execution.indices import Contraction, IndexLists
from dolphin.execution.recursion.recurrences import Limit, Loop, Recurrence
from dolphin.provenance.best_answers import BestAnswers, follow
from dolphin.provenance.contract import Deferral
from dolphin.provenance.damp.chains import spread_rows
from dolphin.provenance.derivations import likeliest_proof, marked, one_winner
from dolphin.provenance.differentiation import Formula, followed, reading_is_free
from dolphin.provenance.facts import Facts
from dolphin.provenance.fuzzy import LATTICE, NEGATION, SEMIRING
from dolphin.provenance.logarithms import (
    LogTags,
    chunk_indices,
    chunk_size,
    log_products,
    padded,
    without_padding,
)
from dolphin.provenance.winners import Asked, best_products, can_be_asked, has_best_products


class MaxProduct(LogTags):
    """Max-product (`viterbi`): a ⊗ b = a·b, a ⊕ b = max(a, b).

    The probability of the likeliest proof, counting a fact as often as it is used. A lower bound on
    the true probability where no proof uses a fact twice. Tags are logarithms: products of any
    length keep their value.

    Gradients: those of the one likeliest product, 0 elsewhere; evenly shared at a tie. `explain`
    reads the product off them.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=dl.get_provenance("viterbi"))
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.64), (False, 0.16)]
    """

    name = "viterbi"
    laws = SEMIRING | LATTICE | NEGATION | {"distributive"}
    padding = -math.inf
    has_loops = True

    def from_facts(self, facts: Facts) -> Tensor:
        return marked(facts)

    def add(self, tags: Tensor, dim: int) -> Tensor:
        return tags.amax(dim)

    def contract(self, operands: Sequence[Tensor], plan: Contraction) -> Tensor:
        if followed():  # a compiler fuses better, a transform can't trace fused code
            return super().contract(operands, plan)
        rows = max(tags.shape[1] for tags in operands)
        spread = [tags.expand(-1, rows) for tags in operands]
        parts = [
            _BestProduct.of(bucket, chunk_size(bucket.width, bucket.depth * rows), *spread)
            for bucket in plan.on(operands[0].device)
        ]
        return self._assemble(parts, plan, operands)

    def negate_choices(self, tags: Tensor, width: int) -> Tensor:
        return self.negate(tags)  # gradients name the facts of one product; others would share them

    def saturated(self, old: Tensor, new: Tensor) -> bool:
        return bool((old == new).all())

    def looped(
        self, form: Recurrence, limit: Limit, start: Tensor, constant: Tensor, other: Tensor
    ) -> Tensor | None:
        if not has_best_products(form, start, constant, other):
            return None
        return best_products(form, limit, start, constant, other)

    def deferral(self, plan: IndexLists | Loop, operands: Sequence[Tensor]) -> Deferral | None:
        if not isinstance(plan, Loop) or not plan.limit.enough:
            return None
        return _BestAnswers(self) if has_best_products(plan.form, *operands) else None

    def proofs(self, tags: Tensor, place: int, row: int) -> list[tuple[float, list[Any]]]:
        """The likeliest one, where gradients are recorded; the first of equally likely ones."""
        return likeliest_proof(self, tags[place, 0 if tags.shape[1] == 1 else row])


class _BestAnswers(Deferral):
    """Follows only the products of a recursion that can decide an answer."""

    def answer(
        self, loop: Loop, operands: Sequence[Tensor], plan: Contraction, partner: Tensor
    ) -> Tensor | None:
        if not can_be_asked(plan, operands, partner):
            return None
        given = spread_rows([*operands, partner])
        found = follow(loop, plan, *given)
        if found is None:
            return self._by_rounds(loop, plan, given)
        contract = self.provenance.contract
        answers = BestAnswers.of(loop, plan, contract, found, *given)
        if not len(found.left):
            return answers
        rows = torch.from_numpy(found.left)
        rest = self._by_rounds(loop, plan, [each.index_select(1, rows) for each in given])
        return None if rest is None else answers.index_copy(1, rows, rest)

    def _by_rounds(self, loop: Loop, plan: Contraction, given: Sequence[Tensor]) -> Tensor | None:
        *operands, partner = given
        asked = Asked(loop.form, plan, partner)
        found = best_products(*loop, *operands, asked=asked)
        return None if found is None else self.provenance.contract([found, partner], plan)


class _BestProduct(Formula):
    """The largest Π_i operand_i[index_i[d, w]] for every w, of logarithms.

    Products are computed a few groups at a time and not kept: finding the best ones again costs
    less than remembering where they were.
    """

    @staticmethod
    def value(
        ctx: Any, bucket: BucketTensors, step: int, *operands: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        ctx.bucket, ctx.step = bucket, step
        ready = padded(bucket, operands, -math.inf)
        starts = range(0, bucket.width, step)
        best = torch.cat([log_products(bucket, ready, at, step).amax(0) for at in starts])
        return best, (best, *operands)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        bucket: BucketTensors = ctx.bucket
        best, *operands = saved
        if reading_is_free(grad):
            group, row = grad.nonzero(as_tuple=True)
            if len(group) * _FEW_OF <= grad.numel():
                return _gradients_at(group, row, bucket, best, operands, grad)
        ready = padded(bucket, operands, -math.inf)
        grads = [torch.zeros_like(operand) for operand in ready]
        for start in range(0, bucket.width, ctx.step):
            chunk = slice(start, start + ctx.step)
            share = log_products(bucket, ready, start, ctx.step).eq_(best[chunk])
            if one_winner():
                share *= share.cumsum(0) == 1
            share.mul_(grad[chunk] / share.sum(0))
            flat = share.view(-1, share.shape[-1])
            for total, index in zip(grads, chunk_indices(bucket, start, ctx.step), strict=True):
                total.index_add_(0, index, flat)
        return without_padding(bucket, grads)

    @staticmethod
    def formula(bucket: BucketTensors, step: int, *operands: Tensor) -> Tensor:
        ready = padded(bucket, operands, -math.inf)
        return log_products(bucket, ready, 0, bucket.width).amax(0)


_FEW_OF = 8  # few gradients are at most one in this many


def _gradients_at(
    group: Tensor,
    row: Tensor,
    bucket: BucketTensors,
    best: Tensor,
    operands: Sequence[Tensor],
    grad: Tensor,
) -> list[Tensor]:
    """The same where few results have a gradient: only their products are computed again.

    A best product passes its gradient on to one fact and one product of the step before, so of a
    recursion's thousands of symbols hardly one per row has any. A backward pass of PathFinder
    on 16×16 blocks in 64 rows takes 34 instead of 96 ms.
    """
    places = [index.view(bucket.depth, -1)[:, group] for index in bucket.indices]
    gathered = (logs[place, row] for logs, place in zip(operands, places, strict=True))
    share = functools.reduce(torch.add, gathered).eq(best[group, row]).to(grad.dtype)
    if bucket.pad is not None:
        share.masked_fill_(bucket.pad[:, group], 0.0)
    if one_winner():
        share *= share.cumsum(0) == 1
    share.mul_(grad[group, row] / share.sum(0))
    grads = [torch.zeros(logs.shape, dtype=logs.dtype) for logs in operands]
    for total, place in zip(grads, places, strict=True):
        total.view(-1).index_add_(0, (place * grad.shape[1] + row).view(-1), share.view(-1))
    return grads
