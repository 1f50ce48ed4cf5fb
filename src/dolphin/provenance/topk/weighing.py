"""The probability of proofs, from their bit patterns and the inputs.

The same code serves two purposes: without gradient and in double precision while searching for
proofs, and differentiably, once, for the few that were found.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.differentiation import reading_is_free
from dolphin.provenance.numerics import (
    ZERO,
    at_once,
    clip_above_one,
    log1mexp,
    prob_of_log,
    recomputed,
    safe_log,
)
from dolphin.provenance.topk import together
from dolphin.provenance.topk.encoding import WORD_BITS, Code, Group, Layout, Placement, constant
from dolphin.symbolic.bounded import registered

# Of two proofs with the same probability the one with fewer facts counts as likelier: a proof
# always comes before those that contain it, whatever rounding does.
FACT_PENALTY = 1e-9

# The score of a fact that can't hold. Added to a number as large as `ZERO`, penalties would be lost
# to rounding, and what is absorbed would be arbitrary.
LOWEST = -1e5


@dataclass(frozen=True)
class Weights:
    """What is done to the logarithms of facts, and the penalty per fact."""

    of: Callable[[Tensor], Tensor]
    penalty: float


LEARNING = Weights(lambda logs: logs, 0.0)
# Rounding may carry a probability above 1: a proof must not become likelier by more facts.
SEARCHING = Weights(lambda logs: logs.detach().double().clamp(LOWEST, 0.0), FACT_PENALTY)


def log_weights(
    patterns: Tensor, layout: Layout, row: Tensor | None, *, weights: Weights
) -> Tensor:
    """Logarithm of the probability of each proof: (words, k, n, r) → (k, n, r).

    `row` (n,) says which row of the inputs a symbol belongs to, where rows are flattened.
    """
    total: Tensor | None = None
    all_at_once = layout.signed and not reading_is_free(patterns)
    for members in together.alike(layout) if all_at_once else ():
        logs = weights.of(together.logs_of(members))
        ruled_out = together.at_digits(patterns, [member.digit for member in members])
        normalised = together.normalised_of(members)
        part = together.allowed(logs, normalised, ruled_out, row, weights.penalty).sum(0)
        total = part if total is None else total + part
    for placements in _sets(layout, patterns):
        code = placements[0].code
        if all_at_once and code.single_digits and not code.all_binary:
            continue
        given = [weights.of(placement.facts.log_probs) for placement in placements]
        logs, placement = given[0], placements[0]
        if placement.code.all_binary:
            parts = [_binary(patterns, placement, logs, row, layout.signed, weights.penalty)]
        else:
            weigh = _allowed if layout.signed else _chosen
            if weights.penalty:
                given = [each - weights.penalty for each in given]
            padded = torch.cat([*given, logs.new_zeros(1, logs.shape[1])])
            if _are_together(placements, layout, patterns):
                parts = [_chosen_of_all(patterns, placements, padded, row)]
            else:
                parts = (
                    weigh(patterns, placement, group, padded, row, weights.penalty)
                    for group in placement.code.groups
                    if not (all_at_once and together.is_alike(group))
                )
        for part in parts:
            total = part if total is None else total + part
    if total is None:  # no input at all: the empty proof of certain symbols
        total = torch.zeros(patterns.shape[1:], dtype=torch.float64, device=patterns.device)
        return total.to(torch.get_default_dtype()) if weights is LEARNING else total
    return total


def weights_by_group(
    layout: Layout, weights: Weights, *, several_digits: bool = False
) -> Iterator[tuple[Placement, Group, Callable[[Tensor, Tensor | None], Tensor]]]:
    """The groups of a signed layout, and what each contributes to `log_weights`.

    That is a function of patterns and `row`, for patterns that refer to this group only.
    `several_digits`: only those of exclusive facts that one digit can't tell apart.
    """
    for placement in layout.placements:
        if several_digits and placement.code.single_digits:
            continue
        logs = weights.of(placement.facts.log_probs)
        padded = torch.cat([logs - weights.penalty, logs.new_zeros(1, logs.shape[1])])
        weigh, numbers = (_one_fact, logs) if placement.code.all_binary else (_one_group, padded)
        for group in placement.code.groups:
            if several_digits and together.is_alike(group):
                continue
            yield placement, group, partial(weigh, placement, group, numbers, weights.penalty)


def _one_fact(
    placement: Placement,
    group: Group,
    logs: Tensor,
    penalty: float,
    patterns: Tensor,
    row: Tensor | None,
) -> Tensor:
    (column,), (digit,) = group.columns, map(placement.moved, group.digits)
    fact = _rows_of(logs[column : column + 1], row)[0]
    holds, fails = ((patterns[digit.word] >> digit.shift + bit) & 1 for bit in (1, 0))
    return holds * (fact - penalty) + fails * (log1mexp(fact) - penalty)


def opposite_facts(
    placement: Placement, kept: Tensor, row: Tensor | None, weights: Weights
) -> Tensor:
    """The weight of the opposite of each fact of an input of independent ones, (facts, n, rows).

    Of each fact, `kept` (facts, n, r) has two bits: whether a proof rules out that it fails, and
    that it holds.
    """
    logs = weights.of(placement.facts.log_probs)
    logs = logs.index_select(0, constant(_columns(placement), logs.device))
    facts = _rows_of(logs, row)[:, 0]
    holds, fails = ((kept >> bit) & 1 == 0 for bit in (1, 0))
    return torch.where(holds, facts - weights.penalty, 0.0) + torch.where(
        fails, log1mexp(facts) - weights.penalty, 0.0
    )


def _columns(placement: Placement) -> tuple[int, ...]:
    return tuple(group.columns[0] for group in placement.code.groups)


def _one_group(
    placement: Placement,
    group: Group,
    padded: Tensor,
    penalty: float,
    patterns: Tensor,
    row: Tensor | None,
) -> Tensor:
    return _allowed(patterns, placement, group, padded, row, penalty)


def sum_of_proofs(logs: Tensor, exists: Tensor) -> Tensor:
    """log min(1, Σ over the proofs that exist): (k, n, r) → (n, r)."""
    logs = torch.where(exists, logs, ZERO)
    return clip_above_one(logs.squeeze(0) if logs.shape[0] == 1 else logs.logsumexp(0))


def _values(patterns: Tensor, placement: Placement, group: Group) -> list[tuple[Tensor, int]]:
    """For each digit of a group the values that are ruled out, and the number of values."""
    digits = [placement.moved(digit) for digit in group.digits]
    return [
        ((patterns[digit.word] >> digit.shift) & ((1 << digit.size) - 1), digit.size)
        for digit in digits
    ]


def _chosen(
    patterns: Tensor,
    placement: Placement,
    group: Group,
    padded: Tensor,
    row: Tensor | None,
    penalty: float,
) -> Tensor:
    """Unsigned: each proof contains one column of the group, or none of them."""
    value: Tensor | None = None
    absent: Tensor | None = None
    scale = 1
    for ruled_out, size in _values(patterns, placement, group):
        # One bit, if anything was ruled out (and none in the place of a proof that doesn't exist).
        left = (ruled_out ^ ((1 << size) - 1)).clamp_(min=1)
        digit = _position(left).mul_(scale)
        value = digit if value is None else value.add_(digit)
        absent = (ruled_out == 0) if absent is None else absent
        scale *= size
    assert value is not None and absent is not None
    first = group.columns[0] if group.columns else 0
    if group.columns == tuple(range(first, first + len(group.columns))):
        column = value.add_(first)
    else:
        table = constant(group.columns, patterns.device)
        column = table[value.clamp_(max=len(group.columns) - 1)]
    return _take(padded, column.masked_fill_(absent, padded.shape[0] - 1), row)


_TOGETHER = 1 << 16  # numbers: larger ones don't stay in the cache from one operation to the next


def _sets(layout: Layout, patterns: Tensor) -> Iterator[list[Placement]]:
    """Inputs that are weighed together: those of plain codes, as many as are little enough."""
    # In compiled code a limit would hold for few rows only.
    if layout.signed or torch.compiler.is_compiling():
        yield from ([placement] for placement in layout.placements)
        return
    most = _TOGETHER // max(1, math.prod(patterns.shape[1:]))
    sets: dict[Any, list[list[Placement]]] = {}
    groups: dict[Any, int] = {}  # of the last set of each kind
    for placement in layout.placements:
        code, logs = placement.code, placement.facts.log_probs
        alone = not code.plain or code.all_binary
        kind = placement if alone else (logs.shape[1], logs.dtype)
        known = sets.setdefault(kind, [])
        groups[kind] = groups.get(kind, 0) + len(code.groups)
        if not known or groups[kind] > most:
            known.append([])
            groups[kind] = len(code.groups)
        known[-1].append(placement)
    yield from (each for known in sets.values() for each in known)


def _are_together(placements: Sequence[Placement], layout: Layout, patterns: Tensor) -> bool:
    """Whether these, one of `_sets`, are several groups that are weighed together."""
    if layout.signed or torch.compiler.is_compiling() or not placements[0].code.plain:
        return False
    groups = sum(len(placement.code.groups) for placement in placements)
    return groups > 1 and groups * math.prod(patterns.shape[1:]) <= _TOGETHER


def _chosen_of_all(
    patterns: Tensor, placements: Sequence[Placement], padded: Tensor, row: Tensor | None
) -> Tensor:
    """`_chosen` of all groups of some inputs at once, whose columns are those of `padded`.

    For chains of ten relatives 0.6 instead of 2.2 ms.
    """
    codes = tuple([(each.code, each.word, each.shift) for each in placements])
    words, shifts, every, columns = _digits_of(codes, patterns.device)
    ruled_out = (patterns.index_select(0, words.view(-1)) >> shifts) & every
    column = _position((ruled_out ^ every).clamp_(min=1)).add_(columns)
    column.masked_fill_(ruled_out == 0, padded.shape[0] - 1)
    groups, k, n, rows = column.shape
    own = None if row is None else row.repeat(groups * k)
    taken = _take(padded, column.view(1, groups * k * n, rows), own)
    return taken.view(groups, k, n, taken.shape[-1]).sum(0)  # n may be 0


@registered("digits of proofs")
@functools.lru_cache(maxsize=64)
def _digits_of(codes: _Codes, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Word, shift, values and first column of each group, where columns are side by side.

    Inputs differ from step to step, their codes don't: formulas of up to 7 symbols are weighed in
    73 instead of 94 microseconds.
    """
    starts = np.cumsum([0, *(code.columns for code, _, _ in codes)]).tolist()
    table = [
        (word + digit.word, shift + digit.shift, (1 << digit.size) - 1, start + group.columns[0])
        for start, (code, word, shift) in zip(starts, codes, strict=False)
        for group in code.groups
        for digit in group.digits
    ]
    rows = np.array(table, dtype=np.int64).T
    words, shifts, every, columns = (to_device(row, device).view(-1, 1, 1, 1) for row in rows)
    return words, shifts, every, columns


