"""Samples in step: those that do the same, one place after the other.

Inputs of all samples are read as one, and a sample may have many of them. Where the first input of
every sample is used for the same operation, and so is the second, rows are kept by place: each
place has rows for the samples, in order, as in a program that is written for a batch. Operations on
them then find their operands as they need them, and no row is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dolphin.execution.gathering import Pooled
from dolphin.execution.pending import Node, Pending
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance
from dolphin.provenance.facts import Facts

_FEWEST = 16  # rows of a place for which an operation of its own costs less than gathering them


def by_place(nodes: Sequence[Node], provenance: Provenance) -> list[Sequence[Node]]:
    """The inputs of each place of the samples, if they are in step; otherwise all of them.

    It pays where facts belong to rows: 64 formulas of 7 symbols take nine tenths of the time.
    """
    if not provenance.spreads:
        return [nodes]
    places: list[list[Node]] = []
    counts: dict[int, int] = {}
    for node in nodes:
        place = counts.get(node.sample.number, 0)
        counts[node.sample.number] = place + 1
        if place == len(places):
            places.append([])
        places[place].append(node)
    few = len(nodes) < _FEWEST * len(places)
    if len(places) == 1 or few or not all(map(_used_alike, places)):
        return [nodes]
    return list(places)


def _used_alike(nodes: Sequence[Node]) -> bool:
    """Whether all of them are used for the same operations."""
    uses = nodes[0].dependents or ()
    for node in nodes:
        users = node.dependents or ()
        if len(users) != len(uses):
            return False
        for user, other in zip(users, uses, strict=True):
            if user.kind is not other.kind or user.payload is not other.payload:
                return False
    return True


def settle_inputs(
    places: Sequence[Sequence[Node]], facts: Facts, make: Callable[[Facts], Tagged]
) -> None:
    """Each node gets its row of the facts, in which places follow each other."""
    parts = [facts] if len(places) == 1 else facts.split([len(nodes) for nodes in places])
    for nodes, part in zip(places, parts, strict=True):
        result, size = make(part), nodes[0].sample.agenda.size
        numbers = [node.sample.number for node in nodes]
        if result.provenance.spreads and numbers != list(range(size)):
            result = Pooled.of_input(result, np.array(numbers, dtype=np.int64), size)
        for number, node in enumerate(nodes):
            node.settle(result, number)


def by_source(nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """Nodes by the distributions that their operands are rows of, if these are large and whole."""
    first, last = (_source(node.operands[0]) for node in (nodes[0], nodes[-1]))
    if first == last:  # the usual case: one source
        return [nodes]
    parts: dict[tuple[int, ...], list[Node]] = {}
    for node in nodes:
        parts.setdefault(tuple(map(_source, node.operands)), []).append(node)
    whole = len(parts) > 1 and len(nodes) >= _FEWEST * len(parts)
    return list(parts.values()) if whole and all(map(_are_whole, parts.values())) else [nodes]


def _source(d: Tagged) -> int:
    return id(d.node.source) if isinstance(d, Pending) else id(d)


def _are_whole(nodes: Sequence[Node]) -> bool:
    """Whether the operands are all rows of their source, in order."""
    every = range(len(nodes))
    return all(
        isinstance(d, Pending)
        and d.node.number == number
        and d.node.source is not None
        and d.node.source.batch == len(nodes)
        for number, node in zip(every, nodes, strict=True)
        for d in node.operands
    )
