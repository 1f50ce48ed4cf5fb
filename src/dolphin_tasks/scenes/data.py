"""Scenes for the trainer: a picture, where its things are, a question, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.scenes import program, world
from dolphin_tasks.training.noise import Noise


@dataclass(frozen=True)
class SceneBatch:
    """Pictures, questions and answers; `scenes` is only looked at for its places."""

    pictures: Tensor
    """(B, 3, 64, 64) in [0, 1]."""
    things: Tensor
    """(B, 6, 3, 16, 16), cut out of the pictures; zeros where there are fewer things."""
    scenes: list[world.Scene]
    questions: list[program.Question]
    targets: list[Any]

    @property
    def places(self) -> list[program.Places]:
        """Where the things are: what a detector gives."""
        return [[(thing.row, thing.column) for thing in scene] for scene in self.scenes]


class Scenes:
    """One split."""

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.scenes = [world.make_scene(rng) for _ in range(count)]
        self.questions = [program.make_question(rng) for _ in range(count)]
        pairs = zip(self.scenes, self.questions, strict=True)
        self.answers = [true_answer(*pair) for pair in pairs]
        drawn = [world.draw_scene(scene, rng) for scene in self.scenes]
        self.pictures = torch.from_numpy(np.stack(drawn))

    def __len__(self) -> int:
        return len(self.scenes)

    def reads(self, index: Tensor) -> int:
        """Things in these scenes."""
        return sum(len(self.scenes[i]) for i in index.tolist())

    def batch(self, index: Tensor, noise: Noise | None = None) -> SceneBatch:
        """These scenes."""
        pictures = self.pictures[index].float().div_(255)
        numbers = index.tolist()
        scenes = [self.scenes[i] for i in numbers]
        return SceneBatch(
            pictures,
            cut_out(pictures, scenes),
            scenes,
            [self.questions[i] for i in numbers],
            [self.answers[i] for i in numbers],
        )


def true_answer(scene: world.Scene, question: program.Question) -> Any:
    """The answer to a question about a scene that is known, in plain Python.

    >>> true_answer((world.Thing("cube", "red", "small", 0, 0),), (("filter", "red"), ("count",)))
    1
    """
    chosen = list(scene)
    for kind, word in question[:-1]:
        if kind == "relate":
            holds = program.RELATIONS[word]
            others = [(thing.row, thing.column) for thing in chosen]
            chosen = [t for t in scene if any(holds((t.row, t.column), o) for o in others)]
        else:
            chosen = [t for t in chosen if word in (t.shape, t.colour, t.size)]
    kind, *asked = question[-1]
    if kind == "query":
        return getattr(chosen[0], asked[0]) if chosen else program.NOTHING
    return len(chosen) if kind == "count" else "yes" if chosen else "no"


def cut_out(pictures: Tensor, scenes: list[world.Scene]) -> Tensor:
    """The cells of all things, (B, 6, 3, 16, 16)."""
    size = world.CELL
    things = pictures.new_zeros(len(scenes), world.MOST, 3, size, size)
    for number, scene in enumerate(scenes):
        for place, thing in enumerate(scene):
            top, left = thing.row * size, thing.column * size
            things[number, place] = pictures[number, :, top : top + size, left : left + size]
    return things
