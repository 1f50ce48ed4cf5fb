"""All rounds of a linear recursion in plain numbers, as one node of the autograd graph.

Between rounds there is no need for logarithms, what the state is combined with is gathered once for
all of them, and the gradient of a round is gathered along the rule's combinations backwards instead
of being scattered. All paths on a grid of 6×6 nodes, 64 rows, forward and backward, take 13 ms
instead of 36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dolphin.execution.recursion.recurrences import Recurrence
from dolphin.provenance.damp.chains import spread_rows
from dolphin.provenance.differentiation import Formula, followed, reading_is_free
from dolphin.provenance.numerics import (
    CARRIED,
    chunk_elements,
    clip_plain,
    floor,
    shares_above_one,
)


def plain_rounds(
    form: Recurrence, rounds: int, clip: bool, start: Tensor, constant: Tensor, other: Tensor
) -> Tensor | None:
    """The logarithms of all symbols after some rounds, clipped at log 1 in each.

    None where it doesn't pay, or if a number comes near underflow.
    """
    given = spread_rows([start, constant, other])
    rows = given[0].shape[1]
    if followed() or not reading_is_free(start) or len({each.dtype for each in given}) > 1:
        return None
    if form.into.places.size * rows > chunk_elements():
        return None
    with torch.no_grad():
        known = _run(form, rounds, *(logs.exp() for logs in given))
    return None if known is None else _Rounds.of(form, rounds, clip, [known], *given)


def _run(
    form: Recurrence, rounds: int, start: Tensor, constant: Tensor, other: Tensor
) -> tuple[list[Tensor], list[Tensor]] | None:
    """Operands, and the sums of each round, not clipped; None if some come near underflow."""
    device, rows, n = start.device, start.shape[1], form.n
    depth = form.into.depth
    factors = other.index_select(0, form.into.first(n, device)[1]).view(depth, n, rows)
    state = start.new_zeros(n + 1, rows)  # the last line stands for what isn't there
    state[: len(start)] = start
    every: list[Tensor] = []
    for turn in range(1, rounds + 1):
        size = form.size(turn)
        places = form.into.first(size, device)[0]
        terms = state.index_select(0, places).view(depth, size, rows).mul_(factors[:, :size])
        sums = terms.sum(0).add_(constant[:size])
        if form.keeps:
            sums.add_(state[:size])
        every.append(sums)
        torch.clamp(sums, max=1.0, out=state[:size])
    least = torch.stack([sums.amin() for sums in every]).amin()
    return None if least.item() < floor(start.dtype) else ([start, constant, other], every)


def _nested(form: Recurrence, constant: Tensor) -> bool:
    """Whether it can matter that what is grown is clipped before anything is added to it."""
    if form.keeps:
        return True
    given = torch.from_numpy(form.constants > 0).to(constant.device)
    return bool((constant[given] <= CARRIED).any())


class _Rounds(Formula):
    """The logarithm of the last sums, which were computed before, as were the others."""

    @staticmethod
    def value(
        ctx: Any, form: Recurrence, rounds: int, clip: bool, known: list[Any], *operands: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        plain, every = known.pop()  # only what the backward pass needs stays alive
        ctx.form, ctx.clip = form, clip
        return every[-1].clamp(max=1.0).log_(), (*plain, *every)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        start, constant, other, *every = saved
        form: Recurrence = ctx.form
        device, rows, n = grad.device, grad.shape[1], form.n
        leading = form.out_of
        which = leading.first(n, device)[1]
        factors = other.index_select(0, which).view(leading.depth, n, rows)
        of_factors, of_constant = torch.zeros_like(factors), torch.zeros_like(constant)
        padded = grad.new_zeros(n + 1, rows)  # the last line stands for what isn't there
        share = grad / every[-1].clamp(max=1.0)
        nested = ctx.clip and _nested(form, constant)
        for turn in range(len(every), 0, -1):
            before, size = form.size(turn - 1), form.size(turn)
            state = every[turn - 2].clamp(max=1.0) if turn > 1 else start
            of_own = of_grown = share
            if nested:
                own = constant[:size]
                if form.keeps:
                    own = own + functional.pad(state, (0, 0, 0, size - before))
                of_own, of_grown = shares_above_one(share, every[turn - 1], own)
            elif ctx.clip:
                share.masked_fill_(every[turn - 1] > 1.0 + CARRIED, 0.0)
            if not of_own.any():  # where sums pass 1 there is nothing to pass on
                share = torch.zeros_like(start)
                break
            of_constant[:size] += of_own
            padded[:size] = of_grown
            # What leads from a symbol to others: their gradients are its own, and the factors'.
            places = leading.first(before, device)[0]
            shares = padded.index_select(0, places).view(leading.depth, before, rows)
            of_factors[:, :before].addcmul_(shares, state)
            new = shares.mul_(factors[:, :before]).sum(0)
            if form.keeps:
                new.add_(of_own[:before])
            share = new
        of_other = torch.zeros_like(other).index_add_(0, which, of_factors.view(-1, rows))
        return share.mul_(start), of_constant.mul_(constant), of_other.mul_(other)

    @staticmethod
    def cut(ctx: Any, saved: Sequence[Tensor]) -> tuple[int, int]:
        if not ctx.clip:
            return 0, 0
        every = saved[3:]
        beyond = sum(int((sums > 1.0 + CARRIED).sum()) for sums in every)
        return beyond, sum(sums.numel() for sums in every)

    @staticmethod
    def formula(form: Recurrence, rounds: int, clip: bool, known: Any, *operands: Tensor) -> Tensor:
        start, constant, other = (logs.exp() for logs in operands)
        device, rows = start.device, start.shape[1]
        state = start
        for turn in range(1, rounds + 1):
            size, before = form.size(turn), form.size(turn - 1)
            places, which = form.into.first(size, device)
            padded = torch.cat([state, state.new_zeros(form.n + 1 - before, rows)])
            products = padded.index_select(0, places) * other.index_select(0, which)
            grown = clip_plain(products.view(form.into.depth, size, rows).sum(0), clip=clip)
            own = constant[:size] + padded[:size] if form.keeps else constant[:size]
            state = clip_plain(own + grown, clip=clip)
        return state.log()
