"""Pictures of maps with paths on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.pictures import RIGHT, WRONG, pick_rows, save


def draw_maps(
    pictures: Tensor,
    costs: Tensor,
    paths: Tensor,
    right: Sequence[bool],
    path: Path,
    count: int = 4,
) -> None:
    """Draw maps with the path that was found, and beside each the costs that were learnt.

    Args:
        pictures: (B, 3, height, width) in [0, 1].
        costs: (B, side, side), what the network says entering each cell costs.
        paths: (B, side, side), the cells of the path.
        right: which paths are cheapest ones: green, otherwise red.
    """
    from matplotlib.figure import Figure

    rows = pick_rows(torch.tensor(right), count)
    figure = Figure(figsize=(2.9 * len(rows), 5.9), dpi=150, facecolor="white")
    grid = figure.subplots(2, len(rows), squeeze=False)
    side = costs.shape[1]
    for place, row in enumerate(rows):
        colour = RIGHT if right[row] else WRONG
        above, below = grid[:, place]
        above.imshow(pictures[row].permute(1, 2, 0).numpy(), extent=(0, side, side, 0))
        below.imshow(costs[row].detach().numpy(), cmap="viridis", extent=(0, side, side, 0))
        for axes in (above, below):
            line = np.array(in_order(paths[row])) + 0.5
            axes.plot(line[:, 1], line[:, 0], "-", color="white", lw=4.5)
            axes.plot(line[:, 1], line[:, 0], "-", color=colour, lw=2.5)
            axes.set(xticks=[], yticks=[])
        above.set_title("cheapest" if right[row] else "not the cheapest", color=colour, fontsize=16)
    grid[0, 0].set_ylabel("map and path found", fontsize=16)
    grid[1, 0].set_ylabel("costs learnt", fontsize=16)
    figure.subplots_adjust(left=0, right=1, top=1, bottom=0, wspace=0.05, hspace=0.05)
    save(figure, path, bbox_inches="tight", pad_inches=0.1)


def in_order(path: Tensor) -> list[tuple[int, int]]:
    """The cells of a path from its start at the top left on, each next to the one before.

    >>> in_order(torch.tensor([[True, False], [True, True]]))
    [(0, 0), (1, 0), (1, 1)]
    """
    left = {(int(row), int(column)) for row, column in path.nonzero()}
    order: list[tuple[int, int]] = []
    near = {(0, 0)}
    while near:
        here = min(near)  # there is only one: a path with a short cut is not the cheapest
        order.append(here)
        left.discard(here)
        near = {c for c in left if max(abs(c[0] - here[0]), abs(c[1] - here[1])) == 1}
    return order
