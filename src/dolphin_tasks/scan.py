"""A user's pictures: cut into symbols, and converted to the form that a network expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin_tasks.fetch import BROKEN_PICTURE, DataError

FAINTEST = 0.2
"""Pictures whose darkest and lightest places differ by less than this are blank."""


def load_ink(path: Path) -> Tensor:
    """A picture as ink in [0, 1], (height, width), whichever of ink and paper is darker.

    Raises:
        DataError: the file can't be read as a picture, or is blank.
    """
    from PIL import Image

    try:
        with Image.open(path) as picture:
            flat = picture.convert("RGBA")
            for colour in ("white", "black"):  # light ink on nothing shows on dark paper only
                paper = Image.new("RGBA", flat.size, colour)
                grey = Image.alpha_composite(paper, flat).convert("L")
                if np.ptp(np.array(grey)) >= 255 * FAINTEST:
                    break
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (*BROKEN_PICTURE, Image.DecompressionBombError) as error:
        raise DataError(f"{path} can't be read as a picture: {error}.") from None
    values = torch.from_numpy(np.array(grey)).float() / 255
    edge = torch.cat([values[0], values[-1], values[:, 0], values[:, -1]])
    ink = 1 - values if edge.median() > 0.5 else values
    spread = ink.max() - ink.min()
    if spread < FAINTEST:
        raise DataError(f"{path} is blank: there is no ink on it.")
    return (ink - ink.min()) / spread


ROWS = 64
"""Rows of ink after scaling: scans are made smaller or larger first."""
COARSE = 300
"""Blocks along the longer side when the height of the ink is measured."""
SPECK = 0.05
"""Marks that are smaller than this part of the ink's height, in both directions, are dust."""
SYMBOL = 0.2
"""And so are those smaller than this part that belong to no larger symbol, as dots of ÷ do."""
STACKED = 0.5
"""Strokes above each other belong together if they share this part of the columns of one."""
BROKEN_OFF = 0.08
"""A short stroke is a part of a symbol that is closer to it than this part of the ink's height."""


