"""Losses over a distribution and one target per row, computed in log space.

Which one to use: `nll_loss` is the likelihood of the labels: the right choice where every label can
be reached from the start, as in sums of digits, because raising one result then lowers the others.
`bce_loss` also pushes every other result of a row down. Use it where programs prune (`sample`,
top-k proofs) and a row may not reach its label at all: the likelihood has no gradient for such a
row, but its wrong results still have one. On hand-written formulas it starts learning faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dolphin.arguments import option
from dolphin.distribution import Distribution
from dolphin.errors import InputError, shorten
from dolphin.execution.eager import eager
from dolphin.execution.profiling import profiled
from dolphin.execution.tagged import Tagged, operand
from dolphin.provenance.differentiation import reading_is_free
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO
from dolphin.reading import (
    LOG_OF_ZERO,
    Match,
    columns,
    log_prob_of,
    matching,
    read_targets,
    target_places,
)
from dolphin.symbolic.symbols import Symbols

Reduction = Literal["mean", "sum", "none"]


Weight = Tensor | Sequence[float] | Mapping[Any, float]


@eager
@profiled("nll_loss", tags=True)
def nll_loss(
    distribution: Distribution[Any],
    targets: Sequence[Any] | Tensor,
    match: Match | None = None,
    *,
    weight: Weight | None = None,
    ignore: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Negative log-likelihood: -log P(target), averaged over rows.

    A row that can't reach its target, because nothing derives it or all that does has a logit of
    -inf, costs 1e4 in every provenance and precision, as with `F.nll_loss(d.log_probs(), ...)`, and
    has no gradient. A target that is derived from a fact given as probability 0 can be reached:
    such a fact counts as the smallest probability that is told apart from 0 (1e-30, in double
    precision 1e-290), and its gradient pushes it up.

    Args:
        targets: one symbol per row.
        match: `match(symbol, target)` says what counts as the target, for example `math.isclose`;
            the tags of all symbols that match are ⊕-ed. By default only equal symbols count.
        weight: how much rows count: B numbers, or a dictionary from targets to numbers (1 for
            targets that it doesn't have). The mean is then a weighted one.
        ignore: rows with this target don't count; None if all do.
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
    targets: Sequence[Any] | Tensor,
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
    if hits is not None and len(np.unique(hits[0])) == len(hits[0]):  # at most one in each row
        places = np.full((d.batch, 1), -1, dtype=np.int64)
        places[hits[0], 0] = hits[1]
        up = _finite(columns(logs, places, ZERO)[:, 0])
    else:
        up = _reachable(d, "bce_loss", rows.targets, match)
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
        if isinstance(ignore, (Tensor, np.ndarray, Distribution)):
            raise InputError(f"{operation}: ignore must be a symbol, got {shorten(ignore)}.")
        if ignore is not None:
            counts = torch.tensor([target != ignore for target in read], dtype=torch.float64)
            weights = counts if weights is None else weights * counts.to(weights.device)
            stand_in = next(iter(d.domain.members), ignore)  # a valid target: no warning
            read = [stand_in if target == ignore else target for target in read]
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


def _weights(operation: str, weight: Weight | None, targets: Sequence[Any]) -> Tensor | None:
    if weight is None:
        return None
    if isinstance(weight, Mapping):
        return torch.tensor([float(weight.get(target, 1.0)) for target in targets])
    try:
        numbers = torch.as_tensor(weight)
    except (TypeError, ValueError, RuntimeError):
        numbers = None
    if numbers is None or numbers.shape != (len(targets),) or numbers.is_complex():
        raise InputError(
            f"{operation}: weight must be {len(targets)} numbers, one per row, or a dictionary "
            f"from targets to numbers, got {shorten(weight)}."
        )
    return numbers if numbers.is_floating_point() else numbers.to(torch.get_default_dtype())


def _reachable(d: Tagged, operation: str, targets: Any, match: Match | None) -> Tensor:
    """(B,) log P(target), however small; a finite constant where the target can't be reached."""
    return _finite(log_prob_of(d, operation, targets, match, warn=True))


def _finite(logs: Tensor) -> Tensor:
    """Logarithms, with a constant in place of that of 0."""
    if reading_is_free(logs) and logs.detach().amin().item() > IMPOSSIBLE:
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
