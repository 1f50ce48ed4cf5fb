"""Distributions for inspection: likeliest symbols, pairs with probabilities, single rows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, listing, shorten
from dolphin.execution.tagged import Tagged
from dolphin.provenance.differentiation import array_of
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import RowSymbols
from dolphin.symbolic.symbols import Symbols

Rows = SupportsIndex | slice | Sequence[int] | Sequence[bool] | Tensor | np.ndarray

RAISE: Any = object()  # there is no default
SHOWN = 5  # symbols in a repr


def likeliest_symbols(default: Any, d: Tagged, _: Sequence[None]) -> list[Any]:
    """The likeliest symbol of each row."""
    domain = d.domain
    best = np.zeros(d.batch, dtype=np.int64)
    empty = np.full(d.batch, d.width == 0)
    if d.width:
        ranking = d.in_rows(d.provenance.ranking(d.tags_like()))
        if isinstance(domain, RowSymbols):
            absent = domain.numbers == ABSENT
            empty = absent.all(1)
            mask = torch.from_numpy(absent).to(ranking.device)
            ranking = ranking.masked_fill(mask, -torch.inf)
        best = array_of(ranking.argmax(1))
    if empty.any() and default is RAISE:
        raise InputError(
            f"argmax: row {int(empty.argmax())} has no symbols, because every combination was "
            "filtered away. Pass argmax(default=...) to get that instead, or loosen the "
            "condition."
        )
    return [
        default if nothing else _symbol_at(domain, row, place)
        for row, (place, nothing) in enumerate(zip(best.tolist(), empty, strict=True))
    ]


def pairs(d: Tagged, _: Sequence[None]) -> list[list[tuple[Any, float]]]:
    """Symbols with their probabilities, row by row."""
    with torch.no_grad():
        numbers = array_of(d.in_rows(d.provenance.probs(d.tags_like()))).tolist()
    return [
        [(symbol, rounded(p)) for symbol, p in zip(members_of(d, row), probs, strict=False)]
        for row, probs in enumerate(numbers)
    ]


def members_of(d: Tagged, row: int) -> Sequence[Any]:
    """The symbols of a row."""
    return d.domain.members if isinstance(d.domain, Symbols) else d.domain.row(row)


def _symbol_at(domain: Symbols | RowSymbols, row: int, place: int) -> Any:
    if isinstance(domain, Symbols):
        return domain[place]
    return domain.table.symbols[domain.numbers[row, place]]


def first_row(d: Tagged) -> str:
    """The likeliest symbols of the first row, with numbers where they are cheap to compute."""
    (pairs,) = shown_rows(d, 1)
    if all(p is None for _, p in pairs):
        return f"[{listing(members_of(d, 0), SHOWN)}]"
    return "{" + ", ".join(s if p is None else f"{s}: {p:.3g}" for s, p in pairs) + "}"


def shown_rows(d: Tagged, rows: int) -> list[list[tuple[str, float | None]]]:
    """The likeliest symbols of the first rows, with numbers where they are cheap to compute."""
    numbers = d.provenance.glance(d.tags_like())
    return [_shown_row(d, row, numbers) for row in range(min(rows, d.batch))]


def _shown_row(d: Tagged, row: int, numbers: Tensor | None) -> list[tuple[str, float | None]]:
    members = list(members_of(d, row))
    more: list[tuple[str, float | None]] = [(f"... {len(members)} symbols", None)]
    more = more if len(members) > SHOWN else []
    if numbers is None:
        return [*((shorten(symbol, 40), None) for symbol in members[:SHOWN]), *more]
    probs = d.in_rows(numbers)[row].tolist()
    pairs = sorted(zip(members, probs, strict=False), key=lambda pair: -pair[1])
    return [*((shorten(symbol, 40), p) for symbol, p in pairs[:SHOWN]), *more]


def rounded(number: float) -> float:
    """Six digits, for inspection."""
    return float(f"{number:.6g}")


def row_number(operation: str, row: int, batch: int) -> int:
    """The number of a row, checked; negative ones count from the end."""
    try:
        if isinstance(row, bool) or getattr(row, "dtype", None) in (torch.bool, np.bool_):
            raise TypeError("a mask is no row")
        row = operator.index(row)
    except Exception:  # whatever can't be read as a number, tensors of several entries included
        raise InputError(f"{operation}: row must be a number, got {shorten(row)}.") from None
    if not -batch <= row < batch:
        raise InputError(
            f"{operation}: row {row} is out of range for a distribution with {batch} rows."
        )
    return row % batch


def row_numbers(rows: Rows, batch: int) -> np.ndarray:
    """The numbers of the selected rows, checked."""
    if isinstance(rows, slice):
        try:
            chosen = np.arange(batch)[rows]
        except (TypeError, ValueError) as error:
            raise InputError(f"d[rows]: {rows} is not a slice of rows: {error}.") from None
    else:
        try:
            given = array_of(rows) if isinstance(rows, Tensor) else np.asarray(rows)
        except (TypeError, ValueError, RuntimeError):  # rows of different lengths, for example
            given = np.empty((0, 0))
        if given.ndim > 1 or (given.size and given.dtype.kind not in "biu"):
            raise InputError(
                f"d[rows]: rows must be a number, a slice, a list of numbers or a mask of {batch} "
                f"booleans, got {shorten(rows)}. To look symbols up use d.probs(symbols=[...])."
            )
        if given.dtype.kind == "b":
            if given.shape != (batch,):
                raise InputError(
                    f"d[mask]: a mask of shape {given.shape} doesn't fit {batch} rows; give one "
                    "boolean per row."
                )
            given = np.flatnonzero(given)
        chosen = np.atleast_1d(given).astype(np.int64)
    outside = chosen[(chosen < -batch) | (chosen >= batch)]
    if len(outside):
        raise InputError(
            f"d[rows]: row {outside[0]} is out of range for a distribution with {batch} rows."
        )
    if not len(chosen):
        raise InputError(f"d[rows]: {shorten(rows)} leaves no rows; a batch has at least one.")
    return chosen % batch
