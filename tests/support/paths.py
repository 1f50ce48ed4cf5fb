"""Paths through a graph whose edges are uncertain: programs that several files of tests share."""

from __future__ import annotations

from typing import Any

import dolphin as dl

Edge = tuple[int, int]


def ends(path: Edge) -> int:
    return path[1]


def begins(edge: Edge) -> int:
    return edge[0]


def whole(first: Edge, second: Edge) -> Edge:
    return first[0], second[1]


def extend(paths: dl.Distribution[Any], edges: dl.Distribution[Any]) -> dl.Distribution[Any]:
    return dl.apply_if(paths, edges, whole, on=(ends, begins))


def closure(edges: dl.Distribution[Any]) -> dl.Distribution[Any]:
    return dl.fixpoint(lambda paths: dl.union(edges, extend(paths, edges)), edges)


def kept(edges: dl.Distribution[Any]) -> dl.Distribution[Any]:
    return dl.fixpoint(lambda paths: dl.union(paths, extend(paths, edges)), edges)


def both(edges: dl.Distribution[Any]) -> dl.Distribution[Any]:
    return dl.fixpoint(lambda paths: dl.union(edges, paths, extend(paths, edges)), edges)
