"""Perception: passages to a distribution over relations for each mention of two people.

An encoder turns a passage into one vector per token. For two people, a query made of their own
tokens attends to all tokens, and the result says how they are related.

What Ann is to Bob follows from what Bob is to Ann, except for her gender. So the head reads the
kind of relation (parent, child ...) from both sides, adds the two, and reads a gender as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dolphin_tasks.clutrr.data import StoryBatch
from dolphin_tasks.clutrr.encoders import PADDING, Encoded, Encoder
from dolphin_tasks.clutrr.kinship import KINDS, RELATIONS, REVERSED_KINDS

CLASSES = len(RELATIONS) + 1
"""The last class says that a passage doesn't relate two people."""
NOTHING = len(KINDS)
CHUNK = 32
"""Passages that are encoded together; they are of similar length, so little of it is padding."""


class RelationReader(nn.Module):
    """An encoder, and a head that asks it about two people. Logits are (mentions, 21)."""

    def __init__(self, encoder: Encoder, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.encoder, self.heads = encoder, heads
        self.enter = nn.Sequential(nn.LayerNorm(encoder.width), nn.Linear(encoder.width, width))
        self.query = nn.Linear(2 * width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.role = nn.Embedding(3, 2 * width)  # a token of neither, of the first, of the second
        self.leave = nn.Sequential(
            nn.Dropout(0.1),
            nn.Linear(3 * width, width),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(width, len(KINDS) + 3),  # the kinds, nothing, a man, a woman
        )

    def forward(
        self, passages: Sequence[str], where: Tensor, slots: Tensor, reverse: Tensor
    ) -> Tensor:
        """Logits of each mention: two people `slots` (mentions, 2) of the passage `where`.

        `reverse` is the number of the mention with the two in the other order.
        """
        device = self.role.weight.device
        if not len(where):
            return self.role.weight.new_zeros(0, CLASSES)
        order = sorted(range(len(passages)), key=lambda place: len(passages[place]))
        parts, places = [], []
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            within = torch.full((len(passages),), -1)
            within[chunk] = torch.arange(len(chunk))
            mine = (within[where] >= 0).nonzero().flatten()
            encoded = self.encoder([passages[place] for place in chunk])
            parts.append(self._ask(encoded, within[where[mine]].to(device), slots[mine].to(device)))
            places.append(mine)
        back = torch.cat(places).argsort().to(device)
        logits = self.leave(torch.cat(parts)[back])
        return _from_both_sides(logits, reverse.to(device))

    def _ask(self, encoded: Encoded, where: Tensor, slots: Tensor) -> Tensor:
        """(mentions, 3 · width): both people, and what they find in the passage."""
        tokens = self.enter(encoded.vectors)
        people = encoded.people[where]
        first, second = people == slots[:, :1], people == slots[:, 1:]
        a, b = _mean(tokens[where], first), _mean(tokens[where], second)
        # Keys and values are computed once per passage; a mention adds who is who in it.
        roles = self.role(first.long() + 2 * second.long())
        keys, values = map(self._split, (self.key_value(tokens)[where] + roles).chunk(2, -1))
        query = self._split(self.query(torch.cat([a, b], 1)))
        scores = torch.einsum("mhd,mthd->mht", query, keys) / math.sqrt(query.shape[-1])
        padding = (people == PADDING)[:, None]
        weights = scores.masked_fill(padding, torch.finfo(scores.dtype).min).softmax(-1)
        attended = torch.einsum("mht,mthd->mhd", weights, F.gelu(values))
        return torch.cat([a, b, attended.flatten(1)], 1)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))


def _from_both_sides(logits: Tensor, reverse: Tensor) -> Tensor:
    """Logits of relations (mentions, 21) from those of kinds and genders (mentions, 13)."""
    kinds, genders = logits.split([NOTHING + 1, 2], 1)
    kinds = kinds + kinds[reverse][:, [*REVERSED_KINDS, NOTHING]]
    relations = kinds[:, :NOTHING, None] + genders[:, None]  # in the order of RELATIONS
    return torch.cat([relations.flatten(1), kinds[:, NOTHING:]], 1)


def _mean(tokens: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the chosen tokens, 0 where a long passage was cut before any of them."""
    weights = chosen.to(tokens.dtype)
    return torch.einsum("mt,mtd->md", weights, tokens) / weights.sum(1, keepdim=True).clamp(min=1)


def read(network: nn.Module, batch: StoryBatch) -> Tensor:
    """Logits (mentions, 21) of a batch."""
    return network(batch.passages, batch.where, batch.slots, batch.reverse)
