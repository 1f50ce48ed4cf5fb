"""Tags that are sets of proofs, and operations that move them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.execution.indices import Index, RowMap, to_device
from dolphin.provenance.arranging import Place, arrange
from dolphin.provenance.facts import Facts, View, all_apart
from dolphin.provenance.topk.encoding import (
    Layout,
    add_moved,
    add_part,
    merge,
    moved,
    moves_between,
)
from dolphin.provenance.topk.parts import (
    LargeInput,
    check_words,
    common_parts,
    literal_patterns,
    place_among,
    rewritten,
)
from dolphin.symbolic.plans import RowAddress

NO_PROOF = float("-inf")


@dataclass(frozen=True)
class Proofs:
    """Up to k proofs for each of n symbols in r rows, likeliest first.

    `scores` are logarithms of probabilities, less a tiny penalty for every fact. They only steer
    the search and carry no gradient.
    """

    patterns: Tensor  # (words, k, n, r), or r = 1 if the same in all rows; int64, see encoding.py
    scores: Tensor  # (k, n, r), float64; NO_PROOF where there is none
    layout: Layout
    disjoint: bool  # any two different proofs, of whatever symbols, contradict each other
    # For the unchanged facts of one input: word and mask of the group that each symbol belongs to.
    fields: tuple[Tensor, Tensor] | None = None
    row_map: RowMap | None = None  # where rows are flattened
    literal: np.ndarray | None = None  # (n,) columns of a large input, if there are `fields`

    @property
    def k(self) -> int:
        return self.scores.shape[0]

    @property
    def n(self) -> int:
        return self.scores.shape[1]

    @property
    def rows(self) -> int:
        return self.scores.shape[2]

    @property
    def row(self) -> Tensor | None:
        """(n,) the row of each symbol, where rows are flattened."""
        return None if self.row_map is None else self.row_map.on(self.scores.device)

    @property
    def exists(self) -> Tensor:
        return self.scores > NO_PROOF

    @property
    def signed(self) -> bool:
        """Whether facts may occur negated."""
        return self.layout.signed


def at_places(tensor: Tensor, places: Tensor) -> Tensor:
    """Numbers (..., n, r) of the symbols at some places."""
    plain = torch.compiler.is_compiling() or math.prod(tensor.shape[:-2]) == 1
    if plain or tensor.shape[-1] > 1:
        return tensor.index_select(-2, places)
    # Of one row, which is four times faster on a CPU.
    one = tensor.squeeze(-1)
    return one.gather(-1, places.expand(*one.shape[:-1], -1)).unsqueeze(-1)


def absent(scores: Tensor, missing: Tensor) -> Tensor:
    """Scores (k, n, r), those of no proof where a symbol is missing."""
    return scores.masked_fill(missing[:, None], NO_PROOF)


def with_signs(tags: Proofs) -> Proofs:
    """The same proofs, written so that negated facts can join them."""
    if tags.signed:
        return tags
    layout, moves = tags.layout.with_signs()
    patterns = tags.patterns.new_zeros(layout.words, *tags.patterns.shape[1:])
    add_moved(patterns, tags.patterns, moves)
    return replace(tags, patterns=patterns, layout=layout, fields=None)


def compatible(parts: Sequence[Proofs]) -> list[Proofs]:
    """The same tags, rewritten so that common facts are the same facts in all parts.

    Afterwards, two inputs are one object or share nothing in any row, and all parts have signs if
    one of them has.
    """
    signed = any(part.signed for part in parts)
    parts = [with_signs(part) for part in parts] if signed else list(parts)
    if all_apart(facts_of(parts)):
        return parts
    parts = with_common_parts(parts)
    facts = facts_of(parts)
    if all_apart(facts):
        return parts
    batch = max(each.rows for each in facts)
    views = [[View.whole(p.facts, batch) for p in part.layout.placements] for part in parts]
    slots, places = arrange(views, batch)
    return [seated(part, slots, own, batch) for part, own in zip(parts, places, strict=True)]


def facts_of(parts: Sequence[Proofs]) -> list[Facts]:
    """The inputs behind some tags, one after the other."""
    return [placement.facts for part in parts for placement in part.layout.placements]


def with_common_parts(parts: Sequence[Proofs]) -> list[Proofs]:
    """The same proofs; where they refer to different parts of one input, in terms of one part."""
    common = common_parts(facts_of(parts))
    return [_rewritten(part, common) for part in parts] if common else list(parts)


def as_whole(tags: Proofs) -> Proofs:
    """The same proofs in terms of whole inputs."""
    given = [placement.facts for placement in tags.layout.placements]
    return _rewritten(tags, {id(facts): facts.whole for facts in given if facts.whole is not None})


def _rewritten(tags: Proofs, common: dict[int, Facts]) -> Proofs:
    """Proofs in which some facts are replaced by others that contain them."""
    placements = tags.layout.placements
    if all(id(placement.facts) not in common for placement in placements):
        return tags
    targets = [common.get(id(placement.facts), placement.facts) for placement in placements]
    if tags.fields is not None and tags.literal is not None:
        (part,) = targets
        patterns, layout, fields = literal_patterns(part, place_among(part, tags.literal))
        return replace(tags, patterns=patterns, layout=layout, fields=fields)
    layout = Layout(signed=tags.signed)
    for facts in targets:
        if layout.find(facts) is None:
            layout = layout.having(facts)
    check_words(layout.words, tags.patterns[0].numel())
    out = tags.patterns.new_zeros(layout.words, *tags.patterns.shape[1:])
    for placement, facts in zip(placements, targets, strict=True):
        target = layout.find(facts)
        assert target is not None
        if facts is not placement.facts:
            rewritten(tags.patterns, placement, target, out)
            continue
        add_part(out, tags.patterns, moves_between(placement, target))
    return replace(tags, patterns=out, layout=layout, fields=None)


def selected(large: LargeInput, index: Index) -> Proofs:
    """The proofs of some facts of a large input, in terms of a part of it if they are few."""
    places, facts = index.places, large.facts
    columns, groups = large.groups_at(np.maximum(places, 0))
    chosen = np.unique(groups[places >= 0])
    if len(chosen) and 2 * len(chosen) <= len(facts.groups):
        part = facts.part(chosen)
    else:
        part = facts
    patterns, layout, fields = literal_patterns(part, place_among(part, columns) * (places >= 0))
    at, missing = index.on(facts.log_probs.device)
    scores = large.scores.index_select(1, at)
    if missing is not None:
        scores = absent(scores, missing)
    row_map = None
    if large.flat:
        row_map = RowMap(RowAddress(facts.columns).split(np.maximum(places, 0))[0])
    return Proofs(
        patterns, scores, layout, len(facts.groups) == 1, fields, row_map, columns * (places >= 0)
    )


def seated(
    tags: Proofs, slots: Sequence[Facts], places: Sequence[Sequence[Place]], batch: int
) -> Proofs:
    """Tags whose inputs are in other slots, perhaps not in the same one in all rows."""
    layout = Layout(signed=tags.signed)
    for slot, _ in (place for own in places for place in own):
        if layout.find(slots[slot]) is None:
            layout = layout.having(slots[slot])
    if layout.positions() == tags.layout.positions() and all(len(own) == 1 for own in places):
        return replace(tags, layout=layout)
    patterns, scores = tags.patterns, tags.scores
    split = any(rows is not None for own in places for _, rows in own)
    if split and tags.row_map is None:
        patterns, scores = (t.expand(*t.shape[:-1], batch) for t in (patterns, scores))
    out = patterns.new_zeros(layout.words, *patterns.shape[1:])
    for placement, own in zip(tags.layout.placements, places, strict=True):
        for slot, rows in own:
            target = layout.find(slots[slot])
            assert target is not None
            kept = patterns if rows is None else _in_rows(patterns, rows, tags.row)
            add_part(out, kept, moves_between(placement, target))
    return replace(tags, patterns=out, scores=scores, layout=layout, fields=None)


def _in_rows(patterns: Tensor, rows: np.ndarray, row: Tensor | None) -> Tensor:
    """Patterns in some rows, and nothing in the others."""
    mask = to_device(rows, patterns.device)
    mask = mask if row is None else mask[row][:, None]
    return torch.where(mask, patterns, 0)


def aligned(parts: Sequence[Proofs]) -> tuple[Layout, list[Tensor], list[Tensor]]:
    """A common layout, and the patterns and scores of all parts in it, with the same k and r."""
    parts = compatible(parts)
    layout = merge([part.layout for part in parts])
    k = max(part.k for part in parts)
    rows = max(part.rows for part in parts)
    same = all(part.patterns.shape[-1] == 1 for part in parts)
    patterns, scores = [], []
    for part in parts:
        pattern = moved(part.patterns, part.layout.moves_to(layout), layout.words)
        patterns.append(more_proofs(pattern.expand(-1, -1, -1, 1 if same else rows), k, 0))
        scores.append(more_proofs(part.scores.expand(-1, -1, rows)[None], k, NO_PROOF)[0])
    return layout, patterns, scores


def includes(patterns: Sequence[Tensor], exists: Sequence[Tensor]) -> bool:
    """Whether all proofs of the second are among those of the first, in any order.

    Equally likely proofs may swap places from one step of a fixpoint to the next.
    """
    for slot in range(patterns[1].shape[1]):
        same = (patterns[0] == patterns[1][:, slot, None]).all(0) & exists[0]
        if not bool((same.any(0) | ~exists[1][slot]).all()):
            return False
    return True


def more_proofs(tensor: Tensor, k: int, fill: float) -> Tensor:
    """(words, k', n, r) padded to k proofs."""
    missing = k - tensor.shape[1]
    if missing == 0:
        return tensor
    shape = (tensor.shape[0], missing, *tensor.shape[2:])
    return torch.cat([tensor, tensor.new_full(shape, fill)], dim=1)


def select(tags: Proofs, index: Index) -> Proofs:
    """See `Provenance.select`, like the others below."""
    if index.is_identity(tags.n):
        return tags
    row_map = None if tags.row_map is None else tags.row_map.taken(index.places)
    if tags.n == 0:
        return replace(
            tags,
            patterns=tags.patterns.new_zeros(*tags.patterns.shape[:2], len(index), 1),
            scores=tags.scores.new_full((tags.k, len(index), tags.rows), NO_PROOF),
            fields=None,
            row_map=row_map,
            literal=None,
        )
    places, missing = index.on(tags.scores.device)
    scores = at_places(tags.scores, places)
    if missing is not None:
        scores = absent(scores, missing)
    word_and_mask = tags.fields
    return replace(
        tags,
        patterns=at_places(tags.patterns, places),
        scores=scores,
        fields=word_and_mask
        and (word_and_mask[0].index_select(0, places), word_and_mask[1].index_select(0, places)),
        row_map=row_map,
        literal=None if tags.literal is None else tags.literal[np.maximum(index.places, 0)],
    )


def followed_by_one(tags: Proofs) -> Proofs:
    """The symbols of flattened rows, and one more with the empty proof.

    It belongs to no row: what excludes each other within a row still does.
    """
    scores = F.pad(tags.scores, (0, 0, 0, 1))
    if tags.k > 1:
        scores[1:, -1] = NO_PROOF
    return replace(
        tags,
        patterns=F.pad(tags.patterns, (0, 0, 0, 1)),
        scores=scores,
        fields=None,
        row_map=tags.row_map and tags.row_map.followed_by_none(),
        literal=None,
    )


def concat(parts: Sequence[Proofs]) -> Proofs:
    """The symbols of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    layout, patterns, scores = aligned(parts)
    fields = None
    if all(part.fields is not None and part.layout == parts[0].layout for part in parts):
        words = torch.cat([part.fields[0] for part in parts if part.fields])
        fields = (words, torch.cat([part.fields[1] for part in parts if part.fields]))
    return Proofs(
        torch.cat(patterns, dim=2),
        torch.cat(scores, dim=1),
        layout,
        disjoint=False,
        fields=fields,
        row_map=RowMap.joined([(part.row_map, part.n) for part in parts]),
    )


def differing(old: Proofs, new: Proofs) -> np.ndarray | None:
    """Which symbols don't have the same proofs in the same order; None if that can't be told."""
    if old.layout.words != new.layout.words or not new.layout.begins_with(old.layout):
        return None
    if old.signed != new.signed or old.rows != new.rows or old.n != new.n:
        return None
    _, patterns, scores = aligned([old, new])
    there, now = (part > NO_PROOF for part in scores)
    same = (there == now) & ((patterns[0] == patterns[1]).all(0) | ~now)
    return (~same).any(0).any(-1).cpu().numpy()


def copied(tags: Proofs) -> Proofs:
    """The same proofs, to be changed in place."""
    return replace(tags, patterns=tags.patterns.clone(), scores=tags.scores.clone())


def replaced(tags: Proofs, places: Tensor, by: Proofs) -> Proofs:
    """Other proofs of the same inputs at some places; overwrites the given ones."""
    k, rows = max(tags.k, by.k), max(tags.patterns.shape[-1], by.patterns.shape[-1])
    patterns, new = (
        more_proofs(part.patterns, k, 0).expand(-1, -1, -1, rows) for part in (tags, by)
    )
    scores, better = (more_proofs(part.scores[None], k, NO_PROOF)[0] for part in (tags, by))
    patterns = patterns.contiguous().index_copy_(2, places, new)
    return replace(tags, patterns=patterns, scores=scores.index_copy_(1, places, better))


def absorbs(best: Proofs, parts: Sequence[Proofs]) -> bool:
    """Whether a proof of some part contains one of the best proofs of its symbol, and more."""
    for slot, part in itertools.product(range(best.k), parts):
        own = best.patterns[:, slot, None]
        contains = (own & ~part.patterns).eq(0).all(0) & (own != part.patterns).any(0)
        if bool((contains & best.exists[slot] & part.exists).any()):
            return True
    return False


def same(one: Proofs, other: Proofs | None) -> bool:
    """Whether both have the same proofs, which happens where rounding hides what absorbs what."""
    return other is not None and all(
        torch.equal(a, b) for a, b in ((one.patterns, other.patterns), (one.scores, other.scores))
    )


def precision(tags: Proofs) -> torch.dtype:
    """The precision of the inputs, the widest if they differ."""
    dtypes = {placement.facts.log_probs.dtype for placement in tags.layout.placements}
    return functools.reduce(torch.promote_types, dtypes) if dtypes else torch.get_default_dtype()


def moved_to(tags: Proofs, move: Callable[[Tensor], Tensor]) -> Proofs:
    """The same proofs with other tensors: on another device, or detached."""
    layout = Layout(signed=tags.signed)
    for placement in tags.layout.placements:
        layout = layout.having(placement.facts.moved(move))
    device = move(tags.scores).device
    return replace(
        tags,
        patterns=tags.patterns.to(device),
        scores=tags.scores.to(device),  # always in double precision
        layout=layout,
        fields=tags.fields and (tags.fields[0].to(device), tags.fields[1].to(device)),
    )
