"""The unions of proofs that a contraction makes, and the k likeliest of each group.

Nothing here is differentiated. Three things make it fast: proofs are integers; where operands
share no input and their proofs exclude each other, the k likeliest are found from scores alone and
only the winners' patterns are built; and the maximum is taken over the first dimension, along which
memory is contiguous in symbols and rows.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.execution.buckets import BucketTensors
from dolphin.provenance.differentiation import reading_is_free
from dolphin.provenance.topk.encoding import (
    Placement,
    add_moved,
    constant,
    merge,
    moved,
    shifted,
)
from dolphin.provenance.topk.proofs import (
    NO_PROOF,
    Proofs,
    at_places,
    compatible,
)
from dolphin.provenance.topk.weighing import SEARCHING, log_weights


@torch.library.custom_op("dolphin::stored", mutates_args=(), schema="(Tensor x) -> Tensor")
def _stored(x: Tensor) -> Tensor:
    return x.clone()


_stored.register_fake(torch.empty_like)


def stored(tensor: Tensor) -> Tensor:
    """The same, in memory of its own, where a compiler would compute it again for every reader.

    The candidates of one search follow from those of the search before. Written out for each of
    their many readers, all of it in one function, these are a megabyte of C++ for paths on 2×2
    blocks (178 s of CPU time, now 72), and more than GCC can take for paths on 6×6.
    """
    compiled = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
    return _stored(tensor) if compiled else tensor


@dataclass(frozen=True)
class _Chunk:
    """Some groups of a bucket: combination d of group w is at d * width + w."""

    indices: list[Tensor]
    shifted: Tensor | None  # see `BucketTensors.shifted`
    row: Tensor | None  # of each group, where rows are flattened
    depth: int
    width: int

    @classmethod
    def of(cls, bucket: BucketTensors, row: Tensor | None, start: int, width: int) -> _Chunk:
        def cut(index: Tensor) -> Tensor:
            if width == bucket.width:
                return index
            return index.view(bucket.depth, -1)[:, start : start + width].reshape(-1)

        shifted = None if bucket.shifted is None else cut(bucket.shifted)
        row = None if row is None else row[start : start + width]
        return cls([cut(index) for index in bucket.indices], shifted, row, bucket.depth, width)

    def only(self, groups: Tensor) -> _Chunk:
        """Some of the groups."""

        def cut(index: Tensor) -> Tensor:
            return index.view(self.depth, -1).index_select(1, groups).reshape(-1)

        shifted = None if self.shifted is None else cut(self.shifted)
        row = None if self.row is None else self.row.index_select(0, groups)
        indices = [cut(index) for index in self.indices]
        return _Chunk(indices, shifted, row, self.depth, len(groups))

    def padded(self, scores: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Scores (k, n, r) and their indices; padding refers to no proof."""
        pairs = list(zip(scores, self.indices, strict=True))
        if self.shifted is not None:
            pairs[0] = (F.pad(scores[0], (0, 0, 1, 0), value=NO_PROOF), self.shifted)
        return pairs


