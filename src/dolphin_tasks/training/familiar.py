"""Whether a picture looks like those of training.

Pictures of one kind lie close to a space of few dimensions, that of their principal components.
What a network has never seen lies further away from it than the pictures of training do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin_tasks.training import checkpoint
from dolphin_tasks.training.task import Samples, Task

SIDE, AXES, PICTURES = 16, 40, 4_000
"""Pictures are compared at this many rows and columns, along this many axes; the number of
pictures that are used."""
RARE = 0.002
"""The share of pictures of training that would count as strange."""


@dataclass(frozen=True)
class Familiar:
    """The principal axes of pictures, and how far away from them pictures of training lie."""

    mean: Tensor  # (SIDE²,)
    axes: Tensor  # (axes, SIDE²), orthonormal
    limit: float

    @classmethod
    def of(cls, pictures: Tensor) -> Familiar:
        """Learn from pictures (n, height, width); a quarter of them sets the limit."""
        flat = _small(pictures)
        cut = max(1, len(flat) * 3 // 4)
        known, held = flat[:cut], flat[cut:] if cut < len(flat) else flat
        mean = known.mean(0)
        count = min(AXES, len(known))
        axes = torch.linalg.svd(known - mean, full_matrices=False).Vh[:count]
        limit = cls(mean, axes, 0.0).distances(held).quantile(1 - RARE)
        return cls(mean, axes, float(limit))

    def distances(self, flat: Tensor) -> Tensor:
        """How far small, flat pictures (n, SIDE²) lie from the space of the axes."""
        from_mean = flat - self.mean
        return (from_mean - from_mean @ self.axes.T @ self.axes).norm(dim=1)

    def strange(self, pictures: Tensor) -> list[bool]:
        """Which of these pictures (n, height, width) look unlike those of training."""
        return (self.distances(_small(pictures)) > self.limit).tolist()


def _small(pictures: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(pictures[:, None].float(), SIDE).flatten(1)


def remember(task: Task[Any, Any], samples: Samples[Any], path: Path) -> None:
    """Save what the inputs of training look like, where they are pictures."""
    pictures: list[Tensor] = []
    for index in torch.arange(min(len(samples), PICTURES)).split(250):
        looks = task.looks(samples.batch(index))
        if looks is None:
            return
        pictures.append(looks.cpu())
        if sum(map(len, pictures)) >= PICTURES:
            break
    seen = Familiar.of(torch.cat(pictures)[:PICTURES])
    content = {"task": task.name, "mean": seen.mean, "axes": seen.axes, "limit": seen.limit}
    checkpoint.save(path, content)


def load(path: Path, task: str) -> Familiar | None:
    """What `remember` wrote, None where there is nothing."""
    if not path.is_file():
        return None
    content = checkpoint.load(path, task)
    mean, axes = (checkpoint.part(content, name, Tensor, path) for name in ("mean", "axes"))
    if mean.shape != (SIDE**2,) or axes.dim() != 2 or axes.shape[1] != SIDE**2:
        raise checkpoint.CheckpointError(f"{path} does not hold what pictures look like.")
    return Familiar(mean, axes, checkpoint.part(content, "limit", float, path))
