"""Losses over a distribution and one target a row, computed in log space.

Which when? `nll_loss` is the likelihood of the labels: the right choice where every label can be
reached from the start, as in sums of digits, because raising one result then lowers the others.
`bce_loss` also pushes every other result of a row down. Take it where programs prune (`sample`,
top-k proofs) and a row may not reach its label at all: the likelihood has no gradient for such a
row, while its wrong results still teach. On hand-written formulas learning starts faster with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dolphin.distribution import Distribution
from dolphin.errors import InputError, shorten
from dolphin.execution.profiling import profiled
from dolphin.provenance.numerics import floor, reading_is_free
from dolphin.reading import matching, read_targets
from dolphin.symbolic.symbols import Symbols

Match = Callable[[Any, Any], Any]
Reduction = Literal["mean", "sum", "none"]


@profiled(tags=True)
def nll_loss(
    distribution: Distribution,
    targets: Sequence[Any] | Tensor,
    match: Match | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Negative log-likelihood: -log P(target), averaged over rows.

    A row that can't reach its target counts as -log(1e-30), finite, and has no gradient.

    Args:
        targets: one symbol a row.
        match: `match(symbol, target)` says what counts as the target, for example `math.isclose`;
            the tags of all symbols that match are ⊕-ed. By default only equal symbols count.
        reduction: "mean" or "sum" over rows, or "none" for one number a row, (B,).

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.25, 0.75], [0.5, 0.5]], "ab")
    >>> dl.nll_loss(d, ["b", "a"], reduction="none")
    tensor([0.2877, 0.6931])
    """
    _check("nll_loss", distribution, reduction)
    return _reduce(-_reachable(distribution, "nll_loss", targets, match), reduction)


@profiled(tags=True)
def bce_loss(
    distribution: Distribution,
    targets: Sequence[Any] | Tensor,
    match: Match | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Binary cross-entropy over all results of a row: the target up, every other symbol down.

    -log P(target) - Σ over the other symbols s of log(1 - P(s)), averaged over rows. A row that
    can't reach its target has a constant, finite first term, and still learns from the second.

    The arguments are those of `nll_loss`.

    >>> import dolphin as dl
    >>> d = dl.Distribution([[0.25, 0.75], [0.5, 0.5]], "ab")
    >>> dl.bce_loss(d, ["b", "z"], reduction="none")  # -2 log(.75), and 69 - 2 log(.5)
    tensor([ 0.5754, 70.4638])
    """
    _check("bce_loss", distribution, reduction)
    distribution._tags_like()  # all of them are read below
    up = _reachable(distribution, "bce_loss", targets, match)
    if distribution._width() == 0:
        return _reduce(-up, reduction)
    logs = distribution._in_rows(distribution._provenance.log_probs(distribution._tags_like()))
    wrong = _others(distribution, targets, match).to(logs.device)
    down = torch.where(wrong, _log_of_rest(logs), 0.0).sum(1)
    return _reduce(-(up + down), reduction)


def _check(operation: str, distribution: Any, reduction: str) -> None:
    if not isinstance(distribution, Distribution):
        raise InputError(
            f"{operation}: the first argument must be a Distribution, got {shorten(distribution)}."
        )
    if reduction not in ("mean", "sum", "none"):
        raise InputError(
            f"{operation}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}."
        )


def _reachable(d: Distribution, operation: str, targets: Any, match: Match | None) -> Tensor:
    """(B,) log P(target), however small; a finite constant where the target can't be reached."""
    logs = d._log_prob_of(operation, targets, match)
    if reading_is_free(logs) and logs.detach().amin().item() > -1e20:
        return logs
    return torch.where(logs > -1e20, logs, float(np.log(floor(logs.dtype))))


def _others(d: Distribution, targets: Any, match: Match | None) -> Tensor:
    """(B, width), True for symbols that are not the target of their row."""
    targets = read_targets("bce_loss", targets, d._batch)
    others = np.ones((d._batch, d._width()), dtype=bool)
    if match is None:
        places = d._target_places(targets)
        rows = np.flatnonzero(places >= 0)
        others[rows, places[rows]] = False
    else:
        rows, places = matching("bce_loss", d._domain, targets, match)
        others[rows, places] = False
    if not isinstance(d._domain, Symbols):
        others &= d._domain.numbers >= 0
    return torch.from_numpy(others)


def _log_of_rest(logs: Tensor) -> Tensor:
    """log(1 - p) from log p. At p = 1 the rest is raised to a floor, but keeps its gradient.

    A symbol that is wrong and certain is the one to push down: clamping would leave it alone.
    """
    likely = -torch.expm1(logs.clamp(min=-1.0))
    lowest = torch.finfo(logs.dtype).eps
    likely = (likely + (lowest - likely).clamp(min=0.0).detach()).log()
    unlikely = torch.log1p(-logs.clamp(max=-0.5).exp())  # expm1 would lose tiny gradients
    return torch.where(logs > -0.7, likely, unlikely)


def _reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()
