"""Answers to questions about the symbols of a row; `quantifiers` has the questions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from dolphin.errors import FunctionError, InputError, UnsupportedError, shorten
from dolphin.execution.indices import Contraction, Index, lists_of
from dolphin.execution.kept import kept_index, kept_lists
from dolphin.execution.profiling import profiled
from dolphin.execution.selecting import negation, negation_of_all
from dolphin.execution.tagged import Holder, Tagged, check_arity
from dolphin.provenance.contract import Provenance, Tags
from dolphin.provenance.registry import names_with_negation, negates
from dolphin.symbolic.plans import Combinations
from dolphin.symbolic.questions import Fold, Items, find_items, fold_of, prefixes
from dolphin.symbolic.row_planning import group_rows
from dolphin.symbolic.symbols import Symbols

if TYPE_CHECKING:
    from fractions import Fraction

    from _typeshed import SupportsDunderGT, SupportsDunderLT

Function = Callable[[Any], Any]


# Types of the questions, for editors: symbols that can be added to 0, and that can be compared.
class _Adds(Protocol):
    def __add__(self, other: int, /) -> Any: ...
    def __radd__(self, other: int, /) -> Any: ...


Comparable: TypeAlias = "SupportsDunderLT[Any] | SupportsDunderGT[Any]"
Added = TypeVar("Added", bound="_Adds | Fraction | np.generic")
Ordered = TypeVar("Ordered", bound="SupportsDunderLT[Any] | SupportsDunderGT[Any]")


@profiled("exists", tags=True)
def some_holds(d: Tagged, predicate: Function | None, by: Function | None, cache: bool) -> Tagged:
    """See `exists`."""
    question = _Question("exists", d, predicate, by, cache)
    some, none = question.some_and_none()
    return question.paired(some, none)


@profiled("forall", tags=True)
def all_hold(d: Tagged, predicate: Function, by: Function | None, cache: bool) -> Tagged:
    """See `forall`."""
    question = _Question("forall", d, predicate, by, cache, unless=True)
    some, none = question.some_and_none()
    return question.paired(none, some)


@profiled("count", tags=True)
def how_many_hold(
    d: Tagged, predicate: Function | None, by: Function | None, cache: bool
) -> Tagged:
    """See `count`."""
    question = _Question("count", d, predicate, by, cache)
    return question.folded([1] * len(question.items.symbols))


@profiled("total", tags=True)
def sum_of(d: Tagged, value: Function | None, by: Function | None, cache: bool) -> Tagged:
    """See `total`."""
    question = _Question("total", d, None, by, cache)
    numbers = question.numbers("value", value)
    _check_numbers(numbers)
    return question.folded(numbers)


@profiled("maximum", tags=True)
def largest_of(d: Tagged, key: Function | None, by: Function | None, cache: bool) -> Tagged:
    """See `maximum`."""
    return _Question("maximum", d, None, by, cache).first(key, reverse=True)


@profiled("minimum", tags=True)
def smallest_of(d: Tagged, key: Function | None, by: Function | None, cache: bool) -> Tagged:
    """See `minimum`."""
    return _Question("minimum", d, None, by, cache).first(key, reverse=False)


_NUMBERS = frozenset({bool, int, float})


def _check_numbers(values: Sequence[Any]) -> None:
    """Refuse what can't be added up: where nothing holds, the sum is 0."""
    for value in () if _NUMBERS.issuperset(map(type, values)) else values:
        try:
            _ = 0 + value
        except Exception:
            raise FunctionError(
                f"total: {shorten(value)} ({type(value).__name__}) can't be added to a number. "
                "Give value=, a function from a symbol to a number."
            ) from None


