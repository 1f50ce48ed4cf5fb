"""Turns plans of PathFinder images into pixels, a batch at a time.

Dashes are drawn from whole pixels and in whole degrees, so every dash is one of 360 stamps. Where
shapes overlap, the brighter pixel wins.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.pathfinder import stamps
from dolphin_tasks.pathfinder.generator import Design


@lru_cache(maxsize=16)
def _stamps(design: Design) -> tuple[Tensor, Tensor, int]:
    """Pixels (361, n, 2) around the start of a dash, their brightness (361, n), and the reach."""
    margin = design.margins[0]
    reach = stamps.reach(design.length, design.thickness, margin)
    shape = (design.length, design.thickness, margin, design.scale)
    pictures = [stamps.dash(*shape, math.radians(degrees))[0] for degrees in range(360)]
    pictures.append(np.zeros_like(pictures[0]))
    flat = torch.from_numpy(np.stack(pictures)).float().div_(stamps.FULL).flatten(1)
    most = int((flat > 0.02).sum(1).max())
    brightness, places = flat.topk(most, dim=1)
    width = 2 * reach + 1
    pixels = torch.stack([places // width - reach, places % width - reach], dim=2)
    return pixels, brightness, reach


@lru_cache(maxsize=16)
def _disc(design: Design) -> tuple[Tensor, Tensor]:
    """Pixels (n, 2) around the centre of a disc, and their brightness (n,)."""
    picture = torch.from_numpy(stamps.disc(design.radius, design.scale)).float() / stamps.FULL
    pixels = picture.nonzero()
    return pixels - len(picture) // 2, picture[tuple(pixels.unbind(1))]


def segments(design: Design, contours: Tensor) -> Tensor:
    """Both ends of the dashes of contours (..., dashes, 3), in their order: (..., dashes, 2, 2)."""
    near, angle = contours[..., :2].float(), torch.deg2rad(contours[..., 2].float())
    far = near + design.length * torch.stack([angle.sin(), angle.cos()], dim=-1)
    forward = torch.arange(contours.shape[-2]) == 0  # the others are drawn from their heads
    return torch.where(
        forward[:, None, None], torch.stack([near, far], dim=-2), torch.stack([far, near], dim=-2)
    )


def draw(design: Design, dashes: Tensor, discs: Tensor) -> Tensor:
    """Images (B, size, size) uint8 of dashes (B, n, 3) and discs (B, m, 2).

    The brightest pixel of each image is 255.
    """
    pixels, brightness, reach = _stamps(design)
    disc_pixels, disc_brightness = _disc(design)
    border = max(reach, int(disc_pixels.abs().max())) + 1
    width, rows = design.size + 2 * border, len(dashes)
    chosen = dashes[..., 2].long()
    at = torch.cat(
        [
            (dashes[..., None, :2] + pixels[chosen]).flatten(1, 2),
            (discs.round().long()[:, :, None] + disc_pixels).flatten(1, 2),
        ],
        dim=1,
    )
    at = (at + border).clamp(0, width - 1)
    ink = torch.cat(
        [
            brightness[chosen].flatten(1),
            disc_brightness.repeat(discs.shape[1]).expand(rows, -1),
        ],
        dim=1,
    )
    board = torch.zeros(rows, width * width)
    board.scatter_reduce_(1, at[..., 0] * width + at[..., 1], ink, "amax")
    inside = slice(border, border + design.size)
    images = board.view(rows, width, width)[:, inside, inside]
    brightest = images.amax((1, 2), keepdim=True).clamp(min=1e-6)
    return (images * (255 / brightest)).round().to(torch.uint8)
