"""From results back to inputs, on tags; `conditioning` has what users call.

There are two ways to P(symbol | event). Provenances that know their facts (`exact`, `dtkp-*`)
multiply the tags: ⊗ of the symbol and the event accounts for what the two share. Algebras of
numbers use derivatives of the event's probability (`derivatives`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.answers.derivatives import (
    likeliest_by_derivatives,
    of_rows,
    posteriors_by_derivatives,
)
from dolphin.errors import InputError, shorten
from dolphin.execution.indices import Contraction, Index
from dolphin.execution.profiling import profiled
from dolphin.execution.selecting import group_numbers, has_choices, stacked
from dolphin.execution.tagged import Tagged, check, present_only
from dolphin.provenance.contract import Provenance, Tags
from dolphin.provenance.facts import Facts, Groups, each_alone
from dolphin.provenance.max_product import MaxProduct
from dolphin.provenance.numerics import (
    IMPOSSIBLE,
    ZERO,
    flush,
    precisely,
    prob_of_log,
    safe_log,
)
from dolphin.provenance.tensors import TensorProvenance
from dolphin.reading import columns, places_of, read_targets, target_places
from dolphin.symbolic.plans import RowAddress
from dolphin.symbolic.symbols import Symbols


@profiled("condition", tags=True)
def conditioned(d: Tagged, given: Tagged) -> Tagged:
    """See `condition`."""
    _, batch = check("condition", (d, given))
    for symbol in given.domain.members:
        if not isinstance(symbol, bool):
            raise InputError(
                "condition: the event must be a distribution over True and False, such as d == 3 "
                f"or dolphin.exists(d), got one with the symbol {shorten(symbol)}."
            )
    given = of_rows(given, batch)
    ((probs, never),) = _posteriors("condition", [d], given, [True] * batch)
    constant = d.constant and given.constant
    if constant:
        probs = probs.double()
    logs = torch.where(never, ZERO, safe_log(probs))
    return _with_choices(of_rows(d, batch), probs, logs, constant=constant)


@profiled("normalized", tags=True)
def normalised(d: Tagged) -> Tagged:
    """See `normalized`."""
    tags = d.tags_like()
    logs, probs = (d.in_rows(read(tags)) for read in (d.provenance.log_probs, d.provenance.probs))
    if d.constant:
        logs, probs = logs.double(), probs.double()
    whole = logs.logsumexp(1, keepdim=True)
    some = _some_possible(d, logs, whole)
    whole = torch.where(some, whole, 0.0)
    possible = logs > IMPOSSIBLE
    logs = torch.where(possible, logs - whole, ZERO)
    # Plain numbers have gradients at 0, too; where all of them underflow, only logarithms work.
    plain = whole > flush(whole.dtype)
    # A quotient's gradient is a difference of numbers as large as one over the divisor.
    precise = precisely(probs)
    shares = precise / torch.where(plain & some, precise.sum(1, keepdim=True), 1.0)
    shares = shares.to(logs.dtype)
    probs = torch.where(plain, shares, prob_of_log(logs))
    logs = torch.where(plain & possible, safe_log(shares), logs)
    every = (tuple(range(d.width)),)
    return _as_input(d, probs, logs, every, exclusive=True, constant=d.constant)


def _some_possible(d: Tagged, logs: Tensor, whole: Tensor) -> Tensor:
    """In which rows some symbol is possible, (B, 1).

    A fact of exactly 0 has the logarithm of the smallest number that is told apart from it. Below
    that a product may be one of tiny factors or have a factor of 0: the two look alike.
    """
    if d.groups is None:
        return whole > flush(whole.dtype)
    zero = safe_log(logs.new_zeros(()))
    return ((logs > IMPOSSIBLE) & (logs != zero)).any(1, keepdim=True)


@profiled("posterior", tags=True)
def posteriors(given: Sequence[Tagged], result: Tagged, targets: Any) -> list[Tensor]:
    """See `posterior`."""
    result, wanted = _asked("posterior", given, result, targets)
    every = _posteriors("posterior", given, result, wanted)
    return [
        _in_columns(of_rows(d, result.batch), probs)
        for d, (probs, _) in zip(given, every, strict=True)
    ]


@profiled("most_likely", tags=True)
def likeliest_choices(
    given: Sequence[Tagged], result: Tagged, targets: Any
) -> list[tuple[Any, ...] | None]:
    """See `most_likely`."""
    result, wanted = _asked("most_likely", given, result, targets)
    each = [of_rows(d, result.batch) for d in given]
    if isinstance(result.provenance, MaxProduct):
        possible, holds = likeliest_by_derivatives(given, result, wanted)
    else:
        target = _target(result, wanted)
        flat = [_flat(d) for d in each]
        possible, held = result.provenance.likeliest(flat, target)
        holds = [part.reshape(result.batch, -1) for part in held]
    return [
        tuple(_choice(d, row, part[row]) for d, part in zip(each, holds, strict=True))
        if possible[row]
        else None
        for row in range(result.batch)
    ]


def _asked(
    operation: str, given: Sequence[Tagged], result: Tagged, targets: Any
) -> tuple[Tagged, list[Any]]:
    """The result expanded to the batch size, and one target per row."""
    _, batch = check(operation, (*given, result))
    return of_rows(result, batch), read_targets(operation, targets, batch)


# -- posteriors ------------------------------------------------------------------------------------


def _posteriors(
    operation: str, given: Sequence[Tagged], result: Tagged, wanted: Sequence[Any]
) -> list[tuple[Tensor, Tensor]]:
    """P(symbol | target), (B, width) for each of the given distributions.

    With each, where it is 0 whatever the numbers are, as far as that is known.
    """
    if isinstance(result.provenance, TensorProvenance):
        every = posteriors_by_derivatives(operation, given, result, wanted)
    else:
        every = _quotients(given, result, wanted)
    return [
        (_as_precise(probs, d, result), never)
        for (probs, never), d in zip(every, given, strict=True)
    ]


def _as_precise(probs: Tensor, *operands: Tagged) -> Tensor:
    """The same in the precision of the inputs behind the operands, if there are any."""
    dtypes = [d.info().dtype for d in operands if not d.constant]
    return probs.to(functools.reduce(torch.promote_types, dtypes)) if dtypes else probs


def _quotients(
    given: Sequence[Tagged], result: Tagged, wanted: Sequence[Any]
) -> list[tuple[Tensor, Tensor]]:
    """The same by the tags of the symbol and the target together."""
    algebra = result.provenance
    target = _target(result, wanted)
    joints = [_joint(of_rows(d, result.batch), target) for d in given]
    *every, whole = algebra.unrounded_probs([*joints, target])
    whole = whole.view(-1, 1)
    possible = whole > 0.0  # as far as it can be told from zero
    results = []
    for d, joint, numbers in zip(given, joints, every, strict=True):
        probs = numbers.view(result.batch, d.width)
        with torch.no_grad():
            never = (algebra.log_probs(joint).view(probs.shape) <= IMPOSSIBLE) | ~possible
        probs = torch.where(possible, probs / torch.where(possible, whole, 1.0), 0.0)
        results.append((probs, never))
    return results


def _joint(d: Tagged, target: Tags) -> Tags:
    """The tags of each symbol and the target of its row together, flattened."""
    address = RowAddress(d.width)
    every = address.every(d.batch).reshape(-1)
    row = np.repeat(np.arange(d.batch), d.width)
    plan = Contraction([every, row], every, len(every), address=address)
    return d.provenance.contract([_flat(d, target), target], plan)


def _target(result: Tagged, wanted: Sequence[Any]) -> Tags:
    """The tag of each row's target, one symbol per row, flattened."""
    places = target_places(result, wanted)
    flat = _flat(result)
    every = np.arange(result.batch)
    at = RowAddress(result.width).at(every, places)
    return result.provenance.select(flat, Index(np.where(places < 0, -1, at)))


