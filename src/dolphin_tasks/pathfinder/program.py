"""The program of PathFinder: whether there is a path of edges from one end to another.

Ends (nodes with a disc) and edges (the contour continues from block to block) are facts that hold
independently of each other. The answer is recursive: a path is an edge, or a path and one more
edge. `closure` and `joined` say just that. `connected` gives the same answer from fewer symbols,
and is what the task runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dolphin as dl

Edge = tuple[Any, Any]

STRAIGHT = ((0, 1), (1, 0))
DIAGONAL = ((1, 1), (1, -1))
JUMPS = ((0, 2), (2, 0), (2, 2), (2, -2), (1, 2), (2, 1), (1, -2), (2, -1))
"""Edges of a grid, as shifts by rows and columns. A jump passes over a block: over the gap between
two dashes, or over the block where two contours cross."""


def closure(edges: dl.Distribution, steps: int | None = None) -> dl.Distribution:
    """(from, to) for every path of at most `steps` edges; without `steps`, for every path.

    >>> edges = dl.Distribution([0.5, 0.9], [("a", "b"), ("b", "c")], exclusive=False)
    >>> closure(edges).row(0)
    [(('a', 'b'), 0.5), (('b', 'c'), 0.9), (('a', 'c'), 0.45)]
    """

    def longer(paths: dl.Distribution) -> dl.Distribution:
        return dl.union(edges, extend(paths, edges))

    return dl.fixpoint(longer, edges, rounds=None if steps is None else steps - 1)


def extend(paths: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    """Every path and one more edge."""
    return dl.apply_if(
        paths,
        edges,
        lambda path, edge: (path[0], edge[1]),
        on=(lambda path: path[1], lambda edge: edge[0]),
    )


def joined(
    ends: dl.Distribution, edges: dl.Distribution, steps: int | None = None
) -> dl.Distribution:
    """True: a path leads from an end to a different one. n² symbols on n nodes.

    >>> ends = dl.Distribution([0.9, 0.0, 0.8], "abc", exclusive=False)
    >>> edges = dl.Distribution([0.5, 0.9], [("a", "b"), ("b", "c")], exclusive=False)
    >>> joined(ends, edges).row(0)
    [(True, 0.324)]
    """
    paths = dl.filter(closure(edges, steps), lambda path: path[0] != path[1])
    started = dl.apply_if(
        paths, ends, lambda path, _: path, on=(lambda path: path[0], lambda end: end)
    )
    return dl.apply_if(
        started, ends, lambda path, _: True, on=(lambda path: path[1], lambda end: end)
    )


def connected(
    ends: dl.Distribution,
    edges: dl.Distribution,
    steps: int | None = None,
    symmetric: bool = False,
) -> dl.Distribution:
    """True: a path of at most `steps` directed edges leads from an end to a different one.

    The answer of `joined`, with n · log n symbols instead of n²: on the default grid of 16×16
    blocks a closure has 65,280 pairs of nodes. It is the same wherever a proof that is found twice
    counts once (`viterbi`, `dtkp-*`, `exact`); sums (`damp`) count a path once for each digit.

    Where a path came from matters only so far as it must not lead back. Two different nodes differ
    in a digit of their binary numbers, so it is enough to follow, for each digit, paths from ends
    with one value to ends with the other: a logarithm of the number of nodes instead of all pairs
    of them. Where edges are `symmetric`, paths from zeros to ones are all there are.

    Without `steps` it continues until nothing changes (or, where sums never settle, until there is
    nothing new to reach).

    >>> ends = dl.Distribution([0.9, 0.0, 0.8], "abc", exclusive=False)
    >>> edges = dl.Distribution([0.5, 0.9], [("a", "b"), ("b", "c")], exclusive=False)
    >>> connected(ends, edges).row(0)
    [(True, 0.324)]
    """
    number = {node: place for place, node in enumerate(ends.symbols)}
    started = _starts(ends, number, (0,) if symmetric else (0, 1))
    reached = dl.fixpoint(
        lambda found: dl.union(started, _extended(found, edges)), started, rounds=steps
    )
    return dl.apply_if(
        reached,
        ends,
        lambda there, end: True,
        lambda there, end: _digit(number[end], there[0]) != there[1],
        on=(lambda there: there[2], lambda end: end),
    )


def _digit(number: int, place: int) -> int:
    return number >> place & 1


def _starts(
    ends: dl.Distribution, number: dict[Any, int], values: tuple[int, ...]
) -> dl.Distribution:
    """(place, digit, end) for every end and every digit of its number with one of these values."""
    digits = [
        dl.Distribution.certain((place, value), provenance=ends.provenance)
        for place in range(max(1, (len(number) - 1).bit_length()))
        for value in values
    ]
    return dl.apply_if(
        dl.union(*digits),
        ends,
        lambda digit, end: (*digit, end),
        lambda digit, end: _digit(number[end], digit[0]) == digit[1],
    )


def _extended(reached: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    """What lies one edge further on."""
    return dl.apply_if(
        reached,
        edges,
        lambda there, edge: (there[0], there[1], edge[1]),
        on=(lambda there: there[2], lambda edge: edge[0]),
    )


def both_ways(edges: dl.Distribution) -> dl.Distribution:
    """Undirected edges as directed ones: each fact counts in both directions.

    >>> both_ways(dl.Distribution([0.5], [("a", "b")], exclusive=False)).row(0)
    [(('a', 'b'), 0.5), (('b', 'a'), 0.5)]
    """
    return dl.union(edges, dl.apply(edges, lambda edge: (edge[1], edge[0])))


def grid_edges(side: int, shifts: Sequence[tuple[int, int]] = STRAIGHT) -> list[Edge]:
    """Undirected edges on a grid, each once: from every block to those these shifts away.

    >>> grid_edges(2), len(grid_edges(6)), len(grid_edges(8, STRAIGHT + DIAGONAL))
    ([(0, 1), (2, 3), (0, 2), (1, 3)], 60, 210)
    """
    number = [[row * side + column for column in range(side)] for row in range(side)]
    return [
        (number[row][column], number[row + down][column + right])
        for down, right in shifts
        for row in range(side - down)
        for column in range(max(0, -right), side - max(0, right))
    ]
