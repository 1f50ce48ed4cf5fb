"""Folds over many distributions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar, overload

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.batching.pending import Pending
from dolphin.execution.eager import eager
from dolphin.execution.tagged import (
    Function,
    Tagged,
    check,
    check_arity,
    operands,
    tagged_of,
    usage,
)
from dolphin.inputs.arguments import items
from dolphin.operations import apply
from dolphin.provenance.contract import Provenance
from dolphin.provenance.tensors import TensorProvenance
from dolphin.symbolic.chance import Outcome
from dolphin.symbolic.surroundings import surroundings

R = TypeVar("R", bound=Hashable)
S = TypeVar("S")


# fmt: off
@overload
def reduce(function: Callable[[S, S], Outcome[S]], distributions: Iterable[Distribution[S]], *, cache: bool = True) -> Distribution[S]: ...  # noqa: E501
@overload
def reduce(function: Callable[[Any, S], Outcome[R]], distributions: Iterable[Distribution[S]], *, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
# fmt: on
@eager
def reduce(
    function: Callable[[Any, Any], R],
    distributions: Iterable[Distribution[Any]],
    *,
    cache: bool = True,
) -> Distribution[R]:
    """Fold many distributions with an associative function of two symbols; gradients as in `apply`.

    The same result as `apply` from left to right. Where the algebra allows any order (its ⊗
    distributes over ⊕; `damp` and top-k proofs for independent operands whose symbols exclude each
    other), distributions of similar size are combined as a balanced tree, which makes long chains
    much cheaper; pairs with the same symbols are then joined in one operation. Elsewhere they are
    folded in order.

    Args:
        function: an associative, pure function of two symbols.
        distributions: at least one; a single one is returned as it is.
        cache: as for `apply`.

    >>> import dolphin as dl
    >>> coin = dl.Distribution([0.5, 0.5], [0, 1])
    >>> dl.reduce(lambda x, y: x + y, [coin] * 4).row(0)
    [(0, 0.0625), (1, 0.25), (2, 0.375), (3, 0.25), (4, 0.0625)]
    """
    if isinstance(function, (Distribution, str)) or not callable(function):
        raise InputError(
            f"reduce: the first argument must be a function, got {shorten(function)}. Write "
            f"{usage('reduce')}."
        )
    if isinstance(distributions, Distribution) or callable(distributions):
        raise InputError(
            f"reduce: expected a list of distributions after the function, got "
            f"{shorten(distributions)}. Write {usage('reduce')}."
        )
    each = list(items("reduce", "what follows the function", distributions, usage("reduce")))
    if not each:
        raise InputError("reduce: got no distributions.")
    given = operands("reduce", each)
    check_arity("reduce", "function", function, 2, "two symbols at a time")
    provenance, _ = check("reduce", given)

    def step(a: Distribution[Any], b: Distribution[Any]) -> Distribution[Any]:
        return apply(a, b, function, cache=cache)

    free = len(each) > 2 and _folds_freely(provenance, given, all(d.exclusive for d in given))
    active = surroundings().profile
    if active is None:
        return _folded(each, step, free)
    with active.part():  # drawn as one box
        result = _folded(each, step, free)
    active.made("reduce", function, given, result)
    return result


def _folded(each: list[Distribution[Any]], step: Function, free: bool) -> Distribution[Any]:
    """From left to right, or as a balanced tree where the order is free."""
    while free and len(each) > 2:
        each = _halved(each, step)
    return functools.reduce(step, each)


def _folds_freely(provenance: Provenance, given: Sequence[Tagged], exclusive: bool) -> bool:
    if any(isinstance(d, Pending) for d in given):  # only algebras of numbers needn't read tags
        plain = isinstance(provenance, TensorProvenance)
        return plain and provenance.folds_freely([None] * len(given), exclusive)
    return provenance.folds_freely([d.tags for d in given], exclusive)


def _halved(each: Sequence[Distribution[Any]], step: Function) -> list[Distribution[Any]]:
    """Neighbours joined two by two; where they have the same symbols, many pairs in one step."""
    results: list[Distribution[Any]] = []
    at = 0
    while at + 1 < len(each):
        alike = itertools.takewhile(functools.partial(_alike, each[at]), each[at:])
        pairs = max(1, sum(1 for _ in alike) // 2)
        some = each[at : at + 2 * pairs]
        results += [step(*some)] if pairs == 1 else _joined(some[::2], some[1::2], step)
        at += 2 * pairs
    return [*results, *each[at:]]


def _joined(
    lefts: Sequence[Distribution[Any]], rights: Sequence[Distribution[Any]], step: Function
) -> list[Distribution[Any]]:
    """step(left, right) of each pair: as more rows of one batch, which costs little more."""
    both = tagged_of(step(Distribution.stack(lefts), Distribution.stack(rights)))
    parts = both.tags_like().unflatten(1, (len(lefts), -1)).unbind(1)
    batch = lefts[0].batch_size
    return [distribution_of(both.replaced(both.domain, tags, batch)) for tags in parts]


def _alike(one: Distribution[Any], other: Distribution[Any]) -> bool:
    """Whether the rows of both can form one batch."""
    a, b = tagged_of(one), tagged_of(other)
    if isinstance(a, Pending) or isinstance(b, Pending):
        return False  # they run together with those of other samples
    return (
        a.domain is b.domain
        and a.batch == b.batch
        and a.provenance == b.provenance
        and isinstance(a.provenance, TensorProvenance)
        and a.shared
        and not a.constant
        and not b.constant
        and a.exclusive == b.exclusive
    )
