"""Reading probabilities from symbols with tags."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import FunctionError, InputError, MismatchError, shorten, told
from dolphin.execution.batching.operations import read_rows
from dolphin.execution.batching.pending import Pending
from dolphin.execution.indices import Index, lists_of, to_device
from dolphin.execution.kept import kept_index
from dolphin.execution.selecting import places_of
from dolphin.execution.tagged import Tagged
from dolphin.inputs.checks import asked_symbols
from dolphin.provenance.contract import Tags
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, prob_of_log
from dolphin.provenance.tensors import TensorProvenance
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain, caches
from dolphin.symbolic.row_planning import group_rows
from dolphin.symbolic.surroundings import calls_of_functions
from dolphin.symbolic.symbols import Symbols

Match = Callable[[Any, Any], Any]

LOG_OF_ZERO = -1e4
"""The logarithm of probability 0 that users see, in `log_probs` and in losses.

Finite, so that losses are finite, and below the logarithm of even the longest products of
probabilities, so that what is possible is always likelier than what isn't.
"""


def read(d: Tagged, operation: str, symbols: Iterable[Any] | None, *, logs: bool) -> Tensor:
    """(B, N) probabilities or their logarithms; one column per symbol, or per requested symbol."""
    if isinstance(d, Pending) and not d.node.done:
        wanted = d.known_domain if symbols is None else _columns_wanted(operation, symbols)
        if wanted:
            reader = partial(_read_each, operation, wanted, logs)
            return read_rows(operation, reader, d, (wanted, logs))[0]
    domain = d.domain
    members = domain.members
    if symbols is None and not members:
        raise InputError(
            f"{operation}: the distribution has no symbols, because every combination was "
            f"filtered away. Name the columns you want, {operation}(d, symbols=[...]), or "
            "loosen the condition."
        )
    wanted = Symbols.of(members) if symbols is None else _columns_wanted(operation, symbols)
    tags = d.tags_to_read()
    numbers = d.provenance.log_probs(tags) if logs else d.provenance.probs(tags)
    table = d.in_rows(numbers)
    low = 0.0
    if logs:
        low = LOG_OF_ZERO
        table = torch.where(table < IMPOSSIBLE, low, table)
    if wanted is domain:
        return table.clone(memory_format=torch.contiguous_format)  # users may modify it
    return columns(table, places_of(d, wanted), low)


def _columns_wanted(operation: str, symbols: Iterable[Any]) -> Symbols:
    if isinstance(symbols, (str, bytes, Tensor)):
        raise InputError(f"{operation}: symbols must be a list of symbols, got {shorten(symbols)}.")
    return asked_symbols(operation, symbols)


def _read_each(
    operation: str, wanted: Symbols, logs: bool, d: Tagged, _: Sequence[None]
) -> list[Tensor]:
    """(1, N) for each row."""
    return [row.clone() for row in read(d, operation, wanted, logs=logs).split(1)]


def log_prob_of(
    d: Tagged, operation: str, targets: Any, match: Match | None, *, warn: bool = False
) -> Tensor:
    """(B,) log-probability of each row's target; `ZERO` where no symbol is the target.

    `warn`: whether to warn of targets of a type that no symbol has.
    """
    return _of_targets(d, operation, targets, match, logs=True, warn=warn)


def prob_of(d: Tagged, operation: str, targets: Any, match: Match | None) -> Tensor:
    """(B,) probability of each row's target, 0 where no symbol is the target."""
    return _of_targets(d, operation, targets, match, logs=False, warn=False)


