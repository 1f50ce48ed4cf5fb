"""How often retrieval finds what belongs together, with ties counted separately.

Scores depend on a caption through its sequence of actions only. Captions with equal sequences tie,
and no method that uses the sequence alone can distinguish them. So there are two figures: `strict`
counts only the exact clip (or caption), ties broken at random, and has a ceiling below one;
`by_sequence` counts any with the same sequence of actions.

Most captions of a set name different actions, so it is enough to see *what* is done. Captions with
the same actions in another order (`reordered`) also need *when*.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from dolphin_tasks.mugen.program import Deeds

RANKS = (1, 5)


def recall(scores: Tensor, rank: int) -> float:
    """How likely the right item (on the diagonal) is among the first `rank`, ties broken at random.

    >>> recall(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), rank=1)
    0.75
    """
    own = scores.diagonal()[:, None]
    return _chance_among_first(own, scores, torch.ones_like(scores, dtype=torch.bool), rank)


def recall_by_sequence(scores: Tensor, same: Tensor, rank: int) -> float:
    """How likely an item with the right sequence (`same`) is among the first `rank`."""
    best = scores.masked_fill(~same, -torch.inf).max(1, keepdim=True).values
    others = ~same
    others.fill_diagonal_(True)  # stands for the best of those with the right sequence
    scores = scores.clone()
    scores.diagonal().copy_(best[:, 0])
    return _chance_among_first(best, scores, others, rank)


def _chance_among_first(own: Tensor, scores: Tensor, counted: Tensor, rank: int) -> float:
    better = ((scores > own) & counted).sum(1)
    equal = ((scores == own) & counted).sum(1)
    return float(((rank - better) / equal).clamp(0, 1).double().mean())


def same_sequence(deeds: Sequence[Deeds]) -> Tensor:
    """(n, n), True where two captions have the same sequence."""
    numbers = {sequence: number for number, sequence in enumerate(dict.fromkeys(deeds))}
    kinds = torch.tensor([numbers[sequence] for sequence in deeds])
    return kinds[:, None] == kinds


def reordered(deeds: Deeds, most: int, seed: int) -> list[Deeds]:
    """Other orders of the same actions, in which none follows itself; at most `most` of them.

    >>> reordered(("walk", "jump", "die", "walk"), most=2, seed=0)[0]
    ('jump', 'walk', 'die', 'walk')
    >>> reordered(("walk", "jump", "walk"), most=9, seed=0)
    []
    """
    orders = dict.fromkeys(itertools.permutations(deeds))
    valid = [o for o in orders if o != deeds and all(a != b for a, b in itertools.pairwise(o))]
    chosen = sorted(random.Random(seed).sample(range(len(valid)), min(most, len(valid))))
    return [valid[place] for place in chosen]


def retrieval_results(scores: Tensor, deeds: Sequence[Deeds]) -> dict[str, dict[str, float]]:
    """Recalls over all clips × all captions (n, n), both ways, and the upper bounds."""
    same = same_sequence(deeds)
    ways = {"tvr": scores.T, "vtr": scores}  # a text looks for its video, and the other way round
    results: dict[str, dict[str, float]] = {}
    for way, table in ways.items():
        results[way] = {f"recall@{k}": recall(table, k) for k in RANKS}
        results[f"{way}_by_sequence"] = {
            f"recall@{k}": recall_by_sequence(table, same, k) for k in RANKS
        }
    results["ceiling"] = {f"recall@{k}": recall(same.double(), k) for k in RANKS}
    return results
