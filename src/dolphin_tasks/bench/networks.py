"""The networks that the programs are measured against."""

from __future__ import annotations

from torch import Tensor, nn

from dolphin_tasks.pathfinder.model import paper_features


def grid_network(facts: int) -> nn.Sequential:
    """The paper's network for 32×32 path images: images (n, 1, 32, 32) to scores of facts.

    >>> import torch
    >>> grid_network(156)(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 156])
    """
    return nn.Sequential(paper_features(32), nn.Linear(256, facts))


class FactScores(nn.Module):
    """Scores of facts (n, 3): an entity, a relation and another entity, each by its vector.

    >>> import torch
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
