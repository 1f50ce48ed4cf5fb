"""Terrain for the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dolphin_tasks.terrain import data, drawing, model, program, world
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.noise import seed_of
from dolphin_tasks.training.task import Data, Outputs, Samples, Task


@dataclass(frozen=True, kw_only=True)
class TerrainConfig(TrainConfig):
    """Learn what ground costs from cheapest paths."""

    epochs: int = 12
    """Passes over the training maps."""
    batch: int = 64
    """Maps per step."""
    lr: float = 6e-3
    """Maximum learning rate of Adam."""
    provenance: str = "viterbi"
    """The program searches for the single cheapest path: only viterbi does that."""
    margin: float = 0.03
    """Margin: the extra cost per cell of the label's path during training."""
    maps: int = 8000
    """Training maps."""
    validation_maps: int = 300
    """Maps to choose the epoch on."""
    test_maps: int = 1000
    """Maps to test on."""

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        if self.provenance != "viterbi":
            raise OptionError(
                "--provenance must be viterbi: only it gives the cost of the one cheapest path."
            )
        if self.loss != "nll":
            raise OptionError(
                "--loss has no effect here: the loss is the extra cost of the label's path."
            )
        if self.margin < 0:
            raise OptionError(f"--margin must not be negative, got {self.margin}.")
        self.at_least(1, "maps", "validation_maps", "test_maps")


class TerrainTask(Task[TerrainConfig, data.MapBatch]):
    """Learn what ground costs from cheapest paths."""

    name = "terrain"
    summary = "find cheapest paths across terrain, knowing only such paths"
    config_class = TerrainConfig

    def data(self) -> Data[data.MapBatch]:
        config = self.config
        counts = (config.maps, config.validation_maps, config.test_maps)
        train, validation, test = (
            data.Maps(count, seed_of(config.seed, 12, split)) for split, count in enumerate(counts)
        )
        return Data(train, validation, test, "maps drawn here")

    @classmethod
    def whereabouts(cls) -> str:
        return "drawn when needed"

    def network(self) -> nn.Module:
        return model.GroundNetwork()

    def read(self, network: nn.Module, batch: data.MapBatch) -> Outputs:
        device = next(network.parameters()).device
        return (network(batch.pictures.to(device)),)

    def losses(self, outputs: Outputs, batch: data.MapBatch) -> Tensor:
        return program.regrets(outputs[0], batch.paths, self.config.margin).float()

    def answers(self, outputs: Outputs, batch: data.MapBatch) -> list[Any]:
        """The path of each map, (12, 12) booleans."""
        return list(program.cheapest(outputs[0]))

    def right(self, answers: Sequence[Any], batch: data.MapBatch) -> list[bool]:
        """Whether a path costs as little as the label's, whichever of several it is."""
        costs = (torch.stack(list(answers)).cpu() * batch.costs).sum((1, 2))
        least = (batch.paths * batch.costs).sum((1, 2))
        return (costs <= least + 1e-6).tolist()

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.MapBatch, path: Path
    ) -> None:
        costs = program.costs(outputs[0]).cpu()
        drawing.draw_maps(
            batch.pictures, costs, torch.stack(list(answers)), self.right(answers, batch), path
        )

    @torch.no_grad()
    def more_results(self, network: nn.Module, samples: Samples[Any]) -> dict[str, Any]:
        """What each kind of ground costs on average, sand = 1, and how much too long paths are."""
        batch, outputs = self.read_all(network, samples)
        learnt = program.costs(outputs[0]).cpu()
        means = [float(learnt[batch.costs == cost].mean()) for cost in world.COSTS.tolist()]
        costs = (torch.stack(self.answers(outputs, batch)).cpu() * batch.costs).sum((1, 2))
        least = (batch.paths * batch.costs).sum((1, 2))
        return {
            "true_costs": dict(zip(world.KINDS, world.COSTS.tolist(), strict=True)),
            "learnt_costs": {k: m / means[0] for k, m in zip(world.KINDS, means, strict=True)},
            "cost_over_cheapest": float((costs / least).mean()),
        }
