"""Checking and reading what a user builds a distribution from: per-row symbols."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, MismatchError, SymbolError, shorten
from dolphin.execution.indices import to_device
from dolphin.inputs.arguments import items
from dolphin.inputs.checks import (
    Exclusive,
    Kind,
    carried_back,
    check_masks,
    check_values,
    is_list,
    listed_symbols,
    logs_within_one,
    read_groups,
    read_tensor,
    rounding_of,
    within_one,
)
from dolphin.inputs.shared import Given, normalise
from dolphin.provenance.facts import Facts, Groups
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, at_most_one, safe_log_of_facts
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import RowSymbols
from dolphin.symbolic.tables import SymbolTable


@dataclass(frozen=True)
class RowLabels:
    """Names of facts whose symbols differ from row to row."""

    domain: RowSymbols

    def __call__(self, column: int, row: int) -> Any:
        return self.domain.table.symbols[self.domain.numbers[row, column]]


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
    given = items(operation, "rows", rows, "Give one (symbols, probabilities) per row.")
    pairs = [_read_row(f"{operation}: row {row}", pair, kind) for row, pair in enumerate(given)]
    if not pairs:
        raise InputError(f"{operation}: got no rows; give one (symbols, probabilities) per row.")
    rounding = max(slack for _, _, slack in pairs)
    lengths = np.array([len(values) for _, values, _ in pairs])
    width = max(1, int(lengths.max()))
    together = _numbers_of_rows(operation, [symbols for symbols, _, _ in pairs], width, table)
    padded = _padded(operation, [values for _, values, _ in pairs], width, kind)
    structure = _groups_in_rows(operation, exclusive, lengths.tolist(), width)
    parts = []
    # Rows mostly share one object; hashing hundreds of columns for each would take milliseconds.
    for own in dict.fromkeys({id(each): each for each in structure}.values()):
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
    known = table.known_numbers(list(itertools.chain.from_iterable(rows)))
    if known is not None:
        lengths = np.array([len(symbols) for symbols in rows])
        together[np.arange(width) < lengths[:, None]] = known
    for row, symbols in enumerate(rows if known is None else ()):
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
    devices = {str(tensor.device) for tensor in values}
    if len(devices) > 1:
        raise MismatchError(
            f"{operation}: the rows are on different devices: {', '.join(sorted(devices))}. Move "
            "them to one with .to(device)."
        )
    dtype = functools.reduce(torch.promote_types, {tensor.dtype for tensor in values})
    joined = torch.cat([tensor.to(dtype) for tensor in values])
    try:
        careful = check_values(operation, joined, kind)
    except InputError:
        for row, tensor in enumerate(values):
            check_values(f"{operation}: row {row}", tensor, kind)
        raise
    if careful and kind == "probs":
        joined = carried_back(joined)
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
        present = torch.where(absent, 1.0, probs)
        logs = torch.where(absent, ZERO, safe_log_of_facts(present))
    elif kind == "log_probs":
        logs = torch.where(columns > IMPOSSIBLE, columns, ZERO)
        logs = logs_within_one(operation, at_most_one(logs), groups, rounding)
    else:
        logs = normalise(columns, groups, softmax, masked=True)
        check_masks(operation, logs, groups, softmax, absent)
    return Facts(
        log_probs=logs,
        groups=groups,
        label=RowLabels(domain),
        probs=probs,
        normalised=kind == "logits",
    )


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
    keys = [(length, id(groups)) for length, groups in zip(lengths, structure, strict=True)]
    distinct = dict(zip(keys, zip(lengths, structure, strict=True), strict=True))
    wide = _widened([(n, own) for n, own in distinct.values() if own is not None], width)
    # Padding can't hold, so it may be part of the choice.
    every = (tuple(range(width)),)
    made = {
        key: (every, True) if groups is None else (wide[length, groups], False)
        for key, (length, groups) in distinct.items()
    }
    return [made[key] for key in keys]


def _widened(given: Iterable[tuple[int, Groups]], width: int) -> dict[tuple[int, Groups], Groups]:
    """Groups of `width` columns for rows with these lengths and groups.

    Padding after a row's last column can't hold, so it may have any groups. It gets those of a
    longer row whose other groups are the same: rows with the same groups are processed together,
    and stories of two to four sentences have one kind of row instead of three. With k = 3 a step
    of 64 such stories takes 60 instead of 560 ms.
    """
    widened: dict[tuple[int, Groups], Groups] = {}
    for length, groups in sorted(given, key=lambda each: -each[0]):
        own = set(groups)
        fitting = (
            wide
            for wide in dict.fromkeys(widened.values())
            if own == {group for group in wide if min(group) < length}
        )
        alone = ((column,) for column in range(length, width))
        widened[length, groups] = next(fitting, None) or (*groups, *alone)
    return widened


def _hashable(groups: Any) -> Hashable:
    """Groups of columns as something that can be compared; None if they are something else."""
    try:
        return tuple(own if isinstance(own, range) else tuple(own) for own in groups)
    except TypeError:
        return None
