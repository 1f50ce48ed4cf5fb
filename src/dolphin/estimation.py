"""Sampling, for programs that are too large for any algebra: they run as black boxes.

`estimate` draws joint samples of the inputs, runs the program on them, and combines the outcomes
into an expected value with a gradient. With K inputs and probabilities p_i that need not add up
to 1 (their totals are Z_i), the quantity that is estimated is

    L = Σ over x_1 .. x_K of p_1(x_1) · ... · p_K(x_K) · f(x_1, ..., x_K)

or, for outcomes that are symbols, the same with [f(x) = y] instead of f(x) for each outcome y.
Every method writes it as Σ_e c_e · f(x_e) over a list of calls e, with coefficients c_e that carry
gradients.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from dolphin.distribution import Distribution
from dolphin.errors import FunctionError, InputError, SizeError, shorten
from dolphin.execution.eager import eager
from dolphin.execution.indices import to_device
from dolphin.execution.selecting import check_generator
from dolphin.execution.tagged import check_rows, tagged_of
from dolphin.inputs.arguments import option
from dolphin.provenance.numerics import safe_log
from dolphin.settings import current_settings
from dolphin.symbolic.calling import ABSENT, Watch, evaluate
from dolphin.symbolic.plans import caches
from dolphin.symbolic.tables import SymbolTable

Method = Literal["indecater", "reinforce", "ised"]
Outcome = Literal["auto", "number", "symbol"]
R = TypeVar("R")


# fmt: off
@overload
def estimate(function: Callable[..., Any], *distributions: Distribution[Any], samples: int = 16, method: Method = "indecater", outcome: Literal["number"], generator: torch.Generator | None = None, cache: bool = True) -> Tensor: ...  # noqa: E501
@overload
def estimate(function: Callable[..., R], *distributions: Distribution[Any], samples: int = 16, method: Method = "indecater", outcome: Literal["symbol"], generator: torch.Generator | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
@overload
def estimate(function: Callable[..., float], *distributions: Distribution[Any], samples: int = 16, method: Method = "indecater", outcome: Outcome = "auto", generator: torch.Generator | None = None, cache: bool = True) -> Tensor: ...  # noqa: E501  # pyright: ignore[reportOverlappingOverload] (numbers first)
@overload
def estimate(function: Callable[..., R], *distributions: Distribution[Any], samples: int = 16, method: Method = "indecater", outcome: Outcome = "auto", generator: torch.Generator | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
# fmt: on
@eager
def estimate(
    function: Callable[..., Any],
    *distributions: Distribution[Any],
    samples: int = 16,
    method: Method = "indecater",
    outcome: Outcome = "auto",
    generator: torch.Generator | None = None,
    cache: bool = True,
) -> Any:
    """The expected result of a black-box function, from samples, with gradients.

    Every distribution is read as a choice of one of its symbols, with the probabilities that
    `get_probs` gives (for facts that hold independently of each other, pass one distribution over
    True and False for each). The choices are independent of each other.

    Methods, with S samples and inputs of N_1 .. N_K symbols:

    * "indecater": every symbol of one input with S samples of the others. Value and gradient are
      unbiased; the variance is that of the other inputs only, divided by S: for K = 1 it is exact.
      Calls: S · ΣN_i per row at most.
    * "reinforce": the score function with the mean of the other samples as baseline. Value and
      gradient are unbiased; the variance is larger, and grows as probabilities get small. S ≥ 2.
      Calls: S per row.
    * "ised": the distinct samples, weighted with their probabilities and normalised. Biased, but
      exact once every combination has been drawn. Calls: S per row.

    "Unbiased" is meant over draws of the samples, for the result and for any loss that is linear in
    it. A logarithm or a square of the result is biased, less so with more samples.

    Args:
        function: called with one plain symbol of each distribution; pure, called once for each new
            combination.
        distributions: K ≥ 1, in either layout.
        samples: joint samples for each row.
        method: see above.
        outcome: what the function returns. "number": the result is the expected value, (B,).
            "symbol": the result is a distribution over the outcomes that occurred, in per-row
            layout. "auto": numbers if every result is a bool, int or float.
        generator: makes the samples reproducible; on the distributions' device.
        cache: whether results of the function may be remembered between calls.

    >>> import torch, dolphin as dl
    >>> p = torch.tensor([[0.2, 0.8], [0.5, 0.5]], requires_grad=True)
    >>> d = dl.Distribution(p, [1, 3])
    >>> dl.estimate(lambda x: 10 * x, d)
    tensor([26., 20.], grad_fn=<...>)
    >>> dl.estimate(lambda x: "big" if x > 2 else "small", d).row(0)
    [('small', 0.2), ('big', 0.8)]
    """
    _check(function, distributions, samples, method, outcome)
    check_generator("estimate", generator)
    batch = check_rows("estimate", [d.batch_size for d in distributions])
    table = caches.current_table()
    inputs = [_Input.of(d, batch, table) for d in distributions]
    drawn = [_draw(source.probs, samples, generator) for source in inputs]
    calls = {"indecater": _indecater, "reinforce": _reinforce, "ised": _ised}[method](inputs, drawn)
    every = np.concatenate([source.symbols.reshape(-1) for source in inputs])
    watch = Watch.of("estimate", [function], cache, table.changing(every))
    results = evaluate(
        "estimate",
        function,
        None,
        watch and watch.key,
        table,
        [
            source.symbols[calls.row if len(source.symbols) > 1 else 0, place]
            for source, place in zip(inputs, calls.places, strict=True)
        ],
        distinct=False,
        watch=watch,
    )
    seen = np.unique(results)
    values = {number: table.symbols[number] for number in seen.tolist()}
    if outcome == "auto":
        numeric = all(isinstance(value, numbers.Real) for value in values.values())
        outcome = "number" if numeric else "symbol"
    if outcome == "number":
        return _expected(calls, results, seen, values, batch)
    return _outcomes(calls, table.classes(results), table, batch, distributions[0])


@dataclass
class _Input:
    probs: Tensor  # (B, width), with gradient
    symbols: np.ndarray  # (B or 1, width) numbers of the table, ABSENT where there is none

    @classmethod
    def of(cls, d: Distribution, batch: int, table: SymbolTable) -> _Input:
        if len(d) == 0:
            raise InputError("estimate: a distribution has no symbols, so nothing can be drawn.")
        t = tagged_of(d)
        probs = t.in_rows(t.provenance.probs(t.tags_like())).expand(batch, -1)
        return cls(probs, t.domain.in_table(table))


@dataclass
class _Calls:
    """Which combinations the function is called with, and how much each outcome counts."""

    row: np.ndarray  # (E,)
    places: list[np.ndarray]  # for each input the place of its symbol, (E,)
    weights: Tensor  # (E,), the coefficients c


def _draw(probs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """(B, S) places. A row without any probability draws its first symbol, which then counts 0."""
    weights = probs.detach().double()
    empty = weights.sum(1, keepdim=True) <= 0.0
    first = torch.zeros_like(weights)
    first[:, 0] = 1.0
    return torch.multinomial(
        torch.where(empty, first, weights), samples, replacement=True, generator=generator
    )


def _indecater(inputs: Sequence[_Input], drawn: Sequence[Tensor]) -> _Calls:
    """All symbols of one input at a time.

    d L/d p_i(v) = E over the others of f(v, others), so the sum over calls with p_i(v) as
    coefficient has the right gradient; as a value, each of the K sums estimates L, and their mean
    is taken.
    """
    batch, samples = drawn[0].shape
    size = batch * samples * sum(source.probs.shape[1] for source in inputs)
    limit = current_settings().max_combinations
    if size > limit:
        raise SizeError(
            f"estimate: {samples} samples of {batch:,} rows make {size:,} calls, more than the "
            f"limit of {limit:,}. Use fewer samples, method='reinforce', or "
            "dolphin.settings(max_combinations=...)."
        )
    totals = [source.probs.detach().sum(1) for source in inputs]
    base = [place.cpu().numpy() for place in drawn]
    rows, places, weights = [], [[] for _ in inputs], []
    for i, source in enumerate(inputs):
        width = source.probs.shape[1]
        row, sample, place = (grid.reshape(-1) for grid in np.indices((batch, samples, width)))
        present = source.symbols[row if len(source.symbols) > 1 else 0, place] != ABSENT
        row, sample, place = row[present], sample[present], place[present]
        others = torch.ones_like(totals[i])
        for j, total in enumerate(totals):
            if j != i:
                others = others * total
        at = to_device(row * width + place, source.probs.device)
        p = (source.probs * (others / samples)[:, None]).reshape(-1).index_select(0, at)
        weights.append(p.detach() / len(inputs) + (p - p.detach()))
        rows.append(row)
        for j, chosen in enumerate(base):
            places[j].append(place if j == i else chosen[row, sample])
    return _Calls(
        np.concatenate(rows), [np.concatenate(place) for place in places], torch.cat(weights)
    )


def _reinforce(inputs: Sequence[_Input], drawn: Sequence[Tensor]) -> _Calls:
    """L = Z · E f under the normalised probabilities q, and d E f = E (f - baseline) · d log q.

    With the mean of the other S - 1 samples as the baseline of each, the sum over samples is
    Σ f_s · (d log q_s - mean of d log q) / (S - 1), which is linear in f.
    """
    samples = drawn[0].shape[1]
    total, logs = _joint(inputs, drawn)
    score = (logs - logs.mean(1, keepdim=True)) / (samples - 1)
    scale = total.detach()[:, None]
    return _sampled(drawn, total[:, None] / samples + scale * (score - score.detach()))


def _ised(inputs: Sequence[_Input], drawn: Sequence[Tensor]) -> _Calls:
    """Distinct samples, weighted by their probability, normalised."""
    total, logs = _joint(inputs, drawn)
    same = torch.ones(logs.shape[0], logs.shape[1], logs.shape[1], dtype=torch.bool).to(logs.device)
    for place in drawn:
        same &= place[:, :, None] == place[:, None, :]
    again = same.tril(-1).any(2)
    weights = logs.masked_fill(again, -torch.inf).softmax(1)
    return _sampled(drawn, total.clamp(max=1.0)[:, None] * weights)


def _joint(inputs: Sequence[_Input], drawn: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Z, the product of all totals, (B,), and the log of each sample's normalised probability."""
    total = torch.ones_like(inputs[0].probs[:, 0])
    logs = torch.zeros_like(drawn[0], dtype=total.dtype)
    for source, place in zip(inputs, drawn, strict=True):
        z = source.probs.sum(1)
        total = total * z
        logs = logs + safe_log(source.probs.gather(1, place)) - safe_log(z)[:, None]
    return total, logs


