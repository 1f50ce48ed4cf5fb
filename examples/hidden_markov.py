"""Learn how the weather changes from indirect observations: a hidden Markov model.

The weather is never observed: the transition matrix is learnt from what people carry. The matrix is
a parameter whose entries are the weights of a function with random outcomes.

    python examples/hidden_markov.py --picture weather.png
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F

import dolphin as dl

STATES = ("sun", "rain", "storm")
SEEN = ("bare", "hat", "umbrella", "nobody")
TRUE = torch.tensor([[0.8, 0.15, 0.05], [0.3, 0.6, 0.1], [0.1, 0.4, 0.5]])
SHOWN = torch.tensor([[0.85, 0.1, 0.05, 0.0], [0.05, 0.15, 0.75, 0.05], [0.0, 0.05, 0.15, 0.8]])


def draw(rows: int, steps: int) -> torch.Tensor:
    """The observations on each day of some sequences, (rows, steps)."""
    state, seen = torch.zeros(rows, dtype=torch.long), []
    for _ in range(steps):
        state = torch.multinomial(TRUE[state], 1)[:, 0]
        seen.append(torch.multinomial(SHOWN[state], 1)[:, 0])
    return torch.stack(seen, 1)


def likelihood(seen: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """The log-probability of each row of observations."""

    def change(today: int) -> Any:
        return dl.weighted({tomorrow: matrix[today, tomorrow] for tomorrow in range(3)})

    def fits(weather: int, sight: int) -> Any:
        return dl.weighted({weather: SHOWN[weather, sight]})

    weather: dl.Distribution = dl.Distribution.certain(0)
    for day in F.one_hot(seen, len(SEEN)).unbind(1):
        sight = dl.Distribution(day, range(len(SEEN)))
        weather = dl.apply(weather.map(change), sight, fits)
    return weather.map(lambda _: "seen").log_probs(["seen"])[:, 0]


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--picture")
args = parser.parse_args()
torch.manual_seed(0)
seen = draw(400, 15)
scores = torch.zeros(3, 3, requires_grad=True)
optimizer = torch.optim.Adam([scores], lr=0.1)
for step in range(args.steps):
    loss = -likelihood(seen, scores.softmax(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3}  loss {loss.item():.3f}")
learnt = scores.softmax(1).detach()
for name, row, true in zip(STATES, learnt.tolist(), TRUE.tolist(), strict=True):
    print(f"{name:6}", *(f"{p:.2f} ({q:.2f})" for p, q in zip(row, true, strict=True)))
print(f"largest error {(learnt - TRUE).abs().max().item():.2f}")
if args.picture:
    from matplotlib.figure import Figure

    places = {"xticks": range(3), "yticks": range(3)}
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots(1, 2, subplot_kw=places)
    for axis, matrix, title in zip(axes, (TRUE, learnt), ("true", "learnt"), strict=True):
        axis.imshow(matrix.tolist(), vmin=0, vmax=1, cmap="Blues")
        axis.set(title=f"{title}, row to column", xticklabels=STATES, yticklabels=STATES)
        for n, p in enumerate(matrix.flatten().tolist()):
            colour = "white" if p > 0.5 else "black"
            axis.text(n % 3, n // 3, f"{p:.2f}", ha="center", va="center", color=colour)
    figure.savefig(args.picture)
