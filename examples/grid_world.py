"""A small game: a grid world with slippery moves, and a policy trained through the program.

A move goes in the chosen direction with probability 0.8, and to each side with 0.1. The program
plays all games at once, and the policy is trained on the probability of reaching the goal.

    python examples/grid_world.py --picture grid.png
"""

import argparse
from typing import Any

import torch

import dolphin as dl

GRID = ("S...", ".#.H", "...G")
MOVES = {"^": (-1, 0), ">": (0, 1), "v": (1, 0), "<": (0, -1)}
AT = {(r, c): cell for r, row in enumerate(GRID) for c, cell in enumerate(row) if cell != "#"}
CELLS = list(AT)


def moved(cell: tuple[int, int], way: str) -> tuple[int, int]:
    """The next cell, or the same cell if a wall is in the way."""
    new = (cell[0] + MOVES[way][0], cell[1] + MOVES[way][1])
    return new if new in AT else cell


def slip(cell: tuple[int, int], way: str) -> Any:
    """Where a move ends."""
    if AT[cell] in "GH":
        return cell
    ends: dict[tuple[int, int], float] = {}
    for turn, weight in ((0, 0.8), (1, 0.1), (3, 0.1)):
        end = moved(cell, "^>v<"[("^>v<".index(way) + turn) % 4])
        ends[end] = ends.get(end, 0.0) + weight
    return dl.weighted(ends)


def value(policy: torch.Tensor, steps: int) -> torch.Tensor:
    """The probability of being at the goal after this many steps."""

    def act(cell: tuple[int, int]) -> Any:
        row = policy[CELLS.index(cell)]
        return dl.weighted({(cell, way): row[n] for n, way in enumerate(MOVES)})

    cell: dl.Distribution = dl.Distribution.certain(CELLS[0])
    for _ in range(steps):
        cell = cell.map(act).map(lambda both: slip(both[0], both[1]))
    return cell.map(lambda c: AT[c] == "G").probs([True])[0, 0]


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--picture")
args = parser.parse_args()
scores = torch.zeros(len(CELLS), 4, requires_grad=True)
optimizer = torch.optim.Adam([scores], lr=0.3)
print(f"value of random moves {value(scores.softmax(1), 12).item():.3f}")
for _ in range(args.steps):
    optimizer.zero_grad()
    (-value(scores.softmax(1), 12)).backward()
    optimizer.step()
print(f"value of the policy   {value(scores.softmax(1), 12).item():.3f}")
best = {c: "^>v<"[way] for c, way in zip(CELLS, scores.argmax(1), strict=True) if AT[c] in "S."}
for r, row in enumerate(GRID):
    print("".join(best.get((r, c), cell) for c, cell in enumerate(row)))
if args.picture:
    from matplotlib.figure import Figure

    axis = (figure := Figure((4, 3), layout="constrained")).subplots()
    colours = {"#": (0.3, 0.3, 0.3), "H": (1, 0.6, 0.4), "G": (0.5, 0.9, 0.5), "S": (0.7, 0.85, 1)}
    axis.imshow([[colours.get(cell, (1, 1, 1)) for cell in row] for row in GRID])
    axis.set(xticks=[], yticks=[], title="blue: start; black: wall")
    for (r, c), kind in AT.items():
        sign = {"^": "↑", ">": "→", "v": "↓", "<": "←", "H": "hole", "G": "goal"}
        axis.text(c, r, sign[best.get((r, c), kind)], size=15, ha="center", va="center")
    figure.savefig(args.picture)
