"""Losses over a distribution and one target per row, computed in log space.

`nll_loss` is the negative log-likelihood of the labels. It is the right choice where every label
can be reached from the start, as in sums of digits, because raising one result then lowers the
others. `bce_loss` also pushes every other result of a row down. Use it where programs prune
(`sample`, top-k proofs) and a row may not reach its label at all: the likelihood has no gradient
for such a row, but its wrong results still have one. On hand-written formulas it starts learning
faster. `satisfaction` is for statements without a target: how true they are in a batch of rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.eager import eager
from dolphin.execution.profiling import profiled
from dolphin.execution.selecting import row_mask
from dolphin.execution.tagged import Tagged, operand
from dolphin.inputs.arguments import option
from dolphin.inputs.checks import check_values, with_tensors
from dolphin.provenance.differentiation import array_of, reading_is_free
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, log_of_others, log_of_rest
from dolphin.reading import (
    LOG_OF_ZERO,
    Match,
    Targets,
    columns,
    log_prob_of,
    log_prob_of_any,
    matching,
    read_targets,
    target_places,
)
from dolphin.symbolic.kinds import canonical
from dolphin.symbolic.symbols import Symbols

Reduction = Literal["mean", "sum", "none"]


Weight = Tensor | np.ndarray | Sequence[float] | Mapping[Any, float]


@eager
@profiled("nll_loss", tags=True)
def nll_loss(
    distribution: Distribution[Any],
    targets: Targets,
    match: Match | None = None,
    *,
    weight: Weight | None = None,
    ignore: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Negative log-likelihood: -log P(target), averaged over rows.

    A row that can't reach its target, because nothing derives it or everything that does has a
    logit of -inf, costs 1e4 in every provenance and precision, as with
    `F.nll_loss(d.log_probs(), ...)`, and has no gradient. A target that is derived from a fact
    given as probability 0 can be reached: such a fact counts as the smallest probability that is
    told apart from 0 (1e-30, in double precision 1e-290), and its gradient pushes it up.

    Args:
        distribution: the result of a program.
        targets: one symbol per row.
        match: `match(symbol, target)` says what counts as the target, for example `math.isclose`;
            the tags of all symbols that match are ⊕-ed. By default only equal symbols count.
        weight: how much rows count: B numbers, or a dictionary from targets to numbers (1 for
            targets that it doesn't have). The mean is then a weighted one.
        ignore: rows with this target don't count; by default (None) all rows do.
        reduction: "mean" or "sum" over rows, or "none" for one number per row, (B,).

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.25, 0.75], [0.5, 0.5]], "ab")
    >>> dl.nll_loss(d, ["b", "a"], reduction="none")
    tensor([0.2877, 0.6931])
    >>> dl.nll_loss(d, ["b", "?"], ignore="?")
    tensor(0.2877)
    """
    d = operand("nll_loss", distribution)
    rows = _Rows.of("nll_loss", d, targets, weight, ignore, reduction)
    return rows.reduced(-_reachable(d, "nll_loss", rows.targets, match))


