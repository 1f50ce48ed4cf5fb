"""A small game: a grid world with slippery moves, and the value of a policy.

A move goes where it is meant to with probability 0.8, and to each side with 0.1. The policy is a
table of scores, one row per cell; its moves are random, too. The program plays all games at once,
and the policy learns from the probability of reaching the goal without falling into a hole.

    python examples/grid_world.py
"""

import argparse
from typing import Any

import torch

import dolphin as dl

GRID = ("S...", ".#.H", "...G")
MOVES = {"^": (-1, 0), ">": (0, 1), "v": (1, 0), "<": (0, -1)}
CELLS = [(r, c) for r, row in enumerate(GRID) for c, cell in enumerate(row) if cell != "#"]
PLACE = {cell: number for number, cell in enumerate(CELLS)}


def at(cell: tuple[int, int]) -> str:
    """What is in a cell."""
    return GRID[cell[0]][cell[1]]


def moved(cell: tuple[int, int], way: str) -> tuple[int, int]:
    """The next cell, or the same one in front of a wall."""
    new = (cell[0] + MOVES[way][0], cell[1] + MOVES[way][1])
    return new if new in PLACE else cell


def slip(cell: tuple[int, int], way: str) -> Any:
    """Where a move ends."""
    if at(cell) in "GH":
        return cell
    ways = "^>v<"
    sides = (ways[(ways.index(way) + 1) % 4], ways[(ways.index(way) + 3) % 4])
    ends: dict[tuple[int, int], float] = {}
    for chosen, weight in ((way, 0.8), (sides[0], 0.1), (sides[1], 0.1)):
        end = moved(cell, chosen)
        ends[end] = ends.get(end, 0.0) + weight
    return dl.weighted(ends)


def value(policy: torch.Tensor, steps: int) -> torch.Tensor:
    """The probability of being at the goal after some steps."""

    def act(cell: tuple[int, int]) -> Any:
        row = policy[PLACE[cell]]
        return dl.weighted({(cell, way): row[n] for n, way in enumerate(MOVES)})

    cell: dl.Distribution = dl.Distribution.certain(CELLS[0])
    for _ in range(steps):
        cell = cell.map(act).map(lambda both: slip(both[0], both[1]))
    return cell.map(lambda c: at(c) == "G").probs([True])[0, 0]


def main() -> None:
    """Learn the policy, and show it."""
    parser = argparse.ArgumentParser(description="Learn a policy.")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    scores = torch.zeros(len(CELLS), 4, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.3)
    print(f"value of random moves {value(scores.softmax(1), 12).item():.3f}")
    for _ in range(args.steps):
        optimizer.zero_grad()
        (-value(scores.softmax(1), 12)).backward()
        optimizer.step()
    print(f"value of the policy   {value(scores.softmax(1), 12).item():.3f}")
    for r, row in enumerate(GRID):
        best = {c: "^>v<"[int(scores[PLACE[r, c]].argmax())] for c in range(4) if row[c] != "#"}
        print("".join(row[c] if row[c] in "#GH" else best[c] for c in range(4)))


if __name__ == "__main__":
    main()
