"""What tests of exact inference share: graphs, and the probability of a way through them."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

import dolphin as dl
from dolphin.provenance import Exact
from dolphin.provenance.exact import sentential

COMPILERS = ["diagrams", pytest.param("sdd", marks=pytest.mark.skipif(
    not sentential.available(), reason="PySDD is not installed"))]  # fmt: skip


def reachable(edges: dl.Distribution, source, target) -> torch.Tensor:
    """The probability that undirected edges connect two vertices, by a fixpoint."""
    both = dl.union(edges, dl.apply(edges, lambda e: (e[1], e[0])))
    start = dl.apply(dl.filter(both, lambda e: e[0] == source), lambda e: e[1])

    def step(found):
        ends = (lambda v: v, lambda e: e[0])
        return dl.union(found, dl.apply_if(found, both, lambda v, e: e[1], on=ends))

    return dl.fixpoint(step, start).prob_of([target] * edges.batch_size)


def reliability(edges: list, probs: list[float], source, target) -> float:
    """The same, edge by edge: states are partitions of the vertices that still have edges."""
    last = {v: i for i, edge in enumerate(edges) for v in edge}
    vertices = sorted(last)
    states = {tuple(range(len(vertices))): 1.0}
    for number, ((u, v), p) in enumerate(zip(edges, probs, strict=True)):
        following: dict[tuple, float] = {}
        for state, weight in states.items():
            a, b = state[vertices.index(u)], state[vertices.index(v)]
            joined = tuple(a if label == b else label for label in state)
            for outcome, factor in ((joined, p), (state, 1.0 - p)):
                done = tuple(
                    label if last[w] > number or w in (source, target) else -1
                    for w, label in zip(vertices, outcome, strict=True)
                )
                names: dict[int, int] = {-1: -1}
                key = tuple(names.setdefault(label, len(names)) for label in done)
                following[key] = following.get(key, 0.0) + weight * factor
        states = following
    at = vertices.index(source), vertices.index(target)
    return sum(weight for state, weight in states.items() if state[at[0]] == state[at[1]])


def grid(size: int) -> list:
    graph = nx.grid_2d_graph(size, size)
    return [tuple(sorted(edge)) for edge in graph.edges]


def random_graph(seed: int) -> list:
    return [tuple(sorted(edge)) for edge in nx.gnm_random_graph(7, 12, seed=seed).edges]


def step(probs: torch.Tensor) -> torch.Tensor:
    edges = random_graph(3)
    d = dl.Distribution(probs, edges, exclusive=False, provenance=Exact())
    coin = dl.Distribution(probs[:, :2].softmax(1), [False, True], provenance=Exact())
    lit = dl.apply(coin, d, lambda c, e: e if c else (e[1], e[0]))
    return reachable(d, 0, 6) + dl.get_probs(dl.negate(lit)).sum(1)
