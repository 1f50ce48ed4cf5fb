"""Checks of what a user builds a distribution from: symbols, groups, numbers."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Literal, SupportsFloat

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, SymbolError, listing, shorten
from dolphin.execution.indices import to_device
from dolphin.inputs.arguments import items
from dolphin.provenance.differentiation import array_of, reading_is_free
from dolphin.provenance.facts import Groups, all_alone, each_alone
from dolphin.provenance.numerics import IMPOSSIBLE, excess
from dolphin.symbolic.bounded import registered
from dolphin.symbolic.symbols import Symbols

Exclusive = bool | Sequence[Sequence[int]]
"""Whether symbols exclude each other: all of them, none, or the columns of each of some groups."""

_Row = Sequence[SupportsFloat]
Numbers = Tensor | np.ndarray | _Row | Sequence[_Row] | Sequence[Sequence[_Row]]
"""What a tensor is read from."""

Kind = Literal["probs", "logits", "log_probs"]

_SLACK = 1e-4  # how far outside [0, 1] rounding may carry a probability
ROUNDING = 1e-3  # how far above 1 rounding may carry a sum
_ROUNDING_OF_HALF = 2e-2  # the same in half precision


def check_order(operation: str, numbers: Any, symbols: Any, what: str) -> None:
    """Refuse symbols and numbers in the wrong order."""
    swapped = isinstance(symbols, Tensor) and not isinstance(numbers, Tensor)
    if swapped or isinstance(numbers, (str, range)):
        in_row = ": row " in operation  # a pair of `from_rows` has its symbols first
        first = "second" if in_row else "first"
        call = f"(symbols, {what}) for each row" if in_row else f"{operation}({what}, symbols)"
        raise InputError(
            f"{operation}: the arguments are swapped: the {first} one ({shorten(numbers, 40)}) "
            f"looks like symbols. Write {call}."
        )


def with_tensors(numbers: Any) -> Any:
    """Lists of numbers of which some are tensors as one tensor, with gradients; others as given."""
    if not isinstance(numbers, (list, tuple)):
        return numbers
    parts = [with_tensors(each) for each in numbers]
    first = next((each for each in parts if isinstance(each, Tensor)), None)
    if first is None:
        return numbers
    return torch.stack(
        [each if isinstance(each, Tensor) else first.new_tensor(each) for each in parts]
    )


def read_tensor(operation: str, numbers: Any, symbols: Any, what: str) -> Tensor:
    """The user's numbers as a floating-point tensor."""
    check_order(operation, numbers, symbols, what)
    if isinstance(numbers, np.ma.MaskedArray):
        raise InputError(
            f"{operation}: {what} are a masked array; fill what is masked first, with .filled(0.0)."
        )
    if not isinstance(numbers, Tensor):
        try:
            given = with_tensors(numbers)
            read = given if isinstance(given, Tensor) else torch.as_tensor(given)
        except (TypeError, ValueError, RuntimeError) as error:
            in_row = ": row " in operation
            order = "" if in_row else f" The order of arguments is {operation}({what}, symbols)."
            raise InputError(
                f"{operation}: {what} must be a tensor of numbers, got {shorten(numbers)} "
                f"({error}).{order}"
            ) from None
        own = isinstance(given, Tensor) or read.dtype != torch.float64
        numbers = read if own else read.to(torch.get_default_dtype())
    check_plain(operation, numbers, what)
    if numbers.is_complex():
        raise InputError(f"{operation}: {what} are complex numbers ({numbers.dtype}).")
    if not numbers.is_floating_point():
        return numbers.to(torch.get_default_dtype())
    return numbers if numbers.dtype in (torch.float32, torch.float64) else numbers.float()


def check_plain(operation: str, numbers: Tensor, what: str) -> None:
    """Refuse tensors whose numbers are stored in other ways than one after another."""
    if numbers.is_nested:
        raise InputError(
            f"{operation}: {what} are a nested tensor; for rows of different lengths write "
            "Distribution.from_rows."
        )
    if numbers.layout != torch.strided:
        raise InputError(f"{operation}: {what} are a sparse tensor; call .to_dense() first.")


def precision(numbers: Tensor) -> torch.dtype:
    """The precision of the probabilities that these numbers become."""
    if not numbers.is_floating_point():
        return torch.get_default_dtype()
    return torch.float64 if numbers.dtype == torch.float64 else torch.float32


def read_symbols(operation: str, symbols: Any) -> Symbols:
    """The user's symbols, in order."""
    members = listed_symbols(operation, symbols)
    if isinstance(members, Symbols):
        return members
    try:  # `symbols_of`, without a generator
        return Symbols.of(members)
    except SymbolError as error:
        raise SymbolError(f"{operation}: {error}") from None


