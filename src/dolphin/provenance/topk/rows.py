"""Rows of proofs: flattening, taking, stacking and mixing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import RowMap, to_device
from dolphin.provenance.arranging import arrange
from dolphin.provenance.facts import View
from dolphin.provenance.topk.encoding import merge, moved
from dolphin.provenance.topk.proofs import (
    NO_PROOF,
    Proofs,
    aligned,
    as_whole,
    at_places,
    concat,
    facts_of,
    more_proofs,
    seated,
    with_common_parts,
    with_signs,
)
from dolphin.symbolic.plans import RowAddress


def where(mask: Tensor, yes: Proofs, no: Proofs) -> Proofs:
    """`yes` in the rows of the mask, otherwise `no`."""
    layout, patterns, scores = aligned([yes, no])
    return Proofs(
        torch.where(mask, patterns[0], patterns[1]),
        torch.where(mask, scores[0], scores[1]),
        layout,
        disjoint=yes.disjoint and no.disjoint,  # no row mixes the two
        row_map=yes.row_map,
    )


def flatten(tags: Proofs, rows: int) -> Proofs:
    """(n, r) as (rows * n, 1), rows slowest."""

    def flat(tensor: Tensor) -> Tensor:
        if tensor.shape[-1] == 1:
            return tensor.repeat(*[1] * (tensor.dim() - 2), rows, 1)
        spread = tensor.expand(*tensor.shape[:-1], rows).transpose(-1, -2)
        return spread.reshape(*spread.shape[:-2], rows * tags.n, 1)

    fields = tags.fields
    code = tags.layout.placements[0].code.on(tags.scores.device) if fields else None
    if fields and code and tags.patterns is code.holds and fields[0] is code.words:
        patterns, *fields = code.in_rows(rows)
    else:
        patterns = flat(tags.patterns)
        fields = fields and [each.repeat(rows) for each in fields]
    return replace(
        tags,
        patterns=patterns,
        scores=flat(tags.scores),
        fields=fields and (fields[0], fields[1]),
        row_map=RowMap.of(rows, tags.n),
        literal=None if tags.literal is None else np.tile(tags.literal, rows),
    )


def unflatten(tags: Proofs, rows: int) -> Proofs:
    """(rows * n, 1) as (n, rows)."""

    def high(tensor: Tensor) -> Tensor:
        return tensor.view(*tensor.shape[:-2], rows, tags.n // rows).transpose(-1, -2)

    return replace(
        tags, patterns=high(tags.patterns), scores=high(tags.scores), fields=None, row_map=None
    )


def stack(parts: Sequence[Proofs], batches: Sequence[int], *, flat: bool) -> Proofs:
    """The rows of all parts. Inputs of different parts share places in the patterns if they can."""
    signed = any(part.signed for part in parts)
    parts = [with_signs(part) for part in parts] if signed else list(parts)
    parts = with_common_parts(parts)
    chosen = {id(f): f for f in facts_of(parts) if f.chosen is not None}
    if len(chosen) > 1 or any(facts.rows > 1 for facts in chosen.values()):
        parts = [as_whole(part) for part in parts]  # rows of different inputs are assembled
    starts = np.cumsum([0, *batches])
    every = np.arange(starts[-1])
    views = []
    for part, start, rows in zip(parts, starts, batches, strict=False):
        inside = np.where((every >= start) & (every < start + rows), every - start, -1)
        views.append([View.whole(p.facts, rows).taken(inside) for p in part.layout.placements])
    slots, places = arrange(views, len(every))
    arranged = []
    for part, own, start, rows in zip(parts, places, starts, batches, strict=False):
        cut = [
            [(slot, None if r is None else r[start : start + rows]) for slot, r in view]
            for view in own
        ]
        arranged.append(seated(part, slots, cut, rows))
    return _stack_rows(arranged, batches, flat)


def _stack_rows(parts: Sequence[Proofs], batches: Sequence[int], flat: bool) -> Proofs:
    disjoint = all(part.disjoint for part in parts)  # no row mixes two parts
    if flat:
        row_map = RowMap.of(sum(batches), parts[0].n // batches[0])
        return replace(concat(parts), disjoint=disjoint, fields=None, row_map=row_map)
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
        more_proofs(moved(p.patterns, p.layout.moves_to(layout), layout.words), k, 0)
        for p in spread
    ]
    scores = [more_proofs(p.scores[None], k, NO_PROOF)[0] for p in spread]
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
        chosen = RowAddress(width).at(rows[:, None], np.arange(width))
        flat = to_device(chosen.reshape(-1), places.device)
        taken = replace(
            tags,
            patterns=at_places(tags.patterns, flat),
            scores=at_places(tags.scores, flat),
            fields=None,
            row_map=RowMap.of(len(rows), width),
        )
    facts = [placement.facts for placement in tags.layout.placements]
    if all(each.rows == 1 for each in facts):
        return taken
    taken = as_whole(taken)  # rows are assembled differently
    facts = [placement.facts for placement in taken.layout.placements]
    views = [View(each, rows if each.rows > 1 else np.zeros_like(rows)) for each in facts]
    slots, seats = arrange([views], len(rows))
    return seated(taken, slots, seats[0], len(rows))
