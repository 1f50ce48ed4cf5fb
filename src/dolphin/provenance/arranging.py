"""Inputs of several distributions, side by side.

`arrange` finds *slots*, one per input that a row can refer to, such that every origin of a row is
in exactly one slot of that row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dolphin.provenance.facts import NOWHERE, Facts, RowLabels, View, alike, numbers_at

Place = tuple[int, np.ndarray | None]  # a slot, and in which rows (None: wherever it takes part)


def arrange(
    parts: Sequence[Sequence[View]], batch: int
) -> tuple[list[Facts], list[list[list[Place]]]]:
    """Slots for the inputs of all parts, and for each view of each part where its rows went.

    >>> import torch
    >>> a, b = (Facts(log_probs=torch.zeros(2, 1), groups=((0, 1),), label=str) for _ in "ab")
    >>> first, second = np.array([0, -1]), np.array([-1, 0])
    >>> stacked = [View(a, first)], [View(b, second)]
    >>> slots, places = arrange([*stacked, [View.whole(a, 2)]], batch=2)
    >>> len(slots), [[slot for slot, _ in view] for view in places[2]]
    (2, [[0]])
    """
    slots: list[_Slot] = []
    placed: list[list[list[Place]]] = [[[] for _ in views] for views in parts]
    every = [
        (view, own, at)
        for views, own in zip(parts, placed, strict=True)
        for at, view in enumerate(views)
    ]
    # Tags of one row may stand for all rows, so what they refer to must not be split up.
    for view, own, at in sorted(every, key=lambda each: not each[0].constant):
        own[at] = _place(view, slots, batch)
    return [slot.facts() for slot in slots], placed


@dataclass
class _Slot:
    like: Facts  # the first ones
    origins: np.ndarray  # (batch,), NOWHERE where there is still room
    parts: list[tuple[View, np.ndarray]] = field(default_factory=list)

    def take(self, view: View, rows: np.ndarray) -> None:
        self.origins = np.where(rows, view.origins, self.origins)
        self.parts.append((view, rows))

    def facts(self) -> Facts:
        for view, _ in self.parts:
            origins = view.facts.origins
            if len(origins) in (1, len(self.origins)) and (origins == self.origins).all():
                return view.facts
        first = self.parts[0][0].facts
        if first.chosen is not None and first.rows == 1:
            assert all(view.facts is first for view, _ in self.parts)
            return first  # where it doesn't take part, no proof refers to it
        return _joined(self)


def _place(view: View, slots: list[_Slot], batch: int) -> list[Place]:
    origins = np.broadcast_to(view.origins, (batch,))
    left = origins != NOWHERE
    places: list[Place] = []
    for number, slot in enumerate(slots):
        if not alike(slot.like, view.facts):
            assert not _overlap(slot, view), "parts of one input are made compatible first"
            continue
        hit = left & (slot.origins == origins)
        if hit.any():
            left = left & ~hit
            places.append((number, None if not (left.any() or places) else hit))
            if not left.any():
                return places
    if not left.any() and places:
        return places
    room = next(
        (
            number
            for number, slot in enumerate(slots)
            if alike(slot.like, view.facts) and (slot.origins[left] == NOWHERE).all()
        ),
        len(slots),
    )
    if room == len(slots):
        slots.append(_Slot(view.facts, np.full(batch, NOWHERE, dtype=np.int64)))
    slots[room].take(view, left)
    return [*places, (room, left if places else None)]


def _overlap(slot: _Slot, view: View) -> bool:
    """Whether different parts of one input occur in a row."""
    if slot.like.chosen is None and view.facts.chosen is None:
        return False
    origins = np.broadcast_to(view.origins, slot.origins.shape)
    return bool(((origins == slot.origins) & (origins != NOWHERE)).any())


def _joined(slot: _Slot) -> Facts:
    """The facts of a slot that is assembled from several, row by row."""
    views = [view for view, _ in slot.parts]
    start = np.cumsum([0, *(view.facts.rows for view in views)])
    at = np.full(len(slot.origins), start[-1], dtype=np.int64)  # the last column stands for nothing
    whose = np.zeros(len(slot.origins), dtype=np.int64)
    for number, (view, rows) in enumerate(slot.parts):
        at[rows] = start[number] + np.broadcast_to(view.rows, rows.shape)[rows]
        whose[rows] = number
    label = RowLabels(tuple(view.facts.label for view in views), whose, at - start[whose])
    numbers = numbers_at([view.facts for view in views], at)
    return Facts(groups=slot.like.groups, label=label, origins=slot.origins, **numbers)
