"""Train one program on several processes: compute the loss inside the wrapped module.

`DistributedDataParallel` searches the output of a module for tensors, so the module returns the
loss. Two processes with half a batch each learn the same as one with whole batches: checked here.

    torchrun --nproc-per-node 2 examples/distributed.py --picture distributed.png
"""

import argparse
import operator
import os

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

import dolphin as dl


class Sums(nn.Module):
    """Noisy vectors (B, 3, 16) of three digits, and the loss of their sums."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)  # the same weights in all processes
        self.read = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, vectors: Tensor, sums: Tensor) -> Tensor:
        digits = dl.Distribution.each_from_logits(self.read(vectors), range(10))
        return dl.nll_loss(dl.reduce(operator.add, digits), sums)


def train(model: nn.Module, steps: int, part: slice) -> list[float]:
    """Train for some steps on this process's part of every batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    generator, losses = torch.Generator().manual_seed(1), []
    looks = torch.randn(10, 16, generator=generator)
    for _ in range(steps):
        digits = torch.randint(0, 10, (32, 3), generator=generator)
        vectors = looks[digits] + 0.3 * torch.randn(32, 3, 16, generator=generator)
        optimizer.zero_grad()
        loss = model(vectors[part], digits.sum(1)[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(steps: int, picture: str | None) -> None:
    """Train together with the other processes, then alone, and compare."""
    if "RANK" not in os.environ:
        raise SystemExit("Start it with: torchrun --nproc-per-node 2 examples/distributed.py")
    distributed.init_process_group("gloo")
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    together, share = DistributedDataParallel(Sums()), 32 // processes
    losses = train(together, steps, slice(rank * share, (rank + 1) * share))
    distributed.destroy_process_group()
    reference = train(alone := Sums(), steps, slice(None))
    pairs = zip(together.parameters(), alone.parameters(), strict=True)
    difference = max((a - b).abs().max().item() for a, b in pairs)
    if rank == 0:
        print(f"largest difference of a weight: {difference:.1e}")
    if rank == 0 and picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.plot(losses, alpha=0.5, label=f"first of {processes} processes, on its share")
        axis.plot(reference, label="one process, on whole batches")
        axis.set(xlabel="step", ylabel="loss")
        axis.legend()
        figure.savefig(picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--picture")
    args = parser.parse_args()
    main(args.steps, args.picture)
