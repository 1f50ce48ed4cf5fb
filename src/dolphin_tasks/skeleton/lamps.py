"""Count which of five noisy lamps are on. Only the count is labelled, never a lamp."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.task import Batch, Data, Outputs, Task, TensorSamples

LAMPS = 5


@dataclass(frozen=True)
class Options(TrainConfig):
    """The options of every task, with this task's own defaults and additional options."""

    lr: float = 1e-2
    """Learning rate."""
    noise: float = 0.3
    """How noisy the lamps are."""


class Lamps(Task[Options, Batch]):
    """find out which lamps are on, knowing only how many are on"""

    config_class = Options

    # 1. The data: inputs for the network, and the expected result of each sample.

    def data(self) -> Data[Batch]:
        """Three splits, and a short description of their source."""
        noise = self.config.noise
        train, validation, test = (_samples(n, noise, seed=n) for n in (2000, 301, 302))
        return Data(train, validation, test, "generated lamps")

    # 2. The network: maps one batch of inputs to scores.

    def network(self) -> nn.Module:
        """Scores (B, 5, 2): off and on, for every lamp."""
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    # 3. The program: maps the outputs of the network to a distribution over results.

    def program(self, *outputs: Tensor) -> dl.Distribution[int]:
        """How many lamps are on; `outputs` are the outputs of the network, here one tensor."""
        (scores,) = outputs
        lamps = dl.Distribution.each_from_logits(scores, [0, 1])
        return dl.reduce(lambda a, b: a + b, lamps)

    # 4. Optional: the accuracy of the network itself, where the true classes are known.

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the network."""
        return ("off", "on")

    def perceived(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """(predicted, true) for every lamp of a batch; a lamp that is bright on average is on."""
        return outputs[0].argmax(2).flatten(), (batch.inputs.mean(2) > 0.5).long().flatten()


def _samples(count: int, noise: float, seed: int) -> TensorSamples:
    """Four noisy measurements of each lamp, and how many lamps are on."""
    generator = torch.Generator().manual_seed(seed)
    on = torch.randint(0, 2, (count, LAMPS), generator=generator)
    light = on[..., None] + noise * torch.randn(count, LAMPS, 4, generator=generator)
    return TensorSamples(light, on.sum(1).tolist())


if __name__ == "__main__":
    from dolphin_tasks.cli import main

    raise SystemExit(main(["train", "--task", "lamps:Lamps"]))
