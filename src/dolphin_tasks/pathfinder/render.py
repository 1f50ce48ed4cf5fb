"""Turns plans of PathFinder images into pixels, a batch at a time.

Dashes start on whole pixels and point to whole degrees, so every dash is one of 360 stamps. Where
shapes overlap, the brighter pixel wins.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.pathfinder.generator import Design, along_and_across


@lru_cache(maxsize=16)
def _stamps(design: Design) -> tuple[Tensor, Tensor, int]:
    """Pixels (361, n, 2) around the start of a dash, their brightness (361, n), and the reach."""
    reach = math.ceil(design.length + design.thickness) + 1
    fine, scale = _fine_places(reach, design.scale), design.scale
    rows, columns = np.meshgrid(fine, fine, indexing="ij")
    pictures = []
    for degrees in range(360):
        along, across = along_and_across(rows, columns, math.radians(degrees))
        beside = _coverage(across, design.thickness / 2, scale)
        within = _coverage(np.abs(along - design.length / 2), design.length / 2, scale)
        pictures.append(_shrink(beside * within, scale))
    pictures.append(np.zeros_like(pictures[0]))
    flat = torch.from_numpy(np.stack(pictures)).float().flatten(1)
    most = int((flat > 0.02).sum(1).max())
    brightness, places = flat.topk(most, dim=1)
    width = 2 * reach + 1
    pixels = torch.stack([places // width - reach, places % width - reach], dim=2)
    return pixels, brightness, reach


@lru_cache(maxsize=16)
def _disc(design: Design) -> tuple[Tensor, Tensor]:
    """Pixels (n, 2) around the centre of a disc, and their brightness (n,)."""
    reach = math.ceil(design.radius) + 1
    fine = _fine_places(reach, design.scale)
    away = np.hypot(fine[:, None], fine)
    picture = _shrink(_coverage(away, design.radius, design.scale), design.scale)
    pixels = np.argwhere(picture > 0)
    return torch.from_numpy(pixels - reach), torch.from_numpy(picture[picture > 0]).float()


def _fine_places(reach: int, scale: int) -> np.ndarray:
    """Centres of `scale` parts of each of the pixels -reach ... reach."""
    return (np.arange((2 * reach + 1) * scale) + 0.5) / scale - reach - 0.5


def _coverage(away: np.ndarray, radius: float, scale: int) -> np.ndarray:
    """How much of a fine pixel lies within the radius, its border softened over one of them."""
    return np.clip((radius - away) * scale + 0.5, 0, 1)


def _shrink(fine: np.ndarray, scale: int) -> np.ndarray:
    size = len(fine) // scale
    return fine.reshape(size, scale, size, scale).mean((1, 3))


def tips(design: Design, dashes: Tensor) -> Tensor:
    """Where dashes (..., 3) end, (..., 2) float: their start is `dashes[..., :2]`."""
    angle = torch.deg2rad(dashes[..., 2].float())
    return dashes[..., :2] + design.length * torch.stack([angle.sin(), angle.cos()], dim=-1)


def draw(design: Design, dashes: Tensor, discs: Tensor) -> Tensor:
    """Images (B, size, size) uint8 of dashes (B, n, 3) and discs (B, m, 2).

    The brightest pixel of each image is 255.
    """
    pixels, brightness, reach = _stamps(design)
    disc_pixels, disc_brightness = _disc(design)
    border = max(reach, math.ceil(design.radius) + 1) + 1
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
