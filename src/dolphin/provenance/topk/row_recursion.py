"""The k likeliest proofs of every symbol of a linear recursion over symbols of each row's own.

All rounds run in one loop over arrays, on a CPU. The proofs of all symbols stay in place, a round
searches only symbols that something new leads to, and where every candidate is a known proof and
one more fact, only the word with the fact's group is looked at until the winners are known. Chains
of ten relatives in 64 rows, k = 3: 18 ms instead of 100.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from dolphin.execution.indices import RowMap
from dolphin.provenance.differentiation import reading_is_free
from dolphin.provenance.numerics import chunk_elements
from dolphin.provenance.topk.encoding import merge
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs, compatible, moved
from dolphin.symbolic.growth import Growth

_LEAST, _GREATEST = -(2.0**500), -(2.0**-500)  # scores that carry a place, as in search.py


def likeliest_in_rows(
    growth: Growth, starts: bool, keeps: bool, k: int, most_rounds: int, *given: Proofs
) -> Proofs | None:
    """The proofs when nothing changes any more, from those of the start and of what extends them.

    None if that takes too many rounds, and unless the state is extended by single facts.
    """
    if not reading_is_free(given[0].scores) or given[0].k > k:
        return None
    start, other = compatible(given)
    literal = other.fields is not None and other.k == 1 and len(other.layout.placements) == 1
    if not literal or start.signed or other.signed:
        return None
    if k * len(growth.group_of) * merge([start.layout, other.layout]).words > chunk_elements():
        return None
    search = _Search(growth, starts, keeps, k, start, other)
    changed = np.arange(growth.sizes[0])
    for turn in range(1, most_rounds + 1):
        groups = search.reached_from(changed)
        known, new = np.split(groups, [np.searchsorted(groups, growth.size(turn - 1))])
        before = search.proofs_of(known)
        search.round(groups)
        unlike = _differing(before, search.proofs_of(known))
        changed = np.concatenate([known[unlike], new])
        if turn >= growth.rounds and _same_sets(before.at(unlike), search.proofs_of(known[unlike])):
            return search.found(growth)
    return None


class _Some(NamedTuple):
    """The proofs of some symbols."""

    scores: np.ndarray  # (n, k)
    patterns: np.ndarray  # (n, k, W)

    def at(self, places: np.ndarray | slice) -> _Some:
        return _Some(self.scores[places], self.patterns[places])


class _Literals(NamedTuple):
    """The fact of each combination: where its group is written, what it says, and its score."""

    words: np.ndarray
    masks: np.ndarray
    facts: np.ndarray
    scores: np.ndarray

    def at(self, chosen: np.ndarray) -> _Literals:
        return _Literals(*(part.take(chosen) for part in self))


@dataclass(frozen=True)
class _Candidates:
    """Extended proofs of some groups: combination c with proof s of its source is at [s, c]."""

    sources: np.ndarray  # (C,)
    literals: _Literals
    counts: np.ndarray  # of combinations of each group
    starts: np.ndarray  # where these begin
    scores: np.ndarray  # (k, C)

    def places(self) -> np.ndarray:
        """The place of each candidate among those of its group, proofs slowest; (k, C)."""
        k, size = self.scores.shape
        step = np.arange(size) - np.repeat(self.starts, self.counts)
        return step + np.arange(k)[:, None] * np.repeat(self.counts, self.counts)

    def at(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Proof and combination of the candidates at a place of each group."""
        slot = place // self.counts
        return slot, self.starts + place - slot * self.counts


