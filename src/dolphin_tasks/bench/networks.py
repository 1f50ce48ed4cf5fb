"""The networks that the programs are measured against."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dolphin_tasks.pathfinder.model import paper_features


def grid_network(facts: int) -> nn.Sequential:
    """The paper's network for 32×32 path images: images (n, 1, 32, 32) to scores of facts.

    >>> grid_network(156)(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 156])
    """
    return nn.Sequential(paper_features(32), nn.Linear(256, facts))


class SentenceNetwork(nn.Module):
    """A transformer encoder of 6 layers, 384 wide: words (n, length) to scores of relations.

    The first two words stand for the two people whose relation is asked for, in both directions.

    >>> SentenceNetwork(21, layers=1)(torch.zeros(3, 24, dtype=torch.long)).shape
    torch.Size([3, 2, 21])
    """

    def __init__(self, relations: int, words: int = 4000, layers: int = 6) -> None:
        super().__init__()
        width = 384
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.relation = nn.Linear(2 * width, relations)

    def forward(self, sentences: Tensor) -> Tensor:
        places = torch.arange(sentences.shape[1], device=sentences.device)
        encoded = self.encoder(self.words(sentences) + self.places(places))
        pairs = torch.stack([encoded[:, [0, 1]], encoded[:, [1, 0]]], dim=1)
        return self.relation(pairs.flatten(2))


class FactScores(nn.Module):
    """Scores of facts (n, 3): an entity, a relation and another entity, each by its vector.

    >>> FactScores(50, 4)(torch.zeros(7, 3, dtype=torch.long)).shape
    torch.Size([7])
    """

    def __init__(self, entities: int, relations: int, width: int = 64) -> None:
        super().__init__()
        self.entities = nn.Embedding(entities, width)
        self.relations = nn.Embedding(relations, width)

    def forward(self, facts: Tensor) -> Tensor:
        head, relation, tail = facts.unbind(1)
        return (self.entities(head) * self.relations(relation) * self.entities(tail)).sum(1)
