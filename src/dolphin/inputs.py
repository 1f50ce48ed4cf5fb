"""Checking and reading what a user builds a distribution from."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.errors import InputError, SymbolError, shorten
from dolphin.execution.indices import to_device
from dolphin.input_checks import (
    ROUNDING,
    Exclusive,
    Kind,
    check_masks,
    check_values,
    is_list,
    listed_symbols,
    logs_within_one,
    read_groups,
    read_symbols,
    read_tensor,
    rounding_of,
    within_one,
)
from dolphin.provenance.facts import Facts, Groups, Label, all_alone
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, safe_log
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain, RowSymbols
from dolphin.symbolic.symbols import Symbols, SymbolTable


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


@dataclass(frozen=True)
class RowLabels:
    """Names of facts whose symbols differ from row to row."""

    domain: RowSymbols

    def __call__(self, column: int, row: int) -> Any:
        return self.domain.table.symbols[self.domain.numbers[row, column]]


def read(operation: str, numbers: Any, symbols: Any, exclusive: Exclusive, kind: Kind) -> Given:
    """The input of `Distribution(numbers, symbols)` and of the constructors from logarithms."""
    if isinstance(numbers, torch.distributions.Distribution):
        numbers, exclusive, kind = _of_torch(operation, numbers, exclusive)
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
    masked = check_values(operation, rows, kind)
    if kind == "logits":
        logs = _normalise(rows.t(), groups, softmax, masked)
        if masked:
            check_masks(operation, logs, groups, softmax)
        return Facts(log_probs=logs.contiguous(), groups=groups, label=label)
    columns = rows.t().clone(memory_format=torch.contiguous_format)  # users may modify theirs
    if kind == "log_probs":
        logs = torch.where(columns > IMPOSSIBLE, columns, ZERO)
        logs = logs - logs.detach().clamp(min=0.0)  # what rounding carried above log 1
        logs = logs_within_one(operation, logs, groups, rounding)
        return Facts(log_probs=logs, groups=groups, label=label)
    columns = within_one(operation, columns, groups, rounding)
    return Facts(log_probs=safe_log(columns), groups=groups, label=label, probs=columns)


def _of_torch(
    operation: str, given: torch.distributions.Distribution, exclusive: Exclusive
) -> tuple[Tensor, Exclusive, Kind]:
    """The numbers of a `torch.distributions` object, one per symbol."""
    if isinstance(given, torch.distributions.Categorical):
        if exclusive is not True:
            raise InputError(
                f"{operation}: all symbols of a Categorical exclude each other, so exclusive must "
                "be True. For symbols that hold independently give a Bernoulli."
            )
        return given.logits, True, "logits"
    if isinstance(given, torch.distributions.Bernoulli):  # symbols hold independently
        return given.logits, False if exclusive is True else exclusive, "logits"
    raise InputError(
        f"{operation}: of torch.distributions, Categorical (one of the symbols) and Bernoulli "
        f"(each symbol independently) are supported, got {type(given).__name__}. Give "
        "probabilities of finitely many symbols instead."
    )


def read_each(operation: str, logits: Any, symbols: Any, exclusive: Exclusive) -> list[Given]:
    """The input of `Distribution.each_from_logits`: checked and normalised all at once."""
    tensor = read_tensor(operation, logits, symbols, "logits")
    if tensor.dim() != 3:
        raise InputError(
            f"{operation}: logits must have shape (batch, distributions, symbols), got "
            f"{tuple(tensor.shape)}. For a single one write Distribution.from_logits."
        )
    members, groups = read_columns(operation, tensor, symbols, exclusive, "logits")
    masked = check_values(operation, tensor, "logits")
    each = _normalise(tensor.permute(1, 2, 0), groups, exclusive is True, masked).contiguous()
    if masked:
        for logs in each.unbind():
            check_masks(operation, logs, groups, exclusive is True)
    label, batch = SharedLabels(members.members), tensor.shape[0]
    return [
        Given(members, Facts(log_probs=logs, groups=groups, label=label), batch)
        for logs in each.unbind()
    ]


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
    duplicate = members.first_duplicate()
    if duplicate is not None:
        first, second = duplicate
        raise InputError(
            f"{operation}: duplicate symbol {shorten(members[second])} at columns {first} and "
            f"{second} (equal to {shorten(members[first])}). Symbols must be distinct; add the "
            "columns up first, or give them different symbols."
        )
    return members, read_groups(operation, exclusive, len(members))


class GivenRows(NamedTuple):
    """Rows of a user's input that have the same groups of exclusive columns, checked."""

    given: Given
    rows: list[int]  # which rows of the input they are


