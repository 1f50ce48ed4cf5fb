"""Pictures that a user gives: cut into symbols, and brought into the form a network knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin_tasks.fetch import DataError


def load_ink(path: Path) -> Tensor:
    """A picture as ink in [0, 1], (height, width), whichever of ink and paper is darker.

    Raises:
        DataError: the file can't be read as a picture, or is blank.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            flat = picture.convert("RGBA")
            paper = Image.new("RGBA", flat.size, "white")
            grey = Image.alpha_composite(paper, flat).convert("L")
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise DataError(f"{path} can't be read as a picture: {error}.") from None
    values = torch.from_numpy(np.array(grey)).float() / 255
    edge = torch.cat([values[0], values[-1], values[:, 0], values[:, -1]])
    ink = 1 - values if edge.median() > 0.5 else values
    spread = ink.max() - ink.min()
    if spread < 0.2:
        raise DataError(f"{path} is blank: there is no ink on it.")
    return (ink - ink.min()) / spread


def cut(ink: Tensor, gap: float = 0.06) -> list[Tensor]:
    """The symbols of a row, left to right, cut where columns are empty for `gap` of the height.

    >>> ink = torch.zeros(10, 20); ink[2:8, 2:6] = 1; ink[3:9, 12:15] = 1
    >>> [tuple(symbol.shape) for symbol in cut(ink)]
    [(6, 4), (6, 3)]
    """
    columns = (ink > 0.3).any(0).nonzero().flatten()
    if len(columns) == 0:
        return []
    breaks = (columns.diff() > max(1.0, gap * ink.shape[0])).nonzero().flatten() + 1
    symbols = []
    for part in columns.tensor_split(breaks):
        piece = ink[:, int(part[0]) : int(part[-1]) + 1]
        rows = (piece > 0.3).any(1).nonzero().flatten()
        symbols.append(piece[int(rows[0]) : int(rows[-1]) + 1])
    return symbols


def fit(symbol: Tensor, size: int, box: int) -> Tensor:
    """A symbol scaled into a box, its proportions kept, in the middle of (size, size)."""
    height, width = symbol.shape
    scale = box / max(height, width)
    shape = (max(1, round(height * scale)), max(1, round(width * scale)))
    small = F.interpolate(
        symbol[None, None], shape, mode="bilinear", antialias=True, align_corners=False
    )[0, 0]
    small = (small / small.max().clamp(min=1e-6)).clamp(0, 1)
    out = torch.zeros(size, size)
    top, left = (size - shape[0]) // 2, (size - shape[1]) // 2
    out[top : top + shape[0], left : left + shape[1]] = small
    return out


def thin(symbol: Tensor, dark: float = 0.4) -> Tensor:
    """Strokes of any width drawn with the finest pen: one pixel wide, in {0, 1}.

    Pixels are peeled off the border, from two sides in turn, as long as that breaks no stroke and
    shortens no end (Zhang and Suen, 1984).

    >>> bar = torch.zeros(7, 9); bar[2:5, 1:8] = 1
    >>> thin(bar).sum(0).amax()
    tensor(1.)
    """
    ink = (symbol > dark).numpy()
    while True:
        before = ink.sum()
        for side in (0, 1):
            ring = _neighbours(ink)
            count = ring.sum(0)
            starts = (~ring & np.roll(ring, -1, axis=0)).sum(0)  # strokes that leave the pixel
            north, east, south, west = ring[0], ring[2], ring[4], ring[6]
            first = east & south & (north | west) if side == 0 else north & west & (east | south)
            peeled = ink & (count >= 2) & (count <= 6) & (starts == 1) & ~first
            ink = ink & ~peeled
        if ink.sum() == before:
            return torch.from_numpy(ink).to(symbol.dtype)


def _neighbours(ink: np.ndarray) -> np.ndarray:
    """(8, height, width), the neighbours of each pixel clockwise from the one above."""
    padded = np.pad(ink, 1)
    height, width = ink.shape
    around = ((0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0), (0, 0))
    return np.stack([padded[y : y + height, x : x + width] for y, x in around])


def read_pictures(paths: Sequence[Path], size: int, box: int, *, fine_pen: bool = False) -> Tensor:
    """All symbols of all pictures in order, (n, 1, size, size) in [0, 1].

    `fine_pen` makes strokes one pixel wide, for networks that have only seen such.
    """
    symbols = [fit(symbol, size, box) for path in paths for symbol in cut(load_ink(path))]
    symbols = [thin(symbol) for symbol in symbols] if fine_pen else symbols
    return torch.stack(symbols)[:, None]
