"""Networks of PathFinder: images to scores of ends and edges of a grid, or of the answer alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dolphin_tasks.pathfinder.glimpse import brightest_spots, look, window_corners
from dolphin_tasks.pathfinder.program import DIAGONAL, JUMPS, STRAIGHT

UNSURE = (-6.0, 3.0)
"""Scores of a first guess: more confident ones would take long to unlearn."""
JUMP = -3.0
"""The first correction of edges that pass over a block: they are the exception."""


class GlobalNetwork(nn.Module):
    """The paper's network: every fact is predicted from the whole image.

    >>> network = GlobalNetwork(32, ends=36, edges=120)
    >>> [tuple(out.shape) for out in network(torch.zeros(2, 1, 32, 32))]
    [(2, 36), (2, 120)]
    """

    def __init__(self, size: int, ends: int, edges: int) -> None:
        super().__init__()
        self.counts = [ends, edges]
        self.features = paper_features(size)
        self.facts = nn.Linear(256, ends + edges)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Scores of all ends and of all directed edges."""
        return self.facts(self.features(images)).split(self.counts, dim=1)


class Glimpse(nn.Module):
    """A window of an image, and a first guess about the blocks of its grid.

    The two brightest spots are discs, contours leave ink in blocks. The thresholds of the guesses
    are learnt like everything else. Returns the windows (B, 1, window, window), and scores of ends
    and of ink (B, 1, side, side).
    """

    def __init__(self, window: int, side: int, radius: float) -> None:
        super().__init__()
        self.window, self.side, self.radius = window, side, radius
        self.slope = nn.Parameter(torch.tensor([20.0, 20.0]))
        self.level = nn.Parameter(torch.tensor([0.8, 0.1]))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Windows, scores of ends, scores of ink."""
        spots, bright = brightest_spots(images, self.radius)
        corners = window_corners(spots, images.shape[2], self.window)
        seen = look(images, corners, self.window)
        ink = F.adaptive_max_pool2d(seen, self.side)
        return seen, self._ends(spots - corners[:, None], bright), self._scores(ink, 1)

    def _ends(self, spots: Tensor, bright: Tensor) -> Tensor:
        """Scores of ends: high at the spots, if the second is about as bright as the first."""
        blocks = ((spots + 0.5) * self.side / self.window).long()
        inside = ((spots >= 0) & (spots < self.window)).all(2)
        scores = self._scores(bright / bright[:, :1].clamp(min=1e-3), 0)
        scores = torch.where(inside, scores, UNSURE[0])
        places = (blocks[..., 0] * self.side + blocks[..., 1]).clamp(0, self.side**2 - 1)
        ends = scores.new_full((len(spots), self.side**2), UNSURE[0])
        # the second spot comes first: where both are in one block, the brighter one overwrites it
        for which in (1, 0):
            ends = ends.scatter(1, places[:, which, None], scores[:, which, None])
        return ends.view(-1, 1, self.side, self.side)

    def _scores(self, seen: Tensor, which: int) -> Tensor:
        low, high = UNSURE
        return low + (high - low) * (self.slope[which] * (seen - self.level[which])).sigmoid()


class LocalNetwork(nn.Module):
    """Facts read off local features: an end in its block, an edge in the square that it lies in.

    It starts from a first guess, which the features correct. Scores of ends, and of undirected
    edges in the order of `program.grid_edges`, for the blocks of its window.

    Args:
        end_share: how much corrections of ends count. While contours are still cut, an end made up
            on the way is the quicker way to a right answer, and with many of them no contour has
            to be followed.

    >>> network = LocalNetwork(64, 8, radius=3.0, stride=2)
    >>> [tuple(out.shape) for out in network(torch.zeros(2, 1, 128, 128))]
    [(2, 64), (2, 546)]
    """

    shifts = (*STRAIGHT, *DIAGONAL, *JUMPS)

    def __init__(
        self,
        window: int,
        side: int,
        radius: float,
        stride: int = 1,
        width: int = 40,
        end_share: float = 1.0,
    ) -> None:
        super().__init__()
        self.end_share = end_share
        self.glimpse = Glimpse(window, side, radius)
        self.features = local_features(side, stride, width)
        self.ends = _head(width, 1, [0.0])
        self.edges = _head(width, 3, [JUMP if shift in JUMPS else 0.0 for shift in self.shifts])

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Scores of all ends and of all edges."""
        seen, ends, ink = self.glimpse(images)
        features = self.features(seen)
        # squares of nine blocks, one starting at each block: the last ones cross the border
        corrections = self.edges(F.pad(features, (0, 2, 0, 2)))
        edges = []
        for place, (down, right) in enumerate(self.shifts):
            rows, columns = (ink.shape[axis] - abs(by) for axis, by in ((2, down), (3, right)))
            one, other = (0, max(0, -right)), (down, max(0, right))
            inked = [ink[:, 0, r : r + rows, c : c + columns] for r, c in (one, other)]
            edges.append(
                (corrections[:, place, :rows, :columns] + torch.minimum(*inked)).flatten(1)
            )
        ends = ends + self.end_share * self.ends(features)
        return ends.flatten(1), torch.cat(edges, dim=1)


