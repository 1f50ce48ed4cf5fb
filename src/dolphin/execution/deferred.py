"""Tags that are not computed until they are read.

A fold over many operands makes tags that only the next step reads: a provenance that can compute
such a chain at once gets it at once, when the last of them is read. And where only one symbol per
row is read, the label's, only its combinations are made in the last step. Results are the same:
a chain is computed with the settings and the gradient mode in force when it was written.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Contraction, IndexLists
from dolphin.provenance.contract import Tags
from dolphin.symbolic.executions import numbers_are_read
from dolphin.symbolic.plans import RowAddress

if TYPE_CHECKING:
    from dolphin.execution.tagged import Tagged

_LONGEST = 32  # steps of a chain
_FEW_OF = 32  # few combinations are at most one in so many


class Deferred:
    """The tags that `lists` make of `before` and `other`, not computed yet."""

    __slots__ = (
        "before", "context", "extended", "gradients", "length", "lists", "other",
    )  # fmt: skip

    def __init__(self, before: Tagged, lists: IndexLists, other: Tags) -> None:
        self.before, self.lists, self.other = before, lists, other
        self.gradients = torch.is_grad_enabled()
        self.context = contextvars.copy_context()
        self.extended = False
        self.length = 1
        earlier = before.made
        if isinstance(earlier, Deferred):
            if (
                earlier.extended
                or earlier.length >= _LONGEST
                or earlier.gradients != self.gradients
            ):
                before.tags  # noqa: B018 (computed now, so that it is not computed twice)
            else:
                earlier.extended = True
                self.length += earlier.length

    def compute(self) -> Tags:
        """The tags, in one go from the last ones that are known."""
        with torch.set_grad_enabled(self.gradients):
            chain = self.before.provenance.contract_chain
            return self.context.copy().run(chain, *self._chain())

    def _chain(self) -> tuple[Tags, list[tuple[IndexLists, Tags]]]:
        """The last tags that are known, and the steps from there to here."""
        steps, at = [], self
        while True:
            steps.append((at.lists, at.other))
            known = at.before.made
            if not isinstance(known, Deferred):
                return known, steps[::-1]
            at = known

    def read(self, wanted: np.ndarray) -> Tensor | None:
        """Log-probabilities of one symbol a row; None if all tags may as well be computed."""
        numbers_are_read()
        with torch.set_grad_enabled(self.gradients):
            return self.context.copy().run(self._read, wanted)

    def _read(self, wanted: np.ndarray) -> Tensor | None:
        provenance = self.before.provenance
        alone = self._only(wanted)
        if alone is not None:
            return provenance.log_probs(alone).view(-1)
        if wanted.min() < 0:  # a symbol that is not there
            return None
        return provenance.read_chain(*self._chain(), wanted)

    def _only(self, wanted: np.ndarray) -> Tags | None:
        """The tag of one symbol a row, flattened, if it is made of few of all combinations."""
        provenance, batch = self.before.provenance, len(wanted)
        every = self.lists.combinations * batch
        if every < provenance.few or self.lists.counts(wanted).sum() * _FEW_OF > every:
            return None
        row, places = self.lists.members(wanted)
        operands, indices = [], []
        both = (self.before.tags, self.other)
        for tags, place, width in zip(both, places, self.lists.sizes or (), strict=True):
            rows = provenance.describe(tags).rows
            operands.append(provenance.flatten(tags, rows))
            indices.append(RowAddress(width, per_row=rows > 1).at(row, place))
        return provenance.contract(operands, Contraction(indices, row, batch))
