"""The operations of a program: from distributions to a distribution."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dolphin.distribution import Distribution
from dolphin.errors import FixpointError, InputError, listing, shorten
from dolphin.execution.indices import Index
from dolphin.execution.profiling import active_profile, profiled
from dolphin.execution.run import Function, check, combine, run, split
from dolphin.provenance.contract import TensorProvenance
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import (
    Rows,
    RowSymbols,
    Task,
    caches,
    union_plan,
)
from dolphin.symbolic.symbols import Symbols, SymbolTable


def apply(*arguments: Any, where: Any = None, cache: bool = True) -> Distribution:
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
    operands, (function,) = split("apply", arguments, 1)
    return combine(Task("apply", function, cache=cache), operands, where)


def apply_if(
    *arguments: Any,
    on: tuple[Function, Function] | None = None,
    where: Any = None,
    cache: bool = True,
) -> Distribution:
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
    given = [a for a in arguments if not isinstance(a, Distribution)]
    wanted = 1 if on is not None and len(given) == 1 else 2
    operands, functions = split("apply_if", arguments, wanted)
    condition = functions[1] if len(functions) == 2 else None
    if on is not None:
        if not isinstance(on, (tuple, list)) or len(on) != 2 or not all(map(callable, on)):
            got = f"{len(on)} of them" if isinstance(on, (tuple, list)) else shorten(on)
            raise InputError(
                f"apply_if: on= takes 2 key functions (key1, key2), one per operand, got {got}."
            )
        if len(operands) != 2:
            raise InputError(
                f"apply_if: on= joins two distributions, got {len(operands)}; use a condition, or "
                "join them one after the other."
            )
        on = (on[0], on[1])
    return combine(Task("apply_if", functions[0], condition, on, cache), operands, where)


def filter(
    distribution: Distribution, predicate: Callable[[Any], Any], *, cache: bool = True
) -> Distribution:
    """The symbols for which `predicate` is true, with their tags unchanged.

    >>> import dolphin as dl
    >>> dl.filter(dl.Distribution([0.2, 0.3, 0.5], [1, 2, 3]), lambda x: x != 2).row(0)
    [(1, 0.2), (3, 0.5)]
    """
    operands, (function,) = split("filter", (distribution, predicate), 1)
    return combine(Task("filter", _itself, function, cache=cache), operands, None)


def _itself(symbol: Any) -> Any:
    return symbol


@profiled()
def union(*distributions: Distribution) -> Distribution:
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
    operands, _ = split("union", distributions, 0)
    provenance, batch = check("union", operands)
    like = next((d._tags for d in operands if d._tags is not None), None)
    shared = all(d._shared() for d in operands)
    flat = [(d._tags_like(like), 1) if shared else d._flat_tags(like) for d in operands]
    rows = Rows(batch, [count for _, count in flat])
    plan = union_plan("union", [d._domain for d in operands], rows)
    tags = [tags for tags, _ in flat]
    active = active_profile()
    if active is None:
        joined = provenance.concat(tags)
    else:
        with active.tags(0):
            joined = provenance.concat(tags)
    return run(plan, [joined], provenance, batch)


@profiled(tags=True)
def negate(distribution: Distribution) -> Distribution:
    """The same symbols with negated tags: how likely each of them does *not* hold.

    To negate symbols instead (True becomes False), write `~d`.

    >>> import dolphin as dl
    >>> dl.negate(dl.Distribution([0.2, 0.8], "ab")).row(0)
    [('a', 0.8), ('b', 0.2)]
    """
    split("negate", (distribution,), 0)
    d = distribution
    return Distribution._make(
        d._domain, d._provenance.negate(d._tags_like()), d._provenance, d._batch
    )


def fixpoint(
    step: Callable[[Distribution], Distribution], start: Distribution, max_iterations: int = 1000
) -> Distribution:
    """Repeat `d = step(d)` from `start` until nothing changes.

    It ends when a step brings no new symbols and the provenance sees no change in the tags
    (proofs, truth values). Sums of probabilities need not settle on cyclic programs; with `DAMP`
    only the symbols decide.

    >>> import dolphin as dl
    >>> edges = dl.Distribution([0.9, 0.8], [(0, 1), (1, 2)], exclusive=False)
    >>> def grow(paths):
    ...     longer = dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), lambda p, e: p[1] == e[0])
    ...     return dl.union(edges, longer)
    >>> dl.fixpoint(grow, edges).symbols
    ((0, 1), (1, 2), (0, 2))
    """
    split("fixpoint", (start,), 0)
    if not callable(step):
        raise InputError(f"fixpoint: step must be a function, got {shorten(step)}.")
    old = new = start
    for _ in range(max_iterations):
        new = step(old)
        if not isinstance(new, Distribution):
            raise InputError(
                f"fixpoint: step must return a Distribution, it returned {shorten(new)}."
            )
        if _settled(old, new):
            return new
        old = new
    known = set(start.symbols)
    grown = [symbol for symbol in new.symbols if symbol not in known]
    raise FixpointError(
        f"fixpoint: nothing settled within max_iterations={max_iterations} steps; the last step "
        f"had {len(old)} symbols, among the new ones {listing(grown[-3:])}. Make sure that step "
        "can't produce new symbols forever (bound a length, filter), or raise max_iterations."
    )


def reduce(
    function: Function, distributions: Iterable[Distribution], *, cache: bool = True
) -> Distribution:
    """Fold many distributions with an associative function of two symbols, as a balanced tree.

    The same result as `apply` from left to right, but with operands of similar size, which makes
    long chains much cheaper. Pairs with the same symbols are joined in one operation.

    >>> import dolphin as dl
    >>> coin = dl.Distribution([0.5, 0.5], [0, 1])
    >>> dl.reduce(lambda x, y: x + y, [coin] * 4).row(0)
    [(0, 0.0625), (1, 0.25), (2, 0.375), (3, 0.25), (4, 0.0625)]
    """
    operands = list(distributions)
    if not operands:
        raise InputError("reduce: got no distributions.")
    split("reduce", operands, 0)
    step = functools.partial(apply, cache=cache)
    while len(operands) > 2:
        operands = _halved(operands, lambda a, b: step(a, b, function))
    return functools.reduce(lambda a, b: step(a, b, function), operands)


def _halved(operands: Sequence[Distribution], step: Function) -> list[Distribution]:
    """Neighbours joined two by two; where they have the same symbols, many pairs in one step."""
    made: list[Distribution] = []
    at = 0
    while at + 1 < len(operands):
        alike = itertools.takewhile(functools.partial(_alike, operands[at]), operands[at:])
        pairs = max(1, sum(1 for _ in alike) // 2)
        some = operands[at : at + 2 * pairs]
        made += [step(*some)] if pairs == 1 else _joined(some[::2], some[1::2], step)
        at += 2 * pairs
    return [*made, *operands[at:]]


def _joined(
    lefts: Sequence[Distribution], rights: Sequence[Distribution], step: Function
) -> list[Distribution]:
    """step(left, right) of each pair: so many more rows of one batch, which costs little more."""
    both = step(Distribution.stack(lefts), Distribution.stack(rights))
    parts = both._tags.unflatten(1, (len(lefts), -1)).unbind(1)
    return [
        Distribution._make(both._domain, tags, both._provenance, lefts[0]._batch) for tags in parts
    ]


def _alike(a: Distribution, b: Distribution) -> bool:
    """Can the rows of both stand in one batch of a tensor?"""
    return (
        a._domain is b._domain
        and a._batch == b._batch
        and a._provenance == b._provenance
        and isinstance(a._provenance, TensorProvenance)
        and a._shared()
        and not a._certain()
        and not b._certain()
    )


def _settled(old: Distribution, new: Distribution) -> bool:
    if old._batch != new._batch or old._provenance != new._provenance:
        return False
    if old._shared() and new._shared():
        if set(old.symbols) != set(new.symbols):
            return False
        places = new._places(Symbols.of(old.symbols))[0]
        aligned = new._provenance.select(new._tags_like(), Index(places))
        return new._provenance.saturated(old._tags_like(aligned), aligned)
    table = caches.current_table()
    before, after = (_numbers_in_rows(d, table) for d in (old, new))
    places = _places_in_rows(before, after)
    if places is None:
        return False
    tags, rows = new._flat_tags()
    start = np.arange(new._batch)[:, None] * (after.shape[1] if rows > 1 else 0)
    index = Index(np.where(places >= 0, places + start, -1).reshape(-1))
    aligned = new._provenance.select(tags, index)
    known = old._tags_like(aligned)
    known = old._provenance.flatten(known, old._batch) if old._shared() else known
    return new._provenance.saturated(known, aligned)


def _numbers_in_rows(d: Distribution, table: SymbolTable) -> np.ndarray:
    """(B, width), the same number for equal symbols, `ABSENT` where a row has none."""
    numbers = np.broadcast_to(d._domain.in_table(table), (d._batch, d._width()))
    return np.where(numbers == ABSENT, ABSENT, table.classes(np.maximum(numbers, 0)))


def _places_in_rows(before: np.ndarray, after: np.ndarray) -> np.ndarray | None:
    """Where each symbol of `before` stands in the same row of `after`; None if rows differ."""
    if ((before != ABSENT).sum(1) != (after != ABSENT).sum(1)).any():
        return None
    places = np.full(before.shape, -1, dtype=np.int64)
    for column in range(before.shape[1]):
        wanted = before[:, column, None]
        hits = (after == wanted) & (wanted != ABSENT)
        if not (hits.any(1) | (wanted[:, 0] == ABSENT)).all():
            return None
        places[:, column] = np.where(hits.any(1), hits.argmax(1), -1)
    return places


@profiled(tags=True)
def sample(
    distribution: Distribution,
    k: int,
    method: Literal["top", "categorical"] = "top",
    generator: torch.Generator | None = None,
) -> Distribution:
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
    split("sample", (distribution,), 0)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise InputError(f"sample: k must be a positive integer, got {k!r}.")
    if method not in ("top", "categorical"):
        raise InputError(f"sample: method must be 'top' or 'categorical', got {method!r}.")
    d = distribution
    if d._width() <= k:
        return d
    provenance = d._provenance
    ranking = d._in_rows(provenance.ranking(d._tags_like()))
    impossible = ranking < -1e20
    if method == "categorical":  # the largest of log p + Gumbel noise are such a draw
        noise = torch.rand(
            ranking.shape, generator=generator, device=ranking.device, dtype=torch.float64
        )
        ranking = ranking - (-noise.clamp(min=1e-300).log()).log()
    kept = ranking.masked_fill(impossible, -torch.inf).topk(k, dim=1).indices
    kept = torch.where(impossible.gather(1, kept), d._width(), kept).sort(dim=1).values
    places = kept.cpu().numpy()
    places = np.where(places == d._width(), ABSENT, places)
    return _keep(d, places)


def _keep(d: Distribution, places: np.ndarray) -> Distribution:
    """The symbols at these places of each row (B, k), `ABSENT` behind the last one."""
    table = caches.current_table()
    domain = d._domain
    every = np.arange(d._batch)
    if isinstance(domain, Symbols):
        numbers = np.where(places == ABSENT, ABSENT, domain.numbers(table)[places])
    else:
        own = domain.in_table(table)
        numbers = np.where(places == ABSENT, ABSENT, own[every[:, None], places])
        places = np.where(numbers == ABSENT, ABSENT, places)
    flat, rows = d._flat_tags()
    start = every[:, None] * d._width() if rows > 1 else 0
    index = Index(np.where(places == ABSENT, -1, start + places).reshape(-1))
    tags = d._provenance.select(flat, index)
    return Distribution._make(RowSymbols(table, numbers), tags, d._provenance, d._batch)


@profiled(tags=True)
def get_probs(distribution: Distribution, symbols: Iterable[Any] | None = None) -> Tensor:
    """Probabilities (B, N), one column per symbol of `d.symbols`, or of the list given.

    A symbol that a row doesn't have has probability 0.

    >>> import dolphin as dl
    >>> dl.get_probs(dl.Distribution([0.25, 0.75], "ab"), symbols=["b", "z"])
    tensor([[0.7500, 0.0000]])
    """
    split("get_probs", (distribution,), 0)
    return distribution._read("get_probs", symbols, logs=False)


@profiled(tags=True)
def get_logits(distribution: Distribution, symbols: Iterable[Any] | None = None) -> Tensor:
    """Log-probabilities (B, N), for `F.cross_entropy` or `F.nll_loss`; columns as in `get_probs`.

    They are computed in log space, so nothing underflows. Impossible symbols get a large negative
    number rather than -inf, to keep losses finite.

    >>> import dolphin as dl
    >>> dl.get_logits(dl.Distribution([0.25, 0.75], "ab"))
    tensor([[-1.3863, -0.2877]])
    """
    split("get_logits", (distribution,), 0)
    return distribution._read("get_logits", symbols, logs=True)


def stack(distributions: Sequence[Distribution]) -> Distribution:
    """See `Distribution.stack`."""
    operands, _ = split("stack", distributions, 0)
    provenance, _ = check("stack", operands, rows=False)
    batches = [d._batch for d in operands]
    like = next((d._tags for d in operands if d._tags is not None), None)
    first = operands[0]._domain
    if all(d._domain is first for d in operands) and isinstance(first, Symbols):
        tags = None
        if like is not None:
            parts = [d._tags_like(like) for d in operands]
            tags = provenance.stack(parts, batches, flat=False)
        return Distribution._make(first, tags, provenance, sum(batches))
    table = caches.current_table()
    width = max(d._width() for d in operands)
    numbers = np.full((sum(batches), width), ABSENT, dtype=np.int64)
    parts, start = [], 0
    for d in operands:
        own = d._domain.in_table(table)
        spread = np.broadcast_to(own, (d._batch, own.shape[1]))
        numbers[start : start + d._batch, : own.shape[1]] = spread
        flat, rows = d._flat_tags(like)
        at = np.full((d._batch, width), -1, dtype=np.int64)
        at[:, : own.shape[1]] = np.arange(own.shape[1])
        if rows > 1:
            at = np.where(at < 0, -1, at + np.arange(d._batch)[:, None] * own.shape[1])
        parts.append(provenance.select(flat, Index(at.reshape(-1))))
        start += d._batch
    tags = provenance.stack(parts, batches, flat=True)
    return Distribution._make(RowSymbols(table, numbers), tags, provenance, sum(batches))
