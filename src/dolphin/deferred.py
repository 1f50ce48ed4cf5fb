"""Tags that are computed when somebody reads them.

A fold over many operands makes tags that only the next step reads: a provenance that can compute
such a chain at once gets it at once, when the last of them is read. And where only one symbol a row
is read, the label's, only its combinations are made in the last step. Results are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from dolphin.contraction import Contraction
from dolphin.provenance.contract import Tags

if TYPE_CHECKING:
    from dolphin.distribution import Distribution

_LONGEST = 32  # steps of a chain
_FEW_OF = 32  # few combinations are at most one in so many


class Deferred:
    """The tags that `contraction` makes of `before` and `other`, not computed yet."""

    __slots__ = ("before", "contraction", "extended", "gradients", "length", "other")

    def __init__(self, before: Distribution, contraction: Contraction, other: Tags) -> None:
        self.before, self.contraction, self.other = before, contraction, other
        self.gradients = torch.is_grad_enabled()
        self.extended = False
        self.length = 1
        earlier = before._made
        if isinstance(earlier, Deferred):
            if (
                earlier.extended
                or earlier.length >= _LONGEST
                or earlier.gradients != self.gradients
            ):
                before._tags  # noqa: B018 (computed now, so that nobody computes it twice)
            else:
                earlier.extended = True
                self.length += earlier.length

    def compute(self) -> Tags:
        """The tags, in one go from the last ones that are known."""
        steps, at = [], self
        while True:
            steps.append((at.contraction, at.other))
            known = at.before._made
            if not isinstance(known, Deferred):
                break
            at = known
        with torch.set_grad_enabled(self.gradients):
            return self.before._provenance.contract_chain(known, steps[::-1])

    def only(self, wanted: np.ndarray) -> Tags | None:
        """The tag of one symbol a row, flattened; None if all tags may as well be computed."""
        provenance, batch = self.before._provenance, len(wanted)
        every = self.contraction.combinations * batch
        if every < provenance.few:
            return None
        row, places = self.contraction.members(wanted)
        if len(row) * _FEW_OF > every:
            return None
        operands, indices = [], []
        for tags, place in zip((self.before._tags, self.other), places, strict=True):
            rows = provenance.describe(tags)[1]
            width = self.contraction.sizes[len(operands)]
            operands.append(provenance.flatten(tags, rows))
            indices.append(row * width + place if rows > 1 else place)
        with torch.set_grad_enabled(self.gradients):
            return provenance.contract(operands, Contraction(indices, row, batch))
