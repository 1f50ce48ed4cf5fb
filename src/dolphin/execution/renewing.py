"""What a round of a recursion changed: the symbols that are new, or whose tags are."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from dolphin.execution.indices import Index
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, Tags, TensorProvenance
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.joins import Matches, Sorted, in_rows
from dolphin.symbolic.plans import RowSymbols, caches
from dolphin.symbolic.symbols import Symbols


def changed(old: Tagged, new: Tagged) -> Tagged | None:
    """The symbols of `new` that `old` lacks, or has with other tags; None if there are none."""
    if old.shared and isinstance(new.domain, Symbols) and isinstance(old.domain, Symbols):
        places = old.domain.indices_of(new.domain.members)
        tags = new.tags_like()
        known = new.provenance.select(old.tags_like(tags), Index(places))
        kept = np.flatnonzero(_differ(new.provenance, known, tags, new.width) | (places < 0))
        if not len(kept):
            return None
        domain = Symbols.of(new.domain.members[place] for place in kept.tolist())
        return new.replaced(domain, new.provenance.select(tags, Index(kept)))
    return _changed_in_rows(old, new)


def _changed_in_rows(old: Tagged, new: Tagged) -> Tagged | None:
    table, batch = caches.current_table(), new.batch
    before, after = (
        np.broadcast_to(d.domain.in_table(table), (batch, d.width)).copy() for d in (old, new)
    )
    keys = [
        in_rows(np.where(n == ABSENT, ABSENT, table.classes(np.maximum(n, 0))), batch, None)
        for n in (before, after)
    ]
    at, found = Matches(keys[1], Sorted(keys[0])).places()
    places = np.full(after.size, -1, dtype=np.int64)
    old_tags, address = old.flat_tags()
    places[at] = address.at(found // old.width, found % old.width)
    tags, own = new.flat_tags(old_tags)
    every = own.at(np.arange(batch)[:, None], np.arange(new.width)).reshape(-1)
    tags = new.provenance.select(tags, Index(every))
    known = new.provenance.select(old_tags, Index(places))
    differ = _differ(new.provenance, known, tags, after.size) | (places < 0)
    differ = differ.reshape(after.shape) & (after != ABSENT)
    if not differ.any():
        return None
    order = np.argsort(~differ, axis=1, kind="stable")[:, : differ.sum(1).max()]
    left = np.take_along_axis(differ, order, 1)
    numbers = np.where(left, np.take_along_axis(after, order, 1), ABSENT)
    chosen = np.where(left, np.arange(batch)[:, None] * new.width + order, -1)
    kept = new.provenance.select(tags, Index(chosen.reshape(-1)))
    return new.replaced(RowSymbols(table, numbers), kept)


def _differ(provenance: Provenance, old: Tags, new: Tags, n: int) -> np.ndarray:
    """Which of n tags differ in any row."""
    if isinstance(provenance, TensorProvenance):
        unlike: Tensor = (old != new).reshape(n, -1).any(1)
        return unlike.cpu().numpy()
    single = (Index(np.array([place])) for place in range(n))
    pairs = ((provenance.select(old, at), provenance.select(new, at)) for at in single)
    return np.array([not provenance.saturated(*pair) for pair in pairs], dtype=bool)
