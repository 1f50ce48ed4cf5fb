"""Learn the costs of terrain from cheapest paths across maps; no cost is ever given.

Crossing a cell is a fact of probability exp(-cost). Under `viterbi` (likeliest derivation), a plain
recursion finds the cheapest path, and its gradient is that path: the loss makes the cells of the
label cheaper, and those of the predicted path more expensive.

    python examples/shortest_path.py --epochs 6 --picture shortest_path.png
"""

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F

import dolphin as dl
from dolphin_tasks.terrain import data, drawing, model

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--maps", type=int, default=2000)
parser.add_argument("--picture", type=Path, default=Path("shortest_path.png"))
args = parser.parse_args()
torch.manual_seed(0)
CELLS = [(row, column) for row in range(12) for column in range(12)]
START, GOAL = (0, 0), (11, 11)


def neighbours(here: tuple[int, int], there: tuple[int, int]) -> bool:
    """Side by side or corner to corner."""
    return here != there and max(abs(a - b) for a, b in zip(here, there, strict=True)) == 1


def reached(ground: dl.Distribution[tuple[int, int]]) -> dl.Distribution[tuple[int, int]]:
    """The cells that can be reached: the start, and neighbours of reached cells."""
    start = dl.Distribution.certain(START, batch=ground.batch_size, provenance="viterbi")

    def further(cells: dl.Distribution[tuple[int, int]]) -> dl.Distribution[tuple[int, int]]:
        return dl.union(start, dl.apply_if(cells, ground, lambda _, there: there, neighbours))

    return dl.fixpoint(further, start)


def ground_of(costs: torch.Tensor) -> dl.Distribution[tuple[int, int]]:
    """One fact per cell."""
    logs = -costs.flatten(1)
    return dl.Distribution.from_log_probs(logs, CELLS, exclusive=False, provenance="viterbi")


train, test = data.Maps(args.maps, seed=0), data.Maps(300, seed=1)
network = model.GroundNetwork()
optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
for epoch in range(args.epochs):
    losses = []
    for index in torch.randperm(len(train)).split(64):
        batch = train.batch(index)
        label = batch.paths.double()
        label[:, 0, 0] = 0.0  # the start is free
        costs = math.log(2) + F.softplus(network(batch.pictures).double())
        costs = costs + 0.03 * label  # a margin: the label must win clearly
        cheapest = -reached(ground_of(costs)).log_probs([GOAL])[:, 0]
        losses.append(((costs * label).sum((1, 2)) - cheapest).mean())
        optimiser.zero_grad()
        losses[-1].backward()
        optimiser.step()
    print(f"epoch {epoch + 1}/{args.epochs}  the label costs {torch.stack(losses).mean():.3f} more")

batch = test.batch(torch.arange(300))
costs = math.log(2) + F.softplus(network(batch.pictures).double())
costs = costs + 1e-6 * torch.rand(12, 12)  # no two paths cost the same
ground = ground_of(costs)
paths = torch.zeros(300, 12, 12, dtype=torch.bool)
for row, world in enumerate(dl.most_likely([ground], reached(ground), [GOAL] * 300)):
    for cell in (START, *(world or [()])[0]):
        paths[row][cell] = True
spent, least = ((path * batch.costs).sum((1, 2)) for path in (paths, batch.paths))
right = (spent <= least + 1e-6).tolist()
print(f"{sum(right) / 3:.1f}% of paths are cheapest")
drawing.draw_maps(batch.pictures, costs.detach(), paths, right, args.picture)
