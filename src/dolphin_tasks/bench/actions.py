"""Matching captions to videos by their sequences of actions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.mugen.model import PairNetwork
from dolphin_tasks.mugen.program import ACTIONS, Deeds, collapse, read_actions, watch


@dataclass(frozen=True)
class Captions(Program):
    """Videos of `frames` frame pairs against the captions of the same batch."""

    frames: int

    def network(self) -> nn.Module:
        return PairNetwork()

    def pictures(self, rows: int) -> Tensor:
        return torch.randint(256, (rows, 2 * self.frames, 3, 64, 64), dtype=torch.uint8)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[Deeds]]:
        truth = torch.randint(len(ACTIONS), (rows, self.frames), generator=generator)
        same = torch.rand(rows, self.frames, generator=generator) < 0.75
        for frame in range(1, self.frames):
            truth[:, frame] = torch.where(same[:, frame], truth[:, frame - 1], truth[:, frame])
        captions = [collapse(ACTIONS[action] for action in video) for video in truth.tolist()]
        return class_scores(truth, len(ACTIONS), inputs, generator), captions

    def loss(self, scores: Tensor, labels: list[Deeds]) -> Tensor:
        chances = dl.get_probs(watch(read_actions(scores), labels), symbols=labels)
        return F.binary_cross_entropy(chances, torch.eye(len(labels)).to(chances))