class _Question:
    """A distribution, the symbols in question and their tags: `holds` and, negated, `fails`."""

    def __init__(
        self,
        operation: str,
        d: Tagged,
        predicate: Callable[[Any], bool] | None,
        by: Callable[[Any], Any] | None,
        cache: bool,
        *,
        unless: bool = False,
    ) -> None:
        self.operation, self.cache = operation, cache
        self.d = d
        for role, function in (("predicate", predicate), ("by", by)):
            if function is not None or (role == "predicate" and unless):
                _check_function(operation, role, function)
        self.algebra: Provenance = d.provenance
        if not negates(self.algebra):
            raise UnsupportedError(
                f"{operation}: {self.algebra!r} has no negation, so it can't say that a symbol "
                f"doesn't hold. Provenances with negation: {', '.join(names_with_negation())}."
            )
        self.tags, address = (d.tags_like(), None) if d.shared else d.flat_tags()
        tags = self.tags
        self.items = find_items(
            operation, d.domain, address, predicate, by, unless=unless, cache=cache
        )
        self.holds = self.algebra.select(tags, self.at(self.items.places))
        self.one = self.algebra.one(1, tags)

    @functools.cached_property
    def fails(self) -> Tags:
        if self.d.normalised and self.algebra.numeric:
            return self.algebra.select(negation_of_all(self.d), self.at(self.items.places))
        return negation(self.d, self.holds)

    def numbers(self, role: str, function: Callable[[Any], Any] | None) -> list[Any]:
        """The value of a user function for each item."""
        if function is not None:
            _check_function(self.operation, role, function)
        return self.items.values(f"{self.operation}({role})", function, self.cache)

    # -- answers -----------------------------------------------------------------------------------

    def paired(self, true: Tags, false: Tags) -> Tagged:
        """The answers True and False of each group."""
        groups, d = self.items.groups, self.d
        if d.shared and self.items.keys is None:  # one group: nothing to put into order
            tags, domain = self.algebra.concat([true, false]), Symbols.of((True, False))
            return Tagged(domain, tags, self.algebra, d.batch, exclusive=True, constant=d.constant)
        index = np.arange(2 * groups).reshape(2, -1).T.reshape(-1)
        tags = self.algebra.select(self.algebra.concat([true, false]), self.at(index))
        return self.answered([True, False] * groups, np.repeat(np.arange(groups), 2), tags)

    def answered(self, answers: Sequence[Any], group: np.ndarray, tags: Tags) -> Tagged:
        """Answers of groups, in the groups' order, with their tags, as a distribution."""
        items, d = self.items, self.d
        labels = items.labels(answers, group)
        plan = group_rows(
            items.table, labels, items.rows_of_groups[group], items.rows, [np.arange(len(labels))]
        )
        assert isinstance(plan.combinations, Combinations)
        domain, lists = plan.domain, self.lists(plan.combinations)
        if lists.selection is None:
            tags = self.algebra.contract_disjoint([tags], lists)
        else:
            tags = self.algebra.select(tags, lists.selection)
        if d.shared:
            domain = Symbols.of(domain.members)
            if not len(domain):  # without the place that an empty row has
                tags = self.algebra.select(tags, Index(np.zeros(0, dtype=np.int64)))
        exclusive = items.keys is None
        return Tagged(domain, tags, self.algebra, d.batch, exclusive=exclusive, constant=d.constant)

    def answered_by_group(
        self, answers: Sequence[Any], group: np.ndarray, parts: Sequence[Tags]
    ) -> Tagged:
        """Answers in any order, with the tags of all parts one after the other."""
        order = np.argsort(group, kind="stable")
        tags = self.algebra.select(self.algebra.concat(parts), self.at(order))
        return self.answered([answers[at] for at in order.tolist()], group[order], tags)

    # -- building blocks ---------------------------------------------------------------------------

    def some_and_none(self) -> tuple[Tags, Tags]:
        """Tags of "one item of the group holds" and of "none does"."""
        groups = self.items.groups_of
        plan = self.lists(Combinations([np.arange(len(groups))], groups, self.items.groups))
        if self.d.exclusive:
            some = self.algebra.contract_disjoint([self.holds], plan)
            return some, self.none_of_exclusive(some)
        if not _adds(self.algebra):
            return self.algebra.contract([self.holds], plan), self.conjunctions(self.fails)
        fold = fold_of(self.operation, self.items, [True] * len(groups), False, operator.or_)
        states = self.run(fold)
        some, none = (
            self.algebra.select(states, self.at(_places(fold, self.items.groups, answer)))
            for answer in (True, False)
        )
        return some, none

    def none_of_exclusive(self, some: Tags) -> Tags:
        """The tag of "none of them", where at most one holds.

        Where only the likeliest proofs are kept, the negation of `some` would be too likely; there
        it is the conjunction of the items' negations.
        """
        if self.d.normalised and self.algebra.adds_disjoint:
            return self.one_of_the_others(some)
        if self.algebra.numeric or "de-morgan" in self.algebra.laws:
            return negation(self.d, some)
        return self.conjunctions(self.fails)

    def one_of_the_others(self, some: Tags) -> Tags:
        """The tag of "none of them", where one symbol of each row holds for certain.

        The groups of a row and all symbols that are in none of them are one choice.
        """
        items, rows = self.items, self.items.rows
        if not items.groups:
            return some
        asked = np.zeros(rows * self.d.width, dtype=bool)
        asked[items.places] = True
        others = np.flatnonzero(~asked)
        rest = self.lists(Combinations([others], others // self.d.width, rows))
        tags = self.algebra.concat([some, self.algebra.contract_disjoint([self.tags], rest)])
        every = np.arange(items.groups + rows)
        groups, last = every[: items.groups].reshape(rows, -1), every[items.groups :, None]
        choices = np.concatenate([groups, last], axis=1)
        tags = self.algebra.select(tags, self.at(choices.reshape(-1)))
        negated = self.algebra.negate_choices(tags, choices.shape[1])
        places = every.reshape(rows, -1)[:, :-1]
        return self.algebra.select(negated, self.at(places.reshape(-1)))

    def conjunctions(self, tags: Tags) -> Tags:
        """⊗ of the tags of each group; **1** for an empty group."""
        steps = prefixes(self.items.groups_of)
        tags = self.scanned(tags, steps)
        last = np.full(self.items.groups, len(self.items.symbols), dtype=np.int64)
        last[self.items.groups_of] = np.arange(len(self.items.symbols))
        return self.algebra.select(self.with_one(tags), self.at(last))

    def scanned(self, tags: Tags, steps: Sequence[Combinations]) -> Tags:
        for step in steps:
            both = self.with_one(tags)
            tags = self.algebra.contract([both, both], self.lists(step))
        return tags

    def at(self, places: np.ndarray) -> Index:
        """Places of tags; the same at every step where all rows share their symbols."""
        return kept_index(places) if self.d.shared else Index(places)

    def lists(self, step: Combinations) -> Contraction:
        """The same for combinations of tags."""
        if self.d.shared:
            return kept_lists(step.indices, step.group_of, step.groups)
        return lists_of(step).spelled_out()

    def with_one(self, tags: Tags) -> Tags:
        return self.algebra.concat([tags, self.one])

    def folded(self, values: Sequence[Any]) -> Tagged:
        """The distribution of the sum of the values of the items that hold."""
        if self.d.exclusive:
            return self.folded_exclusive(values)
        fold = fold_of(self.operation, self.items, values, 0, operator.add)
        return self.answered(fold.answers, fold.groups_of, self.run(fold))

    def run(self, fold: Fold) -> Tags:
        """The tags of a fold's last states."""
        n = len(self.items.symbols)
        index = self.at(np.arange(2 * n).reshape(2, n).T.reshape(-1))
        tags = self.algebra.select(self.algebra.concat([self.fails, self.holds]), index)
        for step in fold.steps:
            both = self.with_one(tags)
            tags = self.algebra.contract_disjoint([both, both], lists_of(step).spelled_out())
        return tags

    def folded_exclusive(self, values: Sequence[Any]) -> Tagged:
        """The sum where at most one item holds: its value, or 0."""
        items = self.items
        _, none = self.some_and_none()
        answers = [*([0] * items.groups), *values]
        groups = [np.arange(items.groups), items.groups_of]
        parts = [none, self.holds]
        if self.operation == "count":  # complete: more than one is an answer too, with tag 0
            beyond = _ranks(items.groups_of) > 0
            answers += (_ranks(items.groups_of)[beyond] + 1).tolist()
            groups.append(items.groups_of[beyond])
            parts.append(self.algebra.select(none, self.at(np.full(len(groups[-1]), -1))))
        return self.answered_by_group(answers, np.concatenate(groups), parts)

    def first(self, key: Callable[[Any], Any] | None, *, reverse: bool) -> Tagged:
        """The first item of each group that holds, in the order of the keys; None if none does."""
        keys = self.numbers("key", key)
        order = _sorted(self.operation, self.items, keys, reverse)
        self.items, n = self.items.ordered(order), len(order)
        self.holds = self.algebra.select(self.holds, self.at(order))
        groups, every = self.items.groups_of, np.arange(n)
        firsts = self.holds
        if self.d.exclusive:
            _, none = self.some_and_none()
        else:
            until = self.with_one(self.scanned(self.fails, prefixes(groups)))
            before = np.where((every > 0) & (groups[every - 1] == groups), every - 1, n)
            both = [self.holds, until]
            firsts = self.algebra.contract(
                both, self.lists(Combinations([every, before], every, n))
            )
            last = np.full(self.items.groups, n, dtype=np.int64)
            last[groups] = every
            none = self.algebra.select(until, self.at(last))
        table = self.items.table
        answers = [table.symbols[number] for number in self.items.symbols.tolist()]
        answers += [None] * self.items.groups
        group = np.concatenate([groups, np.arange(self.items.groups)])
        return self.answered_by_group(answers, group, [firsts, none])


def _adds(provenance: Provenance) -> bool:
    """Whether ⊕ adds, so that an "or" of events that don't exclude each other needs a detour."""
    return "excluded-middle" in provenance.laws and "de-morgan" not in provenance.laws


def _places(fold: Fold, groups: int, answer: Any) -> np.ndarray:
    """The place of each group's state with this answer, -1 where there is none."""
    places = np.full(groups, -1, dtype=np.int64)
    hit = np.array([each == answer for each in fold.answers], dtype=bool)
    places[fold.groups_of[hit]] = np.flatnonzero(hit)
    return places


def _ranks(groups_of: np.ndarray) -> np.ndarray:
    """The position of each item within its group."""
    return np.arange(len(groups_of)) - np.searchsorted(groups_of, groups_of)


def _sorted(operation: str, items: Items, keys: Sequence[Any], reverse: bool) -> np.ndarray:
    """Items by group, then by key; equal keys in the items' order."""
    if any(isinstance(key, float) and key != key for key in keys):
        raise FunctionError(
            f"{operation}: the key of a symbol is nan, which has no place in an order."
        )
    try:
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
    except TypeError as error:
        raise FunctionError(
            f"{operation}: symbols can't be compared: {error}. Give key=, a function from a symbol "
            "to a number."
        ) from error
    by_key = np.array(order, dtype=np.int64)
    return by_key[np.argsort(items.groups_of[by_key], kind="stable")]


def _check_function(operation: str, role: str, function: Any) -> None:
    if isinstance(function, Holder) or not callable(function):
        raise InputError(
            f"{operation}: {role} must be a function of one symbol, got {shorten(function)}. Write "
            f"{operation}(d, {'lambda symbol: ...' if role == 'predicate' else role + '=...'})."
        )
    check_arity(operation, role, function, 1)
