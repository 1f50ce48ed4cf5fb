"""Samples of PathFinder: images with two discs, and whether a contour joins them.

Images in the layout of the Long Range Arena are read where there are any. Otherwise they are
planned here, by as many processes as there are cores, and the plans are kept in the cache; pixels
are drawn when a batch is needed, so a hundred thousand images take 30 MB whatever their size.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import current_process, get_context
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.fetch import BROKEN_ARRAYS, DataError, atomic_write, cache_dir
from dolphin_tasks.pathfinder.generator import ABSENT, Design, generate
from dolphin_tasks.pathfinder.glimpse import look
from dolphin_tasks.pathfinder.render import draw, segments
from dolphin_tasks.training.noise import Noise

SHARD = 1_000
"""Plans per file."""
FEWEST_DASHES = 2
"""Shortest contour of a curriculum."""
VERSION = 3
"""Part of the cache's name: raise it when plans come out differently."""


@dataclass(frozen=True)
class PathBatch:
    """Images and answers; where images were drawn here, also what is on them."""

    images: Tensor  # (B, 1, size, size) in [0, 1]
    labels: Tensor  # (B,) bool
    discs: Tensor | None = None  # (B, 2, 2) rows and columns
    contours: Tensor | None = None  # (B, 2, dashes, 3); the first disc sits on the first one


@dataclass(frozen=True)
class Plans:
    """Plans of many images: dashes are (row, column, degrees), as in `generator.Plan`."""

    contours: Tensor  # (n, 2, dashes, 3) int16
    distractors: Tensor  # (n, distractors, their dashes, 3) int16
    first: Tensor  # (n,) int64: the contour of the first disc
    labels: Tensor  # (n,) bool

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, index: Tensor) -> Plans:
        """Some of them, with dashes as int64."""
        return Plans(
            self.contours[index].long(),
            self.distractors[index].long(),
            self.first[index],
            self.labels[index],
        )


class DrawnSamples:
    """Images that are drawn when a batch is needed.

    While training, each plan is used in many ways: mirrored and turned, with another coin toss
    (which ends the discs sit on), unless coins are `fixed`. With a curriculum half of the contours
    are shortened and lose some distractors, so that there are always easy samples to learn from.
    """

    def __init__(
        self, design: Design, plans: Plans, curriculum: bool = False, fixed: bool = False
    ) -> None:
        self.design, self.plans, self.curriculum, self.fixed = design, plans, curriculum, fixed

    def __len__(self) -> int:
        return len(self.plans)

    def reads(self, index: Tensor) -> int:
        """One image per sample."""
        return len(index)

    def batch(self, index: Tensor, noise: Noise | None = None) -> PathBatch:
        """These samples, varied while training."""
        plans = self.plans.rows(index)
        lengths = torch.full((len(index),), self.design.dashes)
        if noise is not None:
            chance = noise.uniform(8 + self.design.distractors)
            if self.curriculum:
                plans, lengths = shorten(plans, chance[:, :3], chance[:, 8:])
            tossed = plans if self.fixed else toss(plans, chance[:, 3:5])
            plans = mirror(tossed, self.design.size, chance[:, 5:8] < 0.5)
        return draw_plans(self.design, plans, lengths)


def draw_plans(design: Design, plans: Plans, lengths: Tensor) -> PathBatch:
    """The images of plans whose contours have this many dashes."""
    row = torch.arange(len(plans))
    order = torch.stack([plans.first, 1 - plans.first], dim=1)
    contours = plans.contours[row[:, None], order]
    ends = segments(design, contours)
    discs = torch.stack(
        [ends[:, 0, 0, 0], ends[row, (~plans.labels).long(), lengths - 1, 1]], dim=1
    )
    dashes = torch.cat([contours.flatten(1, 2), plans.distractors.flatten(1, 2)], dim=1)
    images = draw(design, dashes, discs).float().div_(255).unsqueeze(1)
    return PathBatch(images, plans.labels, discs, contours)


def window(batch: PathBatch, corners: Tensor, width: int) -> PathBatch:
    """Windows of images at their corners (B, 2), and everything in the coordinates of these."""
    at, discs, contours = corners.cpu(), batch.discs, batch.contours
    if discs is not None and contours is not None:
        shift = torch.cat([at, torch.zeros_like(at[:, :1])], dim=1)
        discs, contours = discs - at[:, None], contours - shift[:, None, None]
    return PathBatch(look(batch.images, corners, width), batch.labels, discs, contours)


# -- variations ------------------------------------------------------------------------------------


def toss(plans: Plans, chance: Tensor) -> Plans:
    """Other coins: where the discs sit, and so the label. `chance` is (n, 2) in [0, 1)."""
    first, label = (chance < 0.5).unbind(1)
    return Plans(plans.contours, plans.distractors, first.long(), label)


