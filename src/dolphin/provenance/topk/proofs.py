"""Tags that are sets of proofs, and moving them about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dolphin.execution.indices import Index
from dolphin.provenance.facts import extend_facts, stack_facts
from dolphin.provenance.topk.encoding import Layout, Move, merge

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


def same_signs(parts: Sequence[Proofs]) -> list[Proofs]:
    """All parts with signs if one of them has them."""
    signed = any(part.signed for part in parts)
    return [with_signs(part) for part in parts] if signed else list(parts)


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
        bits = patterns[move.source] & move.mask
        bits = bits << move.shift if move.shift >= 0 else bits >> -move.shift
        out[move.target] |= bits


def aligned(parts: Sequence[Proofs]) -> tuple[Layout, list[Tensor], list[Tensor]]:
    """A common layout, and the patterns and scores of all parts in it, with the same k and r."""
    parts = same_signs(parts)
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


def stack(parts: Sequence[Proofs], batches: Sequence[int], *, flat: bool) -> Proofs:
    """Rows after rows. Inputs at the same place of programs of the same shape become one input."""
    parts = same_signs(parts)
    shapes = [[(p.facts.groups, p.word, p.shift) for p in part.layout.placements] for part in parts]
    if all(shape == shapes[0] for shape in shapes):
        layout = Layout(signed=parts[0].signed)
        for together in zip(*(part.layout.placements for part in parts), strict=True):
            layout = layout.having(stack_facts([p.facts for p in together], batches))
        parts = [replace(part, layout=layout) for part in parts]
    else:
        total, before = sum(batches), 0
        widened = []
        for part, batch in zip(parts, batches, strict=True):
            layout = Layout(signed=part.signed)
            for placement in part.layout.placements:
                layout = layout.having(
                    extend_facts(placement.facts, before, batch, total - before - batch)
                )
            widened.append(replace(part, layout=layout))
            before += batch
        parts = widened
    return _stack_rows(parts, batches, flat)


def _stack_rows(parts: Sequence[Proofs], batches: Sequence[int], flat: bool) -> Proofs:
    if flat:
        before = [sum(batches[:i]) for i in range(len(batches))]
        shifted = [
            part if part.row_of is None else replace(part, row_of=part.row_of + start, fields=None)
            for part, start in zip(parts, before, strict=True)
        ]
        return replace(concat(shifted), disjoint=all(part.disjoint for part in parts))
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
    return Proofs(
        torch.cat(patterns, dim=-1),
        torch.cat(scores, dim=-1),
        layout,
        disjoint=all(part.disjoint for part in spread),
    )
