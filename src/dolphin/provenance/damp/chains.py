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
import torch.nn.functional as F
from torch import Tensor

from dolphin.execution.indices import Contraction, Convolution, IndexLists, to_device
from dolphin.provenance.contract import Deferral, Steps
from dolphin.provenance.damp.formulas import log_sums_of_pairs
from dolphin.provenance.damp.sums import Tree
from dolphin.provenance.differentiation import Formula, reading_is_free
from dolphin.provenance.numerics import at_most_one, excess, floor

_IN_CACHE = 65_536  # numbers that stay in the CPU's cache while several operations use them
_PRODUCTS = 8 * _IN_CACHE  # products of pairs at once: many small steps would wait for threads
_LARGE = 4 * _IN_CACHE  # numbers above which it pays to work in pieces
_FEW_ROWS = 16  # fewer are not worth a separate piece


class PlainChains(Deferral):
    """Chains computed as one node of the autograd graph, where numbers allow it."""

    def chain(self, first: Tensor, steps: Steps) -> Tensor:
        result = self._plain(first, steps, None)
        return super().chain(first, steps) if result is None else result

    def read(self, first: Tensor, steps: Steps, wanted: np.ndarray) -> Tensor | None:
        return self._plain(first, steps, wanted)

    def _plain(self, first: Tensor, steps: Steps, wanted: np.ndarray | None) -> Tensor | None:
        operands = spread_rows([first, *(other for _, other in steps)])
        plans = [plan for plan, _ in steps]
        if not reading_is_free(first) or not all(map(worth_plain_numbers, plans)):
            return None
        if wanted is not None and operands[0].shape[1] != len(wanted):
            return None
        return plain_chain(operands, plans, wanted)


def spread_rows(operands: Sequence[Tensor]) -> list[Tensor]:
    """All with the same number of rows."""
    rows = max(tags.shape[1] for tags in operands)
    return [tags if tags.shape[1] == rows else tags.expand(-1, rows) for tags in operands]


_LARGEST_PLAIN_CONVOLUTION = 125_000  # products per row


def worth_plain_numbers(plan: IndexLists) -> bool:
    """Whether plain numbers are worth a try. Large convolutions are faster in blocks."""
    return isinstance(plan, Contraction) or plan.combinations <= _LARGEST_PLAIN_CONVOLUTION


