"""Proofs of samples with different programs, as rows of one batch.

Samples create their own inputs, any number of them. The first inputs of all samples become one
input with a row per sample, so do the second ones, and so on: proofs of different samples have the
same layout, whatever operations follow, and can be combined in one search.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dolphin.execution.indices import RowMap, to_device
from dolphin.provenance.arranging import arrange
from dolphin.provenance.facts import NOWHERE, Facts, View, row_labels
from dolphin.provenance.topk.encoding import Layout, Placement
from dolphin.provenance.topk.proofs import Proofs, as_whole, seated


def spread(tags: Proofs, places: np.ndarray, batch: int) -> Proofs:
    """See `Provenance.spread`: an input with n symbols in N rows, as (N * n, 1)."""
    (home,) = tags.layout.placements
    turn = _turns(places)
    layout = Layout(signed=tags.signed)
    for facts in _slots(home.facts, places, turn, batch):
        layout = layout.having(facts)
    rows, n, device = len(places), tags.n, tags.scores.device
    word, shift = (
        to_device(np.array([getattr(p, name) for p in layout.placements])[turn], device)
        for name in ("word", "shift")
    )
    patterns = tags.patterns.new_zeros(layout.words, rows, n)
    every = torch.arange(rows, device=device)
    for number in range(home.code.words):
        bits = tags.patterns[number, 0].expand(n, rows).t()
        patterns[word + number, every] = bits << shift[:, None]
    return Proofs(
        patterns.view(layout.words, 1, rows * n, 1),
        tags.scores.expand(1, n, rows).transpose(1, 2).reshape(1, rows * n, 1),
        layout,
        tags.disjoint,
        row_map=RowMap(np.repeat(places, n)),
    )


def _turns(places: np.ndarray) -> np.ndarray:
    """The number of each row's input within its sample: 0 for the first.

    >>> _turns(np.array([0, 0, 1, 0, 1]))
    array([0, 1, 0, 2, 1])
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(places)])
    turns = np.empty(len(places), dtype=np.int64)
    turns[order] = np.arange(len(places)) - np.repeat(starts, lengths)
    return turns


def _slots(facts: Facts, places: np.ndarray, turns: np.ndarray, batch: int) -> list[Facts]:
    """The first, second, ... inputs of all samples; the same facts as before."""
    count = int(turns.max()) + 1
    at = np.full((count, batch), -1, dtype=np.int64)  # nothing holds there
    at[turns, places] = np.arange(len(places)) if facts.rows > 1 else 0
    every = facts.at_rows(at.reshape(-1))
    origins, family = np.append(facts.origins, NOWHERE)[at], object()
    return [
        Facts(
            groups=facts.groups,
            label=row_labels(facts.label, np.maximum(at[slot], 0)),
            origins=origins[slot],
            family=family,
            **{name: _cut(numbers, slot, count) for name, numbers in every.items()},
        )
        for slot in range(count)
    ]


def _cut(numbers: Any, slot: int, count: int) -> Any:
    """The part of one slot."""
    if numbers is None or isinstance(numbers, bool):
        return numbers
    return numbers.reshape(*numbers.shape[:-1], count, -1)[..., slot, :]


def regrouped(tags: Proofs, places: np.ndarray) -> Proofs:
    """See `Provenance.regrouped`."""
    rows = len(places)
    width = tags.n // rows
    tags = as_whole(tags)
    views = []
    for placement in tags.layout.placements:
        own = places if placement.facts.rows > 1 else np.zeros_like(places)
        views.append(View(placement.facts, np.where(_used(tags, placement, rows), own, -1)))
    slots, seats = arrange([views], rows)
    tags = replace(tags, fields=None, row_map=RowMap.of(rows, width))
    return seated(tags, slots, seats[0], rows)


def _used(tags: Proofs, placement: Placement, rows: int) -> np.ndarray:
    """In which rows proofs refer to an input, (rows,)."""
    used = tags.exists.new_zeros(tags.n)
    for word, mask in enumerate(placement.code.word_masks):
        bits = tags.patterns[placement.word + word] & (mask << placement.shift)
        used |= bits.ne(0).any(0)[:, 0]
    return used.view(rows, -1).any(1).cpu().numpy()
