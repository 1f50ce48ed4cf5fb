"""Expectation and entropy of the symbols of each row; `conditioning` has what users call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import FunctionError, InputError, shorten, told
from dolphin.execution.profiling import profiled
from dolphin.execution.tagged import Holder, Tagged, check_arity
from dolphin.provenance.numerics import flush
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.symbols import Symbols


@profiled("expected", tags=True)
def expectation(d: Tagged, value: Callable[[Any], float] | None) -> Tensor:
    """See `expected`."""
    probs = d.in_rows(d.provenance.probs(d.tags_to_read()))
    if value is not None:
        if isinstance(value, Holder) or not callable(value):
            raise InputError(f"expected: value must be a function, got {shorten(value)}.")
        check_arity("expected", "value", value, 1)
    table = torch.zeros(d.batch, d.width, dtype=torch.float64)
    values: dict[Any, float] = {}
    for row, place, symbol in _each_symbol(d):
        if symbol not in values:
            values[symbol] = _number(symbol, value)
        table[row, place] = values[symbol]
    return (probs * table.to(probs.device, probs.dtype)).sum(1)


@profiled("entropy", tags=True)
def entropy_of(d: Tagged) -> Tensor:
    """See `entropy`."""
    logs = d.in_rows(d.provenance.log_probs(d.tags_to_read()))
    there = logs > flush(logs.dtype)
    logs = torch.where(there, logs, 0.0)
    return torch.where(there, logs.exp() * -logs, 0.0).sum(1)


def _each_symbol(d: Tagged) -> list[tuple[Any, int, Any]]:
    """Row, place and symbol of all symbols; for shared ones all rows at once."""
    domain = d.domain
    if isinstance(domain, Symbols):
        return [(slice(None), place, symbol) for place, symbol in enumerate(domain)]
    rows, places = np.nonzero(domain.numbers != ABSENT)
    symbols = [domain.table.symbols[number] for number in domain.numbers[rows, places].tolist()]
    return list(zip(rows.tolist(), places.tolist(), symbols, strict=True))


def _number(symbol: Any, value: Callable[[Any], float] | None) -> float:
    try:
        return float(symbol if value is None else value(symbol))
    except Exception as error:
        what = "the symbol" if value is None else "value of the symbol"
        raise FunctionError(
            f"expected: {what} {shorten(symbol)} is not a number ({told(error)}). Give value=, a "
            "function from a symbol to a number."
        ) from error
