"""Statements about a batch of rows as a whole, as losses."""

from __future__ import annotations

import math
from typing import Any, Literal

from torch import Tensor

from dolphin.arguments import option
from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.selecting import row_mask
from dolphin.execution.tagged import operand
from dolphin.inputs.checks import check_values

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
        return _mean(degrees, p)
    return 1.0 - _mean(1.0 - degrees, p)


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


def _mean(values: Tensor, p: float) -> Tensor:
    """The p-mean of numbers in [0, 1]."""
    if math.isinf(p):
        return values.amax()
    if p == 1:
        return values.mean()
    return values.pow(p).mean().clamp(min=_LEAST).pow(1.0 / p)
