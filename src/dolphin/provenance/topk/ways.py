"""The likeliest proof of every symbol of a recursion in which no fact is worth using twice.

On a graph, a path that meets an edge again has been at its end before, and the path up to there is
likelier. So proofs are compared by the sums of their facts alone, a round changes what it improves
and nothing else, and bits are moved for those only. All paths on a grid of 6×6 nodes, 64 rows,
take half of the time of the general search.

Most symbols improve once, in all rows: in the round in which they appear. They are neighbours in
the order of symbols, and what leads to them is known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from dolphin.execution.recursion.recurrences import Extension, Recurrence, Turn
from dolphin.provenance.topk.candidates import GREATEST, LEAST
from dolphin.provenance.topk.encoding import Layout, moved
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs


@dataclass(frozen=True)
class SingleFacts:
    """Independent facts of one input in a layout that all proofs share, and the empty proof."""

    layout: Layout
    scores: np.ndarray  # (m + 1, r)
    patterns: np.ndarray  # (W, m + 1)

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
        return cls(layout, scores, patterns)

    @property
    def words(self) -> np.ndarray:
        """(m + 1,) where the bit of each is."""
        return self.patterns.argmax(0)

    @property
    def bits(self) -> np.ndarray:
        """(m + 1,) its bit there."""
        return self.patterns.max(0)

    @property
    def differ(self) -> bool:
        """Whether no two of them are one fact."""
        used = np.bitwise_or.reduce(self.patterns, axis=1).tolist()
        return sum(word.bit_count() for word in used) == len(self.scores) - 1


_NOTHING = Extension(*(np.zeros(shape, dtype=np.int64) for shape in ((0,), (1, 0), (1, 0))))
_NO_MORE = Turn(_NOTHING, _NOTHING, _NOTHING.symbols)


class _Changes(NamedTuple):
    """Better proofs of some symbols in some rows."""

    symbols: np.ndarray
    entries: np.ndarray  # places in (n, r)
    scores: np.ndarray
    patterns: Sequence[np.ndarray]  # one for each word


class LikeliestWays:
    """The proofs of n symbols so far, and a line for none.

    In numpy, whose small operations cost a third of torch's.
    """

    def __init__(self, form: Recurrence, facts: SingleFacts, *proofs: np.ndarray) -> None:
        self.form, self.facts = form, facts
        self.turn, self.fresh = 0, True  # `fresh`: nothing changed but what appeared
        self.scores, self.patterns = proofs  # (n + 1, r), below zero and finite; (W, n, r)
        depth = form.into.depth
        self.last_bits = (1 << max(1, depth - 1).bit_length()) - 1
        self.places = np.arange(depth)
        self.row = np.arange(self.scores.shape[1])

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
        if start.n != form.size(0) or not form.passes_once:
            return None
        if not facts.differ or not _stays(form, start, constant):
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
        return cls(form, facts, scores, patterns)

    def first_groups(self) -> np.ndarray:
        return self.form.turns[0].reached

    def round(self, groups: np.ndarray) -> np.ndarray:
        """Extend the proofs that lead to these symbols; returns those of the next round.

        In the first rounds after the start these are known: they were listed beforehand.
        """
        turn = self._turn()
        changes = self._improved(turn.back if self.fresh else self._known(groups))
        if len(turn.ahead.symbols):
            self._arrive(turn.ahead)
        self.turn += 1
        self.fresh = changes is None
        if changes is None:
            return self._turn().reached
        self.scores.reshape(-1)[changes.entries] = changes.scores
        for patterns, better in zip(self.patterns, changes.patterns, strict=True):
            patterns.reshape(-1)[changes.entries] = better
        return self.form.reached_from(np.concatenate([changes.symbols, turn.ahead.symbols]))

    def _turn(self) -> Turn:
        turns = self.form.turns
        return turns[self.turn] if self.turn < len(turns) else _NO_MORE

    def _known(self, groups: np.ndarray) -> Extension:
        """All combinations that lead to those of these symbols that have proofs."""
        known = groups[: groups.searchsorted(self.form.size(self.turn))]
        into = self.form.into
        return Extension(known, into.places.take(known, axis=1), into.others.take(known, axis=1))

    def _arrive(self, into: Extension) -> None:
        """The first proofs of symbols, in all rows; they are neighbours."""
        width = len(into.symbols)
        there = slice(into.symbols[0], into.symbols[0] + width)
        score, member = self._best(self._extended(into))
        member *= width
        member += np.arange(width)[:, None]
        source = (into.places * len(self.row)).take(member)
        source += self.row
        other = into.others.take(member)
        self.scores[there] = score
        for patterns, facts in zip(self.patterns, self.facts.patterns, strict=True):
            before = patterns.reshape(-1).take(source)
            np.bitwise_or(before, facts.take(other), out=patterns[there])

    def _improved(self, into: Extension) -> _Changes | None:
        """What becomes likelier of symbols that have proofs."""
        groups, rows = into.symbols, len(self.row)
        gain = self._extended(into)
        better = gain.max(0) > self.scores.take(groups, axis=0)
        entries = np.flatnonzero(better)
        if not len(entries):
            return None
        score, place = self._best(gain.reshape(len(gain), -1).take(entries, axis=1))
        group = entries // rows  # divmod takes twice as long
        row = entries - group * rows
        member = place * len(groups) + group
        source = (into.places * rows).reshape(-1).take(member) + row
        other = into.others.reshape(-1).take(member)
        extended = [
            patterns.reshape(-1).take(source) | facts.take(other)
            for patterns, facts in zip(self.patterns, self.facts.patterns, strict=True)
        ]
        return _Changes(
            groups[better.any(axis=1)],
            (groups * rows).take(group) + row,
            score,
            extended,
        )

    def _extended(self, into: Extension) -> np.ndarray:
        """The scores of proofs and one more fact, (depth, symbols, r)."""
        gain = self.scores.take(into.places, axis=0)
        gain += self.facts.scores.take(into.others, axis=0)
        return gain

    def _best(self, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest along the first dimension, and its place; overwrites `gain`.

        A maximum is many times faster without its place, so sums carry it in their last bits, far
        below their precision; of equal ones the first wins, because all of them are below zero.
        """
        keys = gain.view(np.int64)
        keys &= ~self.last_bits
        keys |= self.places[: len(gain)].reshape(-1, *[1] * (gain.ndim - 1))
        best = gain.max(0).view(np.int64)
        return (best & ~self.last_bits).view(np.float64), best & self.last_bits

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
