"""Checking and reading what a user builds a distribution from: the same symbols in all rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.errors import InputError
from dolphin.inputs.checks import (
    ROUNDING,
    Exclusive,
    Kind,
    carried_back,
    check_distinct,
    check_masks,
    check_values,
    logs_within_one,
    read_groups,
    read_symbols,
    read_tensor,
    rounding_of,
    within_one,
)
from dolphin.provenance.facts import Facts, Groups, Label, all_alone
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, at_most_one
from dolphin.symbolic.plans import Domain
from dolphin.symbolic.symbols import Symbols


class Given(NamedTuple):
    """A user's input, checked."""

    symbols: Domain
    facts: Facts
    batch: int

    @property
    def exclusive(self) -> bool:
        """Whether at most one symbol of a row holds."""
        return len(self.facts.groups) == 1


class SharedLabels(NamedTuple):
    """Names of facts whose symbols are the same in all rows."""

    symbols: tuple[Any, ...]

    def __call__(self, column: int, row: int) -> Any:
        return self.symbols[column]


def read(operation: str, numbers: Any, symbols: Any, exclusive: Exclusive, kind: Kind) -> Given:
    """The input of `Distribution(numbers, symbols)` and of the constructors from logarithms."""
    if isinstance(numbers, torch.distributions.Distribution):
        numbers, kind, exclusive = _of_torch(operation, numbers, exclusive)
    tensor = read_tensor(operation, numbers, symbols, kind)
    if tensor.dim() not in (1, 2):
        instead = f"Flatten leading dimensions, e.g. {kind}.flatten(0, -2)."
        if kind == "logits" and tensor.dim() == 3:
            instead = "For a list of distributions write Distribution.each_from_logits."
        raise InputError(
            f"{operation}: {kind} must have shape (batch, symbols), or (symbols,) for one row, got "
            f"{tuple(tensor.shape)}. {instead}"
        )
    tensor = tensor.unsqueeze(0) if tensor.dim() == 1 else tensor
    members, groups = read_columns(operation, tensor, symbols, exclusive, kind)
    softmax = exclusive is True
    label = SharedLabels(members.members)
    facts = facts_of(operation, tensor, groups, label, kind, softmax, rounding_of(numbers))
    return Given(members, facts, tensor.shape[0])


def facts_of(
    operation: str,
    rows: Tensor,
    groups: Groups,
    label: Label,
    kind: Kind,
    softmax: bool,
    rounding: float = ROUNDING,
) -> Facts:
    """The facts of an input, from numbers (B, N) that are checked where that is free.

    `softmax`: all columns of logits are one choice, even if there is only one column.
    """
    careful = check_values(operation, rows, kind)
    if kind == "logits":
        logs = normalise(rows.t(), groups, softmax, masked=careful)
        if careful:
            check_masks(operation, logs, groups, softmax)
        return Facts(log_probs=logs.contiguous(), groups=groups, label=label, normalised=True)
    columns = rows.t().clone(memory_format=torch.contiguous_format)  # users may modify theirs
    if kind == "log_probs":
        logs = torch.where(columns > IMPOSSIBLE, columns, ZERO)
        logs = logs_within_one(operation, at_most_one(logs), groups, rounding)
        return Facts(log_probs=logs, groups=groups, label=label)
    columns = carried_back(columns) if careful else columns
    columns = within_one(operation, columns, groups, rounding)
    return Facts(groups=groups, label=label, probs=columns)


def _of_torch(
    operation: str, given: torch.distributions.Distribution, exclusive: Exclusive
) -> tuple[Tensor, Kind, Exclusive]:
    """The numbers of a `torch.distributions` object, one per symbol."""
    if isinstance(given, torch.distributions.Categorical):
        if exclusive is not True:
            raise InputError(
                f"{operation}: all symbols of a Categorical exclude each other, so exclusive must "
                "be True. For symbols that hold independently give a Bernoulli."
            )
        return *_as_given(given), True
    if isinstance(given, torch.distributions.Bernoulli):
        if not isinstance(exclusive, bool):
            raise InputError(
                f"{operation}: the symbols of a Bernoulli hold independently, so exclusive can't "
                "be groups. For groups that exclude each other give probabilities."
            )
        return *_as_given(given), False
    raise InputError(
        f"{operation}: of torch.distributions, Categorical (one of the symbols) and Bernoulli "
        f"(each symbol independently) are supported, got {type(given).__name__}. Give "
        "probabilities of finitely many symbols instead."
    )


