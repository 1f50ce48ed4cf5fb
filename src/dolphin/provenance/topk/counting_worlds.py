"""The exact probability that at least one of many proofs holds, without their 2^k sets.

Groups of facts are decided one after the other. What matters of all decisions so far is the set of
proofs that can still hold: a *state*, written as the bits of a number. A value of the next group
leads from state S to the proofs of S that allow it; without any the branch ends, and with one that
has nothing left to decide it counts. States that become equal are one state, so the cost is the
number of states rather than 2^k. Only positive numbers are added up.

The groups of the proof that has the fewest undecided ones come next: proofs that share nothing are
then settled one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.numerics import (
    ZERO,
    at_most_one,
    chunk_elements,
    connected,
    log1mexp,
    precisely,
    recomputed,
    safe_log,
)
from dolphin.provenance.topk.encoding import Digit, Layout
from dolphin.provenance.topk.proofs import Proofs
from dolphin.provenance.topk.together import none_of


@dataclass(frozen=True)
class _Step:
    """A group of every item decided. Branches that go on come first, then those that hold."""

    source: np.ndarray  # (branches,) the state before
    value: np.ndarray  # (branches,) the entry of the table of values
    item: np.ndarray  # (branches,)
    target: np.ndarray  # (branches that go on,) the state after
    states: int  # their number


@dataclass(frozen=True)
class _Used:
    """A group that some proof refers to."""

    placement: int
    columns: tuple[int, ...]
    digits: tuple[Digit, ...]


def log_probability_by_states(tags: Proofs) -> Tensor:
    """log P(one of the proofs holds), (n, r), differentiable, in double precision."""
    patterns, exists = tags.patterns.numpy(), tags.exists.numpy()
    rows = max(patterns.shape[-1], exists.shape[-1])
    # Items: symbols whose proofs are the same in all rows, or symbols in one row each.
    k, n = exists.shape[:2]
    items = np.broadcast_to(patterns, (*patterns.shape[:3], rows)).reshape(
        len(patterns), k, n * rows
    )
    there = np.broadcast_to(exists, (k, n, rows)).reshape(k, n * rows)
    groups = _used_groups(items, there, tags.layout)
    table = _values(groups, tags.layout)
    row_of: np.ndarray | None = None
    if rows > 1:
        row_of = np.tile(np.arange(rows), n)
    elif tags.row_map is not None:
        row_of = tags.row_map.on(tags.scores.device).numpy()
    parts = [slice(0, n * rows)]
    sums: list[Tensor] = []
    while parts:
        part = parts.pop()
        most = None if part.stop - part.start == 1 else chunk_elements()
        steps = _steps(items[..., part], there[:, part], groups, most)
        if steps is None:  # half of the items at a time: the second half waits
            middle = (part.start + part.stop) // 2
            parts += [slice(middle, part.stop), slice(part.start, middle)]
            continue
        own = None if row_of is None else row_of[part]
        if part.stop - part.start == n * rows:
            sums.append(_summed(table, steps, own, n * rows))
        else:
            sums.append(recomputed(_summed, table, steps, own, part.stop - part.start))
    logs = torch.cat(sums)
    return at_most_one(logs.view(n, rows) if rows > 1 else logs)


def _used_groups(items: np.ndarray, there: np.ndarray, layout: Layout) -> list[_Used]:
    """The groups that existing proofs refer to."""
    words = np.bitwise_or.reduce(np.where(there, items, 0), axis=(1, 2))
    used = []
    for number, placement in enumerate(layout.placements):
        for group in placement.code.groups:
            digits = tuple(map(placement.moved, group.digits))
            if any(int(words[digit.word]) & digit.mask for digit in digits):
                used.append(_Used(number, group.columns, digits))
    return used


def _values(groups: Sequence[_Used], layout: Layout) -> Tensor:
    """Logarithms of all values of all groups, one below the other, (values + 1, rows).

    The last value of a group is "none of them"; the last entry of all is certain.
    """
    logs = [precisely(placement.facts.log_probs) for placement in layout.placements]
    parts: list[Tensor] = []
    for group in groups:
        own = logs[group.placement]
        if len(group.columns) == 1:
            own = own[group.columns[0] : group.columns[0] + 1]
            rest = log1mexp(own)
        else:
            own = own[list(group.columns)]
            rest = safe_log(none_of(own, layout.placements[group.placement].facts.normalised))
        parts += [own, rest]
    rows = max((part.shape[1] for part in logs), default=1)
    certain = torch.zeros(1, rows, dtype=torch.float64)
    return connected(torch.cat([*(part.expand(-1, rows) for part in parts), certain]), logs)


def _steps(
    items: np.ndarray, there: np.ndarray, groups: Sequence[_Used], most: int | None
) -> list[_Step] | None:
    """The steps for some items (words, k, items); None if they have more branches than `most`."""
    k = len(there)
    bits = 1 << np.arange(k, dtype=np.int64)
    spoken, allowed = _allowed(items, there, groups)
    order, decided = _order(spoken, there)
    mentioned = np.einsum("gki,k->gi", spoken, bits)
    first = np.cumsum([0, *(len(group.columns) + 1 for group in groups)])
    state = bits @ there
    item = source = state.nonzero()[0]  # without a proof there is nothing to decide
    state, value = state[item], np.full(len(item), first[-1])
    steps: list[_Step] = []
    branches = 0
    for number in range(len(order) + 1):
        holds = (state & (bits @ (decided <= number))[item]) != 0
        by = np.argsort(holds, kind="stable")
        going = len(by) - int(holds.sum())
        keys, target = np.unique((item << k | state)[by[:going]], return_inverse=True)
        steps.append(_Step(source[by], value[by], item[by], target, len(keys)))
        item, state = keys >> k, keys & ((1 << k) - 1)
        if not going:
            break
        group = order[number, item]
        matters = (state & mentioned[group, item]) != 0
        after = state & allowed[:, group, item]
        after[:, ~matters] = 0
        after[0, ~matters] = state[~matters]
        value, source = after.nonzero()
        branches += len(source)
        if most is not None and branches > most:
            return None
        item, state = item[source], after[value, source]
        value = np.where(matters[source], first[group[source]] + value, first[-1])
    return steps


def _allowed(
    items: np.ndarray, there: np.ndarray, groups: Sequence[_Used]
) -> tuple[np.ndarray, np.ndarray]:
    """Which proofs refer to each group, (groups, k, items), and which allow each of its values.

    The latter as bits, (values, groups, items); a group has no proofs for values beyond its own.
    """
    k, count = there.shape
    bits = 1 << np.arange(k, dtype=np.int64)
    spoken = np.zeros((len(groups), k, count), dtype=bool)
    widest = max((len(group.columns) + 1 for group in groups), default=0)
    allowed = np.zeros((widest, len(groups), count), dtype=np.int64)
    for number, group in enumerate(groups):
        ruled_out = [(items[d.word] >> d.shift) & ((1 << d.size) - 1) for d in group.digits]
        spoken[number] = there & (np.bitwise_or.reduce(ruled_out) != 0)
        for value in range(len(group.columns) + 1):
            left, rest = there, value
            for digit, out in zip(group.digits, ruled_out, strict=True):
                if digit.size == 1:  # only "it fails" can be ruled out
                    left = left & ((out == 0) | (value == 0))
                    continue
                rest, at = divmod(rest, digit.size)
                left = left & ((out >> at) & 1 == 0)
            allowed[value, number] = bits @ left
    return spoken, allowed


def _order(spoken: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The groups in the order in which they are decided, (groups, items).

    And how many are decided when nothing is left of each proof, (k, items).
    """
    groups, k, count = spoken.shape
    each = np.arange(count)
    turn = np.full((groups, count), k)
    waiting = there.copy()
    for number in range(k):
        undecided = (spoken & (turn == k)[:, None]).sum(0)
        proof = np.where(waiting, undecided, groups + 1).argmin(0)
        turn[spoken[:, proof, each] & (turn == k)] = number
        waiting[proof, each] = False
    order = turn.argsort(0, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(groups)[:, None], 0)
    decided = np.where(spoken, place[:, None] + 1, 0).max(0, initial=0)
    return order, decided