def _sampled(drawn: Sequence[Tensor], weights: Tensor) -> _Calls:
    batch, samples = weights.shape
    row = np.repeat(np.arange(batch), samples)
    return _Calls(row, [place.cpu().numpy().reshape(-1) for place in drawn], weights.reshape(-1))


def _expected(
    calls: _Calls, results: np.ndarray, seen: np.ndarray, values: dict[int, Any], batch: int
) -> Tensor:
    try:
        amounts = np.array([float(values[number]) for number in seen.tolist()])
    except (TypeError, ValueError, OverflowError) as error:
        raise FunctionError(
            f"estimate: outcome='number', but the function returned something else: {error}. Pass "
            "outcome='symbol' for a distribution over its results."
        ) from error
    weights = calls.weights
    value = to_device(amounts[np.searchsorted(seen, results)], weights.device).to(weights.dtype)
    row = to_device(calls.row, weights.device)
    return weights.new_zeros(batch).index_add(0, row, weights * value)


def _outcomes(
    calls: _Calls, results: np.ndarray, table: SymbolTable, batch: int, like: Distribution
) -> Distribution:
    """Coefficients of equal outcomes added up, as an input in per-row layout."""
    packed = (calls.row.astype(np.int64) << 32) | results
    distinct, place = np.unique(packed, return_inverse=True)
    device = calls.weights.device
    sums = calls.weights.new_zeros(len(distinct)).index_add(
        0, to_device(place.reshape(-1), device), calls.weights
    )
    sums = sums + (sums.clamp(0.0, 1.0) - sums).detach()
    owner, number = distinct >> 32, distinct & 0xFFFFFFFF
    counts = np.bincount(owner, minlength=batch).tolist()
    members = np.split(number, np.cumsum(counts)[:-1])
    rows = [
        ([table.symbols[n] for n in numbers.tolist()], part)
        for numbers, part in zip(members, sums.split(counts), strict=True)
    ]
    return Distribution.from_rows(rows, provenance=like.provenance)


def _check(
    function: Any, distributions: Sequence[Any], samples: Any, method: Any, outcome: Any
) -> None:
    if isinstance(function, Distribution) or not callable(function):
        raise InputError(
            f"estimate: the first argument must be a function, got {shorten(function)}. Write "
            "estimate(f, d1, ..., dK)."
        )
    if not distributions or not all(isinstance(d, Distribution) for d in distributions):
        raise InputError(
            f"estimate: expected distributions after the function, got {shorten(distributions)}. "
            "Write estimate(f, d1, ..., dK)."
        )
    option("estimate", "method", method, ("indecater", "reinforce", "ised"))
    option("estimate", "outcome", outcome, ("auto", "number", "symbol"))
    least = 2 if method == "reinforce" else 1
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < least:
        raise InputError(
            f"estimate: samples must be an integer of at least {least} for {method!r}, got "
            f"{samples!r}."
        )
