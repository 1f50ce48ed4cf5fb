"""Facts of several distributions, row after row, as the facts of one batch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dolphin.provenance.contract import Facts
from dolphin.provenance.numerics import ZERO

Label = Callable[[int, int], Any]


@dataclass(frozen=True)
class _Stacked:
    labels: tuple[Label, ...]
    batches: tuple[int, ...]

    def __call__(self, column: int, row: int) -> Any:
        for label, rows in zip(self.labels, self.batches, strict=True):
            if row < rows:
                return label(column, row)
            row -= rows
        raise IndexError(row)


@dataclass(frozen=True)
class _Later:
    label: Label
    before: int

    def __call__(self, column: int, row: int) -> Any:
        return self.label(column, row - self.before)


class StackedFacts(Facts):
    """Keeps its parts alive, so that their identities stay theirs."""

    def __init__(self, parts: tuple[Facts, ...], **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]
        self.parts = parts


# Stacking the same inputs twice gives the same facts, so that two distributions that were stacked
# apart still know what they share. Entries live as long as some distribution uses them.
_stacked: weakref.WeakValueDictionary[tuple[int, ...], StackedFacts] = weakref.WeakValueDictionary()


def stack_facts(parts: Sequence[Facts], batches: Sequence[int]) -> Facts:
    """One input whose rows are those of all parts, which have the same columns and groups."""
    key = (*map(id, parts), *batches)
    known = _stacked.get(key)
    if known is None:
        spread = [p.log_probs.expand(-1, rows) for p, rows in zip(parts, batches, strict=True)]

        known = StackedFacts(
            tuple(parts),
            log_probs=torch.cat(spread, dim=1),
            groups=parts[0].groups,
            label=_Stacked(tuple(part.label for part in parts), tuple(batches)),
        )
        _stacked[key] = known
    return known


def extend_facts(facts: Facts, before: int, batch: int, after: int) -> Facts:
    """The same facts within a larger batch; in the other rows they never hold."""
    key = (id(facts), -before, -after)
    known = _stacked.get(key)
    if known is None:
        logs = facts.log_probs.expand(-1, batch)
        padded = [
            logs.new_full((facts.columns, before), ZERO),
            logs,
            logs.new_full((facts.columns, after), ZERO),
        ]
        known = StackedFacts(
            (facts,),
            log_probs=torch.cat(padded, dim=1),
            groups=facts.groups,
            label=_Later(facts.label, before),
        )
        _stacked[key] = known
    return known