def read_rows(
    rows: Iterable[tuple[Iterable[Any], Any]],
    exclusive: Exclusive | Sequence[Exclusive],
    table: SymbolTable,
    kind: Kind,
) -> list[GivenRows]:
    """The input of `Distribution.from_rows`."""
    operation = "Distribution.from_rows"
    pairs = [_read_row(f"{operation}: row {row}", pair, kind) for row, pair in enumerate(rows)]
    if not pairs:
        raise InputError(f"{operation}: got no rows; give one (symbols, probabilities) per row.")
    rounding = max(slack for _, _, slack in pairs)
    lengths = np.array([len(values) for _, values, _ in pairs])
    width = max(1, int(lengths.max()))
    together = _numbers_of_rows(operation, [symbols for symbols, _, _ in pairs], width, table)
    padded = _padded(operation, [values for _, values, _ in pairs], width, kind)
    structure = _groups_in_rows(operation, exclusive, lengths.tolist(), width)
    parts = []
    for own in dict.fromkeys(structure):
        chosen = [row for row, other in enumerate(structure) if other is own or other == own]
        whole = len(chosen) == len(pairs)
        domain = RowSymbols(table, together if whole else together[chosen])
        some = padded if whole else padded[chosen]
        facts = _facts_of_rows(operation, some, domain, *own, kind, rounding)
        parts.append(GivenRows(Given(domain, facts, len(chosen)), chosen))
    return parts


def _read_row(place: str, pair: Any, kind: Kind) -> tuple[list[Any], Tensor, float]:
    """Symbols and numbers of a row, and how far rounding may carry a sum of the numbers."""
    try:
        given, numbers = pair
    except (TypeError, ValueError):
        raise InputError(
            f"{place} must be a pair (symbols, probabilities), got {shorten(pair)}."
        ) from None
    symbols = list(listed_symbols(place, given))
    tensor = read_tensor(place, numbers, symbols, kind)
    if tensor.dim() != 1 or len(tensor) != len(symbols):
        raise InputError(
            f"{place} has {len(symbols)} symbols and {kind} of shape {tuple(tensor.shape)}. Give "
            "one number per symbol."
        )
    return symbols, tensor, rounding_of(numbers)


def _numbers_of_rows(
    operation: str, rows: Sequence[list[Any]], width: int, table: SymbolTable
) -> np.ndarray:
    """The numbers of the symbols of all rows, (rows, width), `ABSENT` after a row's last."""
    together = np.full((len(rows), width), ABSENT, dtype=np.int64)
    for row, symbols in enumerate(rows):
        try:
            together[row, : len(symbols)] = table.numbers(symbols)
        except SymbolError as error:
            raise SymbolError(f"{operation}: row {row}: {error}") from None
    equal = np.where(together == ABSENT, ABSENT, table.classes(together))
    ordered = np.sort(equal, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != ABSENT)
    if twice.any():
        row = int(twice.any(1).argmax())
        own = equal[row].tolist()
        second = next(place for place, number in enumerate(own) if number in own[:place])
        raise InputError(
            f"{operation}: row {row}: duplicate symbol {shorten(rows[row][second])}. Symbols of "
            "one row must be distinct."
        )
    return together


def _padded(operation: str, values: Sequence[Tensor], width: int, kind: Kind) -> Tensor:
    """The numbers of all rows, (rows, width), with an impossible one after a row's last."""
    dtype = functools.reduce(torch.promote_types, {tensor.dtype for tensor in values})
    joined = torch.cat([tensor.to(dtype) for tensor in values])
    try:
        check_values(operation, joined, kind)
    except InputError:
        for row, tensor in enumerate(values):
            check_values(f"{operation}: row {row}", tensor, kind)
        raise
    lengths = np.array([len(tensor) for tensor in values])
    if (lengths == width).all():
        return joined.view(-1, width)
    column = np.arange(width)
    places = (np.cumsum(lengths) - lengths)[:, None] + column
    places = np.where(column < lengths[:, None], places, len(joined))
    fill = joined.new_full((1,), 0.0 if kind == "probs" else -math.inf)
    every = to_device(places.reshape(-1), joined.device)
    return torch.cat([joined, fill]).index_select(0, every).view(-1, width)


