"""The precision of a result that doesn't depend on all inputs of its program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dolphin.distribution import distribution_of
from dolphin.execution.tagged import Tagged, agreed, tagged_of
from dolphin.operations import filter, union


def as_precise_as(d: Tagged, inputs: Iterable[Tagged]) -> Tagged:
    """A result, as precise as the most precise input, whether it depends on that or not."""
    given = [each for each in inputs if not each.constant]
    if not d.constant or not given:
        return agreed([d, *given])[0]
    joined = tagged_of(union(distribution_of(d), nothing_of(agreed(given)[:1])))
    rows = joined.batch
    return Tagged(joined.domain, joined.made, joined.provenance, rows, exclusive=d.exclusive)


def nothing_of(inputs: Iterable[Tagged]) -> Any:
    """No symbols, with the precision and rows of the inputs, and connected to their graph."""
    return union(*(filter(distribution_of(d), _never, cache=False) for d in inputs))


def _never(symbol: Any) -> bool:
    return False