_Codes = tuple[tuple[Code, int, int], ...]  # of some inputs, and where they start in a layout


def _position(power: Tensor) -> Tensor:
    """Which power of two each number is: the exponent of its floating-point representation."""
    if torch.compiler.is_compiling():  # exported programs can't read the representation of numbers
        return power.double().log2().round().long()
    return (power.double().view(torch.int64) >> 52).sub_(1023)


def _take(logs: Tensor, column: Tensor, row: Tensor | None) -> Tensor:
    """logs[column, row] for columns (k, n, r or 1)."""
    rows = logs.shape[1]
    if row is not None:
        place = column * rows + (row[:, None] if rows > 1 else 0)
        return logs.reshape(-1).index_select(0, place.reshape(-1)).view(column.shape)
    if column.shape[-1] == 1:
        return logs.index_select(0, column.reshape(-1)).view(*column.shape[:-1], rows)
    wide = max(rows, column.shape[-1])
    flat = column.reshape(-1, wide)
    return logs.expand(-1, wide).gather(0, flat).view(*column.shape[:-1], wide)


def _rows_of(logs: Tensor, row: Tensor | None) -> Tensor:
    """(columns, rows) as something that broadcasts against (columns, k, n, r)."""
    if row is None:
        return logs[:, None, None, :]
    if logs.shape[1] == 1:
        return logs[:, None, :, None]
    return logs.index_select(1, row)[:, None, :, None]


