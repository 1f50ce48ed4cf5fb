"""Weighing several exclusive groups at once, in signed proofs.

Where values can't be read, every group of every input is weighed, whether a proof refers to it or
not. One by one that is 35 operations per group: Sudoku 4×4 under `dtkp-am` had 6,900, and has 1,600
now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dolphin.provenance.numerics import prob_of_log, safe_log
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
    return (patterns.index_select(0, words) >> shifts) & ((1 << digits[0].size) - 1)


def logs_of(members: Sequence[Member]) -> Tensor:
    """The logarithms of the facts of all members, (members, columns, rows)."""
    own = []
    for placement, group in members:
        logs = placement.facts.log_probs
        if len(placement.code.groups) > 1 or not placement.code.plain:
            logs = logs.index_select(0, constant(group.columns, logs.device))
        own.append(logs)
    return torch.stack(torch.broadcast_tensors(*own))


def allowed(logs: Tensor, ruled_out: Tensor, row: Tensor | None, penalty: float) -> Tensor:
    """The total log-probability of the values of each group that are not ruled out.

    `ruled_out` is (members, k, n, r), and so is the result.
    """
    device = ruled_out.device
    probs = prob_of_log(logs - penalty)
    none = 1.0 - probs.sum(1, keepdim=True)
    none = none - none.detach().clamp(max=0.0)  # rounding may go below 0
    probs = torch.cat([probs, none], 1)
    value = torch.arange(probs.shape[1], device=device)[:, None, None, None]
    left = ((ruled_out[:, None] >> value) & 1) == 0  # (members, values, k, n, r)
    if row is None or probs.shape[2] == 1:
        spread = probs[:, :, None, None, :]
    else:
        spread = probs.index_select(2, row)[:, :, None, :, None]
    mass = (left.to(probs.dtype) * spread).sum(1)
    mass = mass - (mass.detach() - 1.0).clamp(min=0.0)  # rounding may go above 1
    found = safe_log(mass)
    if penalty:  # for every value that is ruled out, so that "not 1" comes before "neither 1 nor 2"
        found = found - penalty * (~left).sum(1)
    return torch.where(ruled_out == 0, 0.0, found)
