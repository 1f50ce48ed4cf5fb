"""The exact probability that at least one of a few proofs holds.

By inclusion and exclusion over the sets S of proofs,

    P(A_1 ∨ ... ∨ A_k) = Σ over S ≠ ∅ of (-1)^(|S| + 1) · P(∧ of the proofs in S),

where a conjunction of proofs is the bitwise or of their patterns (see encoding.py) and weighs
nothing if it is a contradiction. The sum runs in double precision, scaled by its largest term: it
is never less than that term, so rounding stays near 2^k · 1e-16 of the result, however small that
is. Many proofs are counted by counting_worlds.py instead, where values may be read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dolphin.provenance.differentiation import reading_is_free, transformed
from dolphin.provenance.numerics import (
    IMPOSSIBLE,
    ZERO,
    at_most_one,
    at_once,
    precisely,
    recomputed,
)
from dolphin.provenance.topk.counting_worlds import log_probability_by_states
from dolphin.provenance.topk.encoding import Layout
from dolphin.provenance.topk.proofs import Proofs
from dolphin.provenance.topk.weighing import Weights, log_weights

LARGEST_K = 16  # the number of sets, 2^k, is out of reach beyond
_FEW = 8  # proofs whose sets are counted faster than their states
PRECISELY = Weights(precisely, 0.0)


def log_probability_of_any(tags: Proofs) -> Tensor:
    """log P(one of the proofs holds), (n, r), differentiable, in double precision.

    Sets of symbols that would need much memory are processed one after the other, and recomputed in
    the backward pass instead of being kept for it.
    """
    if tags.k > _FEW and reading_is_free(tags.scores) and not transformed():
        return log_probability_by_states(tags)
    rows = max([tags.rows, *(p.facts.rows for p in tags.layout.placements)])
    columns = sum(p.code.columns for p in tags.layout.placements)
    cost = 2**tags.k * (tags.layout.words + columns + 4) * max(rows, 1)
    step = at_once(tags.n, cost)
    if tags.n <= step:
        return _chunk(tags, slice(None))
    starts = range(0, tags.n, step)
    return torch.cat([recomputed(_chunk, tags, slice(start, start + step)) for start in starts])


def _chunk(tags: Proofs, chunk: slice) -> Tensor:
    patterns, exists = tags.patterns[:, :, chunk], tags.exists[:, chunk]
    row = None if tags.row is None else tags.row[chunk]
    unions, holds = _unions(patterns, exists, tags.layout)
    logs = log_weights(unions, tags.layout, row, weights=PRECISELY)
    logs = logs.double()
    logs = torch.where(holds & (logs > IMPOSSIBLE), logs, ZERO)
    sizes = [number.bit_count() for number in range(1, 2**tags.k)]
    signs = logs.new_tensor([1.0 if size % 2 else -1.0 for size in sizes])
    largest = logs.detach().amax(0)
    total = (signs[:, None, None] * (logs - largest).exp()).sum(0)
    return at_most_one(total.log() + largest)


def _unions(patterns: Tensor, exists: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Patterns (words, 2^k - 1, n, r) of all sets of proofs, and which of them can hold.

    Set s consists of the proofs at the bits of s; s = 0 is left out.
    """
    unions: list[Tensor] = []
    every: list[Tensor] = []
    for slot in range(patterns.shape[1]):
        new, there = patterns[:, slot], exists[slot]
        unions += [new, *(union | new for union in unions)]
        every += [there, *(e & there for e in every)]
    together = torch.stack(unions, dim=1)
    return together, torch.stack(every) & ~_contradictions(together, layout)


def _contradictions(patterns: Tensor, layout: Layout) -> Tensor:
    """Where some group has no value left: adding its lowest bit carries into the guard."""
    lows, guards = layout.carries()
    conflict = torch.zeros(patterns.shape[1:], dtype=torch.bool, device=patterns.device)
    for word, (low, guard) in enumerate(zip(lows, guards, strict=True)):
        conflict |= ((patterns[word] + low) & guard) != 0
    return conflict