class PlainNetwork(nn.Module):
    """The features of one of the others, and an answer without a program, for comparison.

    Where the other one starts from a glimpse, so does this: it sees the same window and guesses.

    >>> PlainNetwork(paper_features(32), 256)(torch.zeros(2, 1, 32, 32))[0].shape
    torch.Size([2, 1])
    """

    def __init__(self, features: nn.Module, count: int, glimpse: Glimpse | None = None) -> None:
        super().__init__()
        self.features, self.glimpse = features, glimpse
        self.answer = nn.Sequential(nn.Linear(count, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """The score of the answer."""
        images, *guesses = self.glimpse(images) if self.glimpse else (images,)
        known = [each.flatten(1) for each in (self.features(images), *guesses)]
        return (self.answer(torch.cat(known, dim=1)),)


def paper_features(size: int) -> nn.Sequential:
    """256 features of an image; convolutions are padded, as contours run along the border, too."""
    pool = max(2, size // 32)
    left = size // pool // pool
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(pool),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(pool),
        nn.Flatten(),
        nn.Linear(64 * left * left, 256), nn.ReLU(),
    )  # fmt: skip


def local_features(side: int, stride: int, width: int) -> nn.Sequential:
    """Features (B, width, side, side): each block of the grid, and what lies around it.

    With a stride of half a dash, a pixel of the first layer means the same at any size.
    """
    return nn.Sequential(
        *_layer(1, width // 2, 2 * stride + 3, stride),
        *_layer(width // 2, width, 3, 2),
        Residual(width),
        nn.AdaptiveMaxPool2d(side),
        Residual(width),
        Residual(width, spread=2),
    )


class Residual(nn.Module):
    """A residual layer: it widens the receptive field without losing what is near."""

    def __init__(self, width: int, spread: int = 1) -> None:
        super().__init__()
        self.layer = nn.Sequential(*_layer(width, width, 3, 1, spread))

    def forward(self, features: Tensor) -> Tensor:
        """The same features, and what their surroundings add."""
        return features + self.layer(features)


def _layer(inside: int, outside: int, size: int, stride: int, spread: int = 1) -> list[nn.Module]:
    padding = size // 2 * spread
    return [
        nn.Conv2d(inside, outside, size, stride, padding, dilation=spread, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    ]


def _head(inside: int, blocks: int, first: Sequence[float]) -> nn.Sequential:
    """Corrections of the first guess from a square of blocks; about these at first."""
    last = nn.Conv2d(64, len(first), 1)
    nn.init.normal_(last.weight, std=0.01)
    assert last.bias is not None
    last.bias.data = torch.tensor(first)
    return nn.Sequential(nn.Conv2d(inside, 64, blocks), nn.ReLU(), last)
