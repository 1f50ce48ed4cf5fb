"""Pairs of images for Half and Even-Odd: only some pairs of digits occur in training.

Sizes are the published ones: of each pair, in either order, 420 samples to train on, 120 to
validate and 60 to test, and 60 of each pair that training doesn't have. Images of the three splits
are disjoint; within a split an image may be in several samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from dolphin_tasks.digits import DigitBatch, DigitConfig, DigitRows, digit_data
from dolphin_tasks.training.noise import seed_of
from dolphin_tasks.training.task import Data

Pair = tuple[int, int]

TRAIN, VALIDATION, TEST = 420, 120, 60
"""Samples of each ordered pair in each split."""
HALF: tuple[Pair, ...] = ((0, 0), (0, 1), (2, 3), (2, 4))
"""Pairs of Half; digits are 0 to 4."""
EVEN_ODD: tuple[Pair, ...] = (
    (0, 6), (2, 8), (4, 6), (4, 8), (1, 5), (3, 7), (1, 9), (3, 9)
)  # fmt: skip
"""Pairs of Even-Odd; both digits are even, or both are odd."""


def both_orders(pairs: Sequence[Pair]) -> list[Pair]:
    """Each pair as it is and the other way round.

    >>> both_orders([(0, 0), (0, 1)])
    [(0, 0), (0, 1), (1, 0)]
    """
    return [(a, b) for a, b in sorted({*pairs, *((b, a) for a, b in pairs)})]


def others(pairs: Sequence[Pair], digits: int) -> list[Pair]:
    """The pairs of digits below `digits` that are in neither order among these."""
    excluded = set(both_orders(pairs))
    return [
        pair for pair in itertools.product(range(digits), range(digits)) if pair not in excluded
    ]


def readings(pairs: Sequence[Pair], digits: int) -> list[tuple[int, ...]]:
    """All ways to name the digits that give every pair its true sum: one is right.

    >>> readings(HALF, 5)
    [(0, 1, 2, 3, 4), (0, 1, 3, 2, 3), (0, 1, 4, 1, 2)]
    """
    # digits that share a pair are adjacent, so that few ways stay open meanwhile
    order = [*dict.fromkeys(digit for pair in pairs for digit in pair), *range(digits)]
    ways: list[dict[int, int]] = [{}]
    for digit in dict.fromkeys(order):
        longer = ({**way, digit: name} for way in ways for name in range(digits))
        ways = [way for way in longer if _fits(way, pairs)]
    return sorted(tuple(way[digit] for digit in range(digits)) for way in ways)


def _fits(way: dict[int, int], pairs: Sequence[Pair]) -> bool:
    return all(way[a] + way[b] == a + b for a, b in pairs if a in way and b in way)


def rows_of(rows: DigitRows, pairs: Sequence[Pair], count: int, seed: int) -> DigitRows:
    """This many samples of each pair, from the images of these rows."""
    generator = torch.Generator().manual_seed(seed)
    pools = {digit: _images_of(rows, digit) for digit in {d for pair in pairs for d in pair}}
    columns = [
        [pools[pair[place]][_draw(len(pools[pair[place]]), count, generator)] for pair in pairs]
        for place in (0, 1)
    ]
    return rows.dealt(torch.stack([torch.cat(column) for column in columns], dim=1))


def _images_of(rows: DigitRows, digit: int) -> Tensor:
    images = rows.order.flatten()
    return images[rows.labels[images] == digit]


def _draw(images: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(max(1, images), (count if images else 0,), generator=generator)


def pair_data(
    config: DigitConfig, pairs: Sequence[Pair], digits: int
) -> tuple[Data[DigitBatch], DigitRows]:
    """The three splits, and test samples of pairs that training doesn't have."""
    plain = digit_data(config, 1)
    train, validation, test = (
        cast("DigitRows", split) for split in (plain.train, plain.validation, plain.test)
    )
    known = both_orders(pairs)
    seeds = [seed_of(config.seed, 4, split) for split in range(4)]
    return (
        Data(
            rows_of(train, known, TRAIN, seeds[0]),
            rows_of(validation, known, VALIDATION, seeds[1]),
            rows_of(test, known, TEST, seeds[2]),
            f"{plain.source}; pairs {', '.join(f'{a}+{b}' for a, b in pairs)}",
        ),
        rows_of(test, others(pairs, digits), TEST, seeds[3]),
    )