def mirror(plans: Plans, size: int, choices: Tensor) -> Plans:
    """Turned upside down, left to right, and about the diagonal, where `choices` (n, 3) say so."""

    def mirrored(dashes: Tensor) -> Tensor:
        upside, across, diagonal = (
            choice.view(-1, *[1] * (dashes.dim() - 2)) for choice in choices.unbind(1)
        )
        row, column, degrees = dashes.unbind(-1)
        row, turned = torch.where(upside, size - 1 - row, row), torch.where(upside, -1, 1) * degrees
        column = torch.where(across, size - 1 - column, column)
        turned = torch.where(across, 180 - turned, turned)
        row, column = torch.where(diagonal, column, row), torch.where(diagonal, row, column)
        turned = torch.where(diagonal, 90 - turned, turned) % 360
        turned = torch.where(degrees == ABSENT, ABSENT, turned)
        return torch.stack([row, column, turned], dim=-1)

    return Plans(mirrored(plans.contours), mirrored(plans.distractors), plans.first, plans.labels)


def shorten(plans: Plans, chance: Tensor, fates: Tensor) -> tuple[Plans, Tensor]:
    """Half of the plans with shorter contours and fewer distractors; and the new lengths.

    `chance` (n, 3) says which, how much shorter, and how many distractors go; `fates`
    (n, distractors) which of them.
    """
    dashes = plans.contours.shape[2]
    easier = chance[:, 0] < 0.5
    fewest = min(FEWEST_DASHES, dashes)
    shorter = fewest + (chance[:, 1] * (dashes - fewest + 1)).long()
    lengths = torch.where(easier, shorter, dashes)
    gone = easier[:, None] & (fates < chance[:, 2:])
    contours, distractors = plans.contours.clone(), plans.distractors.clone()
    beyond = torch.arange(dashes) >= lengths[:, None]
    contours[..., 2].masked_fill_(beyond[:, None], ABSENT)
    distractors[..., 2].masked_fill_(gone[..., None], ABSENT)
    return Plans(contours, distractors, plans.first, plans.labels), lengths


# -- making plans ----------------------------------------------------------------------------------


def load_plans(
    design: Design, seed: int, count: int, folder: Path | None = None, workers: int | None = None
) -> Plans:
    """The first `count` plans of a seed: from the cache, or made and cached in pieces.

    A run that is interrupted continues with the piece that it was at. No more plans are made than
    needed.
    """
    root = cache_dir("pathfinder") if folder is None else folder
    place = root / f"{design.key}-seed{seed}-v{VERSION}"
    shards = [
        (design, seed, start, min(SHARD, count - start), place) for start in range(0, count, SHARD)
    ]
    parts = _report(_make_all(shards, workers or _cores()), count, f"PathFinder-{design.size}")
    stacked = {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}
    return Plans(
        torch.from_numpy(stacked["contours"]),
        torch.from_numpy(stacked["distractors"]),
        torch.from_numpy(stacked["first"]).long(),
        torch.from_numpy(stacked["labels"]),
    )


FIELDS = ("contours", "distractors", "first", "labels")
Shard = dict[str, np.ndarray]
Order = tuple[Design, int, int, int, Path]
"""What to make: a design, a seed, the first plan, how many, and the folder of the cache."""


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _make_all(orders: list[Order], workers: int) -> Iterator[Shard]:
    """All pieces in order; several processes where there is enough to do for them."""
    missing = sum(_cached(order) is None for order in orders)
    if workers == 1 or missing < 3:
        yield from map(make_shard, orders)
        return
    if getattr(current_process(), "_inheriting", False):
        raise SystemExit(1)  # a child that runs its parent's script again: the parent says why
    try:
        with ProcessPoolExecutor(min(workers, missing), get_context("spawn")) as pool:
            yield from pool.map(make_shard, orders)
    except BrokenProcessPool:
        raise DataError(
            "a process that plans images died. A script that trains must start under "
            '`if __name__ == "__main__":`; otherwise there may be too little memory.'
        ) from None


def make_shard(order: Order) -> Shard:
    """One piece of the plans, from its file or newly made."""
    cached = _cached(order)
    if cached is not None:
        return cached
    design, seed, start, count, _ = order
    plans = [generate(design, seed, index) for index in range(start, start + count)]
    shard = {
        "contours": np.stack([plan.contours for plan in plans]),
        "distractors": np.stack([plan.distractors for plan in plans]),
        "first": np.array([plan.first for plan in plans], dtype=np.uint8),
        "labels": np.array([plan.label for plan in plans], dtype=bool),
    }
    with atomic_write(_file(order)) as stream:
        np.savez_compressed(stream, **shard)  # pyright: ignore[reportArgumentType]
    return shard


def _file(order: Order) -> Path:
    return order[4] / f"plans-{order[2]:08d}.npz"


def _cached(order: Order) -> Shard | None:
    """The plans of a file, if it holds enough of them; a damaged one counts as none."""
    try:
        with np.load(_file(order)) as stored:
            shard = {name: stored[name][: order[3]] for name in FIELDS}
    except BROKEN_ARRAYS:
        return None
    return shard if len(shard["labels"]) == order[3] else None


def _report(parts: Iterator[Shard], count: int, what: str) -> list[Shard]:
    """Collect the pieces, and count on standard error if that is a terminal."""
    shards: list[Shard] = []
    done = 0
    show: Callable[[str], object] = sys.stderr.write if sys.stderr.isatty() else lambda text: None
    for part in parts:
        shards.append(part)
        done += len(part["labels"])
        show(f"\r{what}: {done:,} of {count:,} images planned")
    show("\n")
    return shards
