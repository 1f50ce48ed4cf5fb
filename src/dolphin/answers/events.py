"""Answers to questions about the symbols of a row; `quantifiers` has the questions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dolphin.answers.arguments import check_function, check_numbers, sorted_by_key
from dolphin.answers.choices import Choices, with_groups_of_one_layout
from dolphin.errors import UnsupportedError
from dolphin.execution.indices import Contraction, Index, lists_of
from dolphin.execution.kept import kept_index, kept_lists
from dolphin.execution.negating import negation, negation_of_all
from dolphin.execution.profiling import profiled
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, Tags
from dolphin.provenance.registry import names_with_negation, negates
from dolphin.symbolic.plans import Combinations, check_size
from dolphin.symbolic.questions import Fold, find_items, fold_of, prefixes
from dolphin.symbolic.row_planning import group_rows
from dolphin.symbolic.symbols import Symbols

Function = Callable[[Any], Any]


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
    check_numbers(numbers)
    return question.folded(numbers)


@profiled("maximum", tags=True)
def largest_of(d: Tagged, key: Function | None, by: Function | None, cache: bool) -> Tagged:
    """See `maximum`."""
    return _Question("maximum", d, None, by, cache).first(key, reverse=True)


@profiled("minimum", tags=True)
def smallest_of(d: Tagged, key: Function | None, by: Function | None, cache: bool) -> Tagged:
    """See `minimum`."""
    return _Question("minimum", d, None, by, cache).first(key, reverse=False)


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
        self.d = d = with_groups_of_one_layout(d)
        for role, function in (("predicate", predicate), ("by", by)):
            if function is not None or (role == "predicate" and unless):
                check_function(operation, role, function)
        self.algebra: Provenance = d.provenance
        if not negates(self.algebra):
            raise UnsupportedError(
                f"{operation}: {self.algebra!r} has no negation, so it can't say that a symbol "
                f"doesn't hold. Provenances with negation: {', '.join(names_with_negation())}."
            )
        self.tags, address = (d.tags_like(), None) if d.shared else d.flat_tags()
        self.items = find_items(
            operation, d.domain, address, predicate, by, unless=unless, cache=cache
        )
        self.holds = self.algebra.select(self.tags, self.at(self.items.places))
        self.choices = Choices.among(d, self.items)

    @functools.cached_property
    def one(self) -> Tags:
        return self.algebra.one(1, self.tags)

    @functools.cached_property
    def fails(self) -> Tags:
        if self.d.normalised and self.algebra.numeric:
            return self.algebra.select(negation_of_all(self.d), self.at(self.items.places))
        return negation(self.d, self.holds)

    def numbers(self, role: str, function: Callable[[Any], Any] | None) -> list[Any]:
        """The value of a user function for each item."""
        if function is not None:
            check_function(self.operation, role, function)
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
        self.with_choices_as_items()
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

    def with_choices_as_items(self) -> None:
        """Items that exclude each other become one, which holds if one of them does."""
        choices = self.choices
        if choices is None:
            return
        self.choices = None
        whole = choices.whole()
        self.holds, self.fails = self.some_and_none_of(whole, choices)
        first = np.unique(whole.group_of, return_index=True)[1]
        self.items = self.items.ordered(first)

    def some_and_none_of(self, parts: Combinations, choices: Choices) -> tuple[Tags, Tags]:
        """For each part of a choice: the tags of "one of its items holds" and "none does"."""
        some = self.algebra.contract_disjoint([self.holds], self.lists(parts))
        if not self.d.normalised or not self.algebra.adds_disjoint:
            return some, negation(self.d, some)
        # One symbol of the choice holds for certain: of this part, or of the others.
        others = self.lists(choices.others(parts, self.items.places))
        tags = self.algebra.concat([some, self.algebra.contract_disjoint([self.tags], others)])
        pairs = np.arange(2 * parts.groups).reshape(2, -1).T.reshape(-1)
        negated = self.algebra.negate_choices(self.algebra.select(tags, self.at(pairs)), 2)
        return some, self.algebra.select(negated, self.at(2 * np.arange(parts.groups)))

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
        return self.products(tags, self.items.groups_of, self.items.groups)

    def products(self, tags: Tags, groups_of: np.ndarray, groups: int) -> Tags:
        """The same for groups of any tags, which follow each other."""
        tags = self.scanned(tags, prefixes(groups_of))
        last = np.full(groups, len(groups_of), dtype=np.int64)
        last[groups_of] = np.arange(len(groups_of))
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
        if self.choices is not None:
            return self.folded_choices(values, self.choices)
        fold = fold_of(self.operation, self.items, values, 0, operator.add)
        return self.answered(fold.answers, fold.groups_of, self.run(fold))

    def run(self, fold: Fold) -> Tags:
        """The tags of a fold's last states."""
        n = len(self.items.symbols)
        index = self.at(np.arange(2 * n).reshape(2, n).T.reshape(-1))
        return self.climbed(
            fold, self.algebra.select(self.algebra.concat([self.fails, self.holds]), index)
        )

    def climbed(self, fold: Fold, tags: Tags) -> Tags:
        """The same from the tags of its leaves."""
        for step in fold.steps:
            both = self.with_one(tags)
            tags = self.algebra.contract_disjoint([both, both], lists_of(step).spelled_out())
        return tags

    def folded_choices(self, values: Sequence[Any], choices: Choices) -> Tagged:
        """The sum where of some items at most one holds."""
        order = np.argsort(choices.of, kind="stable")
        items = self.items = self.items.ordered(order)
        self.holds = self.algebra.select(self.holds, self.at(order))
        choices, sizes = choices.ordered(order), choices.sizes
        ordered = [values[at] for at in order.tolist()]
        fold = fold_of(self.operation, items, ordered, 0, operator.add, sizes)
        _, none = self.some_and_none_of(choices.whole(), choices)
        # None of the first choice, its items, none of the second choice, ...
        starts = np.cumsum(sizes) - sizes
        places = np.insert(len(sizes) + np.arange(len(order)), starts, np.arange(len(sizes)))
        leaves = self.algebra.select(self.algebra.concat([none, self.holds]), self.at(places))
        tags = self.climbed(fold, leaves)
        if self.operation != "count":
            return self.answered(fold.answers, fold.groups_of, tags)
        # Complete: more than there are choices is an answer, too, with tag 0.
        most = np.bincount(choices.groups_of, minlength=items.groups)[items.groups_of]
        beyond = _ranks(items.groups_of) >= most
        answers = [*fold.answers, *(_ranks(items.groups_of)[beyond] + 1).tolist()]
        nothing = self.algebra.select(none, self.at(np.full(int(beyond.sum()), -1)))
        group = np.concatenate([fold.groups_of, items.groups_of[beyond]])
        return self.answered_by_group(answers, group, [tags, nothing])

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
        order = sorted_by_key(self.operation, self.items, keys, reverse)
        self.items, n = self.items.ordered(order), len(order)
        self.holds = self.algebra.select(self.holds, self.at(order))
        groups, every = self.items.groups_of, np.arange(n)
        firsts = self.holds
        if self.d.exclusive:
            _, none = self.some_and_none()
        elif self.choices is not None:
            firsts, none = self.first_of_choices(self.choices.ordered(order))
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

    def first_of_choices(self, choices: Choices) -> tuple[Tags, Tags]:
        """Tags of "the item holds, and none before it", and of "none of the group does"."""
        groups_of, n = self.items.groups_of, len(self.items.symbols)
        alone, several = np.flatnonzero(choices.alone), np.flatnonzero(~choices.alone)
        fails = self.algebra.select(self.fails, self.at(alone))
        up_to_alone = self.scanned(fails, prefixes(groups_of[alone]))
        _, up_to_several = self.some_and_none_of(choices.up_to(several), choices)
        check_size(self.operation, (n, len(choices.groups_of)), choices.pairs(groups_of))
        failing, wanted = choices.before(groups_of, self.items.groups)
        place = np.argsort(np.concatenate([alone, several]))
        parts = self.algebra.concat([up_to_alone, up_to_several])
        before = self.algebra.select(parts, self.at(place[failing]))
        until = self.products(before, wanted, n + self.items.groups)
        every = np.arange(n)
        lists = self.lists(Combinations([every, every], every, n))
        none = self.algebra.select(until, self.at(n + np.arange(self.items.groups)))
        return self.algebra.contract([self.holds, until], lists), none


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