def _of_targets(
    d: Tagged, operation: str, targets: Any, match: Match | None, *, logs: bool, warn: bool
) -> Tensor:
    targets = read_targets(operation, targets, d.batch)
    if isinstance(d, Pending) and not d.node.done:
        reader = partial(_of_target_each, operation, match, logs, warn)
        return read_rows(operation, reader, d, (id(match), logs, warn), targets[0])[0]
    numbers_of = d.provenance.log_probs if logs else d.provenance.probs
    low = ZERO if logs else 0.0
    if match is not None:
        tags, present = _matching_tags(d, *matching(operation, d.domain, targets, match))
        return _where_present(present, numbers_of(tags).view(-1), low)
    places = target_places(d, targets)
    if warn and (places < 0).any():
        _warn_of_types(operation, d.domain, targets, places)
    alone = d.log_probs_at(places)
    if alone is not None:
        return alone if logs else prob_of_log(alone)
    if d.shared and isinstance(d.provenance, TensorProvenance):
        numbers = numbers_of(d.tags_to_read())
        if numbers.shape[1] == d.batch and places.min() >= 0:  # the usual case, in one step
            return numbers.gather(0, to_device(places[None], numbers.device))[0]
        return columns(d.in_rows(numbers), places[:, None], low)[:, 0]
    flat, address = d.flat_tags(d.tags_to_read())
    every = np.arange(d.batch)
    index = Index(np.where(places >= 0, address.at(every, places), -1))
    numbers = numbers_of(d.provenance.select(flat, index)).view(-1)
    return _where_present(places >= 0, numbers, low)


def _of_target_each(
    operation: str, match: Match | None, logs: bool, warn: bool, d: Tagged, targets: list[Any]
) -> list[Tensor]:
    """(1,) for each row."""
    numbers = _of_targets(d, operation, targets, match, logs=logs, warn=warn)
    return [row.clone() for row in numbers.split(1)]


def log_prob_of_any(d: Tagged, hits: tuple[np.ndarray, np.ndarray]) -> Tensor:
    """(B,) log-probability that one of some symbols holds, given by rows and places."""
    tags, present = _matching_tags(d, *hits)
    return _where_present(present, d.provenance.log_probs(tags).view(-1), ZERO)


def _matching_tags(d: Tagged, row: np.ndarray, place: np.ndarray) -> tuple[Tags, np.ndarray]:
    """⊕ over the symbols at some places of each row, flattened, and which rows have any."""
    flat, address = d.flat_tags(d.tags_to_read())
    table = caches.current_table()
    same = np.full(len(row), table.number(True))
    plan = group_rows(table, same, row, d.batch, [address.at(row, place)])
    tags = d.provenance.combine([flat], lists_of(plan.combinations))
    return tags, np.isin(np.arange(d.batch), row)


def _where_present(present: np.ndarray, numbers: Tensor, low: float) -> Tensor:
    """(B,) numbers, `low` where no symbol is the target, whatever the number of **0** is."""
    if present.all():
        return numbers
    return torch.where(to_device(present, numbers.device), numbers, low)


def target_places(d: Tagged, targets: Sequence[Any]) -> np.ndarray:
    """The place of each row's target, (B,), -1 where it has none."""
    domain = d.domain
    if isinstance(domain, Symbols):
        return domain.indices_of(targets)
    classes = domain.table.classes(np.maximum(domain.numbers, 0))
    classes = np.where(domain.numbers == ABSENT, ABSENT, classes)
    wanted = domain.table.classes(domain.table.numbers(targets))
    hits = classes == wanted[:, None]
    return np.where(hits.any(1), hits.argmax(1), -1)


Targets = Sequence[Any] | Tensor | np.ndarray
"""One target per row."""


def read_targets(operation: str, targets: Any, batch: int) -> list[Any]:
    """One target per row, checked."""
    if isinstance(targets, (Tensor, np.ndarray)):
        if targets.ndim != 1:
            shape = tuple(targets.shape)
            instead = "targets.squeeze(1)" if shape[1:] == (1,) else "one number per row"
            raise InputError(
                f"{operation}: targets must have shape ({batch},), one per row, got {shape}. "
                f"Write {instead}, or a list of tuples if a target is a tuple."
            )
        targets = targets.tolist()
    if isinstance(targets, (str, bytes)) or not isinstance(targets, Sequence):
        raise InputError(
            f"{operation}: targets must be a list with one symbol per row, got {shorten(targets)}."
        )
    if len(targets) != batch:
        raise MismatchError(
            f"{operation}: {len(targets)} targets for {batch} rows; give one target per row."
        )
    return list(targets)