def _summed(table: Tensor, steps: Sequence[_Step], rows: np.ndarray | None, count: int) -> Tensor:
    """log Σ over the branches that hold, (items, rows), from the logarithms of values."""
    wide = table.shape[1]
    logs = table.new_zeros(count, wide if rows is None else 1)
    held, owners = [], []
    for step in steps:
        source = to_device(step.source, table.device)
        if rows is None:
            values = table.index_select(0, to_device(step.value, table.device))
        else:
            place = step.value * wide + (rows[step.item] if wide > 1 else 0)
            values = table.reshape(-1, 1).index_select(0, to_device(place, table.device))
        branches = logs.index_select(0, source) + values
        going = len(step.target)
        held.append(branches[going:])
        owners.append(step.item[going:])
        logs = _merged(branches[:going], to_device(step.target, table.device), step.states)
    return _merged(torch.cat(held), to_device(np.concatenate(owners), table.device), count)


def _merged(logs: Tensor, target: Tensor, count: int) -> Tensor:
    """log Σ exp of the entries of each target; without any it is impossible."""
    at = target[:, None].expand_as(logs)
    low = logs.new_full((count, logs.shape[1]), ZERO)
    largest = low.scatter_reduce(0, at, logs.detach(), "amax")
    scaled = (logs - largest.index_select(0, target)).exp()
    sums = torch.zeros_like(low).index_add(0, target, scaled)
    return torch.where(sums > 0.0, sums, 1.0).log() + largest
