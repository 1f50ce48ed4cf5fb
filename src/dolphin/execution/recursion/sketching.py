"""What a step of a fixpoint does, determined without a distribution: all rounds as one loop.

A step is called once with a distribution that has neither symbols nor tags. Operations on it are
written down instead of being run, and a step that looks at anything else is run as it is written.
So is one that may behave differently in the next round (see symbolic/identity/), or whose form is
not `union(start, extend(state, other))`. For this form all rounds are planned in one pass over the
symbols of all rows (see symbolic/growth.py), and the algebra runs them in a loop of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from dolphin.errors import FunctionError
from dolphin.execution.batching.modes import Mode
from dolphin.execution.deferred import Deferred
from dolphin.execution.entries import Watch
from dolphin.execution.recursion.recollection import slots
from dolphin.execution.tagged import Holder, Tagged, tagged_of
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.chance import Sources
from dolphin.symbolic.growth import grown
from dolphin.symbolic.identity.functions import identify
from dolphin.symbolic.plans import RowSymbols, caches
from dolphin.symbolic.surroundings import surrounded, surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task


class Looked(BaseException):
    """A step looks at its argument. Not an `Exception`: a step must not catch it."""


class Blank(Tagged):
    """Stands for a distribution; knows only which operation gives it."""

    __slots__ = ("made_by",)

    def __init__(self, task: Task | None = None, operands: Sequence[Tagged] = ()) -> None:
        self.made_by = task, operands  # nothing else is set

    def __getattr__(self, name: str) -> Any:
        raise Looked(name)


class Sketch:
    """Writes operations down instead of running them."""

    def __init__(self) -> None:
        self._mode = Mode.current()

    def combine(self, task: Task, operands: Sequence[Tagged], where: Any) -> Tagged:
        """The result of a task."""
        if where is not None or not self._mode.in_force():
            raise Looked
        return Blank(task, operands)

    def unite(self, operands: Sequence[Tagged]) -> Tagged:
        """A union."""
        if not self._mode.in_force():
            raise Looked
        return Blank(None, operands)


class _Form(NamedTuple):
    """`union(start, state, extend(state, other))`; start or state may be left out."""

    task: Task
    other: Tagged
    starts: bool
    keeps: bool

    @classmethod
    def of(cls, result: Tagged, start: Tagged, state: Tagged) -> _Form | None:
        """The form of a result; None if it doesn't have this form."""
        if not isinstance(result, Blank) or result is state or result.made_by[0] is not None:
            return None
        *known, last = result.made_by[1]
        if not isinstance(last, Blank) or last is state:
            return None
        task, operands = last.made_by
        if task is None or len(operands) != 2 or operands[0] is not state or not task.cache:
            return None
        kept = [each is state for each in known]
        starts, keeps = kept.count(False) == 1, kept.count(True) == 1
        expected = [start] * starts + [state] * keeps
        if not known or len(known) != len(expected):
            return None
        if any(a is not b for a, b in zip(known, expected, strict=True)):
            return None
        return cls(task, operands[1], starts, keeps)


_known: BoundedCache[Hashable, bool] = BoundedCache(256)  # whether a step may have a form
register("sketches", _known.__len__, _known.clear)


class RowLoop:
    """A fixpoint of `step`, which may be one that runs as a loop.

    A step is called for a sketch only after it was run as it is written, with nothing changed that
    it reads: one that counts its calls must not be called once more.
    """

    def __init__(self, step: Callable[[Any], Any], start: Tagged) -> None:
        self._step, self._start = step, start
        self._outside = [start]
        possible = start.provenance.has_row_loops and _may_start(start)
        self._key = self._key_of_step() if possible and _alone() else None

    def _key_of_step(self) -> Hashable | None:
        """The content of the step; None if not all that it reads is known by content."""
        self._outside = [self._start]
        try:
            return identify(self._step, "fixpoint", slots(self._outside)).key
        except FunctionError:  # it reads randomness or a clock
            return None

    def learn(self) -> None:
        """To be called after the step has been run as it is written."""
        if self._key is not None and _known.get(self._key) is None:
            _known.put(self._key, self._key == self._key_of_step())

    def run(self, holder: Callable[[Tagged], Any], most_rounds: int) -> Tagged | None:
        """The result; None where it has to be run as it is written.

        `holder` turns symbols and tags into the kind of distribution that the step takes.
        """
        if self._key is None or not _known.get(self._key):
            return None
        start, form = self._start, self._form(holder)
        if form is None:
            _known.replace(self._key, False)
            return None
        # One that the step itself creates would be another one in each round.
        if all(form.other is not each for each in self._outside) or not _fits(form.other, start):
            return None
        algebra, batch = start.provenance, form.other.batch
        first, more, other = _in_rows(start, batch), form.other.domain, form.other.tags
        assert isinstance(first.domain, RowSymbols) and isinstance(more, RowSymbols)
        growth = grown(form.task, first.domain, more, Sources(Watch), most_rounds)
        if growth is None or (start.batch != batch and growth.rounds == 1):
            return None  # a round that changes only the number of rows is not the last one
        tags = algebra.looped_in_rows(
            growth, form.starts, form.keeps, most_rounds, first.tags_like(other), other
        )
        return None if tags is None else Tagged(growth.domain, tags, algebra, batch)

    def _form(self, holder: Callable[[Tagged], Any]) -> _Form | None:
        state = Blank()
        try:
            with surrounded(sketch=Sketch()):
                result = self._step(holder(state))
        except Looked:
            return None
        if not isinstance(result, Holder):
            return None
        return _Form.of(tagged_of(result), self._start, state)


def _alone() -> bool:
    """Whether nothing else writes down or follows what is done."""
    around = surroundings()
    others = around.execution, around.sample, around.profile, around.sketch
    return others == (None, None, None, None) and not torch.compiler.is_compiling()


def _may_start(d: Tagged) -> bool:
    """Whether a loop can begin with a distribution: one of per-row symbols, or a certain one."""
    if type(d) is not Tagged or isinstance(d.made, Deferred):
        return False
    return d.certain or not (d.shared or d.constant)


def _in_rows(start: Tagged, batch: int) -> Tagged:
    """The same with per-row symbols."""
    if not isinstance(start.domain, Symbols):
        return start
    table = caches.current_table()
    numbers = np.tile(start.domain.in_table(table), (batch, 1))
    return Tagged(RowSymbols(table, numbers), None, start.provenance, batch)


def _fits(d: Tagged, start: Tagged) -> bool:
    """Whether a distribution can take part in a loop that begins with `start`."""
    if type(d) is not Tagged or d.shared or d.constant or isinstance(d.made, Deferred):
        return False
    fewest = 1 if start.shared else d.batch
    if d.provenance != start.provenance or start.batch not in (fewest, d.batch):
        return False
    own, first = d.info(), start.info()
    return start.certain or (own.device, own.dtype) == (first.device, first.dtype)
