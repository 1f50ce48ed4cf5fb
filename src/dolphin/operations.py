"""The operations of a program: from distributions to a distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from dolphin.arguments import Function, operand, operands, split
from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.eager import eager
from dolphin.execution.indices import Index
from dolphin.execution.profiling import profiled
from dolphin.execution.run import combine, unite
from dolphin.execution.tagged import Tagged, agreed, check, like_of, present_only
from dolphin.reading import places_of, read
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import RowSymbols, Task, caches
from dolphin.symbolic.symbols import Symbols

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")
S = TypeVar("S")
Mask = Tensor | np.ndarray | Sequence[bool]


# fmt: off
@overload
def apply(d1: Distribution[A], f: Callable[[A], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], f: Callable[[A, B], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], f: Callable[[A, B, C], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], f: Callable[[A, B, C, D], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply(d1: Distribution[Any], d2: Distribution[Any], d3: Distribution[Any], d4: Distribution[Any], d5: Distribution[Any], more: Distribution[Any] | Callable[..., R], /, *rest: Distribution[Any] | Callable[..., R], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
# fmt: on
@eager
def apply(*arguments: Any, where: Any = None, cache: bool = True) -> Distribution[Any]:
    """`apply(d1, ..., dK, f)`: f of every combination of one symbol from each operand.

    result(y) = ⊕ { d1(x1) ⊗ ... ⊗ dK(xK) : f(x1, ..., xK) = y }. Symbols of the result are in
    order of first appearance, the first operand slowest.

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
    given, (function,) = split("apply", arguments, 1)
    return distribution_of(combine(Task("apply", function, cache=cache), given, where))


Keys = tuple[Callable[[A], Any], Callable[[B], Any]]


