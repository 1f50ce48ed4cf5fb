"""Weighing exclusive groups in signed proofs, several at once.

Where values can't be read, every group of every input is weighed, whether a proof refers to it or
not. One by one that is 35 operations per group. Sudoku 4×4 under `dtkp-am` takes 1,600 instead of
6,900.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.numerics import prob_of_log, rest_of_log, safe_log
from dolphin.provenance.topk.encoding import Digit, Group, Layout, Placement, constant


class Member(NamedTuple):
    """A group of an input that is written in one digit."""

    placement: Placement
    group: Group

    @property
    def digit(self) -> Digit:
        return self.placement.moved(self.group.digits[0])


def is_alike(group: Group) -> bool:
    """Whether a group can be weighed together with others of its size."""
    return len(group.digits) == 1


def alike(layout: Layout) -> list[list[Member]]:
    """The groups that can be weighed together, by the number of their columns.

    Inputs of independent facts are left out: they have a faster way.
    """
    sets: dict[int, list[Member]] = {}
    for placement in layout.placements:
        if placement.code.all_binary:
            continue
        for group in placement.code.groups:
            if is_alike(group):
                sets.setdefault(len(group.columns), []).append(Member(placement, group))
    return list(sets.values())


def at_digits(patterns: Tensor, digits: Sequence[Digit]) -> Tensor:
    """What patterns (words, ...) say at some digits of the same size, (digits, ...)."""
    words = constant(tuple(digit.word for digit in digits), patterns.device)
    shifts = constant(tuple(digit.shift for digit in digits), patterns.device)
    shifts = shifts.view(-1, *(1 for _ in patterns.shape[1:]))
    # Not `>>`: the exporter to ONNX has no operator of that name.
    there = torch.bitwise_right_shift(patterns.index_select(0, words), shifts)
    return there & ((1 << digits[0].size) - 1)


def logs_of(members: Sequence[Member]) -> Tensor:
    """The logarithms of the facts of all members, (members, columns, rows)."""
    own = []
    for placement, group in members:
        logs = placement.facts.log_probs
        if len(placement.code.groups) > 1 or not placement.code.plain:
            logs = logs.index_select(0, constant(group.columns, logs.device))
        own.append(logs)
    return torch.stack(torch.broadcast_tensors(*own))


def normalised_of(members: Sequence[Member]) -> bool | np.ndarray:
    """In which rows the facts of each member come from a softmax, (members, 1, rows or 1)."""
    given = [placement.facts.normalised for placement, _ in members]
    if len(set(map(type, given))) == 1 and isinstance(given[0], bool) and len(set(given)) == 1:
        return given[0]  # a compiler can't compare the numbers of arrays
    every = np.stack(np.broadcast_arrays(*map(np.atleast_1d, given)))[:, None]
    return bool(every[0, 0, 0]) if (every == every[0, 0, 0]).all() else every


def none_of(logs: Tensor, normalised: bool | np.ndarray, dim: int = 0) -> Tensor:
    """P(none of a group's columns holds), from their logarithms; they stand along `dim`.

    The columns of a softmax add up to 1 but for rounding, so this is 0, unless a row has none of
    them. `normalised`: see `Facts`, for each row.
    """
    if logs.shape[dim] == 1:
        return rest_of_log(logs)
    sums = prob_of_log(logs).sum(dim, keepdim=True)
    none = 1.0 - sums
    none = none - none.detach().clamp(max=0.0)  # rounding may go below 0
    if normalised is False:
        return none
    absent = (sums.detach() == 0.0).to(sums.dtype)
    if normalised is True:
        return absent
    return torch.where(to_device(normalised, sums.device), absent, none)


def allowed(
    logs: Tensor,
    normalised: bool | np.ndarray,
    ruled_out: Tensor,
    row: Tensor | None,
    penalty: float,
) -> Tensor:
    """The total log-probability of the values of each group that are not ruled out.

    `ruled_out` is (members, k, n, r), and so is the result.
    """
    device = ruled_out.device
    logs = logs - penalty
    probs = torch.cat([prob_of_log(logs), none_of(logs, normalised, dim=1)], 1)
    value = torch.arange(probs.shape[1], device=device)[:, None, None, None]
    kept = torch.bitwise_right_shift(ruled_out[:, None], value) & 1  # (members, values, k, n, r)
    left = kept == 0
    if row is None or probs.shape[2] == 1:
        spread = probs[:, :, None, None, :]
    else:
        spread = probs.index_select(2, row)[:, :, None, :, None]
    found = safe_log(mass_of(left, spread, 1))
    if penalty:  # for every value that is ruled out, so that "not 1" comes before "neither 1 nor 2"
        found = found - penalty * (~left).sum(1)
    return torch.where(ruled_out == 0, 0.0, found)


def mass_of(left: Tensor, probs: Tensor, dim: int) -> Tensor:
    """The total probability of the values that are left, which stand along `dim`.

    Where that is most of them, it is 1 minus the others: a sum may lose these to rounding, and may
    go above 1. Then "not 2" would be likelier than nothing at all, and a proof with it would come
    before the one that it contains.
    """
    kept = (left.to(probs.dtype) * probs).sum(dim)
    lost = ((~left).to(probs.dtype) * probs).sum(dim)
    return torch.where(lost < kept, 1.0 - lost, kept)