def _binary(
    patterns: Tensor,
    placement: Placement,
    logs: Tensor,
    row: Tensor | None,
    signed: bool,
    penalty: float,
) -> Tensor:
    """An input of independent facts: many columns at once."""
    if len(logs) > _MANY and not signed and reading_is_free(patterns):
        return _few_of_many(patterns, placement, logs - penalty, row)
    places = placement.code.on(patterns.device)
    words, low = places.words + placement.word, places.bits * (1 << placement.shift)

    def total(part: slice) -> Tensor:
        bits = patterns.index_select(0, words[part])
        bit = low[part, None, None, None]
        holds = ((bits & (2 * bit if signed else bit)) != 0).to(logs.dtype)
        weight = (holds * _rows_of(logs[part] - penalty, row)).sum(0)
        if signed:
            fails = ((bits & bit) != 0).to(logs.dtype)
            weight = weight + (fails * _rows_of(log1mexp(logs[part]) - penalty, row)).sum(0)
        return weight

    columns = len(logs)
    each = patterns[0].numel() * (logs.shape[1] if patterns.shape[-1] == 1 else 1)
    step = at_once(columns, each)
    if step >= columns:
        return total(slice(None))
    # Too much to keep for the backward pass: there it is computed again, part by part.
    parts = [slice(start, start + step) for start in range(0, columns, step)]
    return sum(recomputed(total, part) for part in parts)  # type: ignore[return-value]


