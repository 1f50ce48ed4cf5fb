"""One step of a chain after the other, in plain numbers.

A step is a sum of products over some pairs, over all pairs, or a convolution (a sum of integers).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.execution.indices import Contraction, Convolution, IndexLists, to_device

_IN_CACHE = 65_536  # numbers that stay in the CPU's cache while several operations use them
_PRODUCTS = 8 * _IN_CACHE  # products of pairs at once: many small steps would wait for threads
_LARGE = 4 * _IN_CACHE  # numbers above which it pays to work in pieces
_FEW_ROWS = 16  # fewer are not worth a separate piece


class OneByOne:
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
            value = step_sums(value, other, plan)
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
            share, shared = step_gradients(before, other, share, plan)
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


def step_sums(a: Tensor, b: Tensor, plan: IndexLists) -> Tensor:
    """The result of one step."""
    if isinstance(plan, Convolution):
        return _convolve(a, b)
    return _add_up(a, b, plan) if plan.sizes is None else _multiply_out(a, b, plan)


def step_gradients(a: Tensor, b: Tensor, grad: Tensor, plan: IndexLists) -> tuple[Tensor, Tensor]:
    """The gradients of both operands of a step from that of its result."""
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
