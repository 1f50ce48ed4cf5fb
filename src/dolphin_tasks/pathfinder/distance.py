"""What the distance between the two discs alone says, and images in which it says nothing.

Joined discs are about as far apart as a contour is long; discs on two contours are closer or
further apart. The distance alone answers many images without looking at a contour, so a result
counts only as far as it is better than that. In a balanced set both labels have the same distances.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dolphin_tasks.pathfinder.data import Plans
from dolphin_tasks.pathfinder.generator import Design
from dolphin_tasks.pathfinder.render import segments

BINS = 40
POOL = 1.5
"""Plans generated per balanced sample: each has four pairs of discs, many of them unused."""


def distances(plans: Plans, design: Design) -> Tensor:
    """Pixels between the discs of each plan, (n,)."""
    row = torch.arange(len(plans))
    own = plans.first
    other = torch.where(plans.labels, own, 1 - own)
    ends = segments(design, plans.contours)
    return (ends[row, own, 0, 0] - ends[row, other, -1, 1]).norm(dim=1)


def accuracy(train: Plans, test: Plans, design: Design) -> float:
    """The accuracy on `test` of a guess from the distance alone, learnt from `train`.

    Distances are put into bins that are equally full; each bin gets the answer of its majority.
    """
    known = distances(train, design)
    edges = known.quantile(torch.linspace(0, 1, BINS + 1)[1:-1]) if len(known) else known
    joined = torch.zeros(BINS).index_add_(
        0, torch.bucketize(known, edges), 2.0 * train.labels.float() - 1
    )
    answers = joined[torch.bucketize(distances(test, design), edges)] > 0
    return float((answers == test.labels).float().mean())


def balanced(plans: Plans, design: Design, count: int, seed: int) -> Plans:
    """At most `count` pairs of discs on these contours, labels with equal distances.

    A plan has four pairs of ends: two joined, two apart. Each pixel of distance keeps as many
    joined ones as apart ones, drawn evenly, so a plan may occur more than once, with other discs.
    """
    generator = torch.Generator().manual_seed(seed)
    n = len(plans)
    place = torch.arange(n).repeat(4)
    first = torch.tensor([0, 0, 1, 1]).repeat_interleave(n)
    labels = torch.tensor([True, False, True, False]).repeat_interleave(n)
    pairs = Plans(plans.contours[place], plans.distractors[place], first, labels)
    order = torch.randperm(4 * n, generator=generator)
    pixel = distances(pairs, design).long()[order]
    kept = []
    for here in pixel.unique().tolist():
        among = order[pixel == here]
        sides = [among[labels[among] == label] for label in (True, False)]
        kept += [side[: min(map(len, sides))] for side in sides]
    chosen = torch.cat(kept)
    chosen = chosen[torch.randperm(len(chosen), generator=generator)][:count]
    return Plans(pairs.contours[chosen], pairs.distractors[chosen], first[chosen], labels[chosen])