def level(ink: Tensor) -> Tensor:
    """Ink on paper that is not evenly bright: what stands out from its surroundings, in [0, 1].

    >>> shadow = torch.linspace(0, 0.5, 40).repeat(20, 1); shadow[8:12, 20:22] += 0.5
    >>> (level(shadow) > 0.5).nonzero().aminmax(dim=0)
    torch.return_types.aminmax(
    min=tensor([ 8, 20]),
    max=tensor([11, 21]))
    """
    # the lightest paper in the neighbourhood, which is wider than any stroke
    block = max(1, min(ink.shape) // 32)
    paper = -F.max_pool2d(-ink[None, None], block, ceil_mode=True)
    around = max(3, min(paper.shape[2:]) // 4 | 1)
    edges = (around // 2,) * 4
    paper = -F.max_pool2d(-F.pad(paper, edges, mode="replicate"), around, stride=1)
    paper = F.avg_pool2d(F.pad(paper, edges, mode="replicate"), around, stride=1)
    paper = F.interpolate(paper, ink.shape, mode="bilinear", align_corners=False)[0, 0]
    above = (ink - paper).clamp(min=0)
    above = (above - above.median()).clamp(min=0)  # noise of the paper
    return above / above.max().clamp(min=1e-6)


def cut(ink: Tensor) -> list[Tensor]:
    """The symbols of a row, left to right: strokes that touch, or are above each other.

    Everything is measured by the height of the ink, not of the picture. Dust is left out, and so
    is anything above or below the row.

    >>> ink = torch.zeros(100, 300); ink[42:48, 22:26] = 1; ink[43:49, 32:35] = 1; ink[3, 290] = 1
    >>> [tuple(symbol.shape) for symbol in cut(ink)]
    [(65, 43), (65, 33)]
    """
    ink = _scaled(ink)
    mask = ink > _threshold(ink)
    if not mask.any():
        return []
    pieces = _pieces(mask)
    top, bottom = _line(pieces)
    # a pen that left the paper for a moment: gaps of two pixels
    pieces = _pieces(F.max_pool2d(mask[None, None].float(), 3, 1, 1)[0, 0] > 0)
    height = bottom - top
    kept = [
        piece
        for piece in pieces
        if max(piece.height, piece.width) > SPECK * height + 2
        and piece.top < bottom
        and piece.bottom > top
    ]
    symbols = [_cut_out(ink, mask, group) for group in _grouped(kept, height)]
    return [symbol for symbol in symbols if max(symbol.shape) > SYMBOL * height]


@dataclass(frozen=True)
class _Piece:
    """Strokes that touch: a mask of the whole picture, and the box around it."""

    mask: Tensor
    top: int
    bottom: int  # the row after the last
    left: int
    right: int

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def width(self) -> int:
        return self.right - self.left


def _pieces(mask: Tensor) -> list[_Piece]:
    """The connected pieces of a mask, corners included, left to right."""
    # Every pixel takes the largest label around it, then that of the pixel which this label names:
    # a stroke of n pixels needs log n rounds instead of n.
    labels = torch.arange(1, mask.numel() + 1).view(mask.shape) * mask
    while True:
        around = F.max_pool2d(labels[None, None].double(), 3, stride=1, padding=1)[0, 0]
        spread = around.long() * mask
        for _ in range(2):
            spread = F.pad(spread.view(-1), (1, 0))[spread]
        if torch.equal(spread, labels):
            break
        labels = spread
    pieces = []
    for label in labels.unique().tolist():
        if label:
            piece = labels == label
            (top, left), (bottom, right) = (p.tolist() for p in piece.nonzero().aminmax(dim=0))
            pieces.append(_Piece(piece, top, bottom + 1, left, right + 1))
    return sorted(pieces, key=lambda piece: piece.left + piece.right)


def _line(pieces: Sequence[_Piece]) -> tuple[int, int]:
    """First row of the ink and the row after its last, whatever dust there is elsewhere."""
    tallest = max(piece.height for piece in pieces)
    large = [p for p in pieces if 2 * p.height > tallest]
    return min(p.top for p in large), max(p.bottom for p in large)


def _grouped(pieces: Sequence[_Piece], height: int) -> list[list[_Piece]]:
    """Pieces of one symbol: the bar and the dots of a division sign, the broken bar of a 5."""
    groups: list[list[_Piece]] = []
    for piece in pieces:
        for group in groups:
            if any(_stacked(piece, other) or _broken(piece, other, height) for other in group):
                group.append(piece)
                break
        else:
            groups.append([piece])
    return groups


def _stacked(a: _Piece, b: _Piece) -> bool:
    """Whether one piece is above the other."""
    columns = min(a.right, b.right) - max(a.left, b.left)
    rows = min(a.bottom, b.bottom) - max(a.top, b.top)
    above = rows < STACKED * min(a.height, b.height)
    return above and columns >= STACKED * min(a.width, b.width)


def _broken(a: _Piece, b: _Piece, height: int) -> bool:
    """Whether one piece is a short stroke that almost touches the other, and not a minus sign."""
    part, whole = sorted((a, b), key=lambda piece: piece.height)
    near = BROKEN_OFF * height
    if 2 * part.height > height or max(a.left, b.left) - min(a.right, b.right) > near:
        return False
    middle = (part.top + part.bottom) / 2 - whole.top
    if 0.3 * whole.height < middle < 0.7 * whole.height and part.width > 2 * part.height:
        return False
    ink = part.mask.nonzero().float(), whole.mask.nonzero().float()
    return float(torch.cdist(ink[0], ink[1]).min()) <= near


def _cut_out(ink: Tensor, mask: Tensor, group: Sequence[_Piece]) -> Tensor:
    """The ink of these pieces, without what else reaches into the box around it."""
    mine = torch.stack([piece.mask for piece in group]).any(0)
    (top, left), (bottom, right) = (p.tolist() for p in (mine & mask).nonzero().aminmax(dim=0))
    box = slice(top, bottom + 1), slice(left, right + 1)
    near = F.max_pool2d(mine[None, None].float(), 3, stride=1, padding=1)[0, 0] > 0  # soft edges
    return ink[box] * near[box]


def _threshold(ink: Tensor) -> float:
    """The threshold that best separates ink from paper (Otsu, 1979)."""
    counts = torch.histc(ink, 64, 0, 1)
    values = (torch.arange(64) + 0.5) / 64
    below, total = counts.cumsum(0), counts.sum()
    weighted = (counts * values).cumsum(0)
    low = weighted / below.clamp(min=1)
    high = (weighted[-1] - weighted) / (total - below).clamp(min=1)
    spread = below * (total - below) * (high - low) ** 2
    return float(values[spread.argmax()].clamp(0.2, 0.45))


def _scaled(ink: Tensor) -> Tensor:
    """What is on a picture, without its margins, its ink about `ROWS` rows high."""
    mask = ink > _threshold(ink)
    if mask.any():
        heights = [piece.height for piece in _pieces(_coarse(mask))]
        step = max(1, max(ink.shape) // COARSE)
        scale = ROWS / (step * max(heights))
        (top, left), (bottom, right) = (p.tolist() for p in mask.nonzero().aminmax(dim=0))
        ink = ink[top : bottom + 1, left : right + 1]
        shape = [max(1, round(side * scale)) for side in ink.shape]
        ink = F.interpolate(ink[None, None], shape, mode="bilinear", antialias=True)[0, 0]
    return ink / ink.max().clamp(min=1e-6)


def _coarse(mask: Tensor) -> Tensor:
    """A mask with one pixel per block, small enough to search at once."""
    step = max(1, max(mask.shape) // COARSE)
    return F.max_pool2d(mask[None, None].float(), step, ceil_mode=True)[0, 0] > 0


def fit(symbol: Tensor, size: int, box: int, *, by_mass: bool = False) -> Tensor:
    """A symbol scaled into a box, its proportions kept, in the middle of (size, size).

    `by_mass` puts its centre of mass there, as MNIST does, as far as it fits.
    """
    height, width = symbol.shape
    scale = box / max(height, width)
    shape = (max(1, round(height * scale)), max(1, round(width * scale)))
    small = F.interpolate(
        symbol[None, None], shape, mode="bilinear", antialias=True, align_corners=False
    )[0, 0]
    small = (small / small.max().clamp(min=1e-6)).clamp(0, 1)
    out = torch.zeros(size, size)
    corner = [(size - side) // 2 for side in shape]
    if by_mass:
        for axis, side in enumerate(shape):
            weights = small.sum(1 - axis)
            middle = float((weights * (torch.arange(side) + 0.5)).sum() / weights.sum())
            corner[axis] = min(max(0, round(size / 2 - middle)), size - side)
    top, left = corner
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


def read_pictures(
    paths: Sequence[Path], size: int, box: int, *, fine_pen: bool = False, by_mass: bool = False
) -> Tensor:
    """All symbols of all pictures in order, (n, 1, size, size) in [0, 1].

    `fine_pen` makes strokes one pixel wide, for networks that have only seen such; `by_mass`
    centres symbols as `fit` does.
    """
    symbols: list[Tensor] = []
    for path in paths:
        parts = cut(level(load_ink(path)))
        if not parts:
            raise DataError(f"{path}: there is nothing on it that could be a symbol.")
        symbols += [fit(symbol, size, box, by_mass=by_mass) for symbol in parts]
    symbols = [thin(symbol) for symbol in symbols] if fine_pen else symbols
    return torch.stack(symbols)[:, None]
