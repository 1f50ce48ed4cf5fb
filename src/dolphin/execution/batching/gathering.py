"""Rows of many distributions as the rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dolphin.execution.indices import Index
from dolphin.execution.selecting import group_numbers, stacked
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, Tags
from dolphin.symbolic.plans import Domain, RowAddress, RowSymbols
from dolphin.symbolic.symbols import Symbols


class Part(NamedTuple):
    """Some rows of a distribution."""

    of: Tagged
    numbers: Sequence[int]
    exclusive: bool  # in these rows; that of `of` is for all of its rows


class Pooled(Tagged):
    """Rows of results that know which sample of a batch they belong to.

    Their tags are flattened, and their facts have a row for each sample, so they can be combined
    with others of the batch as they are. `take_rows` turns them into ordinary rows.
    """

    __slots__ = ("_flat", "places", "plain", "size")

    def __init__(
        self, domain: Domain, made: Tags, provenance: Provenance, places: np.ndarray, size: int
    ) -> None:
        super().__init__(domain, made, provenance, len(places))
        self.places = places  # which sample each row belongs to
        self.size = size  # samples of the batch
        self.plain: Tagged | None = None  # the same as ordinary rows, if there are such
        self._flat: Tags | None = None

    @classmethod
    def of_input(cls, d: Tagged, places: np.ndarray, size: int) -> Pooled:
        """Inputs that samples created, as rows of all samples."""
        made = cls(d.domain, d.made, d.provenance, places, size)
        made.exclusive, made.groups, made.normalised = d.exclusive, d.groups, d.normalised
        made.plain = d
        return made

    def flat_tags(self, like: Tags | None = None) -> tuple[Tags, RowAddress]:
        if self.plain is not None and self._flat is None:
            self._flat = self.provenance.spread(self.plain.tags, self.places, self.size)
        flat = self.made if self._flat is None else self._flat
        return flat, RowAddress(self.width, per_row=True)

    def take_rows(self, rows: np.ndarray) -> Tagged:
        if self.plain is not None:
            whole = len(rows) == self.batch and (rows == np.arange(self.batch)).all()
            return self.plain if whole else self.plain.take_rows(rows)
        assert isinstance(self.domain, RowSymbols)
        domain = RowSymbols(self.domain.table, self.domain.numbers[rows])
        places = rows[:, None] * self.width + np.arange(self.width)
        chosen = self.provenance.select(self.tags, Index(places.reshape(-1)))
        tags = self.provenance.regrouped(chosen, self.places[rows])
        return self.replaced(domain, tags, len(rows))


def gathered(parts: Sequence[Part]) -> Tagged:
    """These rows, in this order; one row if they are all the same one.

    Facts stay the same facts, row by row. Each distribution that rows come from is read once.
    """
    first = parts[0]
    exclusive = all(part.exclusive for part in parts)
    if all(part.of is first.of for part in parts):
        numbers = [number for part in parts for number in part.numbers]
        return _flagged(_taken(first.of, numbers), exclusive)
    sources: dict[int, tuple[Tagged, list[int], list[int]]] = {}
    place = 0
    for part in parts:
        _, numbers, places = sources.setdefault(id(part.of), (part.of, [], []))
        numbers += part.numbers
        places += range(place, place + len(part.numbers))
        place += len(part.numbers)
    together = stacked([_rows_of(source, numbers) for source, numbers, _ in sources.values()])
    back = np.argsort(np.concatenate([places for *_, places in sources.values()]))
    if (back != np.arange(len(back))).any():
        together = together.take_rows(back)
    return _flagged(together, exclusive)


def _taken(source: Tagged, numbers: Sequence[int]) -> Tagged:
    """Rows of one source; one of them if they are all the same."""
    if numbers.count(numbers[0]) < len(numbers):
        return _rows_of(source, numbers)
    if source.batch == 1 and not isinstance(source, Pooled):
        return source
    return _rows_of(source, numbers[:1])


def _rows_of(source: Tagged, numbers: Sequence[int]) -> Tagged:
    if len(numbers) == source.batch and list(numbers) == list(range(len(numbers))):
        if not isinstance(source, Pooled):
            return source
        if source.plain is not None:
            return source.plain
    return source.take_rows(np.array(numbers, dtype=np.int64))


def _flagged(d: Tagged, exclusive: bool) -> Tagged:
    if d.exclusive == exclusive:
        return d
    return Tagged(
        d.domain,
        d.made,
        d.provenance,
        d.batch,
        exclusive=exclusive,
        constant=d.constant,
        groups=d.groups,
    )


def with_shared_symbols(d: Tagged, domain: Symbols) -> Tagged:
    """The same rows in the shared layout, where all of them are known to have these symbols."""
    if d.domain is domain:
        return d
    tags = d.tags
    if tags is not None and not d.shared:
        tags = d.provenance.unflatten(_trimmed(d, len(domain)), d.batch)
    shared = d.replaced(domain, tags)
    shared.normalised = d.normalised and d.exclusive
    groups = group_numbers(d)
    if groups is not None:  # there may be more places than symbols
        shared.groups = d.groups if d.width == len(domain) else groups[:, : len(domain)]
    return shared


def _trimmed(d: Tagged, width: int) -> Any:
    """Flat tags with this many places per row."""
    if d.width == width:
        return d.tags
    places = RowAddress(d.width).every(d.batch)[:, :width]
    return d.provenance.select(d.tags, Index(places.reshape(-1)))
