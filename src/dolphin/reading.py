"""Helpers for reading numbers off a distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from dolphin.errors import FunctionError, InputError, MismatchError, shorten
from dolphin.execution.indices import Index
from dolphin.execution.profiling import active_profile
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain
from dolphin.symbolic.symbols import Symbols


def read_targets(operation: str, targets: Any, batch: int) -> list[Any]:
    """One target per row, checked."""
    if isinstance(targets, (Tensor, np.ndarray)):
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


def matching(
    operation: str, domain: Domain, targets: Sequence[Any], match: Callable[[Any, Any], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and places of the symbols that match their row's target."""
    active = active_profile()
    if active is None:
        return _matching(operation, domain, targets, match)
    if isinstance(domain, Symbols):
        calls = len(domain) * len(targets)
    else:
        calls = int((domain.numbers != ABSENT).sum())
    with active.functions(calls):
        return _matching(operation, domain, targets, match)


def _matching(
    operation: str, domain: Domain, targets: Sequence[Any], match: Callable[[Any, Any], Any]
) -> tuple[np.ndarray, np.ndarray]:
    rows, places = [], []
    for row, target in enumerate(targets):
        members = domain.members if isinstance(domain, Symbols) else domain.row(row)
        for place, symbol in enumerate(members):
            try:
                hit = bool(match(symbol, target))
            except Exception as error:
                raise FunctionError(
                    f"{operation}: match raised {type(error).__name__}: {error}, called with the "
                    f"symbol {shorten(symbol)} and the target {shorten(target)} of row {row}."
                ) from error
            if hit:
                rows.append(row)
                places.append(place)
    return np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)


def columns(table: Tensor, places: np.ndarray, low: float) -> Tensor:
    """table[b, places[b, c]], `low` where the place is -1."""
    batch, width = table.shape
    places = np.broadcast_to(places, (batch, places.shape[1]))
    if width == 0:
        return table.new_full((batch, places.shape[1]), low)
    at, missing = Index(places.reshape(-1)).on(table.device)
    chosen = table.gather(1, at.view(places.shape))
    return chosen if missing is None else chosen.masked_fill(missing.view(places.shape), low)
