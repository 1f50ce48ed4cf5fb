"""Questions about the symbols of a row: whether one or all hold, how many, which is the largest.

The symbols of a distribution are events: each of them holds or doesn't. Answers are complete in
every row, also where a row has no symbols at all, so a loss on an answer is defined everywhere.

What the tags of answers mean depends on the provenance. `exact` knows how the symbols depend on
each other, and is exact for every program. Algebras of numbers don't: there the symbols of a row
count as independent, or as exclusive where at most one of them can hold (an exclusive input, and
the result of `apply` on exclusive operands; the symbols of one group of an input with exclusive
groups). docs/questions.md says what each provenance gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, overload

from dolphin.answers.arguments import Added, Comparable, Ordered
from dolphin.answers.events import (
    all_hold,
    how_many_hold,
    largest_of,
    smallest_of,
    some_holds,
    sum_of,
)
from dolphin.distribution import Distribution, distribution_of
from dolphin.execution.eager import eager
from dolphin.execution.tagged import operand

S = TypeVar("S")
K = TypeVar("K", bound=Hashable)


# fmt: off
@overload
def exists(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: None = None, cache: bool = True) -> Distribution[bool]: ...  # noqa: E501
@overload
def exists(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, bool]]: ...  # noqa: E501
# fmt: on
@eager
def exists(
    distribution: Distribution[Any],
    predicate: Callable[[Any], bool] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """Whether some symbol holds for which `predicate` is true: a distribution over True and False.

    True is ⊕ of the symbols' tags, False the ⊗ of their negations. Where ⊕ adds (`damp`), True is
    1 - Π (1 - p), or Σ p for exclusive symbols. In a row without such symbols False is certain.
    Gradients are those of ⊕, ⊗ and the negation.

    Args:
        distribution: symbols as events, in either layout.
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
    return distribution_of(some_holds(operand("exists", distribution), predicate, by, cache))


