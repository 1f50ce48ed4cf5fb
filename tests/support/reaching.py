"""Small graphs in which a question is asked about what a recursion reaches, under max-product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.pathfinder.program import both_ways, grid_edges

SIDE, ROWS = 4, 6
EDGES, NODES = grid_edges(SIDE), range(SIDE**2)
Program = Callable[..., dl.Distribution]
"""Of ends, edges, and what else `run` is given."""


def ahead(reached: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    """One edge further on."""
    return dl.apply_if(reached, edges, lambda _, edge: edge[1], on=(lambda n: n, lambda e: e[0]))


def asked(
    reached: dl.Distribution, ends: dl.Distribution, first_read: bool = False
) -> dl.Distribution:
    """Whether an end in the lower half is reached; `first_read`: after all that is reached."""
    if first_read:
        reached.probs()
    return dl.apply_if(
        reached, ends, lambda *_: True, lambda _, end: end >= 8, on=(lambda n: n, lambda end: end)
    )


def from_ends(
    ends: dl.Distribution, edges: dl.Distribution, first_read: bool = False
) -> dl.Distribution:
    """From ends in the upper half."""
    few = dl.filter(ends, lambda end: end < 8)
    reached = dl.fixpoint(lambda found: dl.union(few, ahead(found, edges)), few, rounds=7)
    return asked(reached, ends, first_read)


def kept(
    ends: dl.Distribution, edges: dl.Distribution, first_read: bool = False
) -> dl.Distribution:
    """The same, where the step keeps what was found."""
    few = dl.filter(ends, lambda end: end < 8)
    reached = dl.fixpoint(lambda found: dl.union(found, ahead(found, edges)), few, rounds=9)
    return asked(reached, ends, first_read)


def replaced(
    ends: dl.Distribution, edges: dl.Distribution, first_read: bool = False
) -> dl.Distribution:
    """Where the start is better than what replaces it, numbers fall."""
    always = dl.filter(ends, lambda end: end < 8)
    start = dl.apply(dl.filter(ends, lambda end: end >= 8), lambda end: end - 8)
    reached = dl.fixpoint(lambda found: dl.union(always, ahead(found, edges)), start, rounds=7)
    return asked(reached, ends, first_read)


def given(seed: int, kind: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Probabilities of ends and of edges, of one of several kinds."""
    generator = torch.Generator().manual_seed(seed)

    def numbers(count: int) -> Tensor:
        probs = torch.rand(ROWS, count, generator=generator, dtype=dtype)
        match kind:
            case "ties":
                return probs.mul(3).round().add(1).div(4)  # 1/4, 1/2, 3/4 and 1
            case "likely":
                return 0.9 + 0.1 * probs
            case "sharp":
                return torch.where(probs < 0.3, 0.9 + probs / 10, probs / 1000)
            case "impossible":
                return torch.where(probs < 0.5, 0.0, probs)
        return probs

    return [numbers(len(NODES)), numbers(len(EDGES))]


def run(program: Program, probs: list[Tensor], *more: Any) -> list[Tensor]:
    """The logarithms of the answers, and the gradients of ends and of edges."""
    leaves = [each.clone().requires_grad_() for each in probs]
    ends, edges = (
        dl.Distribution(leaf, symbols, exclusive=False, provenance="viterbi")
        for leaf, symbols in zip(leaves, (NODES, EDGES), strict=True)
    )
    logs = program(ends, both_ways(edges), *more).log_probs()
    return [logs.detach(), *torch.autograd.grad(logs[:, 0].sum(), leaves)]
