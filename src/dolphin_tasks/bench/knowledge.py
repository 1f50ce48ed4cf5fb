"""Queries to a knowledge base, and counting facts."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.networks import FactScores, grid_network
from dolphin_tasks.bench.program import Inputs, Program, fact_scores

Fact = tuple[int, int, int]  # an entity, a relation, and another entity
RELATIONS = 10


@functools.lru_cache(maxsize=4)
def facts_of(size: int) -> tuple[Fact, ...]:
    """Random facts over a fifth as many entities, always the same ones.

    >>> len(set(facts_of(1000)))
    1000
    """
    generator = torch.Generator().manual_seed(0)
    most = torch.tensor([size // 5, RELATIONS, size // 5])
    drawn = (torch.rand(2 * size, 3, generator=generator) * most).long().tolist()
    return tuple(dict.fromkeys(map(tuple, drawn)))[:size]


@functools.lru_cache(maxsize=4)
def walks_of(size: int) -> tuple[tuple[int, int], ...]:
    """Pairs of entities that are two facts apart, one for each fact that another one follows."""
    following = {fact[0]: fact[2] for fact in facts_of(size)}
    return tuple((start, following[by]) for start, _, by in facts_of(size) if by in following)


def step(at: dl.Distribution[int], facts: dl.Distribution[Fact]) -> dl.Distribution[int]:
    """Where facts lead to from some entities."""
    keys = (lambda entity: entity, lambda fact: fact[0])
    return dl.apply_if(at, facts, lambda _, fact: fact[2], on=keys)


@dataclass(frozen=True)
class TwoHops(Program):
    """The entities two facts away from each row's own; all rows share the same uncertain facts."""

    size: int

    def network(self) -> nn.Module:
        return FactScores(self.size // 5, RELATIONS)

    def pictures(self, rows: int) -> Tensor:
        return torch.tensor(facts_of(self.size))

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[tuple[int, int]]]:
        scores = fact_scores(torch.ones(self.size, dtype=torch.bool), inputs, generator)
        walks = walks_of(self.size)
        chosen = torch.randint(len(walks), (rows,), generator=generator).tolist()
        return scores, [walks[number] for number in chosen]

    def loss(self, scores: Tensor, labels: list[tuple[int, int]]) -> Tensor:
        facts = dl.Distribution.from_logits(scores, facts_of(self.size), exclusive=False)
        at = dl.Distribution.certain_rows([start for start, _ in labels])
        reached = step(step(at, facts), facts)
        return dl.nll_loss(reached, [end for _, end in labels])


@dataclass(frozen=True)
class Count(Program):
    """How many of `n` independent facts hold, such as candidates of an image."""

    n: int

    def network(self) -> nn.Module:
        return grid_network(self.n)

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows, 1, 32, 32)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[int]]:
        truth = torch.rand(rows, self.n, generator=generator) < 0.5
        return fact_scores(truth, inputs, generator), truth.sum(1).tolist()

    def loss(self, scores: Tensor, labels: list[int]) -> Tensor:
        facts = dl.Distribution.from_logits(scores, range(self.n), exclusive=False)
        return dl.nll_loss(dl.count(facts), labels)