@contextlib.contextmanager
def symbols_of(operation: str) -> Iterator[None]:
    """Errors about symbols name the operation that they were given to."""
    try:
        yield
    except SymbolError as error:
        raise SymbolError(f"{operation}: {error}") from None


def asked_symbols(operation: str, symbols: Any) -> Symbols:
    """Symbols that a question is about, which need no order."""
    if isinstance(symbols, (set, frozenset)):
        symbols = tuple(symbols)
    return read_symbols(operation, symbols)


def closed_world(operation: str, symbols: Any) -> Symbols:
    """The symbols that there are, each once."""
    members = asked_symbols(operation, symbols)
    duplicate = members.first_duplicate()
    if duplicate is not None:
        raise InputError(
            f"{operation}: among= has {shorten(members[duplicate[1]])} twice (it equals "
            f"{shorten(members[duplicate[0]])}). Give each symbol once, with set(...) for example."
        )
    return members


def listed_symbols(operation: str, symbols: Any) -> Symbols | range | tuple[Any, ...]:
    """The user's symbols, in order, not checked yet."""
    if isinstance(symbols, Symbols):
        return symbols
    if isinstance(symbols, (Tensor, np.ndarray)):
        try:
            symbols = symbols.tolist()
        except (RuntimeError, NotImplementedError) as error:  # sparse, or without any numbers
            raise InputError(
                f"{operation}: symbols can't be read from {shorten(symbols)}."
            ) from error
    if isinstance(symbols, (set, frozenset)):
        raise InputError(
            f"{operation}: symbols are a {type(symbols).__name__}, which has no order, so it is "
            "unclear which column is which symbol's. Give a list, e.g. sorted(symbols)."
        )
    return symbols if isinstance(symbols, range) else items(operation, "symbols", symbols)


def check_distinct(operation: str, members: Symbols) -> None:
    """Refuse columns that have the same symbol."""
    duplicate = members.first_duplicate()
    if duplicate is not None:
        first, second = duplicate
        raise InputError(
            f"{operation}: duplicate symbol {shorten(members[second])} at columns {first} and "
            f"{second} (equal to {shorten(members[first])}). Symbols must be distinct; add the "
            "columns up first, or give them different symbols."
        )


def read_groups(operation: str, exclusive: Exclusive, columns: int) -> Groups:
    """Columns that exclude each other; every column is in exactly one group."""
    if exclusive is True:
        return (tuple(range(columns)),)
    if exclusive is False:
        return each_alone(columns)
    if type(exclusive) is tuple and {range}.issuperset(map(type, exclusive)):
        return _groups_of_ranges(operation, exclusive, columns)
    return _listed_groups(operation, exclusive, columns)


@registered("groups of columns")
@functools.lru_cache(maxsize=64)
def _groups_of_ranges(operation: str, ranges: tuple[range, ...], columns: int) -> Groups:
    """The same for ranges, which can't change: those of the last step take 2 instead of 45 µs."""
    return _listed_groups(operation, ranges, columns)


def _listed_groups(operation: str, exclusive: Any, columns: int) -> Groups:
    try:
        if isinstance(exclusive, str):
            raise TypeError
        groups = [tuple(map(operator.index, group)) for group in exclusive]
    except TypeError:
        raise InputError(
            f"{operation}: exclusive must be True, False or a list of groups of column numbers "
            f"such as [[0, 1, 2], [3, 4]], got {shorten(exclusive)}."
        ) from None
    named = list(itertools.chain.from_iterable(groups))
    seen = set(named)
    if min(named, default=0) < 0 or max(named, default=-1) >= columns:
        wrong = next(column for column in named if not 0 <= column < columns)
        raise InputError(f"{operation}: exclusive names column {wrong}, but there are {columns}.")
    if len(seen) < len(named):
        twice = next(column for at, column in enumerate(named) if column in named[:at])
        raise InputError(f"{operation}: exclusive names column {twice} more than once.")
    rest = [(column,) for column in range(columns) if column not in seen]
    return tuple([group for group in groups if group] + rest)


def is_list(value: Any) -> bool:
    """Whether a value is a plain sequence that groups are written in."""
    return isinstance(value, (list, tuple, range))


