"""Goals of a recursion: the symbols that are kept in every round."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, MismatchError, shorten
from dolphin.execution.tagged import Tagged, check_arity, tagged_of
from dolphin.execution.unions import chosen_from, open_unions
from dolphin.inputs.checks import listed_symbols
from dolphin.operations import apply_if
from dolphin.operations import filter as filter_symbols
from dolphin.programs.goal_checks import check_keys, check_predicate

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

    def __call__(self, distribution: Distribution[S]) -> Distribution[S]:
        with open_unions():
            new = self._step(distribution)
        return self.asked(new) if isinstance(new, Distribution) else new

    def check(self, start: Distribution[S]) -> None:
        """Refuse a goal that leaves out what it needs, after a recursion from `start`."""
        if isinstance(self._goal, tuple):
            check_keys(self._step, start, self._goal[0])
        else:
            check_predicate(self._step, start, self._goal)

    def asked(self, distribution: Distribution[S]) -> Distribution[S]:
        """The symbols of a distribution that the goal keeps."""
        return distribution_of(chosen_from(tagged_of(distribution), self._kept))

    def _kept(self, d: Tagged) -> Tagged:
        if d not in self._known:
            self._known[d] = tagged_of(self._keeps(distribution_of(d)))
        return self._known[d]


def _keeper(goal: Any) -> Callable[[Distribution[Any]], Distribution[Any]]:
    if isinstance(goal, tuple) and len(goal) == 2 and callable(goal[0]):
        if not isinstance(goal[1], (str, bytes, Distribution)):
            return _looked_up(*goal)
    elif callable(goal):
        predicate: Any = goal
        return lambda d: filter_symbols(d, predicate)
    raise InputError(
        f"fixpoint: goal= takes a predicate, or a key function and a list with the key that each "
        f"row asks for, got {shorten(goal)}. Write goal=(lambda path: path[0], [3, 7])."
    )


def _looked_up(key: Any, asked: Any) -> Callable[[Distribution[Any]], Distribution[Any]]:
    """Selects the symbols with the key that each row asks for."""
    check_arity("fixpoint", "key of the goal", key, 1)
    wanted = listed_symbols("fixpoint: goal=", asked)
    if not wanted:
        raise InputError("fixpoint: goal= got no keys; give the key that each row asks for.")
    rows = (
        Distribution.certain(wanted[0]) if len(wanted) == 1 else Distribution.certain_rows(wanted)
    )

    def keeps(d: Distribution[Any]) -> Distribution[Any]:
        if d.batch_size not in (1, rows.batch_size) and rows.batch_size != 1:
            raise MismatchError(
                f"fixpoint: goal= has {len(wanted)} keys for {d.batch_size} rows; give one per "
                "row, or one for all."
            )
        return apply_if(rows, d, _second, on=(_itself, key))

    return keeps


def _itself(key: Any) -> Any:
    return key


def _second(_: Any, symbol: S) -> S:
    return symbol
