"""Pictures of boards: the images in their cells, what was read, what was solved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from dolphin_tasks.pictures import FRAME, INK, RIGHT, WRONG, pick_rows, save
from dolphin_tasks.sudoku.data import BoardBatch

SOLVED = "#0969da"


def draw_boards(
    batch: BoardBatch,
    read: Tensor,
    true: Tensor,
    notes: Sequence[str],
    right: Sequence[bool],
    path: Path,
    count: int = 6,
) -> None:
    """Draw some boards, wrong ones among them if there are any.

    A small digit beside an image is what was read, red where that is wrong; a large blue digit was
    solved, red where that is wrong.

    Args:
        read: (B, cells), the digit of each cell according to the model.
        true: (B, cells), the digit that belongs there.
        notes: a title for each board.
        right: which titles are green.
    """
    import torch
    from matplotlib.figure import Figure

    rows = pick_rows(torch.tensor(right), count)
    side = math.isqrt(read.shape[1])
    columns = min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.7 * lines), dpi=150, facecolor="white")
    grid = figure.subplots(lines, columns, squeeze=False)
    starts = [0, *batch.given.sum(1).cumsum(0).tolist()]
    for axes in grid.flat:
        axes.axis("off")
    for axes, row in zip(grid.flat, rows, strict=False):
        images = iter(batch.images[starts[row] : starts[row + 1], 0])
        for cell in range(side * side):
            image = next(images) if batch.given[row, cell] else None
            _draw_cell(axes, divmod(cell, side), image, int(read[row, cell]), int(true[row, cell]))
        _draw_lines(axes, side)
        axes.set_title(notes[row], fontsize=10, color=RIGHT if right[row] else WRONG)
    save(figure, path, bbox_inches="tight", pad_inches=0.1)


def _draw_cell(
    axes: Any, place: tuple[int, int], image: Tensor | None, read: int, true: int
) -> None:
    row, column = place
    if image is not None:
        extent = (column + 0.06, column + 0.94, row + 0.94, row + 0.06)
        axes.imshow(image.numpy(), cmap="gray_r", vmin=0, vmax=1, extent=extent)
        axes.text(
            column + 0.97, row + 0.95, str(read), ha="right", va="bottom",
            color=INK if read == true else WRONG, fontsize=7 if read == true else 10,
            fontweight="bold" if read != true else None,
        )  # fmt: skip
    elif read:
        axes.text(
            column + 0.5, row + 0.52, str(read), fontsize=13, ha="center", va="center",
            color=SOLVED if read == true else WRONG,
        )  # fmt: skip


def _draw_lines(axes: Any, side: int) -> None:
    box = math.isqrt(side)
    for line in range(side + 1):
        style = {"color": INK, "lw": 1.6} if line % box == 0 else {"color": FRAME, "lw": 0.8}
        axes.plot([0, side], [line, line], **style)
        axes.plot([line, line], [0, side], **style)
    axes.set(xlim=(-0.05, side + 0.05), ylim=(side + 0.05, -0.05), aspect="equal")