def _as_given(
    given: torch.distributions.Categorical | torch.distributions.Bernoulli,
) -> tuple[Tensor, Kind]:
    """Its probabilities or its logits: torch rounds those that it computes from the others."""
    known = vars(given)  # the others appear here once somebody has asked for them
    logits, parameter = known.get("logits"), known["_param"]
    if "probs" not in known or (logits is not None and torch.equal(parameter, logits)):
        return given.logits, "logits"
    return given.probs, "probs"


def read_each(
    operation: str, logits: Any, symbols: Any, exclusive: Exclusive
) -> tuple[Symbols, list[Facts], int]:
    """The input of `Distribution.each_from_logits`: checked and normalised all at once."""
    tensor = read_tensor(operation, logits, symbols, "logits")
    if tensor.dim() != 3:
        raise InputError(
            f"{operation}: logits must have shape (batch, distributions, symbols), got "
            f"{tuple(tensor.shape)}. For a single one write Distribution.from_logits."
        )
    members, groups = read_columns(operation, tensor, symbols, exclusive, "logits")
    masked = check_values(operation, tensor, "logits")
    each = normalise(tensor.permute(1, 2, 0), groups, exclusive is True, masked).contiguous()
    if masked:
        for logs in each.unbind():
            check_masks(operation, logs, groups, exclusive is True)
    label = SharedLabels(members.members)
    facts = [
        Facts(log_probs=logs, groups=groups, label=label, normalised=True) for logs in each.unbind()
    ]
    return members, facts, tensor.shape[0]


def read_columns(
    operation: str,
    tensor: Tensor,
    symbols: Any,
    exclusive: Exclusive,
    what: str,
) -> tuple[Symbols, Groups]:
    """The symbols of a tensor's columns, and which of them exclude each other."""
    members, shape = read_symbols(operation, symbols), tuple(tensor.shape)
    if len(members) != shape[-1]:
        fitting = ", ".join(("batch", *map(str, shape[1:-1]), str(len(members))))
        raise InputError(
            f"{operation}: {len(members)} symbols for {shape[-1]} columns of {what} (shape "
            f"{shape}). Give one symbol per column: {what} ({fitting}), or a list of {shape[-1]} "
            "symbols."
        )
    if shape[0] == 0:
        raise InputError(f"{operation}: {what} of shape {shape} has no rows.")
    check_distinct(operation, members)
    return members, read_groups(operation, exclusive, len(members))


def is_one_row(numbers: Any) -> bool:
    """Whether these are numbers of a single row that can be stacked with others."""
    if not isinstance(numbers, Tensor) or numbers.layout != torch.strided or numbers.is_complex():
        return False
    if numbers.is_nested:
        return False
    dimensions = numbers.dim()
    return dimensions == 1 or (dimensions == 2 and numbers.shape[0] == 1)


def are_single_rows(numbers: Any) -> bool:
    """Whether these are numbers of several distributions of one row each: (1, n, symbols)."""
    if not isinstance(numbers, Tensor) or numbers.layout != torch.strided or numbers.is_complex():
        return False
    return numbers.dim() == 3 and len(numbers) == 1 and numbers.shape[1] > 0


def normalise(logits: Tensor, groups: Groups, softmax: bool, masked: bool) -> Tensor:
    """(..., columns, rows) of logits as log-probabilities.

    `masked`: some may be -inf. They get the logarithm of zero, and no gradient.
    """
    if masked:
        hidden = logits == -torch.inf
        logs = normalise(torch.where(hidden, ZERO, logits), groups, softmax, masked=False)
        return torch.where(hidden, ZERO, logs)
    if softmax:
        return logits.log_softmax(-2)
    if all_alone(groups, logits.shape[-2]):
        return F.logsigmoid(logits)
    parts, order = [], []
    for group in groups:
        part = logits[..., list(group), :]
        parts.append(part.log_softmax(-2) if len(group) > 1 else F.logsigmoid(part))
        order.extend(group)
    back = torch.from_numpy(np.argsort(order)).to(logits.device)
    return torch.cat(parts, -2).index_select(-2, back)
