"""Checking and reading what a user builds a distribution from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.errors import InputError, SymbolError, shorten
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import ZERO, safe_log
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain, RowSymbols
from dolphin.symbolic.symbols import Symbols, SymbolTable

_SLACK = 1e-4  # how far outside [0, 1] rounding may carry a probability


class Given(NamedTuple):
    """A user's input, checked."""

    symbols: Domain
    facts: Facts
    batch: int


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


def read(
    operation: str,
    numbers: Any,
    symbols: Any,
    exclusive: bool | Sequence[Sequence[int]],
    *,
    logits: bool,
) -> Given:
    """The input of `Distribution(numbers, symbols)` and `Distribution.from_logits`."""
    what = "logits" if logits else "probs"
    tensor = _tensor(operation, numbers, symbols, what)
    if tensor.dim() not in (1, 2):
        instead = f"Flatten leading dimensions, e.g. {what}.flatten(0, -2)."
        if logits and tensor.dim() == 3:
            instead = "For a list of distributions write Distribution.each_from_logits."
        raise InputError(
            f"{operation}: {what} must have shape (batch, symbols), or (symbols,) for one row, got "
            f"{tuple(tensor.shape)}. {instead}"
        )
    tensor = tensor.unsqueeze(0) if tensor.dim() == 1 else tensor
    members, groups = _columns(operation, tensor, symbols, exclusive, what)
    _check_values(operation, tensor, logits)
    columns, label = tensor.t(), SharedLabels(members.members)
    if logits:
        facts = Facts(
            log_probs=_normalise(columns, exclusive, groups).contiguous(),
            groups=groups,
            label=label,
        )
    else:
        columns = columns.contiguous()
        facts = Facts(log_probs=safe_log(columns), groups=groups, label=label, probs=columns)
    return Given(members, facts, tensor.shape[0])


def read_each(
    operation: str, logits: Any, symbols: Any, exclusive: bool | Sequence[Sequence[int]]
) -> list[Given]:
    """The input of `Distribution.each_from_logits`: checked and normalised all at once."""
    tensor = _tensor(operation, logits, symbols, "logits")
    if tensor.dim() != 3:
        raise InputError(
            f"{operation}: logits must have shape (batch, distributions, symbols), got "
            f"{tuple(tensor.shape)}. For a single one write Distribution.from_logits."
        )
    members, groups = _columns(operation, tensor, symbols, exclusive, "logits")
    _check_values(operation, tensor, logits=True)
    each = _normalise(tensor.permute(1, 2, 0), exclusive, groups).contiguous()
    label, batch = SharedLabels(members.members), tensor.shape[0]
    return [
        Given(members, Facts(log_probs=logs, groups=groups, label=label), batch)
        for logs in each.unbind()
    ]


def _columns(
    operation: str,
    tensor: Tensor,
    symbols: Any,
    exclusive: bool | Sequence[Sequence[int]],
    what: str,
) -> tuple[Symbols, tuple[tuple[int, ...], ...]]:
    """The symbols of a tensor's columns, and which of them exclude each other."""
    members, shape = _symbols(operation, symbols), tuple(tensor.shape)
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


def read_rows(
    rows: Iterable[tuple[Iterable[Any], Any]],
    exclusive: bool | Sequence[Sequence[int]],
    table: SymbolTable,
) -> Given:
    """The input of `Distribution.from_rows`."""
    operation = "Distribution.from_rows"
    numbers: list[np.ndarray] = []
    probs: list[Tensor] = []
    for row, pair in enumerate(rows):
        try:
            symbols, values = pair
        except (TypeError, ValueError):
            raise InputError(
                f"{operation}: row {row} must be a pair (symbols, probabilities), got "
                f"{shorten(pair)}."
            ) from None
        place = f"{operation}: row {row}"
        members = _symbols(place, symbols)
        tensor = _tensor(place, values, symbols, "probs")
        if tensor.dim() != 1 or len(tensor) != len(members):
            raise InputError(
                f"{place} has {len(members)} symbols and probabilities of shape "
                f"{tuple(tensor.shape)}. Give one probability per symbol."
            )
        duplicate = members.first_duplicate()
        if duplicate is not None:
            raise InputError(
                f"{place}: duplicate symbol {shorten(members[duplicate[1]])}. Symbols of one row "
                "must be distinct."
            )
        _check_values(place, tensor, logits=False)
        numbers.append(members.numbers(table))
        probs.append(tensor)
    if not probs:
        raise InputError(f"{operation}: got no rows; give one (symbols, probabilities) per row.")
    width = max(1, *map(len, numbers))
    together = np.full((len(numbers), width), ABSENT, dtype=np.int64)
    for row, number in enumerate(numbers):
        together[row, : len(number)] = number
    columns = torch.stack([F.pad(p, (0, width - len(p))) for p in probs], dim=1)
    present = torch.from_numpy((together.T != ABSENT).copy()).to(columns.device)
    domain = RowSymbols(table, together)
    facts = Facts(
        log_probs=torch.where(present, safe_log(columns), ZERO),
        groups=read_groups(operation, exclusive, width),
        label=RowLabels(domain),
        probs=columns,
    )
    return Given(domain, facts, len(numbers))


