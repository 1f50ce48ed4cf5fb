"""Pictures of single dashes and discs, drawn as the public generator draws them.

A shape is drawn on a board that is several times finer and scaled down with a Lanczos filter. What
a dash reserves for itself is the same picture with the margin around it: 255 inside, less where the
filter softens its border.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

FULL = 255
"""Brightness of ink, and of what is reserved."""


def reach(length: int, thickness: float, margin: int) -> int:
    """Pixels of a dash's picture on each side of the point that it is drawn from."""
    return length + math.ceil(thickness) + margin


@lru_cache(maxsize=4096)
def dash(
    length: int, thickness: float, margin: int, scale: int, angle: float
) -> tuple[np.ndarray, np.ndarray]:
    """The ink of a dash, and what it reserves: both (2 · reach + 1)² int16, drawn from the middle.

    The angle is in radians, of (sin, cos) in rows and columns.
    """
    from PIL import Image, ImageDraw

    middle, width = reach(length, thickness, margin) * scale, round(thickness * scale)
    fine = Image.new("L", (2 * middle + 1, 2 * middle + 1))
    row, column = move(middle, middle, angle, length * scale)
    ImageDraw.Draw(fine).line([(middle, middle), (column, row)], fill=FULL, width=width)
    ink = np.array(fine)
    return _shrink(ink, scale), _shrink(_dilated(ink, margin * scale), scale)


def disc(radius: float, scale: int) -> np.ndarray:
    """The ink of a disc around the pixel in the middle, odd number of pixels wide, int16."""
    around = math.ceil(radius) + 2
    fine = np.arange((2 * around + 1) * scale) - around * scale
    inside = fine[:, None] ** 2 + fine**2 <= (radius * scale) ** 2
    return _resized((inside * FULL).astype(np.uint8), 2 * around + 1)


def disc_places(radius: int) -> np.ndarray:
    """Whole-numbered places (n, 2) within a radius of the origin."""
    span = np.arange(-radius, radius + 1)
    return np.argwhere(span[:, None] ** 2 + span**2 <= radius**2) - radius


def move(row: int, column: int, angle: float, distance: float) -> tuple[int, int]:
    """ceil(p + d·(sin a, cos a)), on whole pixels; rounding errors of a whole number don't count.

    >>> move(5, 5, 0.0, 2), move(5, 5, math.pi / 2, 2), move(5, 5, 0.5, 2)
    ((5, 7), (7, 5), (6, 7))
    """
    return (
        row + math.ceil(distance * math.sin(angle) - 1e-9),
        column + math.ceil(distance * math.cos(angle) - 1e-9),
    )


def _dilated(ink: np.ndarray, radius: int) -> np.ndarray:
    """Everything within a radius of ink."""
    padded, size = np.pad(ink, radius), len(ink)
    spread = np.zeros_like(ink)
    for row, column in disc_places(radius) + radius:
        np.maximum(spread, padded[row : row + size, column : column + size], out=spread)
    return spread


def _shrink(fine: np.ndarray, scale: int) -> np.ndarray:
    return _resized(fine, 2 * (len(fine) // (2 * scale)) + 1)


def _resized(fine: np.ndarray, size: int) -> np.ndarray:
    from PIL import Image

    small = Image.fromarray(fine).resize((size, size), Image.Resampling.LANCZOS)
    return np.array(small).astype(np.int16)
