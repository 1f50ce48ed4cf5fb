"""Maps for the trainer: pictures, and one cheapest path each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.terrain import world
from dolphin_tasks.training.noise import Noise


@dataclass(frozen=True)
class MapBatch:
    """Pictures and labels; `costs` are for telling how good an answer is."""

    pictures: Tensor
    """(B, 3, 96, 96) in [0, 1]."""
    paths: Tensor
    """(B, 12, 12), the cells of a cheapest path: the label."""
    costs: Tensor
    """(B, 12, 12), what the ground of each cell costs; never shown to training."""


class Maps:
    """One split."""

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        kinds = world.make_maps(count, rng)
        costs = world.COSTS[kinds]
        self.kinds = torch.from_numpy(kinds)
        self.costs = torch.from_numpy(costs)
        self.paths = torch.from_numpy(world.cheapest_paths(costs))
        parts = [world.draw_maps(part, rng) for part in np.split(kinds, range(500, count, 500))]
        self.pictures = torch.from_numpy(np.concatenate(parts))

    def __len__(self) -> int:
        return len(self.pictures)

    def reads(self, index: Tensor) -> int:
        """One picture per map."""
        return len(index)

    def batch(self, index: Tensor, noise: Noise | None = None) -> MapBatch:
        """These maps."""
        pictures = self.pictures[index].float().div_(255)
        return MapBatch(pictures, self.paths[index], self.costs[index])