class Candidates:
    """The unions of proofs of one or two operands; `likeliest` chooses for a part of a bucket.

    `apart`: no combination has proofs that share an input or don't exclude each other, although the
    operands as a whole may.
    """

    def __init__(self, operands: Sequence[Proofs], k: int, *, apart: bool = False) -> None:
        self.k = k
        self.apart = apart
        self.row: Tensor | None = None  # of each group in the buckets' order, if rows are flattened
        self.operands = operands = compatible(operands)
        self.rows = max([operand.rows for operand in operands])
        # The literal facts of an input are looked up in the patterns of the other operand, whose
        # layout therefore leads.
        lead = 1 if len(operands) > 1 and operands[0].fields and not operands[1].fields else 0
        layouts = [operand.layout for operand in operands]
        self.layout = merge([layouts[lead], *layouts])
        self.moves = [layout.moves_to(self.layout) for layout in layouts]
        # A common layout has room for all inputs once: they share none if all places are taken.
        placements = self.layout.placements
        apart_anyway = len(placements) == sum([len(layout.placements) for layout in layouts])
        self.shared = not apart and not apart_anyway
        self.disjoint = apart or (apart_anyway and False not in [o.disjoint for o in operands])
        self.literal = self._literal(lead)
        # Whether scores must be computed from the patterns of unions, because operands share facts.
        self.weighs = self.shared and self.literal is None
        # Whether the likeliest candidates are the result as they are, with nothing to absorb.
        self.simple = self.disjoint or (k == 1 and not self.weighs)
        # Proofs that exclude each other absorb nothing, so the tiny penalties of facts don't count.
        # On a CPU double precision is used all the same (see `_best_of_packed`).
        single = self.disjoint and not reading_is_free(operands[0].scores)
        single = single and all(p.facts.log_probs.dtype == torch.float32 for p in placements)
        self.precision = torch.float32 if single else torch.float64
        proofs = [operand.k for operand in operands]
        self.slots = _slots(proofs, k if self.disjoint else None)
        # Whether the unions of one combination are the proofs of one operand, in their order: the
        # other has one proof, which says something else.
        one_each = not self.shared and len(proofs) - proofs.count(1) <= 1
        self.in_order = (len(operands) == 1 or one_each) and max(proofs) <= k

    def _literal(self, lead: int) -> tuple[int, int, Placement] | None:
        """(leading operand, literal one, its place) if facts of an input are joined to proofs."""
        if len(self.operands) != 2 or not self.shared:
            return None
        other = 1 - lead
        literal = self.operands[other]
        if literal.fields is None:
            return None
        place = self.layout.find(literal.layout.placements[0].facts)
        assert place is not None
        exact = place.code.all_binary or not self.operands[lead].signed
        return (lead, other, place) if exact else None

    def cost(self, bucket: BucketTensors) -> int:
        """Numbers held at once for one group."""
        candidates = bucket.depth * len(self.slots) * self.rows
        if self.simple:
            return candidates * 2
        columns = sum(p.code.columns for p in self.layout.placements) if self.weighs else 0
        return candidates * (2 + 2 * self.layout.words + columns)

    def likeliest(
        self,
        bucket: BucketTensors,
        before: int,
        start: int,
        width: int,
        known: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Patterns (words, k, width, r) and scores (k, width, r) of groups start .. start+width.

        There are `before` groups in earlier buckets. `known`: the same for proofs of the bucket's
        groups that are candidates, too.
        """
        row = None if self.row is None else self.row[before:]
        chunk = _Chunk.of(bucket, row, start, width)
        if self.simple:
            return self._likeliest(self._scores(chunk), chunk)
        if known is not None:
            part = slice(start, start + width)
            return self._likeliest_of_all(chunk, (known[0][:, :, part], known[1][:, part]))
        if not self.weighs and reading_is_free(self.operands[0].scores):
            return self._likeliest_first(chunk)
        return self._likeliest_of_all(chunk)

    def _likeliest_of_all(
        self, chunk: _Chunk, known: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        patterns = self._unions(chunk)
        candidates = self._weigh(patterns, chunk) if self.weighs else self._scores(chunk)
        if known is not None:
            more = known[0].expand(-1, -1, -1, self.rows)
            patterns = torch.cat([patterns, more], 1)
            candidates = torch.cat([candidates, known[1].expand(-1, -1, self.rows)])
        return self._likeliest_absorbing(candidates, patterns)

    def _likeliest_first(self, chunk: _Chunk) -> tuple[Tensor, Tensor]:
        """The k best scores, unless one of these proofs contains another.

        A proof that contains another is less likely than that one, if only by the penalty of a
        fact, which rounding may hide here. So only where one of the best does are all candidates of
        the group built and compared. Kinship chains of ten, k = 3: six times faster than building
        all of them.
        """
        patterns, scores = self._likeliest(self._scores(chunk), chunk)
        slots = range(scores.shape[0])
        again = scores.new_zeros(scores.shape[1:], dtype=torch.bool)
        for one, other in itertools.combinations(slots, 2):
            both = patterns[:, one] & patterns[:, other]
            contained = (both == patterns[:, one]).all(0) | (both == patterns[:, other]).all(0)
            again |= contained & (scores[other] > NO_PROOF)
        groups = again.any(-1).nonzero()[:, 0]
        if len(groups):
            more = self._likeliest_of_all(chunk.only(groups))
            patterns[:, :, groups], scores[:, groups] = more
        return patterns, scores

    # -- scores ------------------------------------------------------------------------------------

    def _scores(self, chunk: _Chunk) -> Tensor:
        """Scores of all unions, (slots * depth, width, r), without weighing patterns."""
        depth, width = chunk.depth, chunk.width
        gathered = [
            at_places(scores, index).view(-1, depth, width, scores.shape[-1])
            for scores, index in chunk.padded([o.scores.to(self.precision) for o in self.operands])
        ]
        if self.literal is not None:
            lead, other, _ = self.literal
            fresh, held = self._overlap(chunk)
            otherwise = 0.0 if held is None else torch.where(held, 0.0, NO_PROOF)
            gain = torch.where(fresh, gathered[other], otherwise)
            return gain.add(gathered[lead]).view(-1, width, self.rows)
        one, *others = gathered
        if len(self.slots) == math.prod([operand.k for operand in self.operands]):
            every = one[:, None] + others[0] if others else one
            return every.view(-1, width, self.rows)
        if torch.compiler.is_compiling():  # few operations compile faster than many small ones
            chosen = [
                scores.index_select(0, constant(places, scores.device))
                for scores, places in zip(gathered, zip(*self.slots, strict=True), strict=True)
            ]
            return functools.reduce(torch.add, chosen).view(-1, width, self.rows)
        out = one.new_empty(len(self.slots), depth, width, self.rows)
        for place, slot in enumerate(self.slots):
            torch.add(one[slot[0]], others[0][slot[1]], out=out[place])
        return out.view(-1, width, self.rows)

    def _overlap(self, chunk: _Chunk) -> tuple[Tensor, Tensor | None]:
        """Whether a literal fact says something new about its group, and whether the proof has it.

        If neither, it contradicts the proof. Both are (k of the leading operand, depth, width, r);
        the second is None if there can be no contradiction.
        """
        assert self.literal is not None
        lead, other, place = self.literal
        indices = chunk.indices
        proofs, literal = self.operands[lead], self.operands[other]
        assert literal.fields is not None
        home = literal.layout.placements[0]
        word = literal.fields[0].index_select(0, indices[other])
        mask = literal.fields[1].index_select(0, indices[other])
        shift = place.shift - home.shift
        mask = shifted(mask, shift)[:, None]
        k, n, rows = proofs.k, proofs.n, proofs.patterns.shape[-1]
        # Word w of proof s of symbol i is at (w * k + s) * n + i.
        at = (word + (place.word - home.word)) * (k * n) + indices[lead]
        if k > 1:
            at = constant(tuple(range(0, k * n, n)), at.device)[:, None] + at
        ruled_out = proofs.patterns.reshape(-1, rows).index_select(0, at.view(-1))
        ruled_out = ruled_out.view(k, -1, rows) & mask
        shape = (k, chunk.depth, chunk.width, rows)
        fresh = (ruled_out == 0).view(shape)
        if place.code.all_binary and not literal.signed:
            return fresh, None
        own = word * literal.n + indices[other]
        fact = literal.patterns.reshape(-1, literal.patterns.shape[-1]).index_select(0, own)
        fact = shifted(fact, shift) & mask
        return fresh, ((ruled_out | fact) == ruled_out).view(*shape[:3], -1)

    def _weigh(self, patterns: Tensor, chunk: _Chunk) -> Tensor:
        """Scores of unions from their patterns, NO_PROOF for contradictions."""
        lows, guards = (
            constant(tuple(bits), patterns.device).view(-1, 1, 1, 1)
            for bits in self.layout.carries()
        )
        contradiction = ((patterns + lows) & guards).ne(0).any(0)
        scores = log_weights(patterns, self.layout, chunk.row, weights=SEARCHING)
        exists = self._exists(chunk)
        scores = torch.where(contradiction | ~exists, NO_PROOF, scores)
        return scores.expand(-1, -1, self.rows).clone()

    def _exists(self, chunk: _Chunk) -> Tensor:
        """Whether all proofs of a union exist, of all pairs of slots, (slots * depth, width, r)."""
        gathered = [
            at_places(scores, index) > NO_PROOF
            for scores, index in chunk.padded([operand.scores for operand in self.operands])
        ]
        every = gathered[0]
        if len(gathered) == 2:
            every = every[:, None] & gathered[1]
        return every.expand(*every.shape[:-1], self.rows).reshape(-1, chunk.width, self.rows)

    # -- patterns ----------------------------------------------------------------------------------

    def _unions(self, chunk: _Chunk) -> Tensor:
        """Patterns of all unions, (words, slots * depth, width, r), for all pairs of slots."""
        gathered = [
            moved(at_places(operand.patterns, index), moves, self.layout.words)
            for operand, index, moves in zip(self.operands, chunk.indices, self.moves, strict=True)
        ]
        union = gathered[0]
        if len(gathered) == 2:
            union = union[:, :, None] | gathered[1][:, None]
        union = union.expand(*union.shape[:-1], self.rows)
        count = len(self.slots) * chunk.depth
        return union.reshape(self.layout.words, count, chunk.width, self.rows)

    # -- choosing ----------------------------------------------------------------------------------

    def _likeliest(self, candidates: Tensor, chunk: _Chunk) -> tuple[Tensor, Tensor]:
        """Without comparisons: the k best scores win, and only their patterns are built."""
        depth, width = chunk.depth, chunk.width
        scores, winners = _best(candidates, self.k)
        group = torch.arange(width, device=winners.device)[:, None]
        # Candidate (slot, step) of group w is at slot * depth + step; its members at
        # step * width + w of the bucket.
        slot = _divided(winners, depth) if len(self.slots) > 1 else None
        step = winners if slot is None else winners - slot * depth
        member = (step * width + group).view(-1)
        patterns: Tensor | None = None
        for number, (operand, index, moves) in enumerate(
            zip(self.operands, chunk.indices, self.moves, strict=True)
        ):
            if not moves:  # a certain operand: the empty proof
                continue
            place = index.index_select(0, member).view_as(winners)
            if operand.k > 1 and slot is not None:
                starts = constant(tuple(s[number] * operand.n for s in self.slots), winners.device)
                place = place + starts.index_select(0, slot.view(-1)).view_as(slot)
            own = _lookup(operand.patterns, place)
            if patterns is None:
                patterns = moved(own, moves, self.layout.words)
            else:
                add_moved(patterns, own, moves)
        if patterns is None:
            patterns = winners.new_zeros(0, *winners.shape)
        return patterns, scores.double()

    def _likeliest_absorbing(self, candidates: Tensor, patterns: Tensor) -> tuple[Tensor, Tensor]:
        """The best k, each time without those that equal or contain the last one chosen."""
        candidates, patterns = stored(candidates), stored(patterns)
        scores, chosen = [], []
        for number in range(min(self.k, candidates.shape[0])):
            if number:
                absorbed = (chosen[-1] & patterns).eq(chosen[-1]).all(0)
                candidates.masked_fill_(absorbed, NO_PROOF)
            best, at = candidates.max(0)
            scores.append(best)
            chosen.append(patterns.gather(1, at.expand(patterns.shape[0], 1, *at.shape)))
        return torch.cat(chosen, dim=1), torch.stack(scores)


def _slots(proofs: Sequence[int], most: int | None) -> list[tuple[int, ...]]:
    """Which proofs of operands that have so many can give one of the likeliest unions."""
    slots = itertools.product(*map(range, proofs))
    if most is None:
        return list(slots)
    # Unions of earlier proofs are all likelier, and there are this many of them:
    return [slot for slot in slots if math.prod([s + 1 for s in slot]) <= most]


def _best(candidates: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest along the first dimension, and their places. Overwrites `candidates`."""
    rounds = min(k, candidates.shape[0])
    if reading_is_free(candidates):
        return _best_of_packed(candidates, rounds)
    candidates = stored(candidates)
    best, at = candidates.max(0, keepdim=True)
    scores, places = [best], [at]
    for _ in range(1, rounds):
        candidates.scatter_(0, at, NO_PROOF)
        best, at = candidates.max(0, keepdim=True)
        scores.append(best)
        places.append(at)
    return torch.cat(scores), torch.cat(places)


LEAST, GREATEST = -(2.0**500), -(2.0**-500)


def _best_of_packed(candidates: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
    """`_best` on a CPU, where a maximum is many times faster without its place.

    So each score carries its place in the last bits, far below the precision of scores; of equal
    scores the first one wins, because all of them are below zero.
    """
    last_bits = _pack(candidates)
    winners = []
    for number in range(rounds):
        if number:
            candidates.scatter_(0, winners[-1].view(torch.int64) & last_bits, 2 * LEAST)
        winners.append(candidates.amax(0, keepdim=True))
    keys = torch.cat(winners).view(torch.int64)
    scores = (keys & ~last_bits).view(torch.float64)
    return scores.masked_fill_(scores <= LEAST, NO_PROOF), keys & last_bits


def _pack(candidates: Tensor) -> int:
    """Write places into the last bits of scores; returns which bits these are."""
    count = candidates.shape[0]
    last_bits = (1 << max(1, count - 1).bit_length()) - 1
    keys = candidates.clamp_(LEAST, GREATEST).view(torch.int64)
    place = torch.arange(count).view(-1, *[1] * (candidates.dim() - 1))
    keys.bitwise_and_(~last_bits).bitwise_or_(place)
    return last_bits


def _divided(places: Tensor, by: int) -> Tensor:
    """places // by, without a division: right for places and divisors of up to a million."""
    if by > 1_000_000:
        return places.div(by, rounding_mode="floor")
    return (places * ((1 << 40) // by + 1)) >> 40


def _lookup(patterns: Tensor, place: Tensor) -> Tensor:
    """patterns (W, k, n, r) at places (k', width, r) of its flattened k and n."""
    words, _, _, rows = patterns.shape
    if rows == 1:
        flat = at_places(patterns.reshape(words, -1, 1), place.reshape(-1))
        return flat.view(words, *place.shape)
    flat = patterns.reshape(words, -1, rows)
    at = place.reshape(1, -1, rows).expand(words, -1, -1)
    return flat.gather(1, at).view(words, *place.shape)
