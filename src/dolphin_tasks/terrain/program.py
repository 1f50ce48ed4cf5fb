"""The program of Terrain: the cheapest way across a map.

Crossing a cell is a fact with probability exp(-cost). Under `viterbi`, whose "or" is the maximum
and whose "and" is the product, the probability of having reached a cell is that of the likeliest
path to it: exp(-cost) of the cheapest one, and its gradient is the path itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

import dolphin as dl

Cell = tuple[int, int]


def grid(side: int) -> list[Cell]:
    """All cells, row by row."""
    return [(row, column) for row in range(side) for column in range(side)]


def reached(ground: dl.Distribution[Cell], start: Cell = (0, 0)) -> dl.Distribution[Cell]:
    """The cells that can be reached from `start`: start itself, and neighbours of reached cells.

    >>> probs = torch.tensor([[0.5, 0.9, 0.5, 0.1]])
    >>> ground = dl.Distribution(probs, grid(2), exclusive=False, provenance="viterbi")
    >>> reached(ground).prob_of([(1, 1)])
    tensor([0.1000])
    """
    at_start = dl.Distribution.certain(start, batch=ground.batch_size, provenance=ground.provenance)

    def further(cells: dl.Distribution[Cell]) -> dl.Distribution[Cell]:
        return dl.union(at_start, dl.apply_if(cells, ground, _there, _neighbours))

    return dl.fixpoint(further, at_start)


def _there(here: Cell, there: Cell) -> Cell:
    return there


def _neighbours(here: Cell, there: Cell) -> bool:
    return here != there and abs(here[0] - there[0]) <= 1 and abs(here[1] - there[1]) <= 1


def costs(scores: Tensor) -> Tensor:
    """What entering each cell costs according to the network: log 2 + softplus(score)."""
    return math.log(2.0) + F.softplus(scores.double())


def passable(scores: Tensor, extra: Tensor | float = 0.0) -> dl.Distribution[Cell]:
    """Scores (B, side, side) as facts that hold with probability exp(-cost).

    Costs are at least log 2: with probabilities above a half, cells beside the path would hold in
    the likeliest world, too.

    Args:
        extra: added to the costs, (B, side, side) or (side, side).
    """
    return dl.Distribution.from_log_probs(
        -(costs(scores) + extra).flatten(1),
        grid(scores.shape[1]),
        exclusive=False,
        provenance="viterbi",
    )


def regrets(scores: Tensor, paths: Tensor, margin: float = 0.0) -> Tensor:
    """How much more the label's path costs than the cheapest one, (B,), at least 0.

    With a margin, each cell of the label's path costs that much more: a loss of 0 then means that
    the label is cheaper than any other path by the margin for each cell they don't share.

    Args:
        paths: (B, side, side), 1 for the cells of the label.
    """
    labels = paths.to(scores.device, torch.float64).flatten(1)
    labels = labels * (torch.arange(labels.shape[1], device=labels.device) > 0)  # start is free
    side = scores.shape[1]
    ground = passable(scores, margin * labels.view_as(scores))
    ways = reached(ground)
    best = ways.log_probs([(side - 1, side - 1)])[:, 0]
    return best - (labels * ground.log_probs()).sum(1)


def cheapest(scores: Tensor) -> Tensor:
    """The cells of the cheapest path, (B, side, side), booleans."""
    side = scores.shape[1]
    # A tiny extra cost breaks ties between paths: most_likely refuses them.
    generator = torch.Generator().manual_seed(side)
    jitter = 1e-6 * torch.rand(side, side, dtype=torch.float64, generator=generator)
    with torch.enable_grad():
        ground = passable(scores.detach().requires_grad_(), jitter.to(scores.device))
        worlds = dl.most_likely([ground], reached(ground), [(side - 1, side - 1)] * len(scores))
    return torch.stack([_mask(world[0] if world else (), side) for world in worlds])


def _mask(cells: Iterable[Cell], side: int) -> Tensor:
    mask = torch.zeros(side, side, dtype=torch.bool)
    mask[0, 0] = True
    for cell in cells:
        mask[cell] = True
    return mask
