"""Pictures of what a model read and computed. Needs matplotlib, the extra `plot`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dolphin_tasks.fetch import atomic_write

INK, FRAME, RIGHT, WRONG = "#1b1f24", "#d0d7de", "#1a7f37", "#cf222e"


@dataclass(frozen=True)
class SheetRow:
    """One sample of a sheet: images (n, height, width) in [0, 1], what was read, and the result."""

    images: Tensor
    read: Sequence[str]
    true: Sequence[str]
    answer: str
    target: str
    right: bool
    between: Sequence[str]
    """The text before each image: "+" in a sum, "" in a formula."""
    known: bool = True
    """Whether the right answer is known."""

    @classmethod
    def alone(
        cls, images: Tensor, read: Sequence[str], answer: str, between: Sequence[str]
    ) -> SheetRow:
        """A sample of which only the reading is known."""
        return cls(images, read, read, answer, answer, True, between, known=False)


def pick_rows(right: Tensor, count: int) -> list[int]:
    """The first rows, the last of them replaced by a wrong one if there is one further on.

    >>> import torch
    >>> pick_rows(torch.tensor([True, True, True, True, False, True]), 3)
    [0, 1, 4]
    """
    rows = list(range(min(count, len(right))))
    wrong = (~right).nonzero().flatten().tolist()
    if wrong and wrong[0] not in rows:
        rows[-1] = wrong[0]
    return rows


def draw_sums(
    images: Tensor, digits: Tensor, sums: Tensor, true_digits: Tensor, path: Path, count: int = 5
) -> None:
    """Draw rows of images, what was read under each, and the sum; red is what is wrong.

    Args:
        images: (rows, n, 1, 28, 28) in [0, 1].
        digits: (rows, n), the digits read.
        sums: (rows,), the sums predicted.
        true_digits: (rows, n), the digits that are on the images.
        path: the PNG to write; its folder is created.
        count: how many rows to draw. A wrong row is among them if there is any.
    """
    targets = true_digits.sum(1)
    right = sums == targets
    rows = [
        SheetRow(
            images[row, :, 0],
            [str(d) for d in digits[row].tolist()],
            [str(d) for d in true_digits[row].tolist()],
            str(int(sums[row])),
            str(int(targets[row])),
            bool(right[row]),
            ["", *["+"] * (images.shape[1] - 1)],
        )
        for row in pick_rows(right, count)
    ]
    draw_sheet(rows, path)


def draw_sheet(rows: Sequence[SheetRow], path: Path) -> None:
    """Draw samples one under the other; red is what is wrong. The folder of `path` is created."""
    from matplotlib.figure import Figure

    n = max(len(row.images) for row in rows)
    widest = max(len(row.answer) for row in rows)
    last = max(1.45, 0.28 * (widest + 2))
    figure = Figure(figsize=(1.1 * n + 1.2 * last, 1.35 * len(rows)), dpi=150, facecolor="white")
    ratios = [1.0] * n + [last]
    grid = figure.subplots(len(rows), n + 1, squeeze=False, width_ratios=ratios)
    for axes, row in zip(grid, rows, strict=True):
        for place in range(n):
            if place >= len(row.images):
                axes[place].axis("off")
                continue
            read, true = row.read[place], row.true[place]
            axes[place].imshow(row.images[place].numpy(), cmap="gray_r", vmin=0, vmax=1)
            axes[place].set(xticks=[], yticks=[])
            axes[place].spines[:].set_color(FRAME if read == true else WRONG)
            axes[place].set_xlabel(read, fontsize=14, color=INK if read == true else WRONG)
            axes[place].set_ylabel(
                row.between[place], fontsize=14, color=INK, rotation=0, va="center", labelpad=9
            )
        color = (RIGHT if row.right else WRONG) if row.known else INK
        note = "" if not row.known else "right" if row.right else f"wrong: it is {row.target}"
        axes[n].axis("off")
        axes[n].text(0.0, 0.5, f"= {row.answer}", fontsize=24, va="center", color=color)
        axes[n].text(0.01, 0.14, note, fontsize=10, va="center", color=color)
    figure.subplots_adjust(left=0, right=1, top=1, bottom=0, wspace=0.25, hspace=0.36)
    save(figure, path, bbox_inches="tight", pad_inches=0.12)


def draw_bars(panels: Mapping[str, Sequence[tuple[Any, float]]], path: Path) -> None:
    """Draw distributions, three per line: each has a title, and bars for its likeliest symbols."""
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.0 * lines), dpi=120, facecolor="white")
    for number, (title, pairs) in enumerate(panels.items(), 1):
        axis = figure.add_subplot(lines, columns, number)
        names = [str(symbol) for symbol, _ in reversed(pairs)]
        values = [probability for _, probability in reversed(pairs)]
        axis.barh(range(len(pairs)), values, color="#54aeff")
        axis.set(xlim=(0, 1), xticks=[0, 1], yticks=range(len(pairs)))
        axis.set_yticklabels(names, color=INK)
        axis.set_title(title, fontsize=9, color=INK)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save(figure, path)


def save(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure whole or not at all; the folder of `path` is created."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:] or "png", **options)
    with atomic_write(path) as stream:
        stream.write(content.getvalue())