def check_values(operation: str, numbers: Tensor, kind: Kind) -> bool:
    """Refuse invalid numbers; return whether some may need care.

    They do if they are masked (a logarithm of -inf), or outside of [0, 1] by rounding. Values are
    read only where that costs no device synchronisation.
    """
    if not reading_is_free(numbers):
        return True
    if numbers.numel() == 0:
        return False
    if kind == "logits":
        with torch.no_grad():
            total = numbers.sum()
        if math.isfinite(array_of(total)):
            return False  # the usual case: one number shows that all are finite
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
        return low < 0.0 or high > 1.0
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


def carried_back(probs: Tensor) -> Tensor:
    """Probabilities that only rounding carries out of [0, 1], clamped, with unchanged gradients."""
    return probs - (probs - probs.clamp(0.0, 1.0)).detach()


def rounding_of(numbers: Any) -> float:
    """How far above 1 rounding may carry the sum of numbers of this precision."""
    half = isinstance(numbers, Tensor) and numbers.dtype in (torch.float16, torch.bfloat16)
    return _ROUNDING_OF_HALF if half else ROUNDING


def within_one(operation: str, columns: Tensor, groups: Groups, rounding: float) -> Tensor:
    """Probabilities (N, rows) whose exclusive columns don't pass 1, with unchanged gradients."""
    totals = _totals_above_one(operation, columns.detach(), groups, rounding)
    if totals is None:
        return columns
    return columns - (columns - columns / totals).detach()


def logs_within_one(operation: str, logs: Tensor, groups: Groups, rounding: float) -> Tensor:
    """The same for logarithms."""
    totals = _totals_above_one(operation, logs.detach().exp(), groups, rounding)
    return logs if totals is None else logs - totals.log()


def _totals_above_one(
    operation: str, columns: Tensor, groups: Groups, rounding: float
) -> Tensor | None:
    """The total of each column's group, (N, rows), at least 1; None if none passes 1.

    More than rounding can explain is refused. Less must be divided out: sums that pass 1 are
    clipped, as if the facts didn't exclude each other, and lose their gradient.
    """
    if not reading_is_free(columns) or columns.numel() == 0:
        return None
    if len(groups) > 1:  # all groups at once; the one that passes 1 is searched below
        if all_alone(groups, len(columns)):
            return None
        place = to_device(_group_of(groups, len(columns)), columns.device)
        totals = columns.new_zeros(len(groups), columns.shape[1]).index_add_(0, place, columns)
        if totals.amax().item() <= 1.0 + excess(columns.dtype) / _MANY:
            return None
    above: Tensor | None = None
    for group in groups:
        if len(group) == 1:
            continue
        whole = len(group) == len(columns)
        totals = (columns if whole else columns[list(group)]).sum(0)
        most = totals.amax().item()
        if most > 1.0 + rounding:
            raise _pass_one(operation, totals, None if whole else group)
        if most > 1.0 + excess(columns.dtype) / _MANY:
            above = torch.ones_like(columns) if above is None else above
            above[list(group)] = totals.clamp(min=1.0)
    return above


_MANY = 30  # operands of an operation, each of which may pass 1 by this share of the tolerance


def _pass_one(operation: str, totals: Tensor, group: Sequence[int] | None) -> InputError:
    row = int(totals.argmax())
    which = "probabilities"
    if group is not None:
        which = f"probabilities of the columns {listing(group)}"
    return InputError(
        f"{operation}: the {which} of row {row} add up to {totals[row].item():.4g}, but at most "
        "one of several exclusive symbols holds, so they can't exceed 1. Did you mean "
        "exclusive=False (each symbol holds on its own)? Otherwise normalise them first, "
        "e.g. with softmax."
    )


@registered("places of groups")
@functools.lru_cache(maxsize=256)
def _group_of(groups: Groups, columns: int) -> np.ndarray:
    """The number of the group of each column."""
    place = np.empty(columns, dtype=np.int64)
    for number, group in enumerate(groups):
        place[list(group)] = number
    return place


def check_masks(
    operation: str, logs: Tensor, groups: Groups, softmax: bool, absent: Tensor | None = None
) -> None:
    """Refuse a choice, (columns, rows) of log-probabilities, that has every column masked.

    `absent`, (columns, rows), marks what a row doesn't have: where that is all, there is no choice.
    """
    if not reading_is_free(logs):
        return
    possible = logs.detach() > IMPOSSIBLE
    for group in groups:
        if len(group) == 1 and not softmax:
            continue
        none = ~possible[list(group)].any(0)
        if absent is not None:
            none &= ~absent[list(group)].all(0)
        if none.any().item():
            row = int(none.nonzero()[0])
            raise InputError(
                f"{operation}: all logits of row {row} are -inf, so there is nothing to choose "
                "from. Leave at least one symbol of each row unmasked."
            )
