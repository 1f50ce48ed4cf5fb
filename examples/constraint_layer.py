"""A layer whose outputs always satisfy a constraint: a path through a grid, one cell per column.

The network scores the cells of each column; a path moves by at most one row from column to column.
With the layer, every prediction is the likeliest path; cell by cell, it is often not a path.

    python examples/constraint_layer.py --picture paths.png
"""

import argparse
import itertools

import torch
from torch.nn import Linear, ReLU, Sequential, functional

import dolphin as dl

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--picture")
args = parser.parse_args()
torch.manual_seed(0)
ROWS, COLUMNS = 5, 6
basis = torch.randn(COLUMNS * ROWS, 24)


def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy pictures of random paths, and the paths."""
    path = [torch.randint(0, ROWS, (count,))]
    for _ in range(COLUMNS - 1):
        path.append((path[-1] + torch.randint(-1, 2, (count,))).clamp(0, ROWS - 1))
    paths = torch.stack(path, 1)
    pictures = functional.one_hot(paths, ROWS).flatten(1).float() @ basis
    return pictures + 2.5 * torch.randn(count, 24), paths


def is_path(cells: tuple[int, ...] | None) -> bool:
    """Whether neighbours are within one row of each other."""
    return cells is not None and all(abs(a - b) <= 1 for a, b in itertools.pairwise(cells))


def valid(columns: list[dl.Distribution[int]]) -> dl.Distribution[bool]:
    """The same as a Dolphin program."""
    steps = [dl.apply(a, b, lambda x, y: abs(x - y) <= 1) for a, b in itertools.pairwise(columns)]
    return dl.reduce(lambda x, y: x and y, steps)


def read(logits: torch.Tensor) -> list[dl.Distribution[int]]:
    """One distribution over rows per column."""
    return dl.Distribution.each_from_logits(logits, range(ROWS), provenance="exact")


network = Sequential(Linear(24, 64), ReLU(), Linear(64, COLUMNS * ROWS))
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(args.steps):
    pictures, paths = draw(64)
    columns = read(network(pictures).view(-1, COLUMNS, ROWS))
    # log P(path | valid): the likelihood of the label among valid paths only.
    chosen = torch.stack([d.log_probs() for d in columns], 1).gather(2, paths[..., None])
    loss = -chosen.sum((1, 2)).mean() + valid(columns).log_probs([True]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
pictures, paths = draw(500)
with torch.no_grad():
    logits = network(pictures).view(-1, COLUMNS, ROWS)
    columns = read(logits)
    constrained = dl.most_likely(columns, valid(columns), [True] * 500)
truth, plain = (list(map(tuple, rows.tolist())) for rows in (paths, logits.argmax(2)))
for name, found in (("cell by cell", plain), ("with the layer", constrained)):
    right = sum(a == b for a, b in zip(found, truth, strict=True)) / 500
    print(f"{name}: {sum(map(is_path, found)) / 500:.1%} are paths, {right:.1%} correct")
if args.picture:
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(8, 2.2), layout="constrained")).subplots(1, 4)
    for row, axis in zip([n for n in range(500) if not is_path(plain[n])], axes, strict=False):
        axis.imshow(logits[row].softmax(1).T.tolist(), cmap="Blues")
        axis.plot(plain[row], "x:", constrained[row], "o-")
    figure.suptitle("dotted: best cell per column; orange: likeliest path", size=10)
    figure.savefig(args.picture)
