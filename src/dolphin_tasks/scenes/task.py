"""Scenes for the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.pictures import RIGHT, WRONG, pick_rows, save
from dolphin_tasks.scenes import data, model, program
from dolphin_tasks.scenes.world import ATTRIBUTES
from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.noise import seed_of
from dolphin_tasks.training.task import Data, Outputs, Task

KINDS = ("count", "exists", "query")


@dataclass(frozen=True, kw_only=True)
class ScenesConfig(TrainConfig):
    """Learn shapes, colours and sizes from answers to questions."""

    epochs: int = 8
    """Passes over the training scenes."""
    batch: int = 32
    """Scenes per step."""
    lr: float = 2e-3
    """Maximum learning rate of Adam."""
    scenes: int = 6000
    """Training scenes, each with one question."""
    validation_scenes: int = 500
    """Scenes to choose the epoch on."""
    test_scenes: int = 2000
    """Scenes to test on."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        self.at_least(1, "scenes", "validation_scenes", "test_scenes")


class ScenesTask(Task[ScenesConfig, data.SceneBatch]):
    """Learn shapes, colours and sizes from answers to questions."""

    name = "scenes"
    summary = "answer questions about pictures, knowing only such answers"
    config_class = ScenesConfig
    group_names = KINDS
    group_title = "question"

    def data(self) -> Data[data.SceneBatch]:
        config = self.config
        counts = (config.scenes, config.validation_scenes, config.test_scenes)
        train, validation, test = (
            data.Scenes(count, seed_of(config.seed, 14, split))
            for split, count in enumerate(counts)
        )
        return Data(train, validation, test, "scenes drawn here")

    @classmethod
    def whereabouts(cls) -> str:
        return "drawn when needed"

    def network(self) -> nn.Module:
        return model.ThingNetwork()

    def read(self, network: nn.Module, batch: data.SceneBatch) -> Outputs:
        device = next(network.parameters()).device
        cells = batch.things.to(device)
        return (network(cells.flatten(0, 1)).unflatten(0, cells.shape[:2]),)

    def _answers(self, outputs: Outputs, batch: data.SceneBatch) -> dl.Distribution[Any]:
        with dl.using(self.provenance):
            return program.answers(outputs[0], batch.places, batch.questions)

    def losses(self, outputs: Outputs, batch: data.SceneBatch) -> Tensor:
        loss = self.config.make_loss()
        return loss(self._answers(outputs, batch), batch.targets, reduction="none")

    def answers(self, outputs: Outputs, batch: data.SceneBatch) -> list[Any]:
        return self._answers(outputs, batch).argmax()

    def groups(self, batch: data.SceneBatch) -> list[int]:
        return [KINDS.index(question[-1][0]) for question in batch.questions]

    @property
    def classes(self) -> Sequence[str]:
        return [value for values in ATTRIBUTES.values() for value in values]

    def perceived(self, outputs: Outputs, batch: data.SceneBatch) -> tuple[Tensor, Tensor]:
        """Shape, colour and size of every thing."""
        classes = list(self.classes)
        read, true = [], []
        sizes = [len(values) for values in ATTRIBUTES.values()]
        for number, scene in enumerate(batch.scenes):
            start = 0
            for name, part in zip(ATTRIBUTES, outputs[0][number].split(sizes, dim=1), strict=True):
                read += (start + part[: len(scene)].argmax(1)).tolist()
                true += [classes.index(getattr(thing, name)) for thing in scene]
                start += part.shape[1]
        return torch.tensor(read), torch.tensor(true)

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.SceneBatch, path: Path
    ) -> None:
        from matplotlib.figure import Figure

        right = self.right(answers, batch)
        rows = pick_rows(torch.tensor(right), 4)
        figure = Figure(figsize=(2.6 * len(rows), 3.2), dpi=150, layout="constrained")
        for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
            axes.imshow(batch.pictures[row].permute(1, 2, 0).numpy())
            axes.set(xticks=[], yticks=[])
            words = " ".join(word for step in batch.questions[row] for word in step)
            colour, truth = (RIGHT, "") if right[row] else (WRONG, f" (it is {batch.targets[row]})")
            axes.set_title(f"{words}:\n{answers[row]}{truth}", fontsize=7, color=colour)
        save(figure, path)
