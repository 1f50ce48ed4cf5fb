"""Parts of images, cut out at a different place of each image."""

from __future__ import annotations

import torch
from torch import Tensor


def crop(images: Tensor, corners: Tensor, height: int, width: int) -> Tensor:
    """Windows (n, height, width) of images (n, h, w), from rows and columns `corners` (n, 2) on.

    >>> crop(torch.arange(9).view(1, 3, 3), torch.tensor([[1, 0]]), 2, 2)
    tensor([[[3, 4],
             [6, 7]]])
    """
    rows, columns = (
        corners[:, axis, None] + torch.arange(length, device=images.device)
        for axis, length in enumerate((height, width))
    )
    image = torch.arange(len(images), device=images.device)
    return images[image[:, None, None], rows[:, :, None], columns[:, None, :]]
