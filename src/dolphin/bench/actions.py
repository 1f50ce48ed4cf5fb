"""Which caption belongs to which video? The sequence of actions decides."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin.bench.networks import ClipNetwork
from dolphin.bench.program import Inputs, Program, class_scores

ACTIONS = ("crouch", "stand", "walk", "climb", "jump", "collect", "die", "kill")

Deeds = tuple[str, ...]


def go_on(done: Deeds, action: str) -> Deeds:
    """An action that lasts for several frames is one action."""
    return done if done and done[-1] == action else (*done, action)


def watch(frames: list[dl.Distribution], captions: list[Deeds]) -> dl.Distribution:
    """The sequences that a video may show, as far as some caption begins like that."""
    beginnings = frozenset(c[:length] for c in captions for length in range(len(c) + 1))
    done = dl.Distribution.certain((), batch=frames[0].batch_size)
    for frame in frames:
        done = dl.apply_if(
            done, frame, go_on, lambda done, action: go_on(done, action) in beginnings
        )
    return done


@dataclass(frozen=True)
class Captions(Program):
    """Videos of `frames` frame pairs against the captions of the same batch."""

    frames: int

    def network(self) -> nn.Module:
        return ClipNetwork(len(ACTIONS))

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows, 3, 2 * self.frames, 64, 64)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[Deeds]]:
        truth = torch.randint(len(ACTIONS), (rows, self.frames), generator=generator)
        same = torch.rand(rows, self.frames, generator=generator) < 0.75
        for frame in range(1, self.frames):
            truth[:, frame] = torch.where(same[:, frame], truth[:, frame - 1], truth[:, frame])
        captions = []
        for video in truth.tolist():
            caption: Deeds = ()
            for action in video:
                caption = go_on(caption, ACTIONS[action])
            captions.append(caption)
        return class_scores(truth, len(ACTIONS), inputs, generator), captions

    def loss(self, scores: Tensor, labels: list[Deeds]) -> Tensor:
        frames = [dl.Distribution.from_logits(s, ACTIONS) for s in scores.unbind(1)]
        chances = dl.get_probs(watch(frames, labels), symbols=labels)
        return F.binary_cross_entropy(chances, torch.eye(len(labels)).to(chances))