@eager
@profiled("bce_loss", tags=True)
def bce_loss(
    distribution: Distribution[Any],
    targets: Targets,
    match: Match | None = None,
    *,
    weight: Weight | None = None,
    ignore: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Binary cross-entropy over all results of a row: the target up, every other symbol down.

    -log P(target) - Σ over the other symbols s of log(1 - P(s)), averaged over rows. A row that
    can't reach its target has a constant, finite first term, and still learns from the second.

    The arguments are those of `nll_loss`.

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.25, 0.75], [0.5, 0.5]], "ab")
    >>> dl.bce_loss(d, ["b", "z"], reduction="none")  # -2 log(.75), and 1e4 - 2 log(.5)
    tensor([5.7536e-01, 1.0001e+04])
    """
    d = operand("bce_loss", distribution)
    rows = _Rows.of("bce_loss", d, targets, weight, ignore, reduction)
    tags = d.tags_to_read()  # all of them are read
    hits = None if match is None else matching("bce_loss", d.domain, rows.targets, match)
    if d.width == 0:
        return rows.reduced(-_reachable(d, "bce_loss", rows.targets, match))
    logs, rest = (d.in_rows(numbers) for numbers in d.provenance.logs_and_rest(tags))
    if d.normalised and d.exclusive and d.provenance.numeric:
        rest = log_of_others(logs, 1, functools.partial(log_of_rest, dtype=logs.dtype))
    if hits is not None and len(np.unique(hits[0])) == len(hits[0]):  # at most one in each row
        places = np.full((d.batch, 1), -1, dtype=np.int64)
        places[hits[0], 0] = hits[1]
        up = _finite(columns(logs, places, ZERO)[:, 0])
    elif hits is not None:
        up = _finite(log_prob_of_any(d, hits))
    else:
        up = _reachable(d, "bce_loss", rows.targets, None)
    down = torch.where(_others(d, rows.targets, hits).to(rest.device), rest, 0.0).sum(1)
    return rows.reduced(-(up + down))


@dataclass(frozen=True)
class _Rows:
    """The rows of a loss: their targets, their weights, and how they are reduced."""

    targets: list[Any]
    weight: Tensor | None
    reduction: Reduction

    @classmethod
    def of(
        cls,
        operation: str,
        d: Tagged,
        targets: Any,
        weight: Weight | None,
        ignore: Any,
        reduction: Reduction,
    ) -> _Rows:
        option(operation, "reduction", reduction, ("mean", "sum", "none"))
        read = read_targets(operation, targets, d.batch)
        weights = _weights(operation, weight, read)
        if weights is not None and weights.is_meta and d.info().device.type != "meta":
            raise InputError(f"{operation}: weight is on the meta device, which has no numbers.")
        if isinstance(ignore, (Tensor, np.ndarray, Distribution, list, dict, set)):
            raise InputError(f"{operation}: ignore must be a symbol, got {shorten(ignore)}.")
        if ignore is not None:
            ignored = [_are_one(target, ignore) for target in read]
            counts = 1.0 - torch.tensor(ignored, dtype=torch.float64)
            weights = counts if weights is None else weights * counts.to(weights.device)
            stand_in = next(iter(d.domain.members), ignore)  # a valid target: no warning
            read = [
                stand_in if left_out else target
                for target, left_out in zip(read, ignored, strict=True)
            ]
        return cls(read, weights, reduction)

    def reduced(self, losses: Tensor) -> Tensor:
        if self.weight is None:
            if self.reduction == "none":
                return losses
            return losses.mean() if self.reduction == "mean" else losses.sum()
        weight = self.weight.to(losses.device, losses.dtype)
        # The loss of a row that doesn't count may be infinite: 0 times it would be NaN.
        losses = torch.where(weight == 0.0, 0.0, losses) * weight
        if self.reduction == "none":
            return losses
        total = losses.sum()
        if self.reduction == "sum":
            return total
        return total / weight.sum().clamp(min=torch.finfo(losses.dtype).tiny)


def _are_one(target: Any, other: Any) -> bool:
    """Whether two objects are one symbol, as every nan is."""
    return bool(target == other) or canonical(target) in (canonical(other),)


def _weights(operation: str, weight: Weight | None, targets: Sequence[Any]) -> Tensor | None:
    if weight is None:
        return None
    try:
        if isinstance(weight, Mapping):
            known = {canonical(target): number for target, number in weight.items()}
            of_rows = [known.get(canonical(target), 1.0) for target in targets]
            weight = [own if isinstance(own, Tensor) else float(own) for own in of_rows]
        numbers = torch.as_tensor(with_tensors(weight))
    except (TypeError, ValueError, RuntimeError):
        numbers = None
    if numbers is None or numbers.shape != (len(targets),) or numbers.is_complex():
        raise InputError(
            f"{operation}: weight must be {len(targets)} numbers, one per row, or a dictionary "
            f"from targets to numbers, got {shorten(weight)}."
        )
    if reading_is_free(numbers) and not bool(((numbers >= 0) & (numbers < math.inf)).all()):
        raise InputError(
            f"{operation}: weight must be numbers from 0 upwards, got {shorten(weight)}: a mean "
            "with negative or infinite weights has no meaning."
        )
    return numbers if numbers.is_floating_point() else numbers.to(torch.get_default_dtype())


def _reachable(d: Tagged, operation: str, targets: Any, match: Match | None) -> Tensor:
    """(B,) log P(target), however small; a finite constant where the target can't be reached."""
    return _finite(log_prob_of(d, operation, targets, match, warn=True))


