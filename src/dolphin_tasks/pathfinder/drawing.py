"""Pictures of PathFinder: images with the path that a network believes in. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dolphin_tasks.pictures import RIGHT, WRONG, save

PATH, END = "#ff9f1c", "#2ec4b6"
Place = tuple[float, float]
"""Row and column, in pixels."""
End = tuple[Place, float]
Edge = tuple[Place, Place, float]
"""Where a fact is, and how likely."""


@dataclass(frozen=True)
class Belief:
    """The probability that discs are joined, and the likeliest path from end to end."""

    chance: float
    ends: Sequence[End]
    edges: Sequence[Edge]

    @property
    def answer(self) -> bool:
        """Whether the discs are believed to be joined."""
        return self.chance > 0.5


def draw_sheet(
    images: Tensor, beliefs: Sequence[Belief], labels: Sequence[bool], path: Path
) -> None:
    """Draw images (n, size, size) with their paths; titles show the answers."""
    from matplotlib.figure import Figure

    columns = min(6, len(images))
    rows = -(-len(images) // columns)
    figure = Figure(figsize=(1.9 * columns, 2.15 * rows), dpi=150, facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, image, belief, label in zip(grid.flat, images, beliefs, labels, strict=False):
        _overlay(axes, image, belief)
        right = belief.answer == label
        note = "" if right else f": it is {_word(label)}"
        axes.set_title(
            f"{_word(belief.answer)} ({belief.chance:.2f}){note}",
            fontsize=7.5,
            color=RIGHT if right else WRONG,
            pad=3,
        )
    figure.subplots_adjust(left=0.01, right=0.99, top=0.93, bottom=0.01, wspace=0.05, hspace=0.16)
    save(figure, path)


def draw_one(image: Tensor, belief: Belief, path: Path) -> None:
    """Draw an image as it is, and beside it with the path."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.9), dpi=150, facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.axis("off")
    left.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
    left.set_title("given", fontsize=10)
    _overlay(right, image, belief)
    right.set_title(f"{_word(belief.answer)}, probability {belief.chance:.3f}", fontsize=10)
    save(figure, path)


def _word(joined: bool) -> str:
    return "joined" if joined else "apart"


def _overlay(axes: Any, image: Tensor, belief: Belief) -> None:
    """The image, and the likeliest path: dotted where it is not believed."""
    size = image.shape[0]
    axes.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
    style = "-" if belief.answer else ":"
    for (row, column), (to_row, to_column), _ in belief.edges:
        axes.plot([column, to_column], [row, to_row], style, color=PATH, lw=2, alpha=0.85)
    for (row, column), _ in belief.ends:
        axes.plot(column, row, "o", mfc="none", mec=END, ms=9, mew=1.8, alpha=0.95)
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
