"""What is left of 1 besides some columns that exclude each other.

1 - p would lose what is left of a symbol that is nearly certain: next to a probability that rounds
to 1, all others would be 0. There it is the sum of the other columns and of "none of them". Where
the numbers come from a softmax, there is no "none of them", and derivatives go to the other
columns: those of the columns themselves would be differences of large numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.exact.leaves import AreLogs
from dolphin.provenance.exact.ordering import Groups
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import expm1

MOST = 1 << 17  # other columns of all rests; beyond, adding them up takes longer than the circuit

Normalised = bool | Tensor
"""Which rests come from a softmax: all, none, or (a mask of rests and rows) some."""


class Rests:
    """P(none of some columns of a group holds) for several sets of columns, on a device."""

    def __init__(
        self,
        rests: Sequence[tuple[int, tuple[int, ...]]],
        groups: Groups,
        device: torch.device,
    ) -> None:
        start = np.cumsum([0, *(sum(map(len, each)) for each in groups)]).tolist()
        group_of = [{c: group for group in each for c in group} for each in groups]
        whole = [group_of[position][columns[0]] for position, columns in rests]
        sizes = [len(group) - len(own) for group, (_, own) in zip(whole, rests, strict=True)]
        lists: tuple[list[int], ...] = ([], [], [], [])
        for at, ((position, own), group) in enumerate(zip(rests, whole, strict=True)):
            taken = set(own)
            others = [c for c in group if c not in taken] if sum(sizes) <= MOST else []
            lists[0].extend(start[position] + c for c in own)
            lists[1].extend([at] * len(own))
            lists[2].extend(start[position] + c for c in others)
            lists[3].extend([at] * len(others))
        self.count, self.device = len(rests), device
        self.places, self.owners, self.others, self.other_owners = (
            to_device(np.array(part, dtype=np.int64), device) for part in lists
        )
        self.summed = bool(lists[2])  # whether any others are added up
        self.alone = all(len(group) == 1 for group in whole)
        single = np.array([len(group) == 1 for group in whole], dtype=bool)
        self._single = to_device(np.flatnonzero(single), device) if single.any() else None
        columns = np.array([start[p] + own[0] for p, own in rests], dtype=np.int64)
        self._columns = to_device(columns[single], device)
        self._choices = ~single if sum(sizes) <= MOST else np.zeros(len(rests), dtype=bool)
        self._inputs = np.array([position for position, _ in rests], dtype=np.int64)
        self._known: dict[tuple[bool, ...], Normalised] = {}

    def normalised(self, inputs: Sequence[Facts]) -> Normalised:
        """Which rests come from a softmax."""
        flags = [facts.normalised for facts in inputs]
        if self.alone or all(flag is False for flag in flags):
            return False
        if not all(isinstance(flag, bool) for flag in flags):
            rows = max(facts.rows for facts in inputs)
            every = np.stack([np.broadcast_to(flag, (rows,)) for flag in flags])
            return to_device(every[self._inputs] & self._choices[:, None], self.device)
        key = tuple(map(bool, flags))
        which = self._known.get(key)
        if which is None:
            mask = np.array(key)[self._inputs] & self._choices
            which = to_device(mask[:, None], self.device)
            self._known[key] = which = bool(mask[0]) if (mask == mask[0]).all() else which
        return which

    def values(
        self, numbers: Tensor, are_logs: AreLogs, probs: Tensor, normalised: Normalised
    ) -> tuple[Tensor, Tensor | None]:
        """(rests, rows) without derivatives, and which of them have those of the others."""
        if self.alone:
            return self._of_single(numbers, are_logs, probs), None
        taken, others = self._sums(probs)
        near = taken > others  # elsewhere 1 - taken loses nothing
        none = (1.0 - (taken + others)).clamp_(min=0.0)  # rounding may go below 0
        by_others: Tensor | None = None
        if normalised is not False:
            by_others = near if normalised is True else near & normalised
            none.masked_fill_(by_others, 0.0)
        left = torch.where(near, others + none, 1.0 - taken)
        if self._single is None or are_logs is False:
            return left, by_others
        single = self._of_single(numbers, are_logs, probs)
        return left.index_copy(0, self._single, single), by_others

    def _of_single(self, numbers: Tensor, are_logs: AreLogs, probs: Tensor) -> Tensor:
        """1 - p of independent facts: of logarithms without p, which may round to 1."""
        plain = (1.0 - probs.index_select(0, self._columns)).clamp_(min=0.0)
        if are_logs is False:
            return plain
        rest = expm1(numbers.index_select(0, self._columns)).neg_().clamp_(min=0.0)
        if are_logs is True:
            return rest
        return torch.where(are_logs.index_select(0, self._columns), rest, plain)

    def differentiable(
        self, numbers: Tensor, are_logs: AreLogs, probs: Tensor, normalised: Normalised
    ) -> Tensor:
        """The same in operations that can be differentiated any number of times."""
        given = (numbers.detach(), are_logs, probs.detach(), normalised)
        values, by_others = self.values(*given)
        taken, others = self._sums(probs)
        slope = -taken if by_others is None else torch.where(by_others, others, -taken)
        return values + (slope - slope.detach())

    def add_gradients(self, out: Tensor, grads: Tensor, by_others: Tensor | None) -> None:
        """Add to `out`, (columns, rows), what these gradients of rests give to probabilities."""
        if by_others is None:
            out.index_add_(0, self.places, grads.index_select(0, self.owners), alpha=-1)
            return
        own, others = grads.masked_fill(by_others, 0.0), grads.masked_fill(~by_others, 0.0)
        out.index_add_(0, self.places, own.index_select(0, self.owners), alpha=-1)
        out.index_add_(0, self.others, others.index_select(0, self.other_owners))

    def _sums(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities of the columns, and those of the others of their groups, added up."""
        nothing = probs.new_zeros(self.count, probs.shape[1])
        taken = nothing.index_add(0, self.owners, probs.index_select(0, self.places))
        if not self.summed:  # torch.export.save can't store empty index lists
            return taken, nothing
        return taken, nothing.index_add(0, self.other_owners, probs.index_select(0, self.others))
