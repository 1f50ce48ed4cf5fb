"""Contractions that are deferred until their result is read: the only module that knows of them.

A fold over many operands creates tags that only the next step reads: a provenance that can compute
such a chain as a whole gets all of it when the last result is read. And where only one symbol per
row is read, the label's, only its combinations are computed in the last step. Results are the same:
a chain is computed with the settings and the gradient mode in force when it was recorded.

`defer` decides whether to defer; `Deferred.compute` and `Deferred.read` compute the result. A
provenance takes part with one method, `Provenance.deferral`.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Contraction, IndexLists
from dolphin.execution.regrouping import Link, halves_of
from dolphin.provenance.contract import Deferral, Provenance, Tags
from dolphin.provenance.differentiation import transformed
from dolphin.symbolic.plans import Domain, RowAddress
from dolphin.symbolic.surroundings import PLAIN, numbers_are_read, surroundings

if TYPE_CHECKING:
    from dolphin.execution.recursion.recurrences import Limit, Recurrence
    from dolphin.execution.tagged import Tagged

_LONGEST = 32  # steps of a chain
_FEW_OF = 32  # few combinations are at most one in this many
_FEW_PAIRS = 4096  # combinations, where only some of all pairs combine


def defer(lists: IndexLists, operands: Sequence[Tagged], result: Domain) -> Deferred | None:
    """The result of a contraction, not computed yet; None where it is better computed now."""
    if len(operands) != 2 or surroundings().profile is not None:
        return None
    if lists.sizes is None and not _step_of_a_fold(lists, operands):
        return None
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled() or transformed():
        return None
    first, second = operands
    if first.constant or second.constant:
        return None
    other = second.tags
    like = other if isinstance(first.made, Deferred) else first.tags
    how = first.provenance.deferral(lists, (like, other))
    return None if how is None else Deferred(how, first, lists, second, result)


def _step_of_a_fold(lists: IndexLists, operands: Sequence[Tagged]) -> bool:
    """Whether some pairs of two exclusive operands combine, few and each once.

    The rounds of a recursion are noted as they run, and large contractions first select the tags
    that they use: neither is deferred.
    """
    if not isinstance(lists, Contraction) or not 0 < lists.combinations <= _FEW_PAIRS:
        return False
    if surroundings() is not PLAIN or not all(d.exclusive for d in operands):
        return False
    return lists.distinct


def answered(lists: IndexLists, operands: Sequence[Tagged]) -> Tags | None:
    """A contraction of a recursion that is deferred; None unless it needs only part of it."""
    if len(operands) != 2 or surroundings() is not PLAIN or not isinstance(lists, Contraction):
        return None
    loop, partner = operands[0].made, operands[1]
    if not isinstance(loop, DeferredLoop) or partner.constant:
        return None
    return loop.answer(lists, partner.tags)


def may_be_deferred() -> bool:
    """Whether a recursion can be computed later, with the same result."""
    return surroundings() is PLAIN and not (torch.is_inference_mode_enabled() or transformed())


def compute_loop(d: Tagged) -> None:
    """Compute the result of a recursion that another one takes."""
    if isinstance(d.made, DeferredLoop):
        d.tags  # noqa: B018


class Deferred:
    """The contraction of `before` and `other` by `lists`, not computed yet."""

    __slots__ = (
        "before", "context", "extended", "gradients", "how", "length", "link", "lists", "other",
        "widths",
    )  # fmt: skip

    def __init__(
        self, how: Deferral, before: Tagged, lists: IndexLists, other: Tagged, result: Domain
    ) -> None:
        self.how, self.before, self.lists, self.other = how, before, lists, other.tags
        self.widths = (before.width, other.width)
        self.link = Link(lists, before.domain, other.domain, result)
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
        """The tags, in one pass from the last ones that were computed."""
        with torch.set_grad_enabled(self.gradients):
            return self.context.copy().run(self.how.chain, *self._chain())

    def _chain(self) -> tuple[Tags, list[tuple[IndexLists, Tags]]]:
        """The last tags that were computed, and the steps from there to here."""
        steps, at = [], self
        while True:
            steps.append((at.lists, at.other))
            before = at.before.made
            if not isinstance(before, Deferred):
                return before, steps[::-1]
            at = before

    def read(self, wanted: np.ndarray) -> Tensor | None:
        """Log-probabilities of one symbol per row; None if all tags may as well be computed."""
        numbers_are_read()
        with torch.set_grad_enabled(self.gradients):
            return self.context.copy().run(self._read, wanted)

    def _read(self, wanted: np.ndarray) -> Tensor | None:
        halves = halves_of(self._links(), wanted) if self.how.regroups else None
        alone = None if halves is not None else self._only(wanted)
        if alone is not None:
            return self.how.provenance.log_probs(alone).view(-1)
        if wanted.min() < 0:  # a symbol that is not there
            return None
        return self.how.read(*self._chain(), wanted, halves)

    def _links(self) -> list[Link]:
        """All steps from the last tags that were computed, with their symbols."""
        links, at = [], self
        while isinstance(at, Deferred):
            links.append(at.link)
            at = at.before.made
        return links[::-1]

    def _only(self, wanted: np.ndarray) -> Tags | None:
        """The tag of one symbol per row, flattened, if it needs few of all combinations."""
        provenance, batch = self.how.provenance, len(wanted)
        every = self.lists.combinations * batch
        if every < self.how.few or self.lists.counts(wanted).sum() * _FEW_OF > every:
            return None
        row, places = self.lists.members(wanted)
        operands, indices = [], []
        both = (self.before.tags, self.other)
        for tags, place, width in zip(both, places, self.widths, strict=True):
            rows = provenance.describe(tags).rows
            operands.append(provenance.flatten(tags, rows))
            indices.append(RowAddress(width, per_row=rows > 1).at(row, place))
        return provenance.contract(
            operands, Contraction(indices, row, batch, address=RowAddress(1))
        )


class DeferredLoop(Deferred):
    """The tags that a recursion ends with, not computed yet: an answer may need few of them.

    A step of PathFinder on 16×16 blocks takes 25 instead of 33 ms of CPU time.
    """

    __slots__ = ("algebra", "asked", "given", "loop")

    def __init__(
        self, algebra: Provenance, form: Recurrence, limit: Limit, given: Sequence[Tags]
    ) -> None:
        self.algebra, self.loop, self.given = algebra, (form, limit), given
        self.other = given[-1]
        self.gradients = torch.is_grad_enabled()
        self.context = contextvars.copy_context()
        self.asked = False

    def compute(self) -> Tags:
        with torch.set_grad_enabled(self.gradients):
            return self.context.copy().run(self.algebra.looped, *self.loop, *self.given)

    def read(self, wanted: np.ndarray) -> Tensor | None:
        return None

    def answer(self, plan: Contraction, partner: Tags) -> Tags | None:
        """Its contraction with a partner; None after the first one, and if that needs all tags."""
        if self.asked or self.gradients != torch.is_grad_enabled():
            return None
        self.asked = True
        return self.algebra.looped_for(*self.loop, self.given, plan, partner)
