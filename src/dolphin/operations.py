"""The operations of a program: from distributions to a distribution."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, SupportsIndex, TypeVar, overload

import torch
from torch import Tensor

from dolphin.distribution import Distribution, distribution_of
from dolphin.execution.batching.operations import negated, sampled
from dolphin.execution.eager import eager
from dolphin.execution.profiling import profiled
from dolphin.execution.run import applied, applied_if, filtered, united
from dolphin.execution.selecting import Mask, among
from dolphin.execution.tagged import Function, operand
from dolphin.inputs.checks import asked_symbols, closed_world
from dolphin.reading import read
from dolphin.symbolic.chance import Outcome

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
R = TypeVar("R", bound=Hashable)
S = TypeVar("S")


# fmt: off
@overload
def apply(d1: Distribution[A], f: Callable[[A], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], f: Callable[[A, B], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], f: Callable[[A, B, C], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], f: Callable[[A, B, C, D], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], d5: Distribution[E], f: Callable[[A, B, C, D, E], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], d5: Distribution[E], d6: Distribution[F], f: Callable[[A, B, C, D, E, F], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(*arguments: *tuple[Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], *tuple[Distribution[Any], ...], Callable[..., Outcome[R]]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
# fmt: on
@eager
def apply(*arguments: Any, where: Any = None, cache: bool = True) -> Distribution[Any]:
    """`apply(d1, ..., dK, f)`: f of every combination of one symbol from each operand.

    result(y) = ⊕ { d1(x1) ⊗ ... ⊗ dK(xK) : f(x1, ..., xK) = y }. Symbols of the result are in
    order of first appearance, the first operand slowest. Gradients are those of ⊗ and ⊕; f is not
    differentiated.

    Args:
        arguments: K ≥ 1 distributions, then a pure function of K symbols.
        where: a mask of B booleans; rows where it is False keep d1 as it is, which makes loops of
            different lengths possible.
        cache: whether results of f may be remembered between calls.

    Cost: f runs once for each new combination of symbols; tags cost O(B) per combination.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.5, 0.5], [1, 2])
    >>> dl.apply(d, d, d, lambda x, y, z: x * y * z).symbols
    (1, 2, 4, 8)
    """
    return distribution_of(applied(arguments, where, cache))


# fmt: off
@overload
def apply_if(d1: Distribution[A], f: Callable[[A], Outcome[R]], cond: Callable[[A], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], f: Callable[[A, B], Outcome[R]], /, *, on: tuple[Callable[[A], Any], Callable[[B], Any]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], f: Callable[[A, B], Outcome[R]], cond: Callable[[A, B], bool], /, *, on: tuple[Callable[[A], Any], Callable[[B], Any]] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], f: Callable[[A, B, C], Outcome[R]], /, *, on: tuple[Callable[[A], Any], Callable[[B], Any], Callable[[C], Any]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], f: Callable[[A, B, C], Outcome[R]], cond: Callable[[A, B, C], bool], /, *, on: tuple[Callable[[A], Any], Callable[[B], Any], Callable[[C], Any]] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], f: Callable[[A, B, C, D], Outcome[R]], cond: Callable[[A, B, C, D], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], d5: Distribution[E], f: Callable[[A, B, C, D, E], Outcome[R]], cond: Callable[[A, B, C, D, E], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], d5: Distribution[E], d6: Distribution[F], f: Callable[[A, B, C, D, E, F], Outcome[R]], cond: Callable[[A, B, C, D, E, F], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(*arguments: *tuple[Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], *tuple[Distribution[Any], ...], Callable[..., Outcome[R]], Callable[..., bool]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
# fmt: on
@eager
def apply_if(
    *arguments: Any,
    on: tuple[Function, ...] | None = None,
    where: Any = None,
    cache: bool = True,
) -> Distribution[Any]:
    """`apply_if(d1, ..., dK, f, cond)`: like `apply`, where `cond(x1, ..., xK)` is true.

    `apply_if(d1, d2, f, on=(key1, key2))` stands for the condition `key1(x1) == key2(x2)`. The
    operands are joined by key: f is not called for pairs that don't match. Three operands take
    three keys, all of which must be equal. `cond` can be given as well.

    Cost: with `on`, that of the matching pairs; otherwise `cond` is called for every combination.
    Symbols that all rows share, such as those of a knowledge base, are sorted by key once; a join
    with per-row symbols then visits only those that match.

    Args:
        arguments: K ≥ 1 distributions, then f, then cond (optional with `on`), both pure functions
            of K symbols.
        on: one key function per operand, for two or three operands.
        where: as for `apply`.
        cache: as for `apply`.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.5, 0.5], [1, 2])
    >>> dl.apply_if(d, d, lambda x, y: (x, y), lambda x, y: x < y).row(0)
    [((1, 2), 0.25)]
    >>> dl.apply_if(d, d, lambda x, y: (x, y), on=(lambda x: x, lambda y: 3 - y)).symbols
    ((1, 2), (2, 1))
    """
    return distribution_of(applied_if(arguments, on, where, cache))


@eager
def filter(
    distribution: Distribution[S], predicate: Callable[[S], bool], *, cache: bool = True
) -> Distribution[S]:
    """The symbols for which `predicate` is true, with their tags unchanged.

    Args:
        distribution: in either layout.
        predicate: a pure function of one symbol, which runs once per new symbol.
        cache: whether its results may be remembered between calls.

    >>> import dolphin as dl
    >>> dl.filter(dl.Distribution([0.2, 0.3, 0.5], [1, 2, 3]), lambda x: x != 2).row(0)
    [(1, 0.2), (3, 0.5)]
    """
    return distribution_of(filtered(distribution, predicate, cache))


@eager
def union(*distributions: Distribution[S]) -> Distribution[S]:
    """All symbols of all operands; the tags of common symbols are ⊕-ed.

    result(y) = d1(y) ⊕ ... ⊕ dK(y). Symbols of the result are in order of first appearance.
    Gradients are those of ⊕. Cost: O(B) per symbol of an operand.

    Args:
        distributions: K ≥ 1 distributions; unpack a list with `union(*ds)`.

    >>> import dolphin as dl
    >>> a, b = dl.Distribution([0.01, 0.24], [0, 1]), dl.Distribution([0.63, 0.37], [0, 4])
    >>> dl.union(a, b).row(0)
    [(0, 0.64), (1, 0.24), (4, 0.37)]
    """
    return distribution_of(united(distributions))


@overload
def negate(distribution: Distribution[S], among: None = None) -> Distribution[S]: ...
@overload
def negate(distribution: Distribution[Any], among: Iterable[R]) -> Distribution[R]: ...
@eager
def negate(distribution: Distribution[Any], among: Iterable[Any] | None = None) -> Any:
    """The same symbols with negated tags: the probability that each of them does *not* hold.

    result(y) = ¬ d(y). A provenance without negation is refused. Gradients are those of its
    negation. To negate symbols instead (True becomes False), write `~d`.

    Args:
        distribution: in either layout.
        among: a closed world: all symbols that exist. One that is absent from a row certainly
            doesn't hold there, and symbols that are not listed are left out.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], "ab")
    >>> dl.negate(d).row(0)
    [('a', 0.8), ('b', 0.2)]
    >>> dl.negate(d, among="bc").row(0)
    [('b', 0.2), ('c', 1.0)]
    """
    world = None if among is None else closed_world("negate", among)
    return distribution_of(negated(operand("negate", distribution), world))


@eager
def sample(
    distribution: Distribution[S],
    k: SupportsIndex,
    method: Literal["top", "categorical"] = "top",
    generator: torch.Generator | None = None,
) -> Distribution[S]:
    """At most k symbols per row, chosen for each row separately, with their tags unchanged.

    Symbols that are not kept get no gradient. The result is in per-row layout, unless no row has
    more than k symbols. Cost: O(B) per symbol; on a device, it waits for their probabilities.

    Args:
        distribution: in either layout.
        k: the number of symbols that a row keeps.
        method: "top" keeps the likeliest; "categorical" draws without replacement, with
            probabilities proportional to the symbols' own.
        generator: makes "categorical" reproducible; on the distribution's device.

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], "abc")
    >>> kept = dl.sample(d, 2)
    >>> kept.row(0), kept.row(1)
    ([('b', 0.2), ('c', 0.7)], [('a', 0.6), ('b', 0.3)])
    """
    return distribution_of(sampled(operand("sample", distribution), k, method, generator))


@eager
@profiled("get_probs", tags=True)
def get_probs(distribution: Distribution[Any], symbols: Iterable[Any] | None = None) -> Tensor:
    """Probabilities (B, N), one column per symbol of `d.symbols`, or of the list given.

    The paper's name for `d.probs(...)`. A symbol that a row doesn't have has probability 0.
    Differentiable.

    Args:
        distribution: in either layout.
        symbols: the columns; by default `d.symbols`.

    >>> import dolphin as dl
    >>> dl.get_probs(dl.Distribution([0.25, 0.75], "ab"), symbols=["b", "z"])
    tensor([[0.7500, 0.0000]])
    """
    return read(operand("get_probs", distribution), "get_probs", symbols, logs=False)


@eager
@profiled("get_logits", tags=True)
def get_logits(distribution: Distribution[Any], symbols: Iterable[Any] | None = None) -> Tensor:
    """*Log-probabilities* (B, N), despite the name, which is the paper's; see `d.log_probs(...)`.

    Args:
        distribution: in either layout.
        symbols: the columns; by default `d.symbols`.

    >>> import dolphin as dl
    >>> dl.get_logits(dl.Distribution([0.25, 0.75], "ab"))
    tensor([[-1.3863, -0.2877]])
    """
    return read(operand("get_logits", distribution), "get_logits", symbols, logs=True)


@eager
def get_tags(distribution: Distribution[Any], symbols: Iterable[Any] | None = None) -> Any:
    """The tags themselves, as the provenance stores them: for custom provenances.

    A `TensorProvenance` stores a tensor of shape (n, r, *tag_shape) for n symbols and r rows, with
    r = 1 if all rows have the same tags. Here n is the number of symbols of `d.symbols`, or of the
    list given; a symbol that is not there has the tag **0**, whatever number that is. In per-row
    layout n is B times as large, row after row, and r is 1.

    Args:
        distribution: in either layout.
        symbols: which tags; by default those of `d.symbols`.

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.25, 0.75]], "ab", provenance="stable-product")
    >>> dl.get_tags(d, ["b", "z"])
    tensor([[0.7500],
            [  -inf]])
    """
    d = operand("get_tags", distribution)
    wanted = d.domain.members if symbols is None else symbols
    chosen = among(d, asked_symbols("get_tags", wanted))
    return d.provenance.moved(chosen.tags_to_read(), lambda numbers: numbers.clone())