def read_groups(
    operation: str, exclusive: bool | Sequence[Sequence[int]], columns: int
) -> tuple[tuple[int, ...], ...]:
    """Columns that exclude each other; every column is in exactly one group."""
    if exclusive is True:
        return (tuple(range(columns)),)
    if exclusive is False:
        return tuple((column,) for column in range(columns))
    try:
        groups = [tuple(int(column) for column in group) for group in exclusive]
    except TypeError:
        raise InputError(
            f"{operation}: exclusive must be True, False or a list of groups of column numbers "
            f"such as [[0, 1, 2], [3, 4]], got {shorten(exclusive)}."
        ) from None
    seen: set[int] = set()
    for group in groups:
        for column in group:
            if not 0 <= column < columns:
                raise InputError(
                    f"{operation}: exclusive names column {column}, but there are {columns}."
                )
            if column in seen:
                raise InputError(f"{operation}: exclusive names column {column} more than once.")
            seen.add(column)
    rest = [(column,) for column in range(columns) if column not in seen]
    return tuple([group for group in groups if group] + rest)


def _check_order(operation: str, numbers: Any, symbols: Any, what: str) -> None:
    swapped = isinstance(symbols, Tensor) and not isinstance(numbers, Tensor)
    if swapped or isinstance(numbers, (str, range)):
        raise InputError(
            f"{operation}: the arguments are swapped: the first one ({shorten(numbers, 40)}) looks "
            f"like symbols. Write {operation}({what}, symbols)."
        )


def _tensor(operation: str, numbers: Any, symbols: Any, what: str) -> Tensor:
    """What a user gave as numbers, as a floating-point tensor."""
    _check_order(operation, numbers, symbols, what)
    if not isinstance(numbers, Tensor):
        try:
            numbers = torch.as_tensor(numbers, dtype=None)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{operation}: {what} must be a tensor of numbers, got {shorten(numbers)} "
                f"({error}). The order of arguments is {operation}({what}, symbols)."
            ) from None
        if numbers.dtype == torch.float64:
            numbers = numbers.to(torch.get_default_dtype())
    if numbers.layout != torch.strided:
        raise InputError(f"{operation}: {what} are a sparse tensor; call .to_dense() first.")
    if numbers.is_complex():
        raise InputError(f"{operation}: {what} are complex numbers ({numbers.dtype}).")
    if not numbers.is_floating_point():
        return numbers.to(torch.get_default_dtype())
    return numbers if numbers.dtype in (torch.float32, torch.float64) else numbers.float()


def _symbols(operation: str, symbols: Any) -> Symbols:
    if isinstance(symbols, (Tensor, np.ndarray)):
        symbols = symbols.tolist()
    if isinstance(symbols, (set, frozenset)):
        raise InputError(
            f"{operation}: symbols are a {type(symbols).__name__}, which has no order, so it is "
            "unclear which column is whose. Give a list, e.g. sorted(symbols)."
        )
    try:
        members = symbols if isinstance(symbols, range) else tuple(symbols)
    except TypeError:
        raise InputError(
            f"{operation}: symbols must be a list of hashable objects, got {shorten(symbols)}."
        ) from None
    try:
        return Symbols.of(members)
    except SymbolError as error:
        raise SymbolError(f"{operation}: {error}") from None


def _check_values(operation: str, numbers: Tensor, logits: bool) -> None:
    """Only where looking at values costs no synchronisation with a device."""
    if numbers.device.type != "cpu" or numbers.numel() == 0 or torch.compiler.is_compiling():
        return
    if logits and math.isfinite(numbers.detach().sum().item()):
        return  # the usual case: one number tells that all of them are finite
    low, high = (bound.item() for bound in torch.aminmax(numbers.detach()))
    if low != low or (logits and high == torch.inf):
        what = "logits" if logits else "probabilities"
        bad = ~torch.isfinite(numbers.detach()) if logits else torch.isnan(numbers.detach())
        row = f", first in row {int(bad.any(-1).nonzero()[0])}" if numbers.dim() == 2 else ""
        raise InputError(
            f"{operation}: {what} contain NaN or infinity{row}. Check the network's output and the "
            "loss of the last step for divisions by zero and overflow."
        )
    if logits or (low >= -_SLACK and high <= 1.0 + _SLACK):
        return
    raise InputError(
        f"{operation}: probabilities must lie in [0, 1], got values from {low:.4g} to {high:.4g}. "
        "Did you mean Distribution.from_logits(logits, symbols)? Otherwise apply softmax or "
        "sigmoid first."
    )


def _normalise(
    logits: Tensor, exclusive: bool | Sequence[Sequence[int]], groups: tuple[tuple[int, ...], ...]
) -> Tensor:
    """(..., columns, rows) of logits as log-probabilities."""
    if exclusive is True:
        return logits.log_softmax(-2)
    if exclusive is False:
        return F.logsigmoid(logits)
    parts, order = [], []
    for group in groups:
        part = logits[..., list(group), :]
        parts.append(part.log_softmax(-2) if len(group) > 1 else F.logsigmoid(part))
        order.extend(group)
    back = torch.from_numpy(np.argsort(order)).to(logits.device)
    return torch.cat(parts, -2).index_select(-2, back)
