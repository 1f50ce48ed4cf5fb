"""Kinship in stories, from the relation of two people that no sentence names together.

`Clutrr` is the task, as it is trained. `Kinship` has chains of up to ten relations, which would
take the task's program minutes: it composes all facts with each other. Chains are followed from the
asker on instead, the derivation that other systems were measured with. Every story is a row with
its own symbols.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.clutrr import model, program, stories
from dolphin_tasks.clutrr.data import Story, StoryBatch
from dolphin_tasks.clutrr.encoders import ScratchEncoder
from dolphin_tasks.clutrr.kinship import COMPOSITIONS, RELATIONS, Fact

STORIES = 1000  # of each length


@functools.cache
def chain_story(length: int, number: int) -> Story:
    """A story with a chain of relations that compose one after the other, from the asker on."""
    rng = random.Random(f"{length} {number}")
    while True:
        chain = [rng.choice(RELATIONS)]
        whole = chain[0]
        while len(chain) < length:
            fitting = [second for first, second in COMPOSITIONS if first == whole]
            if not fitting:
                break
            chain.append(rng.choice(fitting))
            whole = COMPOSITIONS[whole, chain[-1]]
        told = stories.tell(chain, whole, stories.TRAIN_SENTENCES, rng)
        if len(chain) == length and told is not None:
            return Story.of(told)


class _Reader(nn.Module):
    """The task's network with an encoder of MiniLM's size, all of it trained, for story numbers."""

    def __init__(self, draw: Stories) -> None:
        super().__init__()
        self.reader = model.RelationReader(ScratchEncoder(width=384, layers=6))
        self.batch = functools.cache(draw.batch)

    def forward(self, numbers: Tensor) -> Tensor:
        return model.read(self.reader, self.batch(tuple(numbers.tolist())))


@dataclass(frozen=True)
class Stories(Program):
    """Stories with chains of `shortest` to `longest` relations."""

    longest: int
    shortest: int = 2

    def network(self) -> nn.Module:
        return _Reader(self)

    def pictures(self, rows: int) -> Tensor:
        return torch.arange(rows)

    def batch(self, numbers: tuple[int, ...]) -> StoryBatch:
        """These stories, of all lengths in turn."""
        lengths = range(self.shortest, self.longest + 1)
        told = [chain_story(lengths[row % len(lengths)], n) for row, n in enumerate(numbers)]
        return StoryBatch.of(told)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, StoryBatch]:
        batch = self.batch(tuple(torch.randint(STORIES, (rows,), generator=generator).tolist()))
        return class_scores(batch.truths, model.CLASSES, inputs, generator), batch


class Clutrr(Stories):
    """The task: any way to compose relations, in at most as many steps as the longest chain has."""

    def loss(self, scores: Tensor, labels: StoryBatch) -> Tensor:
        told = program.told_facts(scores.softmax(-1)[:, : len(RELATIONS)], labels)
        return dl.bce_loss(program.relation_asked_for(told, self.longest), labels.answers)


class Kinship(Stories):
    """Chains that are followed from the asker on."""

    def loss(self, scores: Tensor, labels: StoryBatch) -> Tensor:
        told = facts_of_each(scores.softmax(-1)[:, : len(RELATIONS)], labels)
        return dl.bce_loss(program.relation_along(told), labels.answers)


def facts_of_each(probs: Tensor, batch: StoryBatch) -> dl.Distribution[Fact]:
    """What passages say: probabilities (mentions, 20) as facts of each story alone."""
    size = len(RELATIONS)
    pairs = [[mention.pair for mention in story.mentions] for story in batch.stories]
    parts = probs.flatten().split([size * len(own) for own in pairs])
    rows = [
        ([fact for pair in own for fact in _facts_between(*pair)], part)
        for own, part in zip(pairs, parts, strict=True)
    ]
    one_each = [[range(size * n, size * (n + 1)) for n in range(len(own))] for own in pairs]
    return dl.Distribution.from_rows(rows, exclusive=one_each)


@functools.cache
def _facts_between(whose: int, who: int) -> tuple[Fact, ...]:
    return tuple(Fact(whose, relation, who) for relation in RELATIONS)