_MANY = 256  # columns above which it pays to visit only those that occur


def _few_of_many(
    patterns: Tensor, placement: Placement, logs: Tensor, row: Tensor | None
) -> Tensor:
    """The same for proofs of a few out of many facts: only bits that are set are visited.

    1,000 proofs over 1,000 facts take 1 ms, instead of 13 ms for every fact of every proof.
    """
    code = placement.code
    own = patterns[placement.word : placement.word + code.words]
    masks = [mask << placement.shift for mask in code.word_masks]
    own = own & constant(tuple(masks), patterns.device).view(-1, 1, 1, 1)
    word, slot, symbol, at_row = own.nonzero(as_tuple=True)
    bits = (own[word, slot, symbol, at_row][:, None] >> torch.arange(WORD_BITS)) & 1
    entry, bit = bits.nonzero(as_tuple=True)
    places = code.on(patterns.device)
    column_at = torch.zeros(code.words, WORD_BITS, dtype=torch.int64)
    column_at[places.words, _position(places.bits)] = torch.arange(len(logs))
    column = column_at[word[entry], bit - placement.shift]
    k, n, rows = patterns.shape[1:]
    if row is None and rows == 1:
        totals = logs.new_zeros(k * n, logs.shape[1])
        at = (slot * n + symbol)[entry]
        return totals.index_add(0, at, logs.index_select(0, column)).view(k, n, logs.shape[1])
    whose = at_row if row is None else row[symbol]
    chosen = column * logs.shape[1] + (whose[entry] if logs.shape[1] > 1 else 0)
    at = ((slot * n + symbol) * rows + at_row)[entry]
    totals = logs.new_zeros(k * n * rows)
    return totals.index_add(0, at, logs.reshape(-1).index_select(0, chosen)).view(k, n, rows)


def _allowed(
    patterns: Tensor,
    placement: Placement,
    group: Group,
    padded: Tensor,
    row: Tensor | None,
    penalty: float,
) -> Tensor:
    """Signed: the total probability of the values of the group that are allowed."""
    columns = constant(group.columns, patterns.device)
    logs = padded.index_select(0, columns)
    probs = torch.cat([prob_of_log(logs), together.none_of(logs, placement.facts.normalised)])
    value = torch.arange(len(probs), device=patterns.device)[:, None, None, None]
    left: Tensor | None = None
    free: Tensor | None = None
    for ruled_out, size in _values(patterns, placement, group):
        open_here = (torch.bitwise_right_shift(ruled_out, value % size) & 1) == 0
        value = value // size
        left = open_here if left is None else left & open_here
        untouched = ruled_out == 0
        free = untouched if free is None else free & untouched
    assert left is not None and free is not None
    logs = safe_log(together.mass_of(left, _rows_of(probs, row), 0))
    if penalty:  # for every value that is ruled out, so that "not 1" comes before "neither 1 nor 2"
        logs = logs - penalty * (~left).sum(0)
    return torch.where(free, 0.0, logs)
