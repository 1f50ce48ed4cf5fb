"""The k likeliest proofs of every group of combinations.

Which groups are searched at once, and which need no search: where a symbol has one combination,
there is nothing to choose. What they are chosen from is in `candidates`. Nothing here is
differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import SizeError
from dolphin.execution.buckets import BucketTensors
from dolphin.execution.indices import Contraction, Index, to_device
from dolphin.execution.kept import kept_lists
from dolphin.provenance.numerics import at_once, chunk_elements
from dolphin.provenance.topk import proofs
from dolphin.provenance.topk.candidates import Candidates
from dolphin.provenance.topk.encoding import joined, moved
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs, absent, at_places
from dolphin.settings import current_settings

Known = tuple[Tensor, Tensor]  # patterns and scores of proofs

_LARGE_GROUP = 4  # chunks that the work for one symbol may take as a whole
_FEW = 4096  # combinations that are sorted faster than searched

MOST_UNIONS = 1000  # of proofs in all rows, per combination of symbols that is allowed


def contracted(operands: Sequence[Proofs], plan: Contraction, k: int, *, apart: bool) -> Proofs:
    """The k likeliest proofs of each group; `apart` as in `Candidates`."""
    if len(operands) > 2:
        return _two_by_two(operands, plan, k, apart)
    candidates = Candidates(operands, k, apart=apart)
    _check_size(candidates, plan.combinations)
    row_map = plan.rows_of_groups([operand.row_map for operand in operands])
    if candidates.in_order and plan.combinations and not torch.compiler.is_compiling():
        meeting = plan.derived(_Meeting)
        if 2 * len(meeting.several) <= plan.groups:
            return replace(_mostly_alone(candidates, plan, meeting), row_map=row_map)
    device = operands[0].scores.device
    if row_map is not None:
        candidates.row = row_map.on(device)
        if plan.position is not None:
            candidates.row = candidates.row.index_select(0, to_device(plan.order, device))
    parts: list[Proofs] = []
    before = 0
    for bucket in plan.on(device):
        parts += _searched(candidates, bucket, before)
        before += bucket.width
    if not parts:
        result = _none(candidates, plan.groups)
    else:
        result = replace(proofs.concat(parts), disjoint=candidates.disjoint)
        result = result if plan.position is None else proofs.select(result, plan.position)
    return replace(result, row_map=row_map)


def place_by_place(one: Proofs, other: Proofs, k: int) -> Proofs:
    """The k likeliest proofs of one ⊗ other, symbol by symbol."""
    if not torch.compiler.is_compiling():
        places = np.arange(one.n)
        return contracted([one, other], kept_lists([places, places], places, one.n), k, apart=False)
    # A compiler can't make index lists. It meets tags without flattened rows only.
    candidates = Candidates([one, other], k, apart=False)
    every = torch.arange(one.n, device=one.scores.device)
    bucket = BucketTensors((every, every), None, 1, one.n, None)
    found = proofs.concat(_searched(candidates, bucket, 0))
    return replace(found, disjoint=candidates.disjoint)


def _two_by_two(operands: Sequence[Proofs], plan: Contraction, k: int, apart: bool) -> Proofs:
    """Many operands: k² unions per additional operand, and never more than fit in memory."""
    rows = max(operand.rows for operand in operands)
    parts: list[Proofs] = []
    for steps in plan.two_by_two(at_once(plan.combinations, 2 * rows * k)):
        tags = operands[0]
        for step, operand in zip(steps, operands[1:], strict=True):
            tags = contracted([tags, operand], step, k, apart=apart)
        parts.append(tags)
    return replace(proofs.concat(parts), disjoint=all(part.disjoint for part in parts))


def _check_size(candidates: Candidates, combinations: int) -> None:
    """Refuse a search that would take hours, before it starts."""
    if torch.compiler.is_compiling():  # compiled code can't read the limits in force
        return
    most = MOST_UNIONS * current_settings().max_combinations
    each = len(candidates.slots)
    unions = combinations * each * candidates.rows
    if unions > most:
        raise SizeError(
            f"TopKProofs: {combinations:,} combinations of symbols with {each:,} "
            f"unions of proofs each, in {candidates.rows:,} rows, make {unions:,} unions to "
            f"compare, more than {most:,}. Use a smaller k (this one is {candidates.k}), smaller "
            "batches, or fewer symbols (dolphin.sample, dolphin.filter), or raise the limit with "
            "dolphin.settings(max_combinations=...)."
        )


def _none(candidates: Candidates, n: int) -> Proofs:
    """Symbols without a proof."""
    like = candidates.operands[0]
    scores = like.scores.new_full((1, n, candidates.rows), NO_PROOF)
    patterns = like.patterns.new_zeros(candidates.layout.words, 1, n, 1)
    return Proofs(patterns, scores, candidates.layout, candidates.disjoint)


# -- groups that are searched --------------------------------------------------------------------


def _searched(
    candidates: Candidates, bucket: BucketTensors, before: int, known: Known | None = None
) -> list[Proofs]:
    """The proofs of a bucket's groups, some groups at a time."""
    each = candidates.cost(bucket)
    if not torch.compiler.is_compiling():
        limit = chunk_elements()
        if each > _LARGE_GROUP * limit and bucket.depth > 2:  # pieces of two, at least
            return [_in_pieces(candidates, bucket, before, -(-each // limit), known)]
    step = at_once(bucket.width, each)
    parts = []
    for start in range(0, bucket.width, step):
        width = min(step, bucket.width - start)
        patterns, scores = candidates.likeliest(bucket, before, start, width, known)
        parts.append(Proofs(patterns, scores, candidates.layout, candidates.disjoint))
    return parts


def _in_pieces(
    candidates: Candidates, bucket: BucketTensors, before: int, pieces: int, known: Known | None
) -> Proofs:
    """Groups too large to be searched as a whole: the best of each piece, then of those.

    A proof of one piece may absorb some of the best of another, which then has places for the
    next ones: those pieces are searched again, with the best of all as candidates.
    """
    depth = max(2, -(-bucket.depth // min(pieces, bucket.depth)))
    best = None
    for _ in range(bucket.depth):
        parts = [
            proofs.concat(_searched(candidates, bucket.piece(start, depth), before, known))
            for start in range(0, bucket.depth, depth)
        ]
        both = replace(proofs.concat(parts), disjoint=candidates.disjoint)
        places = np.arange(both.n)
        plan = kept_lists([places], places % bucket.width, bucket.width)
        best, last = contracted([both], plan, candidates.k, apart=False), best
        if candidates.simple or not proofs.absorbs(best, parts) or proofs.same(best, last):
            break
        known = best.patterns, best.scores
    assert best is not None
    return best


# -- groups of one combination -------------------------------------------------------------------


class _Meeting:
    """Which groups of a contraction have one combination, and which have several."""

    def __init__(self, plan: Contraction) -> None:
        every = np.arange(plan.combinations)
        self.indices, self.combinations, self.groups = plan.indices, len(every), plan.groups
        self.first = np.full(plan.groups, -1, dtype=np.int64)  # a combination of each, if any
        self.first[plan.group_of] = every
        counts = np.bincount(plan.group_of, minlength=plan.groups)
        self.several = np.flatnonzero(counts > 1)
        self.among = np.flatnonzero(counts[plan.group_of] > 1)  # the combinations of these groups
        rank = np.zeros(plan.groups, dtype=np.int64)
        rank[self.several] = np.arange(len(self.several))
        self.whose = rank[plan.group_of[self.among]]  # the place of the group of each in `several`
        self._rankings: dict[tuple[int, int], _Ranking] = {}

    @functools.cached_property
    def alone(self) -> list[Index]:
        """The places of one combination of each group, -1 where there is none."""
        return [Index(np.append(index, -1)[self.first]) for index in self.indices]

    @functools.cached_property
    def crowded(self) -> tuple[Index, Contraction]:
        """The groups that have several combinations, and the contraction that makes them."""
        indices = [index[self.among] for index in self.indices]
        return Index(self.several), Contraction(indices, self.whose, len(self.several))

    def ranking(self, k: int, slots: int) -> _Ranking:
        """How the k likeliest of every group are found, if each combination has some proofs."""
        known = self._rankings.get((k, slots))
        if known is None:
            known = self._rankings[k, slots] = self._ranking(k, slots)
        return known

    def _ranking(self, k: int, slots: int) -> _Ranking:
        counts = slots * np.bincount(self.whose, minlength=len(self.several))
        rank = np.arange(max(slots, min(k, int(counts.max(initial=0)))))[:, None]
        begins = np.arange(slots)[:, None] * self.combinations
        there = rank < counts
        places = np.full((len(rank), self.groups), -1, dtype=np.int64)
        np.add(begins, self.first, out=places[:slots], where=self.first >= 0)
        places[:, self.several] = np.where(there, 0, -1)  # to be replaced, where there is a proof
        return _Ranking(
            Index((begins + self.among).reshape(-1), complete=True),
            Index(np.tile(self.whose, slots), complete=True),
            Index(((np.cumsum(counts) - counts + rank) * there).reshape(-1), complete=True),
            Index(self.several, complete=True),
            Index(places.reshape(-1)),
        )


class _Ranking(NamedTuple):
    """How the k likeliest proofs of every group are found, once proofs have an order.

    Proofs are numbered slot by slot: first those of all combinations that rank first.
    """

    competing: Index  # the proofs of groups with several combinations
    whose: Index  # the group of each
    leading: Index  # the first ones of each of these groups, once they are sorted by group
    several: Index  # these groups
    places: Index  # (k, groups): the proofs of groups with one combination; -1 where there is none


def _mostly_alone(candidates: Candidates, plan: Contraction, meeting: _Meeting) -> Proofs:
    """Most symbols have one combination, which leaves no choice.

    Only the others are searched. A step of kinship chains of 4, k = 3, 64 rows takes 53 instead
    of 63 ms.
    """
    made = functools.partial(Proofs, layout=candidates.layout, disjoint=candidates.disjoint)
    if not len(meeting.several):
        return made(*_each_alone(candidates, meeting.alone))
    if candidates.simple and candidates.rows == 1 and len(meeting.among) <= _FEW:
        return made(*_sorted_out(candidates, plan, meeting))
    kept = made(*_each_alone(candidates, meeting.alone))
    several, rest = meeting.crowded
    part = contracted(candidates.operands, rest, candidates.k, apart=candidates.apart)
    return proofs.replaced(kept, several.on(kept.scores.device)[0], part)


def _each_alone(candidates: Candidates, indices: Sequence[Index]) -> tuple[Tensor, Tensor]:
    """Patterns and scores of groups that have one combination each, if those are `in_order`.

    Combination g takes the proofs at indices[i][g] of operand i; none at -1.
    """
    operands, words = candidates.operands, candidates.layout.words
    device = operands[0].scores.device
    scores: Tensor | None = None
    patterns: Tensor | None = None
    for operand, index, moves in zip(operands, indices, candidates.moves, strict=True):
        places, missing = index.on(device)
        own = at_places(operand.scores, places)
        if scores is not None:
            scores = scores + own
        else:
            scores = own if missing is None else absent(own, missing)
        if not moves:  # a certain operand: the empty proof
            continue
        own = at_places(operand.patterns, places)
        patterns = moved(own, moves, words) if patterns is None else joined(patterns, own, moves)
    assert scores is not None
    if patterns is None:
        patterns = scores.new_zeros(0, *scores.shape, dtype=torch.int64)
    # Certain operands may have places for several proofs, too.
    return patterns.expand(-1, len(scores), -1, -1), scores


def _sorted_out(
    candidates: Candidates, plan: Contraction, meeting: _Meeting
) -> tuple[Tensor, Tensor]:
    """The k likeliest of each group in one row, by sorting the proofs of those that have a choice.

    Four times fewer kernels than a search, and no padding.
    """
    patterns, scores = _each_alone(candidates, plan.places)
    device, every = scores.device, scores.reshape(-1)
    ranking = meeting.ranking(candidates.k, len(scores))
    competing, whose, leading, several = (index.on(device)[0] for index in ranking[:4])
    ranked = every.index_select(0, competing).argsort(descending=True, stable=True)
    order = ranked.index_select(0, whose.index_select(0, ranked).argsort(stable=True))
    winners = competing.index_select(0, order.index_select(0, leading)).view(-1, len(several))
    places, missing = ranking.places.on(device)
    chosen = places.view(-1, plan.groups).index_copy(1, several, winners).view(-1)
    best = every.index_select(0, chosen)
    if missing is not None:
        best = best.masked_fill(missing, NO_PROOF)
    shape = (len(winners), plan.groups, 1)
    words = patterns.shape[0]  # none if there are no facts
    flat = patterns.reshape(words, 1, len(every), 1)
    return at_places(flat, chosen).view(words, *shape), best.view(shape)
