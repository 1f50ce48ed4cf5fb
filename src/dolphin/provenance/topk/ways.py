"""The likeliest proof of every symbol of a recursion in which no fact is worth using twice.

On a graph, a path that meets an edge again has been at its end before, and the path up to there is
likelier. So proofs are compared by the sums of their facts alone, a round changes what it improves
and nothing else, and bits are moved for those only. All paths on a grid of 6×6 nodes, 64 rows,
take two thirds of the time of the general search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dolphin.execution.recursion.recurrences import Recurrence
from dolphin.provenance.topk.candidates import GREATEST, LEAST
from dolphin.provenance.topk.encoding import Layout, moved
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs


@dataclass(frozen=True)
class SingleFacts:
    """Independent facts of one input in a layout that all proofs share, and the empty proof."""

    layout: Layout
    scores: np.ndarray  # (m + 1, r)
    patterns: np.ndarray  # (W, m + 1)
    words: np.ndarray  # (m + 1,) where the bit of each is
    bits: np.ndarray  # (m + 1,)

    @classmethod
    def of(cls, tags: Proofs, layout: Layout) -> SingleFacts | None:
        if tags.fields is None or tags.signed or len(tags.layout.placements) != 1:
            return None
        if not all(placement.code.all_binary for placement in layout.placements):
            return None
        own = moved(tags.patterns, tags.layout.moves_to(layout), layout.words)[:, 0, :, 0]
        patterns = np.zeros((len(own), tags.n + 1), dtype=np.int64)
        scores = np.zeros((tags.n + 1, tags.rows))
        patterns[:, :-1], scores[:-1] = own.numpy(), tags.scores[0].numpy()
        return cls(layout, scores, patterns, patterns.argmax(0), patterns.max(0))

    @property
    def differ(self) -> bool:
        """Whether no two of them are one fact."""
        used = np.bitwise_or.reduce(self.patterns, axis=1).tolist()
        return sum(word.bit_count() for word in used) == len(self.bits) - 1


class LikeliestWays:
    """The proofs of n symbols so far, and a line for none.

    In numpy, whose small operations cost a third of torch's.
    """

    def __init__(
        self, form: Recurrence, facts: SingleFacts, start: int, *proofs: np.ndarray
    ) -> None:
        self.form, self.facts, self.start = form, facts, start
        self.scores, self.patterns = proofs  # (n + 1, r), below zero and finite; (W, n, r)
        depth = form.into.depth
        self.last_bits = (1 << max(1, depth - 1).bit_length()) - 1
        self.place = np.arange(depth)[:, None, None]

    @classmethod
    def of(
        cls,
        form: Recurrence,
        facts: SingleFacts,
        start: Proofs,
        constant: Proofs,
        other: Proofs,
        rows: int,
    ) -> LikeliestWays | None:
        """None unless the start stays, and every fact leads to one symbol."""
        if not form.passes_once or not facts.differ or not _stays(form, start, constant):
            return None
        factors = start.patterns is other.patterns and form.starts_with_factors
        if not factors and start.layout.overlaps(other.layout):
            return None
        if not np.isfinite(start.scores.numpy()).all() or not np.isfinite(facts.scores).all():
            return None
        scores = np.full((form.n + 1, rows), LEAST)
        patterns = np.zeros((facts.layout.words, form.n, rows), dtype=np.int64)
        own = moved(start.patterns, start.layout.moves_to(facts.layout), facts.layout.words)
        patterns[:, : start.n] = own[:, 0].numpy()
        np.minimum(start.scores[0].numpy(), GREATEST, out=scores[: start.n])
        return cls(form, facts, start.n, scores, patterns)

    def first_groups(self) -> np.ndarray:
        return self.form.reached_from(np.arange(self.start))

    def round(self, groups: np.ndarray) -> np.ndarray:
        """Extend the proofs that lead to these symbols; returns the symbols that improve."""
        into, rows, count = self.form.into, self.scores.shape[1], len(groups)
        lines, others = into.places.take(groups, axis=1), into.others.take(groups, axis=1)
        gain = self.scores.take(lines, axis=0)
        gain += self.facts.scores.take(others, axis=0)
        # A maximum is many times faster without its place, so sums carry it in their last bits, far
        # below their precision; of equal ones the first wins, because all of them are below zero.
        keys = gain.view(np.int64)
        keys &= ~self.last_bits
        keys |= self.place
        best = gain.max(0).view(np.int64)
        score = (best & ~self.last_bits).view(np.float64)
        better = score > self.scores.take(groups, axis=0)
        entries = np.flatnonzero(better)
        group = entries // rows  # divmod takes twice as long
        row = entries - group * rows
        member = (best.reshape(-1).take(entries) & self.last_bits) * count + group
        source = (lines * rows).reshape(-1).take(member) + row
        target = (groups * rows).take(group) + row
        other = others.reshape(-1).take(member)
        self.scores.reshape(-1)[target] = score.reshape(-1).take(entries)
        for patterns, facts in zip(self.patterns, self.facts.patterns, strict=True):
            flat = patterns.reshape(-1)
            flat[target] = flat.take(source) | facts.take(other)
        return groups[better.any(axis=1)]

    def result(self) -> Proofs:
        """The proofs of all symbols."""
        patterns, scores = map(torch.from_numpy, (self.patterns, self.scores[:-1]))
        return Proofs(patterns[:, None], scores[None], self.facts.layout, disjoint=False)


def _stays(form: Recurrence, start: Proofs, constant: Proofs) -> bool:
    """Whether a round can only add to the start: it keeps its argument, or has the start itself."""
    known = constant.scores[0].numpy()
    if form.keeps and not (known > NO_PROOF).any():
        return True
    n = start.n
    if not np.array_equal(known[:n], start.scores[0].numpy()) or (known[n:] > NO_PROOF).any():
        return False
    own = moved(start.patterns, start.layout.moves_to(constant.layout), constant.layout.words)
    return torch.equal(own.expand_as(constant.patterns[:, :, :n]), constant.patterns[:, :, :n])
