"""Evidence under algebras of numbers: derivatives of the probability of an event.

With h = ∂ log P(event) / ∂ log p(symbol),

    P(symbol | event) = h + p · (1 - Σ h),

the sum over the symbols that exclude each other: the first term is what the event says about them,
the second their prior in the share of the event that doesn't depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import UnsupportedError
from dolphin.execution.batching.pending import made_as, own_row
from dolphin.execution.indices import to_device
from dolphin.execution.selecting import group_numbers
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance
from dolphin.provenance.differentiation import graph_of
from dolphin.provenance.facts import all_alone
from dolphin.provenance.fuzzy import TruthValues
from dolphin.provenance.logarithms import LogTags
from dolphin.provenance.numerics import IMPOSSIBLE, flush, rounding
from dolphin.reading import log_prob_of


def posteriors_by_derivatives(
    operation: str, given: Sequence[Tagged], result: Tagged, wanted: Sequence[Any]
) -> list[tuple[Tensor, Tensor]]:
    """P(symbol | target), (B, width) for each of the given distributions.

    With each, where it is 0 whatever the numbers are, as far as that is known.
    """
    logs, shares = _shares(operation, given, result, wanted)
    return [_combined(d, result.batch, logs, h) for d, h in zip(given, shares, strict=True)]


def likeliest_by_derivatives(
    given: Sequence[Tagged], result: Tagged, wanted: Sequence[Any]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The facts of the one product that `viterbi` found to be the largest."""
    with torch.enable_grad():
        logs, shares = _shares("most_likely", given, result, wanted)
    possible = (logs > flush(logs.dtype)).cpu().numpy()
    holds = []
    for d, shared in zip(given, shares, strict=True):
        rows = of_rows(d, result.batch)
        share = shared.detach().cpu().numpy()
        probs = rows.in_rows(rows.provenance.probs(rows.tags_like())).detach().cpu().numpy()
        whole = np.isclose(share, np.round(share), atol=1e-4) | (share < 0)
        tied = possible & ~whole.all(1)
        if tied.any():
            raise UnsupportedError(
                f"most_likely: row {int(tied.argmax())} has several products that are equally "
                "likely, and viterbi can't tell them apart. Use 'exact' or 'dtkp-am' as the "
                "provenance of the inputs."
            )
        holds.append(_chosen(probs, share, d.exclusive, rounding(logs.dtype)))
    return possible, holds


def _chosen(probs: np.ndarray, share: np.ndarray, exclusive: bool, slack: float) -> np.ndarray:
    """Which symbols hold: those used, none of those negated, otherwise the likelier ones."""
    if not exclusive:
        return (share > 0.5) | ((share >= 0) & (probs > 0.5))
    weights = np.where(share > 0.5, 2.0, np.where(share < 0, -1.0, probs))
    rest = np.where((share > 0.5).any(1), -1.0, 1.0 - probs.sum(1) - slack)
    best = weights.argmax(1)
    holds = np.zeros(probs.shape, dtype=bool)
    holds[np.arange(len(probs)), best] = weights[np.arange(len(probs)), best] >= rest
    return holds


def of_rows(d: Tagged, batch: int) -> Tagged:
    """A distribution of one row, repeated for `batch` rows."""
    return d if d.batch == batch else d.take_rows(np.zeros(batch, dtype=np.int64))


def _shares(
    operation: str, given: Sequence[Tagged], result: Tagged, wanted: Sequence[Any]
) -> tuple[Tensor, list[Tensor]]:
    """log P(target), (B,), and h = ∂ log P / ∂ log p of each symbol of each input, (B, width)."""
    logs = log_prob_of(result, operation, wanted, None)
    for d in given:
        _check_differentiable(operation, d.provenance)
    if result.constant:  # it depends on no input, so it says nothing about any
        return logs, [logs.new_zeros(result.batch, d.width) for d in given]
    variables = [_variable(operation, number, d) for number, d in enumerate(given)]
    if not logs.requires_grad:
        raise _not_recorded(operation, "the result")
    alone = [d.batch == 1 < result.batch for d in given]
    create = torch.is_grad_enabled()
    # Rows that can't be have no shares; at 0 a logarithm would have no second derivatives.
    reached = torch.where(logs > flush(logs.dtype), logs, 0.0)
    with graph_of(operation):
        every = torch.autograd.grad(
            reached.sum(), variables, retain_graph=True, create_graph=create, allow_unused=True
        )
    shares = []
    for number, (d, variable, gradient) in enumerate(zip(given, variables, every, strict=True)):
        if gradient is None:
            shares.append(logs.new_zeros(result.batch, d.width))
        elif alone[number]:  # an input of one row: what each row of the result says about it
            rows = [
                torch.autograd.grad(one, variable, retain_graph=True, create_graph=create)[0]
                for one in reached
            ]
            shares.append(torch.stack([_share(d, variable, g).view(-1) for g in rows]))
        else:
            shares.append(d.in_rows(_share(d, variable, gradient)))
    return logs, shares


def _check_differentiable(operation: str, provenance: Provenance) -> None:
    if not isinstance(provenance, (LogTags, TruthValues)):
        raise UnsupportedError(
            f"{operation}: {provenance!r} has no gradients with respect to probabilities. Use "
            "'exact' or 'dtkp-am' as the provenance of the inputs."
        )


def _variable(operation: str, number: int, d: Tagged) -> Tensor:
    """The tensor that a result's gradients are taken with respect to."""
    tags = made_as(d).tags  # what the result was computed from, also inside `batched`
    if tags is None or not tags.requires_grad:
        raise _not_recorded(operation, f"input {number}")
    return tags


def _not_recorded(operation: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{operation}: no gradients were recorded for {what}, which an algebra whose tags are "
        "numbers needs. Make the inputs from tensors that require gradients "
        "(logits.requires_grad_()) and run the program outside torch.no_grad(), or make "
        "everything, including chance, in a block `with dolphin.using('exact')` (or 'dtkp-am')."
    )


def _share(d: Tagged, variable: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with respect to logarithms."""
    if not isinstance(d.provenance, LogTags):
        gradient = gradient * variable.clamp(0.0, 1.0)  # min-max: what is certain is infinite
    return own_row(d, gradient)


def _combined(d: Tagged, batch: int, logs: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """P(symbol | target) from the target's derivatives; see the module's docstring.

    With it, where there is no such symbol or no such target. That a target excludes a symbol can't
    be read off numbers.
    """
    rows = of_rows(d, batch)
    tags = rows.tags_like()
    probs = rows.in_rows(rows.provenance.probs(tags))
    combined = (share + probs * (1.0 - _of_groups(d, share))).clamp(0.0, 1.0)
    possible = (logs > flush(logs.dtype))[:, None]
    with torch.no_grad():
        never = (rows.in_rows(rows.provenance.log_probs(tags)) <= IMPOSSIBLE) | ~possible
    return torch.where(possible, combined, 0.0), never


def _of_groups(d: Tagged, share: Tensor) -> Tensor:
    """Σ h over the symbols that exclude each other, for each symbol, (B, width or 1)."""
    if d.exclusive:
        return share.sum(1, keepdim=True)
    if isinstance(d.groups, tuple) and all_alone(d.groups, d.width):
        return share
    numbers = group_numbers(d)
    if numbers is None:
        return share
    at = to_device(numbers, share.device).expand(share.shape)
    sums = share.new_zeros(len(share), int(numbers.max(initial=0)) + 1)
    return sums.scatter_add(1, at, share).gather(1, at)
