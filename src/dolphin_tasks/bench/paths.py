"""Paths on a grid and along a chain: recursion over independent facts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.networks import grid_network
from dolphin_tasks.bench.program import Inputs, Program, fact_scores
from dolphin_tasks.pathfinder.program import closure, grid_edges, joined


def directed_edges(side: int) -> list[tuple[int, int]]:
    """Both directions between neighbours on a grid of side × side nodes."""
    return [edge for a, b in grid_edges(side) for edge in ((a, b), (b, a))]


@dataclass(frozen=True)
class GridPaths(Program):
    """Whether some end is connected to another; ends and edges of a grid are independent facts."""

    side: int

    @property
    def nodes(self) -> int:
        return self.side * self.side

    def network(self) -> nn.Module:
        return grid_network(self.nodes + len(directed_edges(self.side)))

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows, 1, 32, 32)

    def draw(self, rows: int, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        truth, labels = self.truth(rows, generator)
        return fact_scores(truth, inputs, generator), labels

    def truth(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Which facts hold: one path per row, and an end at each of its ends, or at one only."""
        edges = directed_edges(self.side)
        labels = torch.arange(rows) % 2 == 0
        truth = torch.zeros(rows, self.nodes + len(edges), dtype=torch.bool)
        for row in range(rows):
            walk = self._walk(generator)
            for edge in itertools.pairwise(walk):
                truth[row, self.nodes + edges.index(edge)] = True
            truth[row, walk[0]] = True
            beside = [node for node in range(self.nodes) if node not in walk]
            truth[row, walk[-1] if labels[row] else beside[0]] = True
        return truth, labels.float()

    def _walk(self, generator: torch.Generator) -> list[int]:
        """A path from the top left, right and down, that ends before the last row."""
        walk = [0]
        while len(walk) < self.side + 1:
            row, column = divmod(walk[-1], self.side)
            right = bool(torch.rand((), generator=generator) < 0.5)
            down = row + 1 < self.side - 1 and (not right or column + 1 == self.side)
            if not down and column + 1 == self.side:
                break
            walk.append(walk[-1] + (self.side if down else 1))
        return walk

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        end_scores, edge_scores = scores.split([self.nodes, len(directed_edges(self.side))], dim=1)
        ends = dl.Distribution.from_logits(end_scores, range(self.nodes), exclusive=False)
        edges = dl.Distribution.from_logits(edge_scores, directed_edges(self.side), exclusive=False)
        answer = joined(ends, edges)
        return F.binary_cross_entropy(dl.get_probs(answer, symbols=[True])[:, 0], labels)


@dataclass(frozen=True)
class Chain(Program):
    """Whether a chain of `length` links holds from end to end."""

    length: int

    def network(self) -> nn.Module:
        return grid_network(self.length)

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows, 1, 32, 32)

    def draw(self, rows: int, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, None]:
        truth = torch.ones(rows, self.length, dtype=torch.bool)
        return fact_scores(truth, inputs, generator), None

    def loss(self, scores: Tensor, labels: None) -> Tensor:
        links = [(node, node + 1) for node in range(self.length)]
        edges = dl.Distribution.from_logits(scores, links, exclusive=False)
        return dl.nll_loss(closure(edges), [(0, self.length)] * len(scores))
