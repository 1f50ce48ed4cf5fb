"""Branches of whole distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, listing, shorten
from dolphin.execution.eager import eager
from dolphin.execution.selecting import choose_rows
from dolphin.execution.tagged import Tagged, agreed, check, tagged_of
from dolphin.operations import apply, filter, union
from dolphin.programs.precision import as_precise_as

S = TypeVar("S")
T = TypeVar("T")
Condition = Distribution[bool] | Tensor | np.ndarray | Sequence[bool]


@eager
def where(
    cond: Condition, yes: Distribution[S] | S, no: Distribution[T] | T
) -> Distribution[S | T]:
    """`yes` where `cond` is true, else `no`: a branch of whole distributions.

    result(y) = cond(True) ⊗ yes(y) ⊕ cond(False) ⊗ no(y). A branch that `cond` can't take is not
    combined. Gradients reach `cond` and both branches; with a mask, each row's own branch only.

    Cost: O(B) per symbol of each branch.

    Args:
        cond: a distribution over True and False, or a mask of B booleans, one per row.
        yes: a distribution, or a plain symbol, which is certain.
        no: the same.

    >>> import dolphin as dl
    >>> rain = dl.Distribution([0.2, 0.8], [True, False])
    >>> dl.where(rain, dl.Distribution([0.9, 0.1], ["bus", "bike"]), "bike").row(0)
    [('bus', 0.18), ('bike', 0.82)]
    >>> dl.where([True, False], rain, "dry").row(1)
    [('dry', 1.0)]
    """
    first, second = (_distribution(branch) for branch in (yes, no))
    if not isinstance(cond, Distribution):
        return _by_rows(cond, first, second)
    strange = [symbol for symbol in cond.symbols if not isinstance(symbol, bool)]
    if strange:
        raise InputError(
            f"where: cond must be a distribution over True and False, got the symbols "
            f"{listing(strange)}. Write a comparison, e.g. where(d == {shorten(strange[0], 20)}, "
            "yes, no)."
        )
    given = [tagged_of(each) for each in (cond, first, second)]
    _, batch = check("where", given)
    parts = [
        apply(filter(cond, holds), branch, branch_taken)
        for symbol, holds, branch in ((True, _is_true, first), (False, _is_false, second))
        if symbol in cond.symbols
    ]
    if not parts:
        parts = [apply(cond, first, branch_taken)]
    if len(parts) == 1:  # the other branch is not taken, but it may be more precise, or have rows
        d = as_precise_as(tagged_of(parts[0]), given)
        return distribution_of(d if d.batch == batch else _spread(d, batch))
    d = tagged_of(union(*parts))
    exclusive = all(each.exclusive for each in given)
    return distribution_of(
        Tagged(d.domain, d.made, d.provenance, d.batch, exclusive=exclusive, constant=d.constant)
    )


def _distribution(branch: Any) -> Distribution[Any]:
    return branch if isinstance(branch, Distribution) else Distribution.certain(branch)


def _is_true(symbol: bool) -> bool:
    return symbol


def _is_false(symbol: bool) -> bool:
    return not symbol


def branch_taken(condition: bool, symbol: Any) -> Any:
    """The symbol of a branch; drawings and derivations show this name."""
    return symbol


def _by_rows(cond: Any, yes: Distribution[Any], no: Distribution[Any]) -> Distribution[Any]:
    try:
        mask = torch.as_tensor(cond)
    except (TypeError, ValueError, RuntimeError):
        mask = torch.empty(0)
    if mask.dtype != torch.bool or mask.dim() != 1 or not len(mask):
        raise InputError(
            "where: cond must be a distribution over True and False, or a mask of booleans, one "
            f"per row, got {shorten(cond)}. Write where(cond, yes, no)."
        )
    batch = len(mask)
    operands = [tagged_of(yes), tagged_of(no)]
    check("where", operands)
    for d in operands:
        if d.batch not in (1, batch):
            raise InputError(
                f"where: a mask of {batch} rows doesn't fit a distribution of {d.batch} rows."
            )
    spread = [d if d.batch == batch else _spread(d, batch) for d in agreed(operands)]
    return distribution_of(choose_rows(mask, *spread))


def _spread(d: Tagged, batch: int) -> Tagged:
    """One row, repeated `batch` times."""
    return d.take_rows(np.zeros(batch, dtype=np.int64))
