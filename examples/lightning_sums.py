"""A Dolphin program in a LightningModule: nothing special is needed.

Needs the package `pytorch-lightning`. The program is part of `training_step`; loops, devices,
logging and checkpoints are Lightning's.

    python examples/lightning_sums.py --picture lightning.png
"""

import argparse
import operator

import pytorch_lightning as lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dolphin as dl


class Sums(lightning.LightningModule):
    """Noisy vectors (B, 3, 16) of three digits; the label is their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
        self.losses: list[float] = []

    def forward(self, vectors: Tensor) -> dl.Distribution[int]:
        """The program: read three digits, add them up."""
        digits = dl.Distribution.each_from_logits(self.read(vectors), range(10))
        return dl.reduce(operator.add, digits)

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        """The likelihood of the sums."""
        loss = dl.nll_loss(self(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def test_step(self, batch: list[Tensor], number: int) -> None:
        right = torch.tensor(self(batch[0]).argmax()) == batch[1].cpu()
        self.log("right", right.float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def samples(count: int, seed: int) -> DataLoader:
    """Vectors and sums in batches."""
    looks = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    digits = torch.randint(0, 10, (count, 3), generator=generator)
    vectors = looks[digits] + 0.3 * torch.randn(count, 3, 16, generator=generator)
    return DataLoader(TensorDataset(vectors, digits.sum(1)), batch_size=64)


def main() -> None:
    """Train and test with Lightning's trainer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--picture")
    args = parser.parse_args()
    lightning.seed_everything(0)
    model = Sums()
    trainer = lightning.Trainer(
        max_steps=args.steps, max_epochs=-1, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(model, samples(2000, seed=1))
    trainer.test(model, samples(500, seed=2))
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.plot(model.losses)
        axis.set(xlabel="step", ylabel="loss")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
