"""Items of a question that exclude each other, for algebras that don't know it from the tags.

An input with several exclusive groups is several choices, independent of one another. The items of
one choice, in one group of the question, count as exclusive: at most one of them holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dolphin.execution.selecting import group_numbers, has_choices, row_by_row
from dolphin.execution.tagged import Tagged
from dolphin.symbolic.plans import Combinations
from dolphin.symbolic.questions import Items


def with_groups_of_one_layout(d: Tagged) -> Tagged:
    """The same; with symbols per row where rows differ in which of them exclude each other."""
    per_row = isinstance(d.groups, np.ndarray) and len(d.groups) > 1
    return row_by_row(d) if d.shared and per_row and d.provenance.numeric else d


@dataclass(frozen=True)
class Choices:
    """Which items form which choice; choices are sorted by group of the question."""

    of: np.ndarray  # (n,) the choice of each item
    groups_of: np.ndarray  # (choices,) the group of the question that each belongs to
    beside: np.ndarray  # of each place of all symbols: which of them exclude each other

    @classmethod
    def among(cls, d: Tagged, items: Items) -> Choices | None:
        """The choices among items; None if the items are independent, or are one choice."""
        if not d.provenance.numeric or not has_choices(d):
            return None
        numbers = group_numbers(d)
        assert numbers is not None
        each = np.arange(items.rows)[:, None] * (numbers.max(initial=0) + 1)
        beside = (each + numbers).reshape(-1)
        pairs = np.stack([items.groups_of, beside[items.places]])
        distinct, first, of = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        if distinct.shape[1] == len(items.symbols):
            return None
        order = np.lexsort((first, distinct[0]))  # results are in the order of their appearance
        rank = np.argsort(order)
        return cls(rank[of.reshape(-1)], distinct[0][order], beside)

    def ordered(self, order: np.ndarray) -> Choices:
        """Those of the items in another order."""
        return replace(self, of=self.of[order])

    @property
    def sizes(self) -> np.ndarray:
        """The number of items of each choice."""
        return np.bincount(self.of, minlength=len(self.groups_of))

    def whole(self) -> Combinations:
        """The items of each choice."""
        return Combinations([np.arange(len(self.of))], self.of, len(self.groups_of))

    def up_to(self, some: np.ndarray) -> Combinations:
        """For each of some items: the items of its choice up to and including it."""
        order, starts = _sorted_by(self.of)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - starts[self.of[order]]
        part, at = _ranges(starts[self.of[some]], rank[some] + 1)
        return Combinations([order[at]], part, len(some))

    def others(self, parts: Combinations, places: np.ndarray) -> Combinations:
        """For each part of a choice (`places` are the items'): all other symbols beside it."""
        order, starts = _sorted_by(self.beside)
        members = places[parts.indices[0]]
        first = self.beside[members[np.unique(parts.group_of, return_index=True)[1]]]
        part, at = _ranges(starts[first], starts[first + 1] - starts[first])
        place, size = order[at], len(self.beside)
        more = ~np.isin(part * size + place, parts.group_of * size + members)
        return Combinations([place[more]], part[more], parts.groups)

    def pairs(self, groups_of: np.ndarray) -> int:
        """At least how many `before` returns."""
        several = np.bincount(self.groups_of[self.sizes > 1], minlength=groups_of.max() + 1)
        return int((several[groups_of] + 1).sum())

    def before(self, groups_of: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """What must fail for an item to be the first of its group that holds.

        Items are sorted by group. Returns pairs (what must fail, for which item), sorted by item:
        all items of a choice up to this one, or, for an item that is alone in its choice, all such
        items up to it. Item n + g stands for "none of group g".
        """
        n = len(groups_of)
        alone = self.alone
        chain = np.where(alone, -1 - groups_of, self.of)  # those that are alone form one chain
        ends = np.cumsum(np.bincount(groups_of, minlength=groups)).tolist()
        failing, wanted = [], []
        for number in np.unique(chain):
            members = np.flatnonzero(chain == number)
            group = int(groups_of[members[0]])
            targets = np.append(np.arange(ends[group - 1] if group else 0, ends[group]), n + group)
            earlier = np.searchsorted(members, np.append(targets[:-1], ends[group]))
            own = np.append(chain[targets[:-1]] == number, False)
            there = (earlier > 0) & ~(own & (number >= 0))
            failing.append(members[earlier[there] - 1])
            wanted.append(targets[there])
        if not wanted:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        every, item = np.concatenate(failing), np.concatenate(wanted)
        order = np.argsort(item, kind="stable")
        return every[order], item[order]

    @property
    def alone(self) -> np.ndarray:
        """Which items are the only one of their choice."""
        return self.sizes[self.of] == 1


def _sorted_by(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places by number, and where those of each number start."""
    counts = np.bincount(numbers)
    return np.argsort(numbers, kind="stable"), np.append(0, np.cumsum(counts))


def _ranges(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """starts[i], starts[i] + 1, ..., counts[i] of them: each with its i."""
    which = np.repeat(np.arange(len(starts)), counts)
    return which, np.arange(len(which)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