def _flat(d: Tagged, like: Tags | None = None) -> Tags:
    """The tags of all rows, one row after the other."""
    tags = d.tags_like(like)
    return d.provenance.flatten(tags, d.batch) if d.shared else tags


# -- results ---------------------------------------------------------------------------------------


def _with_choices(d: Tagged, probs: Tensor, logs: Tensor, *, constant: bool) -> Tagged:
    """`_as_input`, where symbols that excluded each other still do: all, or those of a group."""
    if not has_choices(d):
        each = (tuple(range(d.width)),) if d.exclusive else each_alone(d.width)
        return _as_input(d, probs, logs, each, exclusive=d.exclusive, constant=constant)
    numbers = group_numbers(d)
    assert numbers is not None
    distinct, which = np.unique(numbers, axis=0, return_inverse=True)
    which = np.broadcast_to(which.reshape(-1), d.batch)
    parts, rows = [], [np.flatnonzero(which == number) for number in range(len(distinct))]
    for own, some in zip(distinct, rows, strict=True):
        groups = tuple(tuple(np.flatnonzero(own == group).tolist()) for group in np.unique(own))
        part, at = d.take_rows(some), torch.from_numpy(some).to(probs.device)
        part = _as_input(part, probs[at], logs[at], groups, exclusive=False, constant=constant)
        part.groups = groups
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    return stacked(parts).take_rows(np.argsort(np.concatenate(rows)))


def _as_input(
    d: Tagged, probs: Tensor, logs: Tensor, groups: Groups, *, exclusive: bool, constant: bool
) -> Tagged:
    """The symbols of `d` with these probabilities, (B, width), as a new input.

    `constant`: it depends on no other one, so that its precision is undecided.
    """
    if not d.width:  # no row has a symbol: there are no facts
        return d
    facts = Facts(
        log_probs=logs.t().contiguous(),
        groups=groups,
        label=_Names(d),
        probs=probs.t().contiguous(),
        sifted=True,
    )
    algebra: Provenance = d.provenance
    tags = algebra.from_facts(facts)
    if not d.shared:
        tags = present_only(algebra.flatten(tags, d.batch), d)
    return Tagged(d.domain, tags, algebra, d.batch, exclusive=exclusive, constant=constant)


class _Names:
    """Names of facts: their symbols."""

    def __init__(self, d: Tagged) -> None:
        self.domain = d.domain

    def __call__(self, column: int, row: int) -> Any:
        domain = self.domain
        if isinstance(domain, Symbols):
            return domain[column]
        return domain.table.symbols[domain.numbers[row, column]]


def _in_columns(d: Tagged, table: Tensor) -> Tensor:
    """(B, width) as (B, N): one column per symbol of all rows."""
    if d.shared:
        return table
    return columns(table, places_of(d, Symbols.of(d.domain.members)), 0.0)


def _choice(d: Tagged, row: int, holds: np.ndarray) -> Any:
    """The symbol of an exclusive input that holds, or all of another input's that do."""
    members = d.domain.members if isinstance(d.domain, Symbols) else d.domain.row(row)
    held = tuple(symbol for symbol, there in zip(members, holds, strict=False) if there)
    if d.exclusive:
        return held[0] if held else None
    return held
