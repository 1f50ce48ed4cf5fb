"""Tags that are computed when somebody reads them.

A fold over many operands makes tags that only the next step reads. A provenance that can compute
such a chain at once (`Provenance.chains`) gets it at once, when the last of them is read. What a
chain gives is what its steps give one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dolphin.contraction import Contraction
from dolphin.provenance.contract import Tags

if TYPE_CHECKING:
    from dolphin.distribution import Distribution

_LONGEST = 32  # steps of a chain


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
