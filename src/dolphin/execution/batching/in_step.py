"""Samples in step: those that do the same, one place after the other.

Inputs of all samples are read as one, and a sample may have many of them. Where the first input of
every sample is used for the same operation, and so is the second, rows are kept by place: each
place has rows for the samples, in order, as in a program that is written for a batch. Operations on
them then find their operands as they need them, and no row is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from dolphin.execution.batching.gathering import Pooled
from dolphin.execution.batching.nodes import Node
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance
from dolphin.provenance.facts import Facts

_FEWEST = 16  # rows of a place for which an operation of its own costs less than gathering them


def by_place(nodes: Sequence[Node], provenance: Provenance) -> list[Sequence[Node]]:
    """The inputs of each place of the samples, if they are in step; otherwise all of them.

    It pays where facts belong to rows: 64 formulas of 7 symbols take nine tenths of the time.
    """
    few = sum(map(len, nodes)) < _FEWEST * len(nodes)
    if not provenance.spreads or len(nodes) == 1 or few or not all(map(_used_alike, nodes)):
        return [nodes]
    return [[node] for node in nodes]


def _used_alike(node: Node) -> bool:
    """Whether all rows are used for the same operations, as far as their numbers tell."""
    uses: dict[Hashable, int] = {}
    for user in node.dependents or ():
        key = (user.kind, id(user.payload))
        uses[key] = uses.get(key, 0) + len(user)
    return all(count % len(node) == 0 for count in uses.values())


def settle_inputs(
    places: Sequence[Sequence[Node]], facts: Facts, make: Callable[[Facts], Tagged]
) -> None:
    """Each node gets its row of the facts, in which places follow each other."""
    sizes = [sum(map(len, nodes)) for nodes in places]
    parts = [facts] if len(places) == 1 else facts.split(sizes)
    for nodes, part in zip(places, parts, strict=True):
        result, size = make(part), nodes[0].sample().agenda.size
        numbers = [number for node in nodes for number in node.numbers()]
        if result.provenance.spreads and numbers != list(range(size)):
            result = Pooled.of_input(result, np.array(numbers, dtype=np.int64), size)
        settle(nodes, result)


def settle(nodes: Sequence[Node], result: Tagged) -> None:
    """Each node gets its rows of the result, in which they follow each other."""
    start, step = 0, 1 if result.batch > 1 else 0
    for node in nodes:
        rows = len(node)
        node.settle(result, start * step, step)
        start += rows


def by_source(nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """Nodes by the distributions that their operands are rows of, if these are large and whole."""
    if len(nodes) == 1:
        return [nodes]
    parts: dict[tuple[int, ...], list[Node]] = {}
    for node in nodes:
        parts.setdefault(tuple([id(d.source) for d in node.operands]), []).append(node)
    whole = len(parts) > 1 and sum(map(len, nodes)) >= _FEWEST * len(parts)
    return list(parts.values()) if whole and all(map(_are_whole, parts.values())) else [nodes]


def _are_whole(nodes: Sequence[Node]) -> bool:
    """Whether the operands are all rows of their source, in order."""
    for operand in range(len(nodes[0].operands)):
        parts = [node.rows(operand) for node in nodes]
        numbers = [number for part in parts for number in part.numbers]
        if numbers != list(range(parts[0].of.batch)):
            return False
    return True