def _facts_of_rows(
    operation: str,
    values: Tensor,
    domain: RowSymbols,
    groups: Groups,
    softmax: bool,
    kind: Kind,
    rounding: float,
) -> Facts:
    columns = values.t().contiguous()
    absent = torch.from_numpy((domain.numbers.T == ABSENT).copy()).to(columns.device)
    probs = None
    if kind == "probs":
        probs = within_one(operation, columns, groups, rounding)
        logs = torch.where(absent, ZERO, safe_log(probs))
    elif kind == "log_probs":
        logs = torch.where(columns > IMPOSSIBLE, columns, ZERO)
        logs = logs_within_one(operation, logs, groups, rounding)
    else:
        logs = _normalise(columns, groups, softmax, masked=True)
        check_masks(operation, logs, groups, softmax, absent)
    return Facts(log_probs=logs, groups=groups, label=RowLabels(domain), probs=probs)


def _groups_in_rows(
    operation: str, exclusive: Any, lengths: Sequence[int], width: int
) -> list[tuple[Groups, bool]]:
    """Which columns exclude each other in each row, and whether all of them do."""
    if isinstance(exclusive, bool):
        return [(read_groups(operation, exclusive, width), exclusive)] * len(lengths)
    per_row = is_list(exclusive) and any(
        isinstance(own, bool) or (is_list(own) and any(map(is_list, own))) for own in exclusive
    )
    if per_row and len(exclusive) != len(lengths):
        raise InputError(
            f"{operation}: exclusive has {len(exclusive)} entries for {len(lengths)} rows; give "
            "True, False or a list of groups for each row, or one for all rows."
        )
    read: dict[Any, Groups] = {}  # shared by rows with equal entries
    structure: list[Groups | None] = []  # None: all of a row's columns exclude each other
    for row, length in enumerate(lengths):
        own = exclusive[row] if per_row else exclusive
        if own is True:
            structure.append(None)
            continue
        same = (length, own if isinstance(own, bool) else _hashable(own))
        groups = None if same[1] is None else read.get(same)
        if groups is None:
            groups = read_groups(f"{operation}: row {row}", own, length)
            if same[1] is not None:
                read[same] = groups
        structure.append(groups)
    pairs = list(zip(lengths, structure, strict=True))
    wide = _widened(dict.fromkeys((n, groups) for n, groups in pairs if groups is not None), width)
    # Padding can't hold, so it may be part of the choice.
    every = (tuple(range(width)),)
    return [
        (every, True) if groups is None else (wide[length, groups], False)
        for length, groups in pairs
    ]


def _widened(given: Iterable[tuple[int, Groups]], width: int) -> dict[tuple[int, Groups], Groups]:
    """Groups of `width` columns for rows with these lengths and groups.

    Padding after a row's last column can't hold, so it may have any groups. It gets those of a
    longer row whose other groups are the same: rows with the same groups are processed together,
    and stories of two to four sentences have one kind of row instead of three. With k = 3 a step
    of 64 such stories takes 60 instead of 560 ms.
    """
    found: dict[tuple[int, Groups], Groups] = {}
    for length, groups in sorted(given, key=lambda each: -each[0]):
        own = set(groups)
        fitting = (
            wide
            for wide in dict.fromkeys(found.values())
            if own == {group for group in wide if min(group) < length}
        )
        alone = ((column,) for column in range(length, width))
        found[length, groups] = next(fitting, None) or (*groups, *alone)
    return found


def _hashable(groups: Any) -> Hashable:
    """Groups of columns as something that can be compared; None if they are something else."""
    try:
        return tuple(own if isinstance(own, range) else tuple(own) for own in groups)
    except TypeError:
        return None


def is_one_row(numbers: Any) -> bool:
    """Whether these are numbers of a single row that can be stacked with others."""
    if not isinstance(numbers, Tensor) or numbers.layout != torch.strided or numbers.is_complex():
        return False
    return numbers.dim() == 1 or (numbers.dim() == 2 and numbers.shape[0] == 1)


def _normalise(logits: Tensor, groups: Groups, softmax: bool, masked: bool) -> Tensor:
    """(..., columns, rows) of logits as log-probabilities.

    `masked`: some may be -inf. They get the logarithm of zero, and no gradient.
    """
    if masked:
        hidden = logits == -torch.inf
        logs = _normalise(torch.where(hidden, ZERO, logits), groups, softmax, masked=False)
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
