"""Where to look: a window around the two brightest spots of an image.

Contours are short compared with a large image. If one joins the discs, all of it lies within half
its length of the midpoint between them; what lies outside can't matter. So images of any size are
read through a window of the same width, and cost the same.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin_tasks.crops import crop
from dolphin_tasks.pathfinder.generator import Design


def longest_contour(design: Design) -> float:
    """Pixels along a contour from disc to disc, including gaps of two margins."""
    rounding = 1.0  # heads and pivots lie on whole pixels, up to a pixel late on a diagonal
    gaps = 2 * max(design.margins) * (design.dashes - 1)
    return design.dashes * (design.length + rounding) + gaps


def window_width(design: Design, side: int) -> int:
    """Pixels of a window that holds any contour and its discs: whole ones in each of its blocks.

    >>> from dolphin_tasks.pathfinder.generator import design
    >>> [window_width(design(size), 16) for size in (32, 128, 256)]
    [32, 80, 80]
    """
    needed = longest_contour(design) + 2 * design.radius
    return min(design.size, math.ceil(needed / side) * side)


@torch.no_grad()
def brightest_spots(images: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """Places (B, 2, 2) and brightness (B, 2) of the two brightest discs of images (B, 1, h, w)."""
    width = int(radius) | 1  # a mean of means falls off from the middle, as a disc does
    bright = box_mean(box_mean(images, max(3, width)), width)[:, 0]
    places, values = [], []
    for _ in range(2):
        value, place = bright.flatten(1).max(1)
        at = torch.stack([place // bright.shape[2], place % bright.shape[2]], dim=1)
        places.append(at)
        values.append(value)
        bright = _without(bright, at, 2 * int(radius))
    return torch.stack(places, dim=1), torch.stack(values, dim=1)


def _without(images: Tensor, places: Tensor, reach: int) -> Tensor:
    """Images (B, h, w) that are dark around their places (B, 2)."""
    around = torch.arange(-reach, reach + 1, device=images.device)
    rows, columns = (
        (places[:, axis, None] + around).clamp(0, images.shape[axis + 1] - 1) for axis in (0, 1)
    )
    row = torch.arange(len(images), device=images.device)
    dark = images.new_zeros(())
    return images.index_put((row[:, None, None], rows[:, :, None], columns[:, None, :]), dark)


def window_corners(spots: Tensor, size: int, window: int) -> Tensor:
    """The first row and column (B, 2) of a window in the middle between two spots (B, 2, 2)."""
    return (spots.sum(1) // 2 - window // 2).clamp(0, size - window)


def look(images: Tensor, corners: Tensor, window: int) -> Tensor:
    """The windows (B, 1, window, window) of images (B, 1, h, w) at their corners."""
    if window == images.shape[2]:
        return images
    return crop(images[:, 0], corners, window, window).unsqueeze(1)


def box_mean(images: Tensor, width: int) -> Tensor:
    """The mean of a square of pixels around each one, of an odd width; it is dark outside.

    >>> box_mean(torch.tensor([[0.0, 9.0, 0.0], [0.0, 0.0, 0.0]])[None, None], 3)
    tensor([[[[1., 1., 1.],
              [1., 1., 1.]]]])
    """
    images = F.pad(images, (width // 2,) * 4)
    for axis in (2, 3):  # sums of shifted images: many times faster than pooling on the CPU
        kept = images.shape[axis] - width + 1
        total = images.narrow(axis, 0, kept).clone()
        for shift in range(1, width):
            total += images.narrow(axis, shift, kept)
        images = total
    return images / width**2
