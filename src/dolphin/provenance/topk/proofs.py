"""Tags that are sets of proofs, and moving them about."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Index, to_device
from dolphin.provenance.facts import Facts, Place, View, all_apart, arrange
from dolphin.provenance.topk.encoding import Layout, Move, merge, moves_between

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
    row_of: Tensor | None = None  # (n,) which row a symbol belongs to, where rows are flattened

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
    def exists(self) -> Tensor:
        return self.scores > NO_PROOF

    @property
    def signed(self) -> bool:
        """May facts occur negated?"""
        return self.layout.signed


def with_signs(tags: Proofs) -> Proofs:
    """The same proofs, written so that negated facts can join them."""
    if tags.signed:
        return tags
    layout, moves = tags.layout.with_signs()
    patterns = tags.patterns.new_zeros(layout.words, *tags.patterns.shape[1:])
    add_moved(patterns, tags.patterns, moves)
    return replace(tags, patterns=patterns, layout=layout, fields=None)


def compatible(parts: Sequence[Proofs]) -> list[Proofs]:
    """The same tags; those of one of them that are facts of another are written as the same facts.

    Afterwards, two inputs are one object or have nothing to do with each other in any row, and all
    parts have signs if one of them has them.
    """
    signed = any(part.signed for part in parts)
    parts = [with_signs(part) for part in parts] if signed else list(parts)
    facts = [placement.facts for part in parts for placement in part.layout.placements]
    if all_apart(facts):
        return parts
    batch = max(each.rows for each in facts)
    views = [[View.whole(p.facts, batch) for p in part.layout.placements] for part in parts]
    slots, places = arrange(views, batch)
    return [_seated(part, slots, own, batch) for part, own in zip(parts, places, strict=True)]


def _seated(
    tags: Proofs, slots: Sequence[Facts], places: Sequence[Sequence[Place]], batch: int
) -> Proofs:
    """Tags whose inputs are found in other slots, perhaps not in the same one in all rows."""
    layout = Layout(signed=tags.signed)
    for slot, _ in (place for own in places for place in own):
        if layout.find(slots[slot]) is None:
            layout = layout.having(slots[slot])
    if layout.positions() == tags.layout.positions() and all(len(own) == 1 for own in places):
        return replace(tags, layout=layout)
    patterns, scores = tags.patterns, tags.scores
    split = any(rows is not None for own in places for _, rows in own)
    if split and tags.row_of is None:
        patterns, scores = (t.expand(*t.shape[:-1], batch) for t in (patterns, scores))
    out = patterns.new_zeros(layout.words, *patterns.shape[1:])
    for placement, own in zip(tags.layout.placements, places, strict=True):
        for slot, rows in own:
            target = layout.find(slots[slot])
            assert target is not None
            kept = patterns if rows is None else _in_rows(patterns, rows, tags.row_of)
            for move in moves_between(placement, target):
                _add_moved(out, kept, move)
    return replace(tags, patterns=out, scores=scores, layout=layout, fields=None)


def _in_rows(patterns: Tensor, rows: np.ndarray, row_of: Tensor | None) -> Tensor:
    """Patterns in some rows, and nothing in the others."""
    mask = to_device(rows, patterns.device)
    mask = mask if row_of is None else mask[row_of][:, None]
    return torch.where(mask, patterns, 0)


def moved(patterns: Tensor, moves: Sequence[Move], words: int) -> Tensor:
    """Patterns (W, ...) rewritten for another layout of `words` words."""
    if all(move.source == move.target and move.shift == 0 for move in moves):
        if patterns.shape[0] == words:
            return patterns
        missing = patterns.new_zeros(words - patterns.shape[0], *patterns.shape[1:])
        return torch.cat([patterns, missing])
    out = patterns.new_zeros(words, *patterns.shape[1:])
    add_moved(out, patterns, moves)
    return out


def add_moved(out: Tensor, patterns: Tensor, moves: Sequence[Move]) -> None:
    """Join patterns (W, ...) to those in `out`, which has another layout, in place."""
    if len(moves) > 1 and all(move.source == move.target and move.shift == 0 for move in moves):
        out[: patterns.shape[0]] |= patterns
        return
    for move in moves:
        _add_moved(out, patterns, move)


def _add_moved(out: Tensor, patterns: Tensor, move: Move) -> None:
    bits = patterns[move.source] & move.mask
    out[move.target] |= bits << move.shift if move.shift >= 0 else bits >> -move.shift


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
        patterns.append(_more_proofs(pattern.expand(-1, -1, -1, 1 if same else rows), k, 0))
        scores.append(_more_proofs(part.scores.expand(-1, -1, rows)[None], k, NO_PROOF)[0])
    return layout, patterns, scores


def _more_proofs(tensor: Tensor, k: int, fill: float) -> Tensor:
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
    device = tags.scores.device
    if tags.n == 0:
        return replace(
            tags,
            patterns=tags.patterns.new_zeros(*tags.patterns.shape[:2], len(index), 1),
            scores=tags.scores.new_full((tags.k, len(index), tags.rows), NO_PROOF),
            fields=None,
            row_of=None if tags.row_of is None else tags.row_of.new_zeros(len(index)),
        )
    places, missing = index.on(device)
    scores = tags.scores.index_select(1, places)
    if missing is not None:
        scores = scores.masked_fill(missing[:, None], NO_PROOF)
    word_and_mask = tags.fields
    return replace(
        tags,
        patterns=tags.patterns.index_select(2, places),
        scores=scores,
        fields=word_and_mask
        and (word_and_mask[0].index_select(0, places), word_and_mask[1].index_select(0, places)),
        row_of=None if tags.row_of is None else tags.row_of.index_select(0, places),
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
    flat = any(part.row_of is not None for part in parts)
    row_of = None
    if flat:
        row_of = torch.cat(
            [
                torch.zeros(part.n, dtype=torch.int64, device=part.scores.device)
                if part.row_of is None
                else part.row_of
                for part in parts
            ]
        )
    return Proofs(
        torch.cat(patterns, dim=2),
        torch.cat(scores, dim=1),
        layout,
        disjoint=False,
        fields=fields,
        row_of=row_of,
    )


def where(mask: Tensor, yes: Proofs, no: Proofs) -> Proofs:
    """`yes` in the rows of the mask, else `no`."""
    layout, patterns, scores = aligned([yes, no])
    return Proofs(
        torch.where(mask, patterns[0], patterns[1]),
        torch.where(mask, scores[0], scores[1]),
        layout,
        disjoint=yes.disjoint and no.disjoint,  # no row mixes the two
        row_of=yes.row_of,
    )


def flatten(tags: Proofs, rows: int) -> Proofs:
    """(n, r) as (rows * n, 1), rows slowest."""

    def flat(tensor: Tensor) -> Tensor:
        spread = tensor.expand(*tensor.shape[:-1], rows).transpose(-1, -2)
        return spread.reshape(*spread.shape[:-2], rows * tags.n, 1)

    places = torch.arange(rows, device=tags.scores.device)
    return replace(
        tags,
        patterns=flat(tags.patterns),
        scores=flat(tags.scores),
        fields=tags.fields and (tags.fields[0].repeat(rows), tags.fields[1].repeat(rows)),
        row_of=places.repeat_interleave(tags.n),
    )


def unflatten(tags: Proofs, rows: int) -> Proofs:
    """(rows * n, 1) as (n, rows)."""

    def high(tensor: Tensor) -> Tensor:
        return tensor.view(*tensor.shape[:-2], rows, tags.n // rows).transpose(-1, -2)

    return replace(
        tags, patterns=high(tags.patterns), scores=high(tags.scores), fields=None, row_of=None
    )


def stack(parts: Sequence[Proofs], batches: Sequence[int], *, flat: bool) -> Proofs:
    """Rows after rows. Inputs of different parts share a place in the patterns where they can."""
    signed = any(part.signed for part in parts)
    parts = [with_signs(part) for part in parts] if signed else list(parts)
    starts = np.cumsum([0, *batches])
    every = np.arange(starts[-1])
    views = []
    for part, start, rows in zip(parts, starts, batches, strict=False):
        inside = np.where((every >= start) & (every < start + rows), every - start, -1)
        views.append([View.whole(p.facts, rows).taken(inside) for p in part.layout.placements])
    slots, places = arrange(views, len(every))
    seated = []
    for part, own, start, rows in zip(parts, places, starts, batches, strict=False):
        cut = [
            [(slot, None if r is None else r[start : start + rows]) for slot, r in view]
            for view in own
        ]
        seated.append(_seated(part, slots, cut, rows))
    return _stack_rows(seated, batches, flat)


def _stack_rows(parts: Sequence[Proofs], batches: Sequence[int], flat: bool) -> Proofs:
    disjoint = all(part.disjoint for part in parts)  # no row mixes two parts
    if flat:
        width = parts[0].n // batches[0]
        rows = torch.arange(sum(batches), device=parts[0].scores.device)
        row_of = rows.repeat_interleave(width)
        return replace(concat(parts), disjoint=disjoint, fields=None, row_of=row_of)
    spread = [
        replace(
            part,
            patterns=part.patterns.expand(*part.patterns.shape[:-1], rows),
            scores=part.scores.expand(*part.scores.shape[:-1], rows),
        )
        for part, rows in zip(parts, batches, strict=True)
    ]
    layout = merge([part.layout for part in spread])
    k = max(part.k for part in spread)
    patterns = [
        _more_proofs(moved(p.patterns, p.layout.moves_to(layout), layout.words), k, 0)
        for p in spread
    ]
    scores = [_more_proofs(p.scores[None], k, NO_PROOF)[0] for p in spread]
    return Proofs(torch.cat(patterns, dim=-1), torch.cat(scores, dim=-1), layout, disjoint)


def take_rows(tags: Proofs, rows: np.ndarray, width: int | None) -> Proofs:
    """Some rows, in that order."""
    places = to_device(rows, tags.scores.device)
    if width is None:
        patterns, scores = (
            t if t.shape[-1] == 1 else t.index_select(-1, places)
            for t in (tags.patterns, tags.scores)
        )
        taken = replace(tags, patterns=patterns, scores=scores)
    else:
        within = torch.arange(width, device=places.device)
        flat = (places[:, None] * width + within).view(-1)
        row_of = torch.arange(len(rows), device=places.device).repeat_interleave(width)
        taken = replace(
            tags,
            patterns=tags.patterns.index_select(2, flat),
            scores=tags.scores.index_select(1, flat),
            fields=None,
            row_of=row_of,
        )
    facts = [placement.facts for placement in tags.layout.placements]
    if all(each.rows == 1 for each in facts):
        return taken
    views = [View(each, rows if each.rows > 1 else np.zeros_like(rows)) for each in facts]
    slots, seats = arrange([views], len(rows))
    return _seated(taken, slots, seats[0], len(rows))


def precision(tags: Proofs) -> torch.dtype:
    """That of the inputs, the widest if they differ."""
    dtypes = [placement.facts.log_probs.dtype for placement in tags.layout.placements]
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
        row_of=None if tags.row_of is None else tags.row_of.to(device),
    )
