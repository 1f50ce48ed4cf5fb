"""The probability of proofs, from their bit patterns and the inputs.

The same code serves two purposes: without gradient and in double precision while searching for
proofs, and differentiably, once, for the few that were found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dolphin.execution.indices import constant
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import (
    ZERO,
    chunk_elements,
    clip_above_one,
    log1mexp,
    prob_of_log,
    safe_log,
)
from dolphin.provenance.topk.encoding import Group, Layout, Placement

# Of two proofs with the same probability the one with fewer facts counts as likelier: a proof
# always comes before those that contain it, whatever rounding does.
FACT_PENALTY = 1e-9


@dataclass(frozen=True)
class Weights:
    """Where logarithms of facts come from, and what every fact costs on top."""

    of: Callable[[Facts], Tensor]
    penalty: float


LEARNING = Weights(lambda facts: facts.log_probs, 0.0)
SEARCHING = Weights(lambda facts: facts.log_probs.detach().double(), FACT_PENALTY)


def log_weights(
    patterns: Tensor, layout: Layout, row_of: Tensor | None, *, weights: Weights
) -> Tensor:
    """Logarithm of the probability of each proof: (words, k, n, r) → (k, n, r).

    `row_of` (n,) says which row of the inputs a symbol belongs to, where rows are flattened.
    """
    total: Tensor | None = None
    for placement in layout.placements:
        logs = weights.of(placement.facts)
        if placement.code.all_binary:
            parts = [_binary(patterns, placement, logs, row_of, layout.signed, weights.penalty)]
        else:
            weigh = _allowed if layout.signed else _chosen
            padded = torch.cat([logs - weights.penalty, logs.new_zeros(1, logs.shape[1])])
            parts = (
                weigh(patterns, placement, group, padded, row_of, weights.penalty)
                for group in placement.code.groups
            )
        for part in parts:
            total = part if total is None else total + part
    if total is None:  # no input at all: the empty proof of certain symbols
        total = torch.zeros(patterns.shape[1:], dtype=torch.float64, device=patterns.device)
        return total.to(torch.get_default_dtype()) if weights is LEARNING else total
    return total


def sum_of_proofs(logs: Tensor, exists: Tensor) -> Tensor:
    """log min(1, Σ over the proofs that exist): (k, n, r) → (n, r)."""
    logs = torch.where(exists, logs, ZERO)
    return clip_above_one(logs.squeeze(0) if logs.shape[0] == 1 else logs.logsumexp(0))


def _values(patterns: Tensor, placement: Placement, group: Group) -> list[tuple[Tensor, int]]:
    """For each digit of a group the values that are ruled out, and the number of values."""
    digits = [placement.moved(digit) for digit in group.digits]
    return [
        ((patterns[digit.word] >> digit.shift) & ((1 << digit.size) - 1), digit.size)
        for digit in digits
    ]


def _chosen(
    patterns: Tensor,
    placement: Placement,
    group: Group,
    padded: Tensor,
    row_of: Tensor | None,
    penalty: float,
) -> Tensor:
    """Unsigned: each proof takes one column of the group, or none of them at all."""
    value: Tensor | None = None
    absent: Tensor | None = None
    scale = 1
    for ruled_out, size in _values(patterns, placement, group):
        # One bit, if anything was ruled out (and none in the place of a proof that doesn't exist).
        left = (ruled_out ^ ((1 << size) - 1)).clamp_(min=1)
        digit = _position(left).mul_(scale)
        value = digit if value is None else value.add_(digit)
        absent = (ruled_out == 0) if absent is None else absent
        scale *= size
    assert value is not None and absent is not None
    first = group.columns[0] if group.columns else 0
    if group.columns == tuple(range(first, first + len(group.columns))):
        column = value.add_(first)
    else:
        table = constant(group.columns, patterns.device)
        column = table[value.clamp_(max=len(group.columns) - 1)]
    return _take(padded, column.masked_fill_(absent, padded.shape[0] - 1), row_of)


def _position(power: Tensor) -> Tensor:
    """Which power of two each number is: the exponent of its floating-point representation."""
    return (power.double().view(torch.int64) >> 52).sub_(1023)


def _take(logs: Tensor, column: Tensor, row_of: Tensor | None) -> Tensor:
    """logs[column, row] for columns (k, n, r or 1)."""
    rows = logs.shape[1]
    if row_of is not None:
        place = column * rows + (row_of[:, None] if rows > 1 else 0)
        return logs.reshape(-1).index_select(0, place.reshape(-1)).view(column.shape)
    if column.shape[-1] == 1:
        return logs.index_select(0, column.reshape(-1)).view(*column.shape[:-1], rows)
    wide = max(rows, column.shape[-1])
    flat = column.reshape(-1, wide)
    return logs.expand(-1, wide).gather(0, flat).view(*column.shape[:-1], wide)


def _rows_of(logs: Tensor, row_of: Tensor | None) -> Tensor:
    """(columns, rows) as something that broadcasts against (columns, k, n, r)."""
    if row_of is None:
        return logs[:, None, None, :]
    if logs.shape[1] == 1:
        return logs[:, None, :, None]
    return logs.index_select(1, row_of)[:, None, :, None]


def _binary(
    patterns: Tensor,
    placement: Placement,
    logs: Tensor,
    row_of: Tensor | None,
    signed: bool,
    penalty: float,
) -> Tensor:
    """An input of independent facts: many columns at once."""
    places = placement.code.on(patterns.device)
    words, shifts = places.words + placement.word, places.shifts + placement.shift

    def total(part: slice) -> Tensor:
        bits = patterns.index_select(0, words[part]) >> shifts[part, None, None, None]
        holds = ((bits >> 1 if signed else bits) & 1).to(logs.dtype)
        weight = (holds * _rows_of(logs[part] - penalty, row_of)).sum(0)
        if signed:
            fails = (bits & 1).to(logs.dtype)
            weight = weight + (fails * _rows_of(log1mexp(logs[part]) - penalty, row_of)).sum(0)
        return weight

    columns = len(logs)
    each = patterns[0].numel() * (logs.shape[1] if patterns.shape[-1] == 1 else 1)
    step = max(1, chunk_elements() // max(1, each))
    if step >= columns:
        return total(slice(None))
    # Too much to keep for the backward pass: there it is computed again, part by part.
    parts = [slice(start, start + step) for start in range(0, columns, step)]
    return sum(checkpoint(total, part, use_reentrant=False) for part in parts)  # type: ignore[misc]


def _allowed(
    patterns: Tensor,
    placement: Placement,
    group: Group,
    padded: Tensor,
    row_of: Tensor | None,
    penalty: float,
) -> Tensor:
    """Signed: the total probability of the values of the group that are left."""
    columns = constant(group.columns, patterns.device)
    probs = prob_of_log(padded.index_select(0, columns))
    none = 1.0 - probs.sum(0, keepdim=True)
    none = none - none.detach().clamp(max=0.0)  # rounding may leave less than nothing
    probs = torch.cat([probs, none])
    value = torch.arange(len(probs), device=patterns.device)[:, None, None, None]
    left: Tensor | None = None
    free: Tensor | None = None
    for ruled_out, size in _values(patterns, placement, group):
        open_here = ((ruled_out >> (value % size)) & 1) == 0
        value = value // size
        left = open_here if left is None else left & open_here
        untouched = ruled_out == 0
        free = untouched if free is None else free & untouched
    assert left is not None and free is not None
    mass = (left.to(probs.dtype) * _rows_of(probs, row_of)).sum(0)
    logs = safe_log(mass)
    if penalty:  # for every value that is ruled out, so that "not 1" comes before "neither 1 nor 2"
        logs = logs - penalty * (~left).sum(0)
    return torch.where(free, 0.0, logs)
