"""Goals of a recursion: the symbols that are kept in every round."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from dolphin.calls import check_arity
from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.tagged import Tagged, tagged_of
from dolphin.execution.unions import chosen_from, open_unions
from dolphin.goal_checks import check_keys, check_predicate
from dolphin.operations import apply_if
from dolphin.operations import filter as filter_symbols
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import caches
from dolphin.symbolic.symbols import Symbols

S = TypeVar("S")

Goal = Callable[[S], bool] | tuple[Callable[[S], Any], Sequence[Any]]
"""A predicate over symbols, or a key function and the key that each row wants."""


class Directed(Generic[S]):
    """A step that derives only the symbols that its goal wants.

    Unions of the step are not computed as a whole: the goal selects from each of their parts, and
    from parts that stay the same from round to round, the facts, only once.
    """

    def __init__(self, step: Callable[[Distribution[S]], Distribution[S]], goal: Goal[S]) -> None:
        self._step = step
        self._keeps = _keeper(goal)
        self._goal = goal
        self._known: weakref.WeakKeyDictionary[Tagged, Tagged] = weakref.WeakKeyDictionary()
        self._rounds = 0
        self._derived = self._dropped = False

    def __call__(self, distribution: Distribution[S]) -> Distribution[S]:
        self._rounds += 1
        with open_unions():
            new = self._step(distribution)
        return self.asked(new) if isinstance(new, Distribution) else new

    def check(self, start: Distribution[S]) -> None:
        """Refuse a goal that leaves out what it needs, after a recursion from `start`.

        One that drops nothing of what was derived from wanted symbols is taken to be right.
        """
        if self._derived and not self._dropped:
            return
        if isinstance(self._goal, tuple):
            check_keys(self._step, start, self._goal[0])
        else:
            check_predicate(self._step, start, self._goal)

    def asked(self, distribution: Distribution[S]) -> Distribution[S]:
        """The symbols of a distribution that the goal keeps."""
        return distribution_of(chosen_from(tagged_of(distribution), self._kept))

    def _kept(self, d: Tagged) -> Tagged:
        if d not in self._known:
            kept = self._known[d] = tagged_of(self._keeps(distribution_of(d)))
            if self._rounds > 1:  # not one of the facts, which are the same in every round
                self._derived |= _size(d) > 0
                self._dropped |= _size(kept) < _size(d)
        return self._known[d]


def _keeper(goal: Any) -> Callable[[Distribution[Any]], Distribution[Any]]:
    if not isinstance(goal, tuple):
        return lambda d: filter_symbols(d, goal)
    if len(goal) != 2 or not callable(goal[0]) or isinstance(goal[1], (str, bytes)):
        raise InputError(
            f"fixpoint: goal= takes a predicate, or a key function and a list with the key that "
            f"each row asks for, got {shorten(goal)}. Write goal=(lambda path: path[0], [3, 7])."
        )
    key, asked = goal
    check_arity("fixpoint", "key of the goal", key, 1)
    wanted = list(asked)
    if not wanted:
        raise InputError("fixpoint: goal= got no keys; give the key that each row asks for.")
    rows = (
        Distribution.certain(wanted[0]) if len(wanted) == 1 else Distribution.certain_rows(wanted)
    )
    return lambda d: apply_if(rows, d, _second, on=(_itself, key))


def _size(d: Tagged) -> int:
    """How many symbols all rows have."""
    if isinstance(d.domain, Symbols):
        return len(d.domain)
    return int(np.count_nonzero(d.domain.in_table(caches.current_table()) != ABSENT))


def _itself(key: Any) -> Any:
    return key


def _second(_: Any, symbol: S) -> S:
    return symbol