# fmt: off
@overload
def forall(distribution: Distribution[S], predicate: Callable[[S], bool], *, by: None = None, cache: bool = True) -> Distribution[bool]: ...  # noqa: E501
@overload
def forall(distribution: Distribution[S], predicate: Callable[[S], bool], *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, bool]]: ...  # noqa: E501
# fmt: on
@eager
def forall(
    distribution: Distribution[Any],
    predicate: Callable[[Any], bool],
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """Whether `predicate` is true of all symbols that hold: no symbol holds for which it is false.

    True is the ⊗ of the negations of the symbols for which it is false, and False their ⊕, as in
    `exists` with True and False swapped; arguments, gradients and cost are the same. In a row
    without symbols True is certain.

    >>> import dolphin as dl
    >>> seen = dl.Distribution([0.5, 0.5, 0.2], ["cat", "dog", "cow"], exclusive=False)
    >>> dl.forall(seen, lambda animal: animal != "cow").row(0)
    [(True, 0.8), (False, 0.2)]
    """
    return distribution_of(all_hold(operand("forall", distribution), predicate, by, cache))


# fmt: off
@overload
def count(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: None = None, cache: bool = True) -> Distribution[int]: ...  # noqa: E501
@overload
def count(distribution: Distribution[S], predicate: Callable[[S], bool] | None = None, *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, int]]: ...  # noqa: E501
# fmt: on
@eager
def count(
    distribution: Distribution[Any],
    predicate: Callable[[Any], bool] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """How many of the symbols for which `predicate` is true hold: 0, 1, ... up to their number.

    For symbols that don't exclude each other, the tag of n is the ⊕, over all ways in which n of
    them hold, of the ⊗ of their tags and of the others' negations. Arguments and gradients are
    those of `exists`.

    Cost: O(B · n²) for n symbols, in log n steps: a fold over partial counts.

    >>> import dolphin as dl
    >>> coins = dl.Distribution([0.5, 0.5, 0.5], "abc", exclusive=False)
    >>> dl.count(coins).row(0)
    [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)]
    """
    return distribution_of(how_many_hold(operand("count", distribution), predicate, by, cache))


# fmt: off
@overload
def total(distribution: Distribution[Added], value: None = None, *, by: None = None, cache: bool = True) -> Distribution[Added]: ...  # noqa: E501
@overload
def total(distribution: Distribution[Added], value: None = None, *, by: Callable[[Added], K], cache: bool = True) -> Distribution[tuple[K, Added]]: ...  # noqa: E501
@overload
def total(distribution: Distribution[S], value: Callable[[S], Added], *, by: None = None, cache: bool = True) -> Distribution[Added]: ...  # noqa: E501
@overload
def total(distribution: Distribution[S], value: Callable[[S], Added], *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, Added]]: ...  # noqa: E501
# fmt: on
@eager
def total(
    distribution: Distribution[Any],
    value: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """The sum of `value(symbol)` over the symbols that hold; 0 where none does.

    For symbols that don't exclude each other, the tag of a sum is the ⊕, over all sets of symbols
    with this sum, of the ⊗ of their tags and of the others' negations.

    Args:
        distribution: as for `exists`.
        value: a number for each symbol; by default the symbol itself.
        by: as for `exists`.
        cache: whether results of `value` and `by` may be remembered between calls.

    Cost: O(B) per pair of a partial sum of one half of the symbols and one of the other half.
    There are few of them where sums coincide (small integers), and 2ⁿ where they don't.

    >>> import dolphin as dl
    >>> coins = dl.Distribution([0.5, 0.5], [5, 10], exclusive=False)
    >>> dl.total(coins).row(0)
    [(0, 0.25), (10, 0.25), (5, 0.25), (15, 0.25)]
    """
    return distribution_of(sum_of(operand("total", distribution), value, by, cache))


# fmt: off
@overload
def maximum(distribution: Distribution[Ordered], key: None = None, *, by: None = None, cache: bool = True) -> Distribution[Ordered | None]: ...  # noqa: E501
@overload
def maximum(distribution: Distribution[Ordered], key: None = None, *, by: Callable[[Ordered], K], cache: bool = True) -> Distribution[tuple[K, Ordered | None]]: ...  # noqa: E501
@overload
def maximum(distribution: Distribution[S], key: Callable[[S], Comparable], *, by: None = None, cache: bool = True) -> Distribution[S | None]: ...  # noqa: E501
@overload
def maximum(distribution: Distribution[S], key: Callable[[S], Comparable], *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, S | None]]: ...  # noqa: E501
# fmt: on
@eager
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
        distribution: as for `exists`.
        key: what symbols are compared by, as for Python's `max`; by default themselves.
        by: as for `exists`.
        cache: whether results of `key` and `by` may be remembered between calls.

    Cost: O(B · n log n) for n symbols, in log n steps.

    >>> import dolphin as dl
    >>> bids = dl.Distribution([0.5, 0.5, 0.2], [10, 20, 30], exclusive=False)
    >>> dl.maximum(bids).row(0)
    [(30, 0.2), (20, 0.4), (10, 0.2), (None, 0.2)]
    """
    return distribution_of(largest_of(operand("maximum", distribution), key, by, cache))


# fmt: off
@overload
def minimum(distribution: Distribution[Ordered], key: None = None, *, by: None = None, cache: bool = True) -> Distribution[Ordered | None]: ...  # noqa: E501
@overload
def minimum(distribution: Distribution[Ordered], key: None = None, *, by: Callable[[Ordered], K], cache: bool = True) -> Distribution[tuple[K, Ordered | None]]: ...  # noqa: E501
@overload
def minimum(distribution: Distribution[S], key: Callable[[S], Comparable], *, by: None = None, cache: bool = True) -> Distribution[S | None]: ...  # noqa: E501
@overload
def minimum(distribution: Distribution[S], key: Callable[[S], Comparable], *, by: Callable[[S], K], cache: bool = True) -> Distribution[tuple[K, S | None]]: ...  # noqa: E501
# fmt: on
@eager
def minimum(
    distribution: Distribution[Any],
    key: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    cache: bool = True,
) -> Distribution[Any]:
    """The smallest symbol that holds, the first of several that are equal; None if none holds.

    Arguments, gradients and cost are those of `maximum`.

    >>> import dolphin as dl
    >>> bids = dl.Distribution([0.5, 0.5], [10, 20], exclusive=False)
    >>> dl.minimum(bids).row(0)
    [(10, 0.5), (20, 0.25), (None, 0.25)]
    """
    return distribution_of(smallest_of(operand("minimum", distribution), key, by, cache))
