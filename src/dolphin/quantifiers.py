"""Questions about the symbols of a row: is there one, are all, how many, which is the largest.

The symbols of a distribution are events: each of them holds or doesn't. Answers are complete in
every row, also where a row has no symbols at all, so a loss on an answer is defined everywhere.

What the tags of answers mean depends on the provenance. `exact` knows what the symbols have to do
with each other, and is exact for every program. Algebras of numbers don't: there the symbols of a
row count as independent, or as exclusive where at most one of them can hold (an exclusive input,
and what `apply` makes of exclusive operands). docs/questions.md says what each provenance gives.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from dolphin.arguments import check_arity, operand
from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import FunctionError, InputError, UnsupportedError, shorten
from dolphin.execution.eager import eager
from dolphin.execution.indices import Contraction, Index
from dolphin.execution.profiling import profiled
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, Tags, TensorProvenance
from dolphin.provenance.registry import names_with_negation, negates
from dolphin.symbolic.plans import group_rows
from dolphin.symbolic.questions import Fold, Items, find_items, fold_of, prefixes
from dolphin.symbolic.symbols import Symbols

S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")


# fmt: off
@overload
def exists(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: None = None, cache: bool = True) -> Distribution[bool]: ...  # noqa: E501
@overload
def exists(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, bool]]: ...  # noqa: E501
# fmt: on
@eager
@profiled(tags=True)
def exists(
    distribution: Distribution[Any],
    predicate: Callable[[Any], bool] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """Whether a symbol holds (for which `predicate` is true): a distribution over True and False.

    True is ⊕ of the symbols' tags, False the ⊗ of their negations. Where ⊕ adds (`damp`), True is
    1 - Π (1 - p), or Σ p for exclusive symbols. A row without such symbols says False, certainly.

    Args:
        predicate: which symbols count; by default all of them.
        by: one answer for each key `by(symbol)`, as symbols (key, answer). Every row has all keys.
        cache: whether results of `predicate` and `by` may be remembered between calls.

    Cost: O(B · n) for n symbols, in log n steps.

    >>> import dolphin as dl
    >>> seen = dl.Distribution([0.5, 0.5, 0.2], ["cat", "dog", "cow"], exclusive=False)
    >>> dl.exists(seen, lambda animal: animal != "cow").row(0)
    [(True, 0.75), (False, 0.25)]
    >>> dl.exists(seen, by=lambda animal: animal[0]).row(0)
    [(('c', True), 0.6), (('c', False), 0.4), (('d', True), 0.5), (('d', False), 0.5)]
    """
    question = _Question("exists", distribution, predicate, by, cache)
    some, none = question.some_and_none()
    return question.paired(some, none)


# fmt: off
@overload
def forall(distribution: Distribution[S], predicate: Callable[[S], bool], *, by: None = None, cache: bool = True) -> Distribution[bool]: ...  # noqa: E501
@overload
def forall(distribution: Distribution[S], predicate: Callable[[S], bool], *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, bool]]: ...  # noqa: E501
# fmt: on
@eager
@profiled(tags=True)
def forall(
    distribution: Distribution[Any],
    predicate: Callable[[Any], bool],
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """Whether `predicate` is true of all symbols that hold: no symbol holds for which it is false.

    The arguments are those of `exists`; of nothing, everything is true.

    >>> import dolphin as dl
    >>> seen = dl.Distribution([0.5, 0.5, 0.2], ["cat", "dog", "cow"], exclusive=False)
    >>> dl.forall(seen, lambda animal: animal != "cow").row(0)
    [(True, 0.8), (False, 0.2)]
    """
    question = _Question("forall", distribution, predicate, by, cache, unless=True)
    some, none = question.some_and_none()
    return question.paired(none, some)


# fmt: off
@overload
def count(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: None = None, cache: bool = True) -> Distribution[int]: ...  # noqa: E501
@overload
def count(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, int]]: ...  # noqa: E501
# fmt: on
@eager
@profiled(tags=True)
def count(
    distribution: Distribution[Any],
    predicate: Callable[[Any], bool] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """How many symbols hold (for which `predicate` is true): 0, 1, ... up to their number.

    The arguments are those of `exists`.

    Cost: O(B · n²) for n symbols, in log n steps: a fold over partial counts.

    >>> import dolphin as dl
    >>> coins = dl.Distribution([0.5, 0.5, 0.5], "abc", exclusive=False)
    >>> dl.count(coins).row(0)
    [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)]
    """
    question = _Question("count", distribution, predicate, by, cache)
    return question.folded([1] * len(question.items.symbols))


# fmt: off
@overload
def total(distribution: Distribution[S], value: Callable[[S], V] | None = None, *, by: None = None, cache: bool = True) -> Distribution[V]: ...  # noqa: E501
@overload
def total(distribution: Distribution[S], value: Callable[[S], V] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, V]]: ...  # noqa: E501
# fmt: on
@eager
@profiled(tags=True)
def total(
    distribution: Distribution[Any],
    value: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """The sum of `value(symbol)` over the symbols that hold; 0 where none does.

    Args:
        value: a number for each symbol; by default the symbol itself.
        by: as for `exists`.

    Cost: O(B) per pair of a partial sum of one half of the symbols and one of the other half.
    There are few of them where sums coincide (small integers), and 2ⁿ where they don't.

    >>> import dolphin as dl
    >>> coins = dl.Distribution([0.5, 0.5], [5, 10], exclusive=False)
    >>> dl.total(coins).row(0)
    [(0, 0.25), (10, 0.25), (5, 0.25), (15, 0.25)]
    """
    question = _Question("total", distribution, None, by, cache)
    return question.folded(question.numbers("value", value))


# fmt: off
@overload
def maximum(distribution: Distribution[S], key: Callable[[S], Any] | None = None, *, by: None = None, cache: bool = True) -> Distribution[S | None]: ...  # noqa: E501
@overload
def maximum(distribution: Distribution[S], key: Callable[[S], Any] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, S | None]]: ...  # noqa: E501
# fmt: on
@eager
@profiled(tags=True)
def maximum(
    distribution: Distribution[Any],
    key: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """The largest symbol that holds, the first of several that are equal; None if none holds.

    A symbol is the largest if it holds and no larger one does: its tag ⊗ the negations of theirs.

    Args:
        key: what symbols are compared by, as for Python's `max`; by default themselves.
        by: as for `exists`.

    Cost: O(B · n log n) for n symbols, in log n steps.

    >>> import dolphin as dl
    >>> bids = dl.Distribution([0.5, 0.5, 0.2], [10, 20, 30], exclusive=False)
    >>> dl.maximum(bids).row(0)
    [(30, 0.2), (20, 0.4), (10, 0.2), (None, 0.2)]
    """
    question = _Question("maximum", distribution, None, by, cache)
    return question.first(key, reverse=True)


# fmt: off
@overload
def minimum(distribution: Distribution[S], key: Callable[[S], Any] | None = None, *, by: None = None, cache: bool = True) -> Distribution[S | None]: ...  # noqa: E501
@overload
def minimum(distribution: Distribution[S], key: Callable[[S], Any] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, S | None]]: ...  # noqa: E501
# fmt: on
@eager
@profiled(tags=True)
def minimum(
    distribution: Distribution[Any],
    key: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """The smallest symbol that holds; see `maximum`.

    >>> import dolphin as dl
    >>> bids = dl.Distribution([0.5, 0.5], [10, 20], exclusive=False)
    >>> dl.minimum(bids).row(0)
    [(10, 0.5), (20, 0.25), (None, 0.25)]
    """
    question = _Question("minimum", distribution, None, by, cache)
    return question.first(key, reverse=False)


class _Question:
    """A distribution, the symbols in question and their tags: `holds` and, negated, `fails`."""

    def __init__(
        self,
        operation: str,
        distribution: Any,
        predicate: Callable[[Any], bool] | None,
        by: Callable[[Any], Any] | None,
        cache: bool,
        *,
        unless: bool = False,
    ) -> None:
        self.operation, self.cache = operation, cache
        self.d = d = operand(operation, distribution)
        for role, function in (("predicate", predicate), ("by", by)):
            if function is not None or (role == "predicate" and unless):
                _check_function(operation, role, function)
        self.algebra: Provenance = d.provenance
        if not negates(self.algebra):
            raise UnsupportedError(
                f"{operation}: {self.algebra!r} has no negation, so it can't say that a symbol "
                f"doesn't hold. Provenances with negation: {', '.join(names_with_negation())}."
            )
        tags, address = (d.tags_like(), None) if d.shared else d.flat_tags()
        self.items = find_items(
            operation, d.domain, address, predicate, by, unless=unless, cache=cache
        )
        self.holds = self.algebra.select(tags, Index(self.items.places))
        self.one = self.algebra.one(1, tags)

    @functools.cached_property
    def fails(self) -> Tags:
        return self.algebra.negate(self.holds)

    def numbers(self, role: str, function: Callable[[Any], Any] | None) -> list[Any]:
        """What a function of the user says of each item."""
        if function is not None:
            _check_function(self.operation, role, function)
        return self.items.values(f"{self.operation}({role})", function, self.cache)

    # -- answers -----------------------------------------------------------------------------------

    def paired(self, true: Tags, false: Tags) -> Distribution[Any]:
        """The answers True and False of each group."""
        groups = self.items.groups
        index = np.arange(2 * groups).reshape(2, -1).T.reshape(-1)
        tags = self.algebra.select(self.algebra.concat([true, false]), Index(index))
        return self.answered([True, False] * groups, np.repeat(np.arange(groups), 2), tags)

    def answered(self, answers: Sequence[Any], group: np.ndarray, tags: Tags) -> Distribution[Any]:
        """Answers of groups, in the groups' order, with their tags, as a distribution."""
        items, d = self.items, self.d
        labels = items.labels(answers, group)
        plan = group_rows(
            items.table, labels, items.row_of_groups[group], items.rows, [np.arange(len(labels))]
        )
        domain, contraction = plan.domain, plan.contraction
        selection = contraction.selection
        if selection is None:
            tags = self.algebra.contract_disjoint([tags], contraction)
        else:
            tags = self.algebra.select(tags, selection)
        if d.shared:
            domain = Symbols.of(domain.members)
        return distribution_of(
            Tagged(
                domain,
                tags,
                self.algebra,
                d.batch,
                exclusive=items.keys is None,
                constant=d.constant,
            )
        )

    def answered_by_group(
        self, answers: Sequence[Any], group: np.ndarray, parts: Sequence[Tags]
    ) -> Distribution[Any]:
        """Answers in any order, with the tags of all parts one after the other."""
        order = np.argsort(group, kind="stable")
        tags = self.algebra.select(self.algebra.concat(parts), Index(order))
        return self.answered([answers[at] for at in order.tolist()], group[order], tags)

    # -- what they are made of ---------------------------------------------------------------------

    def some_and_none(self) -> tuple[Tags, Tags]:
        """Tags of "one item of the group holds" and of "none does"."""
        groups = self.items.groups_of
        plan = Contraction([np.arange(len(groups))], groups, self.items.groups)
        if self.d.exclusive:
            some = self.algebra.contract_disjoint([self.holds], plan)
            return some, self.none_of_exclusive(some)
        if not _adds(self.algebra):
            return self.algebra.contract([self.holds], plan), self.conjunctions(self.fails)
        fold = fold_of(self.operation, self.items, [True] * len(groups), False, operator.or_)
        states = self.run(fold)
        some, none = (_places(fold, self.items.groups, answer) for answer in (True, False))
        return self.algebra.select(states, some), self.algebra.select(states, none)

    def none_of_exclusive(self, some: Tags) -> Tags:
        """What is left to "none of them", where at most one holds.

        Proofs are cut to the likeliest, and the negation of what is left of them would be too
        likely: there each item fails.
        """
        if isinstance(self.algebra, TensorProvenance) or "de-morgan" in self.algebra.laws:
            return self.algebra.negate(some)
        return self.conjunctions(self.fails)

    def conjunctions(self, tags: Tags) -> Tags:
        """⊗ of the tags of each group; **1** for a group without any."""
        steps = prefixes(self.items.groups_of)
        tags = self.scanned(tags, steps)
        last = np.full(self.items.groups, len(self.items.symbols), dtype=np.int64)
        last[self.items.groups_of] = np.arange(len(self.items.symbols))
        return self.algebra.select(self.with_one(tags), Index(last))

    def scanned(self, tags: Tags, steps: Sequence[Contraction]) -> Tags:
        for step in steps:
            both = self.with_one(tags)
            tags = self.algebra.contract([both, both], step)
        return tags

    def with_one(self, tags: Tags) -> Tags:
        return self.algebra.concat([tags, self.one])

    def folded(self, values: Sequence[Any]) -> Distribution[Any]:
        """The distribution of the sum of the values of the items that hold."""
        if self.d.exclusive:
            return self.folded_exclusive(values)
        fold = fold_of(self.operation, self.items, values, 0, operator.add)
        return self.answered(fold.answers, fold.groups_of, self.run(fold))

    def run(self, fold: Fold) -> Tags:
        """The tags of a fold's last states."""
        n = len(self.items.symbols)
        index = Index(np.arange(2 * n).reshape(2, n).T.reshape(-1))
        tags = self.algebra.select(self.algebra.concat([self.fails, self.holds]), index)
        for step in fold.steps:
            both = self.with_one(tags)
            tags = self.algebra.contract_disjoint([both, both], step)
        return tags

    def folded_exclusive(self, values: Sequence[Any]) -> Distribution[Any]:
        """At most one item holds: the sum is its value, or that of nothing."""
        items = self.items
        _, none = self.some_and_none()
        answers = [*([0] * items.groups), *values]
        groups = [np.arange(items.groups), items.groups_of]
        parts = [none, self.holds]
        if self.operation == "count":  # complete: more than one is an answer too, with the tag 0
            beyond = _ranks(items.groups_of) > 0
            answers += (_ranks(items.groups_of)[beyond] + 1).tolist()
            groups.append(items.groups_of[beyond])
            parts.append(self.algebra.select(none, Index(np.full(len(groups[-1]), -1))))
        return self.answered_by_group(answers, np.concatenate(groups), parts)

    def first(self, key: Callable[[Any], Any] | None, *, reverse: bool) -> Distribution[Any]:
        """The first item that holds, of each group, in the order of their keys; None if none."""
        keys = self.numbers("key", key)
        order = _sorted(self.operation, self.items, keys, reverse)
        self.items, n = self.items.ordered(order), len(order)
        self.holds = self.algebra.select(self.holds, Index(order))
        groups, every = self.items.groups_of, np.arange(n)
        firsts = self.holds
        if self.d.exclusive:
            _, none = self.some_and_none()
        else:
            until = self.with_one(self.scanned(self.fails, prefixes(groups)))
            before = np.where((every > 0) & (groups[every - 1] == groups), every - 1, n)
            both = [self.holds, until]
            firsts = self.algebra.contract(both, Contraction([every, before], every, n))
            last = np.full(self.items.groups, n, dtype=np.int64)
            last[groups] = every
            none = self.algebra.select(until, Index(last))
        table = self.items.table
        answers = [table.symbols[number] for number in self.items.symbols.tolist()]
        answers += [None] * self.items.groups
        group = np.concatenate([groups, np.arange(self.items.groups)])
        return self.answered_by_group(answers, group, [firsts, none])


def _adds(provenance: Provenance) -> bool:
    """Whether ⊕ adds, so that an "or" of events that don't exclude each other needs a detour."""
    return "excluded-middle" in provenance.laws and "de-morgan" not in provenance.laws


def _places(fold: Fold, groups: int, answer: Any) -> Index:
    """Where the state of each group with this answer stands, -1 where there is none."""
    places = np.full(groups, -1, dtype=np.int64)
    hit = np.array([each == answer for each in fold.answers], dtype=bool)
    places[fold.groups_of[hit]] = np.flatnonzero(hit)
    return Index(places)


def _ranks(groups_of: np.ndarray) -> np.ndarray:
    """The number of each item within its group."""
    return np.arange(len(groups_of)) - np.searchsorted(groups_of, groups_of)


def _sorted(operation: str, items: Items, keys: Sequence[Any], reverse: bool) -> np.ndarray:
    """Items by group, then by key; equal keys in the items' order."""
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
    if isinstance(function, Distribution) or not callable(function):
        raise InputError(
            f"{operation}: {role} must be a function of one symbol, got {shorten(function)}. Write "
            f"{operation}(d, {'lambda symbol: ...' if role == 'predicate' else role + '=...'})."
        )
    check_arity(operation, role, function, 1)