def plain_chain(
    operands: Sequence[Tensor], plans: Sequence[IndexLists], wanted: np.ndarray | None = None
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
        way = Tree.of(operands, plans, wanted) or _Steps(plans, sizes, wanted)
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
            if wanted is None or read.amin().item() >= floor(dtype):
                break
        else:
            return None
    computed = [(read, numbers, kept)]
    return _Chain.apply(way, plans, computed, wanted, *operands)  # type: ignore[return-value]


def _within_one(numbers: Tensor, sizes: Sequence[int]) -> bool:
    """Whether no operand has more than 1 in total; then no sum of products has, either."""
    if min(sizes) == max(sizes):
        totals = numbers.view(-1, sizes[0], numbers.shape[-1]).sum(1)
    else:
        totals = torch.stack([part.sum(0) for part in numbers.split(sizes)])
    return totals.amax().item() <= 1.0 + excess(numbers.dtype)


class _Chain(Formula):
    """The logarithm of what was read at the end of a chain. All was computed before."""

    @staticmethod
    def value(
        ctx: Any,
        way: Tree | _Steps,
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
        way: Tree | _Steps,
        plans: Sequence[IndexLists],
        computed: Any,
        wanted: np.ndarray | None,
        *operands: Tensor,
    ) -> Tensor:
        logs = operands[0]
        for plan, other in zip(plans, operands[1:], strict=True):
            logs = at_most_one(log_sums_of_pairs(logs, other, plan))
        return logs if wanted is None else logs.gather(0, to_device(wanted, logs.device)[None])[0]


class _Steps:
    """One operand after the other."""

    def __init__(
        self, plans: Sequence[IndexLists], sizes: Sequence[int], wanted: np.ndarray | None
    ) -> None:
        *before, last = plans
        if wanted is not None:
            last, wanted = _only_wanted(last, wanted)
        self.plans, self.sizes, self.wanted = [*before, last], list(sizes), wanted

    def padding(self, like: Tensor) -> list[Tensor]:
        return []

    def read(self, numbers: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The result of the last step, or one place of it per row, and all results."""
        value, *others = numbers.split(self.sizes)
        values = []
        for plan, other in zip(self.plans, others, strict=True):
            value = _sums(value, other, plan)
            values.append(value)
        return value if self.wanted is None else value.gather(0, self._at(value))[0], values

    def _at(self, numbers: Tensor) -> Tensor:
        assert self.wanted is not None
        return to_device(self.wanted[None], numbers.device)

    def gradients(self, numbers: Tensor, values: Sequence[Tensor], share: Tensor) -> Tensor:
        """The gradient of all operands from that of what was read."""
        first, *others = numbers.split(self.sizes)
        if self.wanted is not None:
            share = torch.zeros_like(values[-1]).scatter_(0, self._at(share), share[None])
        grads: list[Tensor] = []
        befores = [first, *values[:-1]]
        for plan, before, other in zip(self.plans[::-1], befores[::-1], others[::-1], strict=True):
            share, shared = _gradients(before, other, share, plan)
            grads.append(shared)
        return torch.cat([share, *grads[::-1]])


def _only_wanted(plan: IndexLists, wanted: np.ndarray) -> tuple[IndexLists, np.ndarray]:
    """The groups that some row wants, if they have few of all combinations, and where they are.

    The last step of a product of 20 digits has a quarter of all combinations, of which 64 rows want
    a tenth: 154 instead of 181 ms for all steps, forward and backward.
    """
    if isinstance(plan, Convolution):
        return plan, wanted
    groups, at = np.unique(wanted, return_inverse=True)
    if 2 * plan.counts(groups).sum() > plan.combinations:
        return plan, wanted
    whose, places = plan.members(groups)
    return Contraction(places, whose, len(groups)), at.reshape(-1)


def _sums(a: Tensor, b: Tensor, plan: IndexLists) -> Tensor:
    if isinstance(plan, Convolution):
        return _convolve(a, b)
    return _add_up(a, b, plan) if plan.sizes is None else _multiply_out(a, b, plan)


def _gradients(a: Tensor, b: Tensor, grad: Tensor, plan: IndexLists) -> tuple[Tensor, Tensor]:
    if isinstance(plan, Convolution):
        return _convolution_gradients(a, b, grad)
    return (_pair_gradients if plan.sizes is None else _product_gradients)(a, b, grad, plan)


# -- some pairs, grouped ---------------------------------------------------------------------------


def _add_up(a: Tensor, b: Tensor, plan: Contraction) -> Tensor:
    (left, right), group_of, _ = plan.flat_on(a.device)
    products = a.index_select(0, left).mul_(b.index_select(0, right))
    return a.new_zeros(plan.groups, a.shape[1]).index_add_(0, group_of, products)


def _pair_gradients(a: Tensor, b: Tensor, grad: Tensor, plan: Contraction) -> tuple[Tensor, Tensor]:
    (left, right), group_of, _ = plan.flat_on(a.device)
    shares = grad.index_select(0, group_of)
    to_left = b.index_select(0, right).mul_(shares)
    to_right = shares.mul_(a.index_select(0, left))
    return (
        torch.zeros_like(a).index_add_(0, left, to_left),
        torch.zeros_like(b).index_add_(0, right, to_right),
    )


# -- sums of integers ------------------------------------------------------------------------------


def windows(x: Tensor, depth: int, width: int) -> Tensor:
    """(depth, width, r) view with element [d, w] = x[d + w]."""
    x = x.contiguous()
    rows = x.shape[1]
    return x.as_strided((depth, width, rows), (rows, rows, 1), x.storage_offset())


def _convolve(a: Tensor, b: Tensor) -> Tensor:
    if a.shape[0] < b.shape[0]:
        a, b = b, a
    depth, length = b.shape[0], a.shape[0] + b.shape[0] - 1
    at_once = _LARGE // (depth * length)
    if at_once >= a.shape[1]:
        return _slanted(a, b).sum(0)
    if at_once >= _FEW_ROWS:
        pieces = zip(a.split(at_once, 1), b.split(at_once, 1), strict=True)
        return torch.cat([_slanted(*piece).sum(0) for piece in pieces], 1)
    terms = windows(F.pad(a, (0, 0, depth - 1, depth - 1)), depth, length)
    return _weighted_sum(terms, b.flip(0))


def _slanted(a: Tensor, b: Tensor) -> Tensor:
    """(m, n + m - 1, r): all products a[i]·b[j], line j of them moved on by j, zeros around."""
    (width, rows), depth = a.shape, b.shape[0]
    lines = a.new_zeros(depth, width + depth - 1, rows)
    slant = (lines.stride(0) + rows, rows, 1)
    torch.mul(a, b[:, None], out=lines.as_strided((depth, width, rows), slant))
    return lines


def _weighted_sum(terms: Tensor, weights: Tensor) -> Tensor:
    """Σ_d terms[d]·weights[d], of (depth, width, r) and (depth, r), a few d at a time."""
    step, sums = _step(terms[0], _IN_CACHE), terms.new_zeros(terms.shape[1:])
    if step == 1:
        for term, weight in zip(terms, weights, strict=True):
            sums.addcmul_(term, weight)
        return sums
    for some, weight in zip(terms.split(step), weights.split(step), strict=True):
        sums += (some * weight[:, None]).sum(0)
    return sums


def _convolution_gradients(a: Tensor, b: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    if a.shape[0] < b.shape[0]:
        grad_b, grad_a = _convolution_gradients(b, a, grad)
        return grad_a, grad_b
    at_once = _LARGE // (a.shape[0] * b.shape[0])
    if at_once >= a.shape[1]:
        return _small_gradients(a, b, grad)
    if at_once >= _FEW_ROWS:
        pieces = zip(*(part.split(at_once, 1) for part in (a, b, grad)), strict=True)
        grads_a, grads_b = zip(*(_small_gradients(*piece) for piece in pieces), strict=True)
        return torch.cat(grads_a, 1), torch.cat(grads_b, 1)
    shares = windows(grad, b.shape[0], a.shape[0])
    parts = [(some * a).sum(1) for some in shares.split(_step(shares[0], _IN_CACHE))]
    return _weighted_sum(shares, b), torch.cat(parts)


def _small_gradients(a: Tensor, b: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    shares = windows(grad, b.shape[0], a.shape[0])
    return (shares * b[:, None]).sum(0), (shares * a).sum(1)


# -- all pairs, grouped ----------------------------------------------------------------------------


def _multiply_out(a: Tensor, b: Tensor, plan: Contraction) -> Tensor:
    rows = a.shape[1]
    step, group_of = _step(b, _PRODUCTS), plan.groups_on(a.device)
    sums = a.new_zeros(plan.groups, rows)
    room = a.new_empty(min(step, len(a)), *b.shape)
    for start in range(0, len(a), step):
        some = a[start : start + step, None]
        products = torch.mul(some, b, out=room[: len(some)]).view(-1, rows)
        sums.index_add_(0, group_of[start * len(b) : (start + step) * len(b)], products)
    return sums


def _product_gradients(
    a: Tensor, b: Tensor, grad: Tensor, plan: Contraction
) -> tuple[Tensor, Tensor]:
    """Without scattering: the combinations of each symbol are adjacent."""
    step, group_of = _step(b, _PRODUCTS), plan.groups_on(a.device)
    grad_a, grad_b = torch.empty_like(a), torch.zeros_like(b)
    room, more = (a.new_empty(min(step, len(a)), *b.shape) for _ in range(2))
    for start in range(0, len(a), step):
        some = slice(start, start + step)
        groups = group_of[start * len(b) : (start + step) * len(b)]
        shares, parts = (each[: len(a[some])] for each in (room, more))
        torch.index_select(grad, 0, groups, out=shares.view(-1, b.shape[1]))
        torch.sum(torch.mul(shares, b, out=parts), 1, out=grad_a[some])
        grad_b += shares.mul_(a[some, None]).sum(0)
    return grad_a, grad_b


def _step(each: Tensor, most: int) -> int:
    """How many pieces of work, each with this many numbers, are done at once."""
    return max(1, most // max(1, each.numel()))