# fmt: off
@overload
def apply_if(d1: Distribution[A], f: Callable[[A], R], cond: Callable[[A], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], f: Callable[[A, B], R], /, *, on: Keys[A, B], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], f: Callable[[A, B], R], cond: Callable[[A, B], bool], /, *, on: Keys[A, B] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], f: Callable[[A, B, C], R], cond: Callable[[A, B, C], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[A], d2: Distribution[B], d3: Distribution[C], d4: Distribution[D], f: Callable[[A, B, C, D], R], cond: Callable[[A, B, C, D], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def apply_if(d1: Distribution[Any], d2: Distribution[Any], d3: Distribution[Any], d4: Distribution[Any], d5: Distribution[Any], more: Distribution[Any] | Callable[..., Any], last: Distribution[Any] | Callable[..., Any], /, *rest: Distribution[Any] | Callable[..., Any], where: Mask | None = None, cache: bool = True) -> Distribution[Any]: ...  # noqa: E501
# fmt: on
@eager
def apply_if(
    *arguments: Any,
    on: tuple[Function, Function] | None = None,
    where: Any = None,
    cache: bool = True,
) -> Distribution[Any]:
    """`apply_if(d1, ..., dK, f, cond)`: like `apply`, where `cond(x1, ..., xK)` is true.

    `apply_if(d1, d2, f, on=(key1, key2))` stands for the condition `key1(x1) == key2(x2)`. The
    operands are joined by key: neither f nor the keys are called for pairs that don't match. It
    may be combined with a further condition.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.5, 0.5], [1, 2])
    >>> dl.apply_if(d, d, lambda x, y: (x, y), lambda x, y: x < y).row(0)
    [((1, 2), 0.25)]
    >>> dl.apply_if(d, d, lambda x, y: (x, y), on=(lambda x: x, lambda y: 3 - y)).symbols
    ((1, 2), (2, 1))
    """
    functions = [a for a in arguments if not isinstance(a, Distribution)]
    wanted = 1 if on is not None and len(functions) == 1 else 2
    given, functions = split("apply_if", arguments, wanted)
    condition = functions[1] if len(functions) == 2 else None
    if on is not None:
        if not isinstance(on, (tuple, list)) or len(on) != 2 or not all(map(callable, on)):
            got = f"{len(on)} of them" if isinstance(on, (tuple, list)) else shorten(on)
            raise InputError(
                f"apply_if: on= takes 2 key functions (key1, key2), one per operand, got {got}."
            )
        if len(given) != 2:
            raise InputError(
                f"apply_if: on= joins two distributions, got {len(given)}; use a condition, or "
                "join them one after the other."
            )
        on = (on[0], on[1])
    return distribution_of(
        combine(Task("apply_if", functions[0], condition, on, cache), given, where)
    )


@eager
def filter(
    distribution: Distribution[S], predicate: Callable[[S], bool], *, cache: bool = True
) -> Distribution[S]:
    """The symbols for which `predicate` is true, with their tags unchanged.

    >>> import dolphin as dl
    >>> dl.filter(dl.Distribution([0.2, 0.3, 0.5], [1, 2, 3]), lambda x: x != 2).row(0)
    [(1, 0.2), (3, 0.5)]
    """
    given, (function,) = split("filter", (distribution, predicate), 1)
    return distribution_of(combine(Task("filter", _itself, function, cache=cache), given, None))


def _itself(symbol: Any) -> Any:
    return symbol


@eager
@profiled()
def union(*distributions: Distribution[S]) -> Distribution[S]:
    """All symbols of all operands; the tags of common symbols are ⊕-ed.

    >>> import dolphin as dl
    >>> a, b = dl.Distribution([0.01, 0.24], [0, 1]), dl.Distribution([0.63, 0.37], [0, 4])
    >>> dl.union(a, b).row(0)
    [(0, 0.64), (1, 0.24), (4, 0.37)]
    """
    if len(distributions) == 1 and not isinstance(distributions[0], Distribution):
        raise InputError(
            f"union: expected distributions, got {shorten(distributions[0])}. For a list write "
            "union(*distributions)."
        )
    return distribution_of(unite(operands("union", distributions)))


@eager
@profiled(tags=True)
def negate(distribution: Distribution[S], among: Iterable[Any] | None = None) -> Distribution[Any]:
    """The same symbols with negated tags: how likely each of them does *not* hold.

    Args:
        among: a closed world: all symbols there are. What is absent from a row is certainly not
            so, and symbols that are not among them are left out.

    To negate symbols instead (True becomes False), write `~d`.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], "ab")
    >>> dl.negate(d).row(0)
    [('a', 0.8), ('b', 0.2)]
    >>> dl.negate(d, among="bc").row(0)
    [('b', 0.2), ('c', 1.0)]
    """
    d = operand("negate", distribution)
    if among is not None:
        d = _among(d, Symbols.of(among))
    tags = present_only(d.provenance.negate(d.tags_like()), d)
    return distribution_of(Tagged(d.domain, tags, d.provenance, d.batch, constant=d.constant))


def _among(d: Tagged, wanted: Symbols) -> Tagged:
    """These symbols in every row, **0** where a row lacks one."""
    places = places_of(d, wanted)
    if d.shared:
        tags = d.provenance.select(d.tags_like(), Index(places[0]))
        return d.replaced(wanted, tags)
    flat, address = d.flat_tags()
    every = np.arange(d.batch)[:, None]
    index = np.where(places < 0, -1, address.at(every, places))
    table = caches.current_table()
    numbers = np.broadcast_to(wanted.numbers(table), index.shape)
    tags = d.provenance.select(flat, Index(index.reshape(-1)))
    return d.replaced(RowSymbols(table, numbers), tags)


@eager
@profiled(tags=True)
def sample(
    distribution: Distribution[S],
    k: int,
    method: Literal["top", "categorical"] = "top",
    generator: torch.Generator | None = None,
) -> Distribution[S]:
    """At most k symbols of each row, each row its own, with their tags unchanged.

    Args:
        k: how many symbols a row keeps.
        method: "top" keeps the likeliest; "categorical" draws without replacement, with
            probabilities proportional to the symbols' own.
        generator: makes "categorical" reproducible; on the distribution's device.

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], "abc")
    >>> kept = dl.sample(d, 2)
    >>> kept.row(0), kept.row(1)
    ([('b', 0.2), ('c', 0.7)], [('a', 0.6), ('b', 0.3)])
    """
    d = operand("sample", distribution)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise InputError(f"sample: k must be a positive integer, got {k!r}.")
    if method not in ("top", "categorical"):
        raise InputError(f"sample: method must be 'top' or 'categorical', got {method!r}.")
    if d.width <= k:
        return distribution
    ranking = d.in_rows(d.provenance.ranking(d.tags_like()))
    impossible = ranking < -1e20
    if isinstance(d.domain, RowSymbols):
        impossible |= torch.from_numpy(d.domain.numbers == ABSENT).to(ranking.device)
    if method == "categorical":  # the largest of log p + Gumbel noise are such a draw
        noise = torch.rand(
            ranking.shape, generator=generator, device=ranking.device, dtype=torch.float64
        )
        ranking = ranking - (-noise.clamp(min=1e-300).log()).log()
    kept = ranking.masked_fill(impossible, -torch.inf).topk(k, dim=1).indices
    kept = torch.where(impossible.gather(1, kept), d.width, kept).sort(dim=1).values
    places = kept.cpu().numpy()
    return distribution_of(_keep(d, np.where(places == d.width, ABSENT, places)))


def _keep(d: Tagged, places: np.ndarray) -> Tagged:
    """The symbols at these places of each row (B, k), `ABSENT` behind the last one."""
    table = caches.current_table()
    every = np.arange(d.batch)[:, None]
    own = np.broadcast_to(d.domain.in_table(table), (d.batch, d.width))
    numbers = np.where(places == ABSENT, ABSENT, own[every, places])
    flat, address = d.flat_tags()
    index = Index(np.where(places == ABSENT, -1, address.at(every, places)).reshape(-1))
    return d.replaced(RowSymbols(table, numbers), d.provenance.select(flat, index))


@eager
@profiled(tags=True)
def get_probs(distribution: Distribution[Any], symbols: Iterable[Any] | None = None) -> Tensor:
    """Probabilities (B, N), one column per symbol of `d.symbols`, or of the list given.

    The paper's name for `d.probs(...)`. A symbol that a row doesn't have has probability 0.

    >>> import dolphin as dl
    >>> dl.get_probs(dl.Distribution([0.25, 0.75], "ab"), symbols=["b", "z"])
    tensor([[0.7500, 0.0000]])
    """
    return read(operand("get_probs", distribution), "get_probs", symbols, logs=False)


@eager
@profiled(tags=True)
def get_logits(distribution: Distribution[Any], symbols: Iterable[Any] | None = None) -> Tensor:
    """*Log-probabilities* (B, N), despite the name, which is the paper's; see `d.log_probs(...)`.

    >>> import dolphin as dl
    >>> dl.get_logits(dl.Distribution([0.25, 0.75], "ab"))
    tensor([[-1.3863, -0.2877]])
    """
    return read(operand("get_logits", distribution), "get_logits", symbols, logs=True)


@eager
def get_tags(distribution: Distribution[Any], symbols: Iterable[Any] | None = None) -> Any:
    """The tags themselves, as the provenance stores them: for algebras of one's own.

    For n symbols in r rows a `TensorProvenance` has a tensor of shape (n, r, *tag_shape), with
    r = 1 if all rows have the same tags; here with one entry per symbol of `d.symbols`, or of the
    list given, and **0** for a symbol that isn't there. Where rows have symbols of their own, n is
    B times as many, row after row, and r is 1.

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.25, 0.75]], "ab", provenance="min-max")
    >>> dl.get_tags(d, ["b", "z"])
    tensor([[0.7500],
            [0.0000]])
    """
    d = operand("get_tags", distribution)
    wanted = d.domain.members if symbols is None else symbols
    chosen = _among(d, Symbols.of(wanted))
    return d.provenance.moved(chosen.tags_like(), lambda numbers: numbers.clone())


@eager
def stack(distributions: Sequence[Distribution[S]]) -> Distribution[S]:
    """See `Distribution.stack`."""
    given = operands("stack", distributions)
    provenance, _ = check("stack", given, rows=False)
    given = agreed(given)
    batches = [d.batch for d in given]
    total, like, first = sum(batches), like_of(given), given[0].domain
    exclusive, constant = all(d.exclusive for d in given), all(d.constant for d in given)

    def stacked(domain: Symbols | RowSymbols, tags: Any) -> Distribution[S]:
        return distribution_of(
            Tagged(domain, tags, provenance, total, exclusive=exclusive, constant=constant)
        )

    if all(d.domain is first for d in given) and isinstance(first, Symbols):
        if like is None:
            return stacked(first, None)
        parts = [d.tags_like(like) for d in given]
        return stacked(first, provenance.stack(parts, batches, flat=False))
    table = caches.current_table()
    width = max(1, *(d.width for d in given))
    numbers = np.full((total, width), ABSENT, dtype=np.int64)
    parts, start = [], 0
    for d in given:
        own = np.broadcast_to(d.domain.in_table(table), (d.batch, d.width))
        numbers[start : start + d.batch, : d.width] = own
        start += d.batch
        if like is None:
            continue
        flat, address = d.flat_tags(like)
        at = np.full((d.batch, width), -1, dtype=np.int64)
        at[:, : d.width] = address.at(np.arange(d.batch)[:, None], np.arange(d.width))
        parts.append(provenance.select(flat, Index(at.reshape(-1))))
    domain = RowSymbols(table, numbers)
    if like is None:
        return stacked(domain, None)
    return stacked(domain, provenance.stack(parts, batches, flat=True))
