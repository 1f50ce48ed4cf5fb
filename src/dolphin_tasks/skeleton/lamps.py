"""How many of five noisy lamps are on? Nobody ever says which lamp is on."""

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
    """Step size."""
    noise: float = 0.3
    """How noisy the lamps are."""


class Lamps(Task[Options, Batch]):
    """tell lamps that are on from lamps that are off, knowing only how many are on"""

    config_class = Options

    # 1. The data: inputs for the network, and the result that each sample should have.

    def data(self) -> Data[Batch]:
        """Three splits, and a sentence that says where they came from."""
        noise = self.config.noise
        train, validation, test = (_samples(n, noise, seed=n) for n in (2000, 301, 302))
        return Data(train, validation, test, "lamps, made up")

    # 2. The network: what it says about one batch of inputs.

    def network(self) -> nn.Module:
        """Scores (B, 5, 2) for every lamp: off, on."""
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    # 3. The program: from what the network says to a distribution over results.

    def program(self, *outputs: Tensor) -> dl.Distribution[int]:
        """How many lamps are on; `outputs` is what the network said, one tensor here."""
        (scores,) = outputs
        lamps = dl.Distribution.each_from_logits(scores, [0, 1])
        return dl.reduce(lambda a, b: a + b, lamps)

    # 4. Optional: how well the network reads, where it is known what the inputs show.

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the network."""
        return ("off", "on")

    def perceived(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """(read, true) of every lamp of a batch; here a bright one is on."""
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
