"""Samples of Mugen: groups of three clips and their three captions, with different actions.

Clips are generated from seeds, or come from a folder with the annotations of the real data set.
Captions with the same sequence of actions can't be distinguished, so no group has two of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.fetch import DataError
from dolphin_tasks.mugen import annotations
from dolphin_tasks.mugen.annotations import Kind
from dolphin_tasks.mugen.captions import read_caption
from dolphin_tasks.mugen.drawing import SIZE, colours, draw
from dolphin_tasks.mugen.program import Deeds
from dolphin_tasks.mugen.world import FRAMES, PAIRS, THEMES, Story, tell
from dolphin_tasks.training.noise import Noise
from dolphin_tasks.training.task import Data

GROUP = 3
SPLITS = ("train", "validation", "test")


class Footage(Protocol):
    """Frames of clips, wherever they are."""

    def frames(self, index: Tensor) -> Tensor:
        """(n, 32, 3, 64, 64) uint8."""
        ...


class Drawn:
    """Footage of stories, drawn when first needed."""

    def __init__(self, stories: Sequence[Story]) -> None:
        self.stories = stories
        self._colours = [colours(theme).T.copy() for theme in range(THEMES)]

    @cached_property
    def _pictures(self) -> np.ndarray:
        pictures = np.empty((len(self.stories), FRAMES, SIZE, SIZE), dtype=np.uint8)
        for frames, story in zip(pictures, self.stories, strict=True):
            frames[:] = draw(story)  # in place: 5,000 clips are 650 MB
        return pictures

    def frames(self, index: Tensor) -> Tensor:
        """The clips with these numbers, in colour."""
        painted = np.empty((len(index), FRAMES, 3, SIZE, SIZE), dtype=np.uint8)
        for frames, clip in zip(painted, index.tolist(), strict=True):
            for channel, shades in enumerate(self._colours[self.stories[clip].theme]):
                # `take` into a buffer is three times as fast as indexing; "clip" skips a copy
                shades.take(self._pictures[clip], out=frames[:, channel], mode="clip")
        return torch.from_numpy(painted)


@dataclass(frozen=True)
class GroupBatch:
    """Groups of clips, and of captions; clip i of a group belongs to its caption i."""

    clips: Tensor  # (B, clips, 32, 3, 64, 64) uint8
    captions: list[list[str]]
    deeds: list[list[Deeds]]
    actions: Tensor  # (B, clips, 16), -1 where unknown


class Groups:
    """Clips with captions, in groups of three."""

    def __init__(
        self,
        footage: Footage,
        captions: list[str],
        actions: Tensor,
        mirror: bool = False,
    ) -> None:
        self.footage, self.captions, self.actions = footage, captions, actions
        self.mirror = mirror
        self.deeds = [read_caption(caption) for caption in captions]
        self.groups = torch.tensor(make_groups(self.deeds), dtype=torch.int64).view(-1, GROUP)

    def __len__(self) -> int:
        return len(self.groups)

    def reads(self, index: Tensor) -> int:
        """Frame pairs of these groups."""
        return len(index) * GROUP * PAIRS

    def batch(self, index: Tensor, noise: Noise | None = None) -> GroupBatch:
        """These groups; with noise, half of the clips are mirrored, if that is on."""
        members = self.groups[index]
        clips = self.footage.frames(members.flatten())
        if noise is not None and self.mirror:
            mirrored = noise.uniform()[::PAIRS] < 0.5
            clips[mirrored] = clips[mirrored].flip(-1)
        return GroupBatch(
            clips.unflatten(0, members.shape),
            [[self.captions[clip] for clip in group] for group in members.tolist()],
            [[self.deeds[clip] for clip in group] for group in members.tolist()],
            self.actions[members],
        )


def make_groups(deeds: Sequence[Deeds]) -> list[list[int]]:
    """Clips by threes, in order, no two with the same deeds in one group.

    A clip goes to the first group that has room for it. Groups that stay incomplete are left out:
    at most the last few, unless one sequence outnumbers all others.

    >>> make_groups([("walk",), ("walk",), ("jump",), ("climb",), ("jump",), ("stand",), ("die",)])
    [[0, 2, 3], [1, 4, 5]]
    """
    groups: list[list[int]] = []
    open_: list[list[int]] = []
    for clip, done in enumerate(deeds):
        fitting = (group for group in open_ if done not in (deeds[member] for member in group))
        group = next(fitting, None)
        if group is None:
            group = []
            groups.append(group)
            open_.append(group)
        group.append(clip)
        if len(group) == GROUP:
            open_.remove(group)
    return [group for group in groups if len(group) == GROUP]


def generate(world: int, split: int, count: int, mirror: bool = False) -> Groups:
    """Clip i of a split depends on the world, the split and i alone: 1,000 begin the 5,000."""
    stories = [tell(world, split, clip) for clip in range(count)]
    actions = torch.tensor([story.actions for story in stories])
    return Groups(Drawn(stories), [story.caption for story in stories], actions, mirror)


def load(
    sizes: tuple[int, int, int],
    world: int = 0,
    data_dir: Path | None = None,
    captions: Kind = "auto",
    mirror: bool = False,
) -> Data[GroupBatch]:
    """Clips for training, validation and testing: annotated ones where there are any, or generated.

    Raises:
        DataError: there are annotations, but they can't be used.
    """
    folder = annotations.find_folder(data_dir)
    if folder is None:
        train, validation, test = (
            generate(world, number, size, mirror and number == 0)
            for number, size in enumerate(sizes)
        )
        source = f"a generated platform world, seed {world} (not the real Mugen)"
        return Data(train, validation, test, source)
    splits: list[Groups] = []
    skipped = 0
    for name, size in zip(SPLITS, sizes, strict=True):
        split = annotations.read_split(folder, name, size, captions)
        skipped += split.skipped
        footage = annotations.Recorded([clip.frames for clip in split.clips])
        actions = torch.tensor([clip.actions for clip in split.clips])
        texts = [clip.caption for clip in split.clips]
        splits.append(Groups(footage, texts, actions, mirror and name == "train"))
        if not len(splits[-1]):
            raise DataError(
                f"{folder / annotations.FILES[name]}: the {len(texts)} usable clips make no group "
                f"of {GROUP} with different actions."
            )
    source = f"annotated clips in {folder}, {captions} captions; {skipped} clips left out"
    return Data(splits[0], splits[1], splits[2], source)
