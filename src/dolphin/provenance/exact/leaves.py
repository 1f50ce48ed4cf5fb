"""The numbers that circuits start from: as inputs were given, as probabilities, as logarithms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import precisely, prob_of_log

AreLogs = bool | Tensor
"""Whether numbers are logarithms of probabilities: all, none, or (a mask) some."""


def numbers_of(inputs: Sequence[Facts], device: torch.device) -> tuple[Tensor, AreLogs]:
    """The numbers of all inputs, (columns, rows), as they were given: see `AreLogs`."""
    if not inputs:
        return torch.zeros(0, 1, dtype=torch.float64, device=device), False
    rows = max(facts.rows for facts in inputs)
    given = [facts.as_given() for facts in inputs]
    numbers, logs = [each for each, _ in given], [each for _, each in given]
    if any(each.dtype != numbers[0].dtype for each in numbers):
        numbers = [precisely(each) for each in numbers]
    # Expanding those that have all rows already took 60 µs of a step of Sudoku 4×4.
    spread = [each if each.shape[1] == rows else each.expand(-1, rows) for each in numbers]
    every = precisely(torch.cat(spread) if len(spread) > 1 else spread[0])
    if all(each is logs[0] for each in logs) and isinstance(logs[0], bool):
        return every, logs[0]
    if any(isinstance(each, Tensor) for each in logs):
        masks = (
            each if isinstance(each, Tensor) else to_device(np.atleast_1d(each), device)
            for each in logs
        )
        shapes = [(facts.columns, rows) for facts in inputs]
        spread = [mask.expand(shape) for mask, shape in zip(masks, shapes, strict=True)]
        return every, torch.cat(spread)
    alike = all(isinstance(each, bool) for each in logs)
    flags = [np.broadcast_to(each, (1 if alike else rows,)) for each in logs]
    columns = [facts.columns for facts in inputs]
    return every, to_device(np.repeat(np.stack(flags), columns, axis=0), device)


def probs_of(numbers: Tensor, are_logs: AreLogs) -> Tensor:
    """The same numbers as probabilities."""
    if are_logs is False:
        return numbers
    probs = prob_of_log(numbers)
    return probs if are_logs is True else torch.where(are_logs, probs, numbers)


def raised_log(probs: Tensor, low: float | Tensor) -> Tensor:
    """log p, with the value and the derivative of `low` where p is less."""
    return (probs + (low - probs).clamp(min=0.0).detach()).log()


def logs_of(numbers: Tensor, are_logs: AreLogs, low: float | Tensor) -> Tensor:
    """The same numbers as logarithms, those of probabilities raised to `low`."""
    if are_logs is True:
        return numbers
    if are_logs is False:
        return raised_log(numbers, low)
    # The logarithm of what is one already may be infinite, and its derivative times 0 not a number.
    probs = torch.where(are_logs, 1.0, numbers)
    return torch.where(are_logs, numbers, raised_log(probs, low))
