"""Negation of distributions: what is left of each symbol, among the others of its choice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import UnsupportedError
from dolphin.execution.kept import kept_index
from dolphin.execution.profiling import profiled
from dolphin.execution.selecting import among
from dolphin.execution.tagged import Tagged, present_only
from dolphin.provenance.contract import Tags
from dolphin.provenance.facts import Groups
from dolphin.provenance.logarithms import LogTags
from dolphin.provenance.registry import names_with_negation, negates
from dolphin.symbolic.plans import RowAddress
from dolphin.symbolic.symbols import Symbols


@profiled("negate", tags=True)
def negated(d: Tagged, world: Symbols | None) -> Tagged:
    """The same symbols, or those of a closed world, with negated tags."""
    if not negates(d.provenance):
        raise UnsupportedError(
            f"negate: {d.provenance!r} has no negation. Provenances with negation: "
            f"{', '.join(names_with_negation())}."
        )
    by_others = d.normalised and d.provenance.numeric
    if world is not None and not by_others:
        d = among(d, world)
    tags = present_only(negation_of_all(d), d)
    negated = Tagged(d.domain, tags, d.provenance, d.batch, constant=d.constant)
    if world is not None and by_others:
        return among(negated, world, otherwise_one=True)
    return negated


def negation_of_all(d: Tagged) -> Tags:
    """The negation of all tags of a distribution.

    Where one of several symbols holds for certain, the algebra is told which these are.
    """
    tags, groups = d.tags_like(), d.groups
    if not d.normalised or not d.provenance.numeric:
        return negation(d, tags)
    if d.exclusive:
        return d.provenance.negate_choices(tags, d.width)
    if groups is None:
        return negation(d, tags)
    layouts = [(rows, *_side_by_side(own, d.width)) for rows, own in _groups_of_rows(groups)]
    if not d.shared:
        return _chosen_among(d, tags, *_of_each_row(d, layouts))
    result = None
    for rows, places, back in layouts:
        own = _chosen_among(d, tags, places, back)
        result = own if result is None else d.provenance.where(_mask(rows, d, own), own, result)
    return result


def negation(d: Tagged, tags: Tags) -> Tags:
    """The negation of tags of a distribution.

    That of what is certain is impossible. Of a fact of probability 1 it is not: it has a gradient.
    """
    negated = d.provenance.negate(tags)
    if d.constant and isinstance(tags, Tensor) and isinstance(d.provenance, LogTags):
        return torch.where(tags == d.provenance.one_value, d.provenance.zero, negated)
    return negated


_Layout = tuple[np.ndarray | slice, np.ndarray, np.ndarray]
"""Rows; the places of each of their groups, (groups, most), -1 after the last; for each place where
it is among these."""


def _groups_of_rows(groups: Groups | np.ndarray) -> Iterator[tuple[np.ndarray | slice, Groups]]:
    """The rows that have the same groups, and these."""
    if isinstance(groups, tuple):
        yield slice(None), groups
        return
    distinct, which = np.unique(groups, axis=0, return_inverse=True)
    for number, row in enumerate(distinct):
        own = tuple(tuple(np.flatnonzero(row == group).tolist()) for group in np.unique(row))
        yield slice(None) if len(distinct) == 1 else np.flatnonzero(which == number), own


def _side_by_side(groups: Groups, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of each group, and where every place is among these."""
    places = np.full((len(groups), max(map(len, groups))), -1, dtype=np.int64)
    back = np.zeros(width, dtype=np.int64)
    for number, group in enumerate(groups):
        places[number, : len(group)] = group
        back[list(group)] = number * places.shape[1] + np.arange(len(group))
    return places, back


def _of_each_row(d: Tagged, layouts: list[_Layout]) -> tuple[np.ndarray, np.ndarray]:
    """The same for rows with their own symbols, all of whose tags follow each other."""
    count = max(len(places) for _, places, _ in layouts)
    most = max(places.shape[1] for _, places, _ in layouts)
    every = np.full((d.batch, count, most), -1, dtype=np.int64)
    back = np.zeros((d.batch, d.width), dtype=np.int64)
    for rows, places, own in layouts:
        every[rows, : len(places), : places.shape[1]] = places
        back[rows] = own // places.shape[1] * most + own % places.shape[1]
    row = np.arange(d.batch)[:, None]
    at = RowAddress(d.width).at(row[..., None], every)
    return np.where(every < 0, -1, at), RowAddress(count * most).at(row, back)


def _chosen_among(d: Tagged, tags: Tags, places: np.ndarray, back: np.ndarray) -> Tags:
    """The negation of the tags at these places: of those in one line, one holds for certain."""
    side_by_side = d.provenance.select(tags, kept_index(places.reshape(-1)))
    negated = d.provenance.negate_choices(side_by_side, places.shape[-1])
    return d.provenance.select(negated, kept_index(back.reshape(-1)))


def _mask(rows: np.ndarray | slice, d: Tagged, tags: Tags) -> Tensor:
    mask = torch.zeros(d.batch, dtype=torch.bool)
    mask[rows] = True
    return mask.to(d.provenance.describe(tags).device)