def _warn_of_types(
    operation: str, domain: Domain, targets: Sequence[Any], places: np.ndarray
) -> None:
    """Warn of targets of a type that no symbol has: their loss would be constant."""
    members = domain.members
    if not members:
        return
    kinds = {comparable(type(member)) for member in members}
    for target in (target for target, place in zip(targets, places, strict=True) if place < 0):
        if comparable(type(target)) in kinds:
            continue
        symbol = members[0]
        warnings.warn(
            f"{operation}: the target {shorten(target)} is of type {type(target).__name__}, but "
            f"no symbol is ({shorten(symbol)} is of type {type(symbol).__name__}). "
            "Such a target can't be reached, and its loss is a constant. Convert the targets to "
            "what the program returns.",
            UserWarning,
            stacklevel=_caller(),
        )
        return


def comparable(kind: type) -> type:
    """The type to compare: numbers of different types may be equal, other types not."""
    return float if issubclass(kind, (bool, int, float, np.number)) else kind


def _caller() -> int:
    """The stack level of the first frame outside this package, for warnings."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("dolphin."):
        frame, depth = frame.f_back, depth + 1
    return depth - 1


def matching(
    operation: str, domain: Domain, targets: Sequence[Any], match: Match
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and places of the symbols that match their row's target."""
    if isinstance(domain, Symbols):
        calls = len(domain) * len(targets)
    else:
        calls = int((domain.numbers != ABSENT).sum())
    with calls_of_functions(calls):
        hits = _matching_in_one_go(domain, targets, match)
        return _matching_one_by_one(operation, domain, targets, match) if hits is None else hits


def _matching_in_one_go(
    domain: Domain, targets: Sequence[Any], match: Match
) -> tuple[np.ndarray, np.ndarray] | None:
    """The same; None if a call fails. Half the time of calls one by one."""
    if isinstance(domain, Symbols):
        row, place = (each.reshape(-1) for each in np.indices((len(targets), len(domain))))
        symbols = itertools.chain.from_iterable(itertools.repeat(domain.members, len(targets)))
    else:
        row, place = np.nonzero(domain.numbers != ABSENT)
        symbols = map(domain.table.symbols.__getitem__, domain.numbers[row, place].tolist())
    try:
        hits = list(map(match, symbols, map(targets.__getitem__, row.tolist())))
    except Exception:
        return None
    # `map` takes a StopIteration that `match` raises for its end.
    if len(hits) < len(row) or not {bool, np.bool_}.issuperset(map(type, hits)):
        return None
    hit = np.array(hits, dtype=bool)
    return row[hit], place[hit]


def _matching_one_by_one(
    operation: str, domain: Domain, targets: Sequence[Any], match: Match
) -> tuple[np.ndarray, np.ndarray]:
    """The same; a call that fails is explained."""
    rows, places = [], []
    for row, target in enumerate(targets):
        members = domain.members if isinstance(domain, Symbols) else domain.row(row)
        for place, symbol in enumerate(members):
            try:
                hit = match(symbol, target)
            except Exception as error:
                raise FunctionError(
                    f"{operation}: match raised {told(error)}, called with the "
                    f"symbol {shorten(symbol)} and the target {shorten(target)} of row {row}."
                ) from error
            if type(hit) is not bool and type(hit) is not np.bool_:
                raise FunctionError(
                    f"{operation}: match returned {shorten(hit)} ({type(hit).__name__}) for the "
                    f"symbol {shorten(symbol)} and the target {shorten(target)} of row {row}; it "
                    "must return True or False. Write a comparison, or wrap the result in "
                    "bool(...)."
                )
            if hit:
                rows.append(row)
                places.append(place)
    return np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)


def columns(table: Tensor, places: np.ndarray, low: float) -> Tensor:
    """table[b, places[b, c]], `low` where the place is -1."""
    batch, width = table.shape
    if width == 0:
        return table.new_full((batch, places.shape[1]), low) + table.sum()  # keeps the graph
    if len(places) == 1:
        at, missing = kept_index(places[0]).on(table.device)
        chosen = table.index_select(1, at)
        return chosen if missing is None else chosen.masked_fill(missing, low)
    at, missing = Index(places.reshape(-1)).on(table.device)
    chosen = table.gather(1, at.view(places.shape))
    return chosen if missing is None else chosen.masked_fill(missing.view(places.shape), low)
