"""Sheets of clips: one frame of each pair, what was read and what is true, and the caption."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from dolphin_tasks.mugen.program import ACTIONS
from dolphin_tasks.pictures import INK, RIGHT, WRONG, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACTION_COLOURS: dict[str, str] = dict(
    zip(
        ACTIONS,
        ("#b8a1d9", "#c9d1d9", "#9ec5fe", "#c69c6d", "#8fd19e", "#ffd75e", "#8b949e", "#ff9d8a"),
        strict=True,
    )
)
GAP = 2  # pixels between frames


@dataclass(frozen=True)
class ClipRow:
    """One clip of a sheet: frames (32, 3, 64, 64) uint8, and bands of 16 actions under them."""

    frames: Tensor
    title: str
    bands: Sequence[tuple[str, Sequence[str]]]
    """(name, an action for each pair); "" leaves a pair blank."""
    right: bool | None = None


def draw_clips(rows: Sequence[ClipRow], path: Path) -> None:
    """Draw clips one under the other; the folder of `path` is created."""
    from matplotlib.figure import Figure

    titles = [textwrap.wrap(row.title, 110) for row in rows]
    heights = [
        1.1 + 0.24 * len(row.bands) + 0.27 * len(title)
        for row, title in zip(rows, titles, strict=True)
    ]
    figure = Figure(figsize=(13.5, sum(heights)), dpi=140, facecolor="white")
    parts = figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, row, title, height in zip(parts, rows, titles, heights, strict=True):
        axes = part.subplots()
        text = 0.27 * len(title)
        part.subplots_adjust(left=0.07, right=0.995, top=1 - (text + 0.1) / height, bottom=0.02)
        _draw_row(axes, row)
        colour = INK if row.right is None else RIGHT if row.right else WRONG
        axes.set_title("\n".join(title), fontsize=14, color=colour, loc="left", pad=4)
    save(figure, path)


def film_strip(frames: Tensor) -> np.ndarray:
    """One frame of each pair side by side, (64, width, 3)."""
    shown = frames[1::2].movedim(1, -1).cpu().numpy()
    padded = np.pad(shown, ((0, 0), (0, 0), (0, GAP), (0, 0)), constant_values=255)
    return np.concatenate(list(padded), axis=1)


def _draw_row(axes: Axes, row: ClipRow) -> None:
    strip = film_strip(row.frames)
    height, width = strip.shape[:2]
    step = width / (len(row.frames) // 2)
    axes.imshow(strip, extent=(0, width, height, 0), interpolation="nearest")
    for place, (name, actions) in enumerate(row.bands):
        top = height + 4 + 20 * place
        axes.text(-6, top + 9, name, fontsize=12, ha="right", va="center", color=INK)
        for start, stop, action in _stretches(actions):
            if action:
                left, wide = start * step, (stop - start) * step - GAP
                colour = ACTION_COLOURS[action]
                axes.barh(top + 9, wide, 18, left=left, color=colour, linewidth=0)
                middle = left + wide / 2
                axes.text(middle, top + 9.5, action, fontsize=12, ha="center", va="center")
    axes.set(xlim=(0, width), ylim=(height + 6 + 20 * len(row.bands), 0))
    axes.axis("off")


def _stretches(actions: Sequence[str]) -> list[tuple[int, int, str]]:
    """(start, stop, action) of each run of equal actions.

    >>> _stretches(["walk", "walk", "jump"])
    [(0, 2, 'walk'), (2, 3, 'jump')]
    """
    stretches: list[tuple[int, int, str]] = []
    for place, action in enumerate(actions):
        if stretches and stretches[-1][2] == action:
            stretches[-1] = (stretches[-1][0], place + 1, action)
        else:
            stretches.append((place, place + 1, action))
    return stretches
