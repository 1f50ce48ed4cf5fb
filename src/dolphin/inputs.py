"""Checking and reading what a user builds a distribution from."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.errors import InputError, SymbolError, listing, shorten
from dolphin.provenance.facts import Facts, Groups, Label
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, reading_is_free, safe_log
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain, RowSymbols
from dolphin.symbolic.symbols import Symbols, SymbolTable

Exclusive = bool | Sequence[Sequence[int]]
"""Whether symbols exclude each other: all of them, none, or the columns of each of some groups."""

_SLACK = 1e-4  # how far outside [0, 1] rounding may carry a probability
_ROUNDING = 1e-3  # and how far above 1 the sum of many
_ROUNDING_OF_HALF = 2e-2  # of numbers of half precision


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


Kind = Literal["probs", "logits", "log_probs"]


def read(operation: str, numbers: Any, symbols: Any, exclusive: Exclusive, kind: Kind) -> Given:
    """The input of `Distribution(numbers, symbols)` and of the ways to make one from logarithms."""
    if isinstance(numbers, torch.distributions.Distribution):
        numbers, exclusive, kind = _of_torch(operation, numbers, exclusive)
    tensor = _tensor(operation, numbers, symbols, kind)
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
    facts = facts_of(operation, tensor, groups, label, kind, softmax, _rounding(numbers))
    return Given(members, facts, tensor.shape[0])


def facts_of(
    operation: str,
    rows: Tensor,
    groups: Groups,
    label: Label,
    kind: Kind,
    softmax: bool,
    rounding: float = _ROUNDING,
) -> Facts:
    """The facts of an input, from numbers (B, N) that are checked where that is free.

    `softmax`: all columns of logits are one choice, even if there is only one column.
    """
    masked = check_values(operation, rows, kind)
    if kind == "logits":
        logs = _normalise(rows.t(), groups, softmax, masked)
        if masked:
            _check_masks(operation, logs, groups, softmax)
        return Facts(log_probs=logs.contiguous(), groups=groups, label=label)
    columns = rows.t().clone(memory_format=torch.contiguous_format)  # the user may write to theirs
    if kind == "log_probs":
        logs = torch.where(columns > IMPOSSIBLE, columns, ZERO)
        logs = logs - logs.detach().clamp(min=0.0)  # what rounding carried above log 1
        check_totals(operation, logs.detach().exp(), groups, rounding)
        return Facts(log_probs=logs, groups=groups, label=label)
    check_totals(operation, columns, groups, rounding)
    return Facts(log_probs=safe_log(columns), groups=groups, label=label, probs=columns)


def _of_torch(
    operation: str, given: torch.distributions.Distribution, exclusive: Exclusive
) -> tuple[Tensor, Exclusive, Kind]:
    """What one of `torch.distributions` says of each symbol."""
    if isinstance(given, torch.distributions.Categorical):
        return given.logits, exclusive, "logits"
    if isinstance(given, torch.distributions.Bernoulli):  # each symbol holds on its own
        return given.logits, False if exclusive is True else exclusive, "logits"
    raise InputError(
        f"{operation}: of torch.distributions a Categorical (one of the symbols) or a Bernoulli "
        f"(each symbol on its own) can be given, got {type(given).__name__}. Give probabilities "
        "of finitely many symbols instead."
    )


def read_each(operation: str, logits: Any, symbols: Any, exclusive: Exclusive) -> list[Given]:
    """The input of `Distribution.each_from_logits`: checked and normalised all at once."""
    tensor = _tensor(operation, logits, symbols, "logits")
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
            _check_masks(operation, logs, groups, exclusive is True)
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
    numbers: list[np.ndarray] = []
    values: list[Tensor] = []
    rounding = _ROUNDING
    for row, pair in enumerate(rows):
        members, tensor, slack = _read_row(f"{operation}: row {row}", row, pair, kind)
        numbers.append(members.numbers(table))
        values.append(tensor)
        rounding = max(rounding, slack)
    if not values:
        raise InputError(f"{operation}: got no rows; give one (symbols, probabilities) per row.")
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in values))
    width = max(1, *map(len, numbers))
    together = np.full((len(numbers), width), ABSENT, dtype=np.int64)
    for row, number in enumerate(numbers):
        together[row, : len(number)] = number
    fill = 0.0 if kind == "probs" else -math.inf
    padded = [F.pad(tensor.to(dtype), (0, width - len(tensor)), value=fill) for tensor in values]
    structure = _groups_in_rows(operation, exclusive, list(map(len, numbers)), width)
    parts = []
    for own in dict.fromkeys(structure):
        chosen = [row for row, other in enumerate(structure) if other == own]
        domain = RowSymbols(table, together[chosen])
        some = torch.stack([padded[row] for row in chosen])
        facts = _facts_of_rows(operation, some, domain, *own, kind, rounding)
        parts.append(GivenRows(Given(domain, facts, len(chosen)), chosen))
    return parts


def _read_row(place: str, row: int, pair: Any, kind: Kind) -> tuple[Symbols, Tensor, float]:
    try:
        symbols, values = pair
    except (TypeError, ValueError):
        raise InputError(
            f"{place} must be a pair (symbols, probabilities), got {shorten(pair)}."
        ) from None
    members = read_symbols(place, symbols)
    tensor = _tensor(place, values, symbols, kind)
    if tensor.dim() != 1 or len(tensor) != len(members):
        raise InputError(
            f"{place} has {len(members)} symbols and {kind} of shape {tuple(tensor.shape)}. Give "
            "one number per symbol."
        )
    duplicate = members.first_duplicate()
    if duplicate is not None:
        raise InputError(
            f"{place}: duplicate symbol {shorten(members[duplicate[1]])}. Symbols of one row must "
            "be distinct."
        )
    check_values(place, tensor, kind)
    return members, tensor, _rounding(values)


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
        check_totals(operation, columns, groups, rounding)
        probs, logs = columns, torch.where(absent, ZERO, safe_log(columns))
    elif kind == "log_probs":
        logs = torch.where(columns > IMPOSSIBLE, columns, ZERO)
        check_totals(operation, logs.detach().exp(), groups, rounding)
    else:
        logs = _normalise(columns, groups, softmax, masked=True)
        _check_masks(operation, torch.where(absent.all(0), 0.0, logs), groups, softmax)
    return Facts(log_probs=logs, groups=groups, label=RowLabels(domain), probs=probs)


def _groups_in_rows(
    operation: str, exclusive: Any, lengths: Sequence[int], width: int
) -> list[tuple[Groups, bool]]:
    """Which columns exclude each other in each row, and whether all of them do."""
    if isinstance(exclusive, bool):
        return [(read_groups(operation, exclusive, width), exclusive)] * len(lengths)
    per_row = _is_list(exclusive) and any(
        isinstance(own, bool) or (_is_list(own) and any(map(_is_list, own))) for own in exclusive
    )
    if per_row and len(exclusive) != len(lengths):
        raise InputError(
            f"{operation}: exclusive has {len(exclusive)} entries for {len(lengths)} rows; give "
            "True, False or a list of groups for each row, or one for all rows."
        )
    structure = []
    for row, length in enumerate(lengths):
        own = exclusive[row] if per_row else exclusive
        if own is True:  # what a row lacks can't hold, so it may as well be part of the choice
            structure.append(((tuple(range(width)),), True))
            continue
        groups = read_groups(f"{operation}: row {row}", own, length)
        structure.append(((*groups, *((column,) for column in range(length, width))), False))
    return structure


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, range))


def read_groups(operation: str, exclusive: Exclusive, columns: int) -> Groups:
    """Columns that exclude each other; every column is in exactly one group."""
    if exclusive is True:
        return (tuple(range(columns)),)
    if exclusive is False:
        return tuple((column,) for column in range(columns))
    try:
        if isinstance(exclusive, str):
            raise TypeError
        groups = [tuple(operator.index(column) for column in group) for group in exclusive]
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


def is_one_row(numbers: Any) -> bool:
    """Whether these are numbers of a single row that can be put together with others."""
    if not isinstance(numbers, Tensor) or numbers.layout != torch.strided or numbers.is_complex():
        return False
    return numbers.dim() == 1 or (numbers.dim() == 2 and numbers.shape[0] == 1)


def precision(numbers: Tensor) -> torch.dtype:
    """The precision of the probabilities that are made of these numbers."""
    if not numbers.is_floating_point():
        return torch.get_default_dtype()
    return torch.float64 if numbers.dtype == torch.float64 else torch.float32


def read_symbols(operation: str, symbols: Any) -> Symbols:
    """The symbols that a user gave, in order."""
    if isinstance(symbols, Symbols):
        return symbols
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


def check_values(operation: str, numbers: Tensor, kind: Kind) -> bool:
    """Refuse numbers that can't be meant; whether some may be masked (a logarithm of -inf).

    Only where looking at values costs no synchronisation with a device.
    """
    if not reading_is_free(numbers):
        return kind != "probs"
    if numbers.numel() == 0:
        return False
    if kind == "logits" and math.isfinite(numbers.detach().sum().item()):
        return False  # the usual case: one number tells that all of them are finite
    low, high = (bound.item() for bound in torch.aminmax(numbers.detach()))
    if low != low or (kind == "logits" and high == torch.inf):
        raise _not_a_number(operation, numbers, kind)
    if kind == "logits":
        return low == -torch.inf
    if kind == "log_probs":
        if high <= _SLACK:
            return low == -torch.inf
        raise InputError(
            f"{operation}: logarithms of probabilities can't be positive, got values up to "
            f"{high:.4g}. Did you mean Distribution.from_logits(logits, symbols)?"
        )
    if low >= -_SLACK and high <= 1.0 + _SLACK:
        return False
    raise InputError(
        f"{operation}: probabilities must lie in [0, 1], got values from {low:.4g} to {high:.4g}. "
        "Did you mean Distribution.from_logits(logits, symbols)? Otherwise apply softmax or "
        "sigmoid first."
    )


def _not_a_number(operation: str, numbers: Tensor, kind: Kind) -> InputError:
    what = "probabilities" if kind == "probs" else kind
    bad = numbers.detach().isnan() | (numbers.detach() == torch.inf)
    row = f", first in row {int(bad.any(-1).nonzero()[0])}" if numbers.dim() == 2 else ""
    return InputError(
        f"{operation}: {what} contain NaN or infinity{row}. Check the network's output and the "
        "loss of the last step for divisions by zero and overflow."
    )


def _rounding(numbers: Any) -> float:
    """How far above 1 rounding may carry the sum of numbers of this precision."""
    half = isinstance(numbers, Tensor) and numbers.dtype in (torch.float16, torch.bfloat16)
    return _ROUNDING_OF_HALF if half else _ROUNDING


def check_totals(operation: str, columns: Tensor, groups: Groups, rounding: float) -> None:
    """Refuse exclusive columns (N, rows) that add up to more than 1 in a row."""
    if not reading_is_free(columns) or columns.numel() == 0:
        return
    columns = columns.detach()
    for group in groups:
        if len(group) == 1:
            continue
        whole = len(group) == len(columns)
        totals = (columns if whole else columns[list(group)]).sum(0)
        if totals.amax().item() <= 1.0 + rounding:
            continue
        row = int(totals.argmax())
        which = "probabilities" if whole else f"probabilities of the columns {listing(group)}"
        raise InputError(
            f"{operation}: the {which} of row {row} add up to {totals[row].item():.4g}, but of "
            "exclusive symbols at most one holds, so they can't pass 1. Did you mean "
            "exclusive=False (each symbol holds on its own)? Otherwise normalise them first, "
            "e.g. with softmax."
        )


def _check_masks(operation: str, logs: Tensor, groups: Groups, softmax: bool) -> None:
    """Refuse a choice, (columns, rows) of log-probabilities, that has every column masked."""
    if not reading_is_free(logs):
        return
    possible = logs.detach() > IMPOSSIBLE
    for group in groups:
        if len(group) == 1 and not softmax:
            continue
        none = ~possible[list(group)].any(0)
        if none.any().item():
            row = int(none.nonzero()[0])
            raise InputError(
                f"{operation}: all logits of row {row} are -inf, so there is nothing to choose "
                "from. Leave at least one symbol of each row unmasked."
            )


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
    if all(len(group) == 1 for group in groups):
        return F.logsigmoid(logits)
    parts, order = [], []
    for group in groups:
        part = logits[..., list(group), :]
        parts.append(part.log_softmax(-2) if len(group) > 1 else F.logsigmoid(part))
        order.extend(group)
    back = torch.from_numpy(np.argsort(order)).to(logits.device)
    return torch.cat(parts, -2).index_select(-2, back)
