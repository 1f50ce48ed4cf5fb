"""Rows of many distributions as the rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dolphin.execution.indices import Index
from dolphin.execution.selecting import stacked
from dolphin.execution.tagged import Tagged
from dolphin.symbolic.symbols import Symbols


class Row(NamedTuple):
    """One row of a distribution."""

    of: Tagged
    number: int
    exclusive: bool  # in this row; `of` says it of all of its rows


def gathered(rows: Sequence[Row]) -> Tagged:
    """These rows, in this order; one row if they are all the same one.

    Facts stay the same facts, row by row. Each distribution that rows come from is read once.
    """
    first = rows[0]
    if all(row.of is first.of and row.number == first.number for row in rows):
        return first.of if first.of.batch == 1 else _flagged(_taken(first.of, [0], rows[:1]), rows)
    sources: dict[int, tuple[Tagged, list[int]]] = {}
    for place, row in enumerate(rows):
        sources.setdefault(id(row.of), (row.of, []))[1].append(place)
    parts = [_taken(source, places, rows) for source, places in sources.values()]
    if len(parts) == 1:
        return _flagged(parts[0], rows)
    together = stacked(parts)
    order = np.concatenate([places for _, places in sources.values()])
    back = np.argsort(order)
    if (back != np.arange(len(back))).any():
        together = together.take_rows(back)
    return _flagged(together, rows)


def _taken(source: Tagged, places: Sequence[int], rows: Sequence[Row]) -> Tagged:
    """The rows of one source that stand at these places."""
    numbers = np.array([rows[place].number for place in places], dtype=np.int64)
    if len(numbers) == source.batch and (numbers == np.arange(len(numbers))).all():
        return source
    return source.take_rows(numbers)


def _flagged(d: Tagged, rows: Sequence[Row]) -> Tagged:
    exclusive = all(row.exclusive for row in rows)
    if d.exclusive == exclusive:
        return d
    return Tagged(d.domain, d.made, d.provenance, d.batch, exclusive=exclusive, constant=d.constant)


def with_shared_symbols(d: Tagged, domain: Symbols) -> Tagged:
    """The same rows in the shared layout, where all of them are known to have these symbols."""
    if d.domain is domain:
        return d
    tags = d.tags
    if tags is not None and not d.shared:
        tags = d.provenance.unflatten(_trimmed(d, len(domain)), d.batch)
    return d.replaced(domain, tags)


def _trimmed(d: Tagged, width: int) -> Any:
    """Flat tags with this many places per row."""
    if d.width == width:
        return d.tags
    places = np.arange(d.batch)[:, None] * d.width + np.arange(width)
    return d.provenance.select(d.tags, Index(places.reshape(-1)))