def _finite(logs: Tensor) -> Tensor:
    """Logarithms, with a constant in place of that of 0."""
    if reading_is_free(logs) and array_of(logs).min() > IMPOSSIBLE:
        return logs
    return torch.where(logs > IMPOSSIBLE, logs, LOG_OF_ZERO)


def _others(
    d: Tagged, targets: Sequence[Any], hits: tuple[np.ndarray, np.ndarray] | None
) -> Tensor:
    """(B, width), True for symbols that are not the target of their row.

    `hits`: rows and places of those that are; None if only equal symbols are.
    """
    others = np.ones((d.batch, d.width), dtype=bool)
    if hits is None:
        places = target_places(d, targets)
        rows = np.flatnonzero(places >= 0)
        others[rows, places[rows]] = False
    else:
        others[hits] = False
    if not isinstance(d.domain, Symbols):
        others &= d.domain.numbers >= 0
    return torch.from_numpy(others)


# -- statements about a batch --------------------------------------------------------------------

Over = Literal["all", "some"]
_LEAST = 1e-30  # below, a mean counts as 0: the gradient of its root would be infinite


def satisfaction(
    truth: Distribution[bool] | Tensor,
    over: Over = "all",
    *,
    p: float = 2.0,
    where: Any = None,
) -> Tensor:
    """How true it is that `truth` holds in all rows of a batch, or in some row: one number.

    With u the probability of True in each of n rows:

        "all":   1 - (Σ (1 - u)^p / n)^(1/p)     the p-mean of the errors
        "some":  (Σ u^p / n)^(1/p)               the p-mean of the truths

    p = 1 is the mean; the larger p, the more the worst row counts for "all" and the best one for
    "some", up to their minimum and maximum for p = inf. `1 - satisfaction(...)` is a loss. These
    are the quantifiers of Logic Tensor Networks and LYRICS over samples; those over the symbols of
    one row are `exists`, `forall`, `count`.

    Gradients reach every row whose u is not yet the best possible; for p = inf, only the row that
    decides.

    Args:
        truth: a distribution over True and False (what is missing counts as not True), or a tensor
            of truths in [0, 1], such as the satisfaction of several statements.
        over: "all" rows or "some" row.
        p: at least 1.
        where: a mask of the rows that the statement is about. For no rows "all" is 1, "some" is 0.

    >>> import torch, dolphin as dl
    >>> even = dl.Distribution(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), [True, False])
    >>> dl.satisfaction(even, p=1)
    tensor(0.7500)
    >>> dl.satisfaction(even, "some", p=float("inf"))
    tensor(0.9000)
    >>> dl.satisfaction(torch.tensor([0.9, 0.6]), where=torch.tensor([True, False]))
    tensor(0.9000)
    """
    option("satisfaction", "over", over, ("all", "some"))
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 1:
        raise InputError(f"satisfaction: p must be a number of at least 1, got {shorten(p)}.")
    degrees = _degrees(truth)
    if where is not None:
        mask = row_mask("satisfaction", where, tuple(degrees.shape))
        degrees = degrees[mask.to(degrees.device)]
    degrees = degrees.reshape(-1)
    if degrees.numel() == 0:
        return degrees.sum() + (over == "all")
    if over == "some":
        return _p_mean(degrees, p)
    return 1.0 - _p_mean(1.0 - degrees, p)


def _degrees(truth: Any) -> Tensor:
    if isinstance(truth, Tensor):
        if not truth.is_floating_point():
            raise InputError(
                f"satisfaction: truths must be floating-point numbers in [0, 1], got {truth.dtype}."
            )
        check_values("satisfaction", truth, "probs")
        return truth
    d = distribution_of(operand("satisfaction", truth))
    odd = [symbol for symbol in d.symbols if symbol is not True and symbol is not False]
    if odd:
        raise InputError(
            "satisfaction: expected a distribution over True and False, it has the symbol "
            f"{shorten(odd[0])}. Say what must hold, e.g. d.map(lambda x: x == target)."
        )
    if not d.symbols:
        return d.prob_of([True] * d.batch_size)
    return d.probs([True])[:, 0]


def _p_mean(values: Tensor, p: float) -> Tensor:
    """The p-mean of numbers in [0, 1]."""
    if math.isinf(p):
        return values.amax()
    if p == 1:
        return values.mean()
    return values.pow(p).mean().clamp(min=_LEAST).pow(1.0 / p)
