"""Groups of combinations, padded to rectangles.

A provenance gathers whole rows of tags and reduces over the first dimension. Groups of very
different sizes go into a few `Bucket`s, so that padding at most doubles the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """An ordinary tensor, even if the caller is in inference mode: it will be used again."""
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):
            return to_device(array, device)
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


@dataclass(frozen=True)
class BucketTensors:
    """A bucket on one device."""

    indices: tuple[Tensor, ...]  # one per operand, (depth * width,)
    pad: Tensor | None  # (depth, width), True where there is no combination
    depth: int
    width: int
    # Where there is padding: the first index for an operand with a **0** put in front of its tags.
    shifted: Tensor | None

    def piece(self, start: int, depth: int) -> BucketTensors:
        """Some combinations of every group, from `start` on."""

        def cut(index: Tensor) -> Tensor:
            return index.view(self.depth, -1)[start : start + depth].reshape(-1)

        return BucketTensors(
            tuple(cut(index) for index in self.indices),
            None if self.pad is None else self.pad[start : start + depth],
            min(depth, self.depth - start),
            self.width,
            None if self.shifted is None else cut(self.shifted),
        )


@dataclass(frozen=True)
class Bucket:
    """Groups of about the same size: combination d of group w is at [d, w]."""

    indices: tuple[np.ndarray, ...]  # one per operand, (depth, width)
    pad: np.ndarray | None

    def shifted(self) -> np.ndarray:
        index = self.indices[0]
        return index if self.pad is None else np.where(self.pad, 0, index + 1)

    def on(self, device: torch.device) -> BucketTensors:
        """The same on a device."""
        return BucketTensors(
            tuple(to_device(index.reshape(-1), device) for index in self.indices),
            None if self.pad is None else to_device(self.pad, device),
            self.depth,
            self.width,
            None if self.pad is None else to_device(self.shifted().reshape(-1), device),
        )

    @property
    def depth(self) -> int:
        return self.indices[0].shape[0]

    @property
    def width(self) -> int:
        return self.indices[0].shape[1]


def bucketed(
    indices: Sequence[np.ndarray], counts: np.ndarray, starts: np.ndarray, order: np.ndarray
) -> tuple[tuple[Bucket, ...], np.ndarray | None]:
    """The buckets of all groups, and the place of each group among them unless they are in order.

    Combinations of group g: the `counts[g]` entries of `order` from `starts[g]` on.
    """
    groups, largest = len(counts), int(counts.max(initial=0))
    filled = bool((counts > 0).all())
    if groups and filled and largest * groups <= 2 * len(order) + 4096:
        return (_bucket(indices, counts, starts, order),), None
    classes = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    classes[counts == 0] = -1
    buckets: list[Bucket] = []
    position = np.full(groups, -1, dtype=np.int64)
    placed = 0
    for members in _joined_classes(classes, counts):
        buckets.append(_bucket(indices, counts[members], starts[members], order))
        position[members] = placed + np.arange(len(members))
        placed += len(members)
    return tuple(buckets), position


def _bucket(
    indices: Sequence[np.ndarray], counts: np.ndarray, starts: np.ndarray, order: np.ndarray
) -> Bucket:
    steps = np.arange(int(counts.max(initial=0)))[:, None]
    pad = steps >= counts
    members = order[np.where(pad, starts, starts + steps)]
    return Bucket(tuple(index[members] for index in indices), pad if pad.any() else None)


_WORTH_A_BUCKET = 256  # combinations that padding may add before it costs more than a bucket
_LITTLE = 16  # padding may add one in this many combinations per bucket that it saves


def _joined_classes(classes: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """Groups of each class of sizes, classes joined where that adds little padding."""
    joined: list[np.ndarray] = []
    little = max(_WORTH_A_BUCKET, int(counts.sum()) // _LITTLE)
    for size in np.unique(classes[classes >= 0]):
        members = np.flatnonzero(classes == size)
        before = joined[-1] if joined else members[:0]
        deeper = counts[members].max() - counts[before].max(initial=0)
        if len(before) and deeper * len(before) <= little:
            joined[-1] = np.concatenate((before, members))
        else:
            joined.append(members)
    return joined
