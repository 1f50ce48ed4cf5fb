"""Operations that are deferred until their result is read: the only module that knows of them.

A fold over many operands creates tags that only the next step reads: a provenance that can compute
such a chain as a whole gets all of it when the last result is read. And where only one symbol per
row is read, the label's, only its combinations are computed in the last step. A recursion, too, may
be asked one question only. Results are the same: they are computed with the settings and the
gradient mode in force when they were recorded.

`defer` and `defer_loop` decide whether to defer; `Deferred.compute`, `Deferred.read` and `answered`
compute results. A provenance takes part with one method, `Provenance.deferral`.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

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
    from dolphin.execution.recursion.recurrences import Loop
    from dolphin.execution.tagged import Tagged

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST = 32  # steps of a chain
_FEW_OF = 32  # few combinations are at most one in this many
_FEW_PAIRS = 4096  # combinations, where only some of all pairs combine


def defer(
    lists: IndexLists, operands: Sequence[Tagged], result: Domain
) -> DeferredContraction | None:
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
    return None if how is None else DeferredContraction(how, first, lists, second, result)


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


def defer_loop(algebra: Provenance, loop: Loop, operands: Sequence[Tags]) -> DeferredLoop | None:
    """The tags that a recursion ends with, not computed yet; None where better computed now."""
    if surroundings() is not PLAIN or torch.is_inference_mode_enabled() or transformed():
        return None
    how = algebra.deferral(loop, operands)
    return None if how is None else DeferredLoop(how, loop, operands)


def answered(lists: IndexLists, operands: Sequence[Tagged]) -> Tags | None:
    """A contraction of a recursion that is deferred; None unless it needs only part of it."""
    if len(operands) != 2 or surroundings() is not PLAIN or not isinstance(lists, Contraction):
        return None
    loop, partner = operands[0].made, operands[1]
    if not isinstance(loop, DeferredLoop) or partner.constant:
        return None
    return loop.answer(lists, partner.tags)


def compute_loop(d: Tagged) -> None:
    """Compute the result of a recursion that another one takes."""
    if isinstance(d.made, DeferredLoop):
        d.tags  # noqa: B018


class Deferred:
    """Tags that are not computed yet, on the device and in the precision of `like`.

    Not an `abc.ABC`, whose `isinstance` takes five times as long: every operation asks for it.
    """

    __slots__ = ("context", "gradients", "how", "like")

    def __init__(self, how: Deferral, like: Tags) -> None:
        self.how, self.like = how, like
        self.gradients = torch.is_grad_enabled()
        self.context = contextvars.copy_context()

    def compute(self) -> Tags:
        """The tags."""
        return self._as_recorded(self._compute)

    def read(self, wanted: np.ndarray) -> Tensor | None:
        """Log-probabilities of one symbol per row; None if all tags may as well be computed."""
        return None

    def _compute(self) -> Tags:
        raise NotImplementedError

    def _as_recorded(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        with torch.set_grad_enabled(self.gradients):
            return self.context.copy().run(function, *given, **named)


class DeferredContraction(Deferred):
    """The contraction of `before` and `like` by `lists`."""

    __slots__ = ("before", "extended", "length", "link", "lists", "widths")

    def __init__(
        self, how: Deferral, before: Tagged, lists: IndexLists, other: Tagged, result: Domain
    ) -> None:
        super().__init__(how, other.tags)
        self.before, self.lists = before, lists
        self.widths = (before.width, other.width)
        self.link = Link(lists, before.domain, other.domain, result)
        self.extended = False
        self.length = 1
        earlier = before.made
        if isinstance(earlier, DeferredContraction):
            if (
                earlier.extended
                or earlier.length >= _LONGEST
                or earlier.gradients != self.gradients
            ):
                before.tags  # noqa: B018 (computed now, so that it is not computed twice)
            else:
                earlier.extended = True
                self.length += earlier.length

    def _compute(self) -> Tags:
        """The tags, in one pass from the last ones that were computed."""
        return self.how.chain(*self._chain())

    def _chain(self) -> tuple[Tags, list[tuple[IndexLists, Tags]]]:
        """The last tags that were computed, and the steps from there to here."""
        steps, at = [], self
        while True:
            steps.append((at.lists, at.like))
            before = at.before.made
            if not isinstance(before, DeferredContraction):
                return at.before.tags, steps[::-1]
            at = before

    def read(self, wanted: np.ndarray) -> Tensor | None:
        numbers_are_read()
        return self._as_recorded(self._read, wanted)

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
        while isinstance(at, DeferredContraction):
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
        both = (self.before.tags, self.like)
        for tags, place, width in zip(both, places, self.widths, strict=True):
            rows = provenance.describe(tags).rows
            operands.append(provenance.flatten(tags, rows))
            indices.append(RowAddress(width, per_row=rows > 1).at(row, place))
        return provenance.contract(
            operands, Contraction(indices, row, batch, address=RowAddress(1))
        )


class DeferredLoop(Deferred):
    """The tags that a recursion ends with: an answer may need few of them.

    A step of PathFinder on 16×16 blocks takes 25 instead of 33 ms of CPU time.
    """

    __slots__ = ("asked", "loop", "operands")

    def __init__(self, how: Deferral, loop: Loop, operands: Sequence[Tags]) -> None:
        super().__init__(how, operands[-1])
        self.loop, self.operands = loop, operands
        self.asked = False

    def _compute(self) -> Tags:
        return self.how.provenance.looped(*self.loop, *self.operands)

    def answer(self, plan: Contraction, partner: Tags) -> Tags | None:
        """Its contraction with a partner; None after the first one, and if that needs all tags."""
        if self.asked or self.gradients != torch.is_grad_enabled():
            return None
        self.asked = True
        return self.how.answer(self.loop, self.operands, plan, partner)