class _Search:
    """The proofs of all symbols: scores (n, k) and patterns (n, k, W)."""

    def __init__(
        self, growth: Growth, starts: bool, keeps: bool, k: int, start: Proofs, other: Proofs
    ) -> None:
        self.layout = merge([start.layout, other.layout])
        self.starts, self.keeps, self.k, words = starts, keeps, k, self.layout.words
        n = growth.sizes[-1]
        self.scores = np.full((n, k), NO_PROOF)
        self.patterns = np.zeros((n, k, words), dtype=np.int64)
        own = moved(start.patterns, start.layout.moves_to(self.layout), words)
        first = growth.sizes[0]
        patterns = own[..., 0].numpy()[:, :, growth.start].transpose(2, 1, 0)
        self.patterns[:first, : start.k] = patterns
        self.scores[:first, : start.k] = start.scores[..., 0].numpy()[:, growth.start].T
        self.first = self.proofs_of(np.arange(first))
        self.sources, self.group_of = growth.sources, growth.group_of
        small = self.group_of.astype(np.uint16) if n <= 1 << 16 else self.group_of
        self.order = np.argsort(small, kind="stable")  # of few numbers: by digits, ten times faster
        self.counts = np.bincount(self.group_of, minlength=n)
        self.begins = np.cumsum(self.counts) - self.counts
        self.literals = self._literals(other).at(growth.others)

    def _literals(self, other: Proofs) -> _Literals:
        """Those of all tags of an input."""
        assert other.fields is not None
        (home,) = other.layout.placements
        place = self.layout.find(home.facts)
        assert place is not None
        words, masks = (part.numpy() for part in other.fields)
        facts = other.patterns[:, 0, :, 0].numpy()[words, np.arange(len(words))] & masks
        shift = place.shift - home.shift
        masks, facts = (
            np.left_shift(x, shift) if shift >= 0 else x >> -shift for x in (masks, facts)
        )
        return _Literals(
            words + place.word - home.word, masks, facts, other.scores[0, :, 0].numpy()
        )

    def reached_from(self, changed: np.ndarray) -> np.ndarray:
        """The symbols that any of these combines into."""
        marked = np.zeros(len(self.scores), dtype=bool)
        marked[changed] = True
        led_to = np.zeros(len(self.scores), dtype=bool)
        led_to[self.group_of[marked[self.sources]]] = True
        return np.flatnonzero(led_to)

    def proofs_of(self, groups: np.ndarray) -> _Some:
        return _Some(self.scores[groups], self.patterns[groups])

    def round(self, groups: np.ndarray) -> None:
        """Search the proofs of some symbols again."""
        if not len(groups):
            return
        found = self._extended(groups)
        first = len(self.first.scores)
        kept = groups if self.keeps else groups[: np.searchsorted(groups, first)]
        if len(kept):
            some = [self._first_of(kept)] * self.starts + [self.proofs_of(kept)] * self.keeps
            some.append(found.at(slice(len(kept))))
            scores, patterns = map(_side_by_side, zip(*some, strict=True))
            best = _likeliest_of(scores, patterns, self.k)
            found.scores[: len(kept)], found.patterns[: len(kept)] = best
        self.scores[groups], self.patterns[groups] = found

    def _first_of(self, groups: np.ndarray) -> _Some:
        """The proofs that symbols begin with; none for those that come later."""
        there = groups < len(self.first.scores)
        scores, patterns = self.first.at(np.where(there, groups, 0))
        return _Some(np.where(there[:, None], scores, NO_PROOF), patterns)

    def _extended(self, groups: np.ndarray) -> _Some:
        """The likeliest extended proofs of some groups.

        Where one of the best contains another, all candidates of the group are compared.
        """
        candidates = self._candidates(groups)
        found = self._best(candidates)
        again = np.flatnonzero(_some_contained(*found))
        if len(again):
            better = self._best_absorbing(self._candidates(groups[again]))
            found.scores[again], found.patterns[again] = better
        return found

    def _candidates(self, groups: np.ndarray) -> _Candidates:
        counts = self.counts[groups]
        starts = np.cumsum(counts) - counts
        chosen = np.repeat(self.begins[groups] - starts, counts)
        chosen += np.arange(len(chosen))
        chosen = self.order[chosen]
        sources, literals = self.sources[chosen], self.literals.at(chosen)
        words = self.layout.words
        at = np.arange(self.k)[:, None] * words + (sources * (self.k * words) + literals.words)
        ruled_out = self.patterns.reshape(-1).take(at)
        ruled_out &= literals.masks
        gain = np.where(ruled_out | literals.facts == ruled_out, 0.0, NO_PROOF)
        np.copyto(gain, literals.scores, where=ruled_out == 0)
        gain += self.scores.T[:, sources]
        return _Candidates(sources, literals, counts, starts, gain)

    def _best(self, given: _Candidates) -> _Some:
        """By scores alone, each of which carries its place in its last bits."""
        places = given.places()
        last_bits = (1 << int(places.max()).bit_length()) - 1
        keys = np.clip(given.scores, _LEAST, _GREATEST)
        bits = keys.view(np.int64)
        bits &= ~last_bits
        bits |= places
        found = []
        for _ in range(self.k):
            best = np.maximum.reduceat(keys, given.starts, axis=1).max(0)
            found.append(best)
            slot, at = given.at(best.view(np.int64) & last_bits)
            keys[slot, at] = 2 * _LEAST
        winners = np.stack(found, 1).view(np.int64)
        scores = (winners & ~last_bits).view(np.float64)
        scores[scores <= _LEAST] = NO_PROOF
        slots, at = zip(*(given.at(place) for place in (winners & last_bits).T), strict=True)
        return _Some(scores, self._patterns(given, np.stack(slots, 1), np.stack(at, 1)))

    def _patterns(self, given: _Candidates, slots: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The patterns of some candidates, (..., W)."""
        words = self.layout.words
        proof = (given.sources[at] * self.k + slots).reshape(-1)
        patterns = self.patterns.reshape(-1, words).take(proof, axis=0)
        fact = at.reshape(-1)
        patterns[np.arange(len(proof)), given.literals.words[fact]] |= given.literals.facts[fact]
        return patterns.reshape(*at.shape, words)

    def _best_absorbing(self, given: _Candidates) -> _Some:
        """The best k, each time without those that equal or contain the last one chosen."""
        k, size = given.scores.shape
        slots, at = np.indices((k, size))
        patterns, places = self._patterns(given, slots, at), given.places()
        groups = np.repeat(np.arange(len(given.counts)), given.counts)
        chosen = []
        for _ in range(k):
            best = np.maximum.reduceat(given.scores, given.starts, axis=1).max(0)
            first = np.where(given.scores == best[groups], places, places.max())
            slot, where = given.at(np.minimum.reduceat(first, given.starts, axis=1).min(0))
            winner = patterns[slot, where]
            chosen.append((best, winner))
            absorbed = ((winner[groups] & ~patterns) == 0).all(-1)
            given.scores[absorbed] = NO_PROOF
        return _Some(*map(_in_order, zip(*chosen, strict=True)))

    def found(self, growth: Growth) -> Proofs:
        """The proofs of all symbols, at their places in rows."""
        batch, width = growth.domain.numbers.shape
        scores = np.full((self.k, batch * width), NO_PROOF)
        scores[:, growth.places] = self.scores.T
        patterns = np.zeros((batch * width, self.k, self.layout.words), dtype=np.int64)
        patterns[growth.places] = self.patterns
        return Proofs(
            torch.from_numpy(np.ascontiguousarray(patterns.T))[..., None],
            torch.from_numpy(scores)[..., None],
            self.layout,
            disjoint=False,
            row_map=RowMap.of(batch, width),
        )


def _some_contained(scores: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Whether one of several proofs, (n, k), contains another; (n,)."""
    found = np.zeros(len(scores), dtype=bool)
    for one, other in itertools.combinations(range(scores.shape[1]), 2):
        both = patterns[:, one] & patterns[:, other]
        contained = (both == patterns[:, one]).all(1) | (both == patterns[:, other]).all(1)
        found |= contained & (scores[:, other] > NO_PROOF)
    return found


def _side_by_side(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts, axis=1)


def _in_order(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(parts, axis=1)


def _differing(old: _Some, new: _Some) -> np.ndarray:
    """The symbols that don't have the same proofs in the same order."""
    there, now = old.scores > NO_PROOF, new.scores > NO_PROOF
    same = (there == now) & ((old.patterns == new.patterns).all(-1) | ~now)
    return np.flatnonzero(~same.all(1))


def _same_sets(old: _Some, new: _Some) -> bool:
    """Whether symbols have the same proofs; equally likely ones may have swapped places."""
    alike = (old.patterns[:, :, None] == new.patterns[:, None]).all(-1)
    there, now = old.scores > NO_PROOF, new.scores > NO_PROOF
    alike &= there[:, :, None] & now[:, None]
    return bool((alike.any(2) == there).all() and (alike.any(1) == now).all())


def _likeliest_of(scores: np.ndarray, patterns: np.ndarray, k: int) -> _Some:
    """The best k of (n, m) proofs, each time without those that contain the last one chosen."""
    every = np.arange(len(scores))
    chosen = []
    for _ in range(k):
        at = scores.argmax(1)
        winner = patterns[every, at]
        chosen.append((scores[every, at], winner))
        absorbed = ((winner[:, None] & ~patterns) == 0).all(-1)
        scores = np.where(absorbed, NO_PROOF, scores)
    return _Some(*map(_in_order, zip(*chosen, strict=True)))
