"""Digits and operators drawn with a shaky hand: the stand-in where no real data is at hand."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+", "-", "×", "÷")

Point = tuple[float, float]


def _arc(x: float, y: float, rx: float, ry: float, start: float, stop: float) -> list[Point]:
    """Points on an ellipse; angles in turns, clockwise from the right."""
    turns = np.linspace(start, stop, max(3, round(12 * abs(stop - start)) + 1))
    return [
        (x + rx * math.cos(2 * math.pi * t), y + ry * math.sin(2 * math.pi * t)) for t in turns
    ]


STROKES: dict[str, list[list[Point]]] = {
    "0": [_arc(0.5, 0.5, 0.3, 0.42, 0, 1)],
    "1": [[(0.3, 0.28), (0.52, 0.08), (0.52, 0.92)]],
    "2": [[*_arc(0.5, 0.3, 0.26, 0.22, 0.5, 1.08), (0.24, 0.92), (0.8, 0.92)]],
    "3": [_arc(0.47, 0.29, 0.26, 0.21, 0.6, 1.25) + _arc(0.47, 0.71, 0.3, 0.21, 0.75, 1.4)],
    "4": [[(0.6, 0.08), (0.2, 0.62), (0.84, 0.62)], [(0.62, 0.4), (0.62, 0.94)]],
    "5": [[(0.76, 0.08), (0.32, 0.08), (0.28, 0.45)] + _arc(0.48, 0.66, 0.28, 0.26, 0.64, 1.4)],
    "6": [[(0.66, 0.08), (0.36, 0.4)] + _arc(0.5, 0.68, 0.25, 0.24, 0.55, 1.55)],
    "7": [[(0.2, 0.1), (0.78, 0.1), (0.42, 0.94)]],
    "8": [_arc(0.5, 0.29, 0.21, 0.2, 0.25, 1.25) + _arc(0.5, 0.71, 0.26, 0.22, 0.75, 1.75)],
    "9": [_arc(0.48, 0.32, 0.23, 0.22, 0, 1) + [(0.7, 0.4), (0.58, 0.94)]],
    "+": [[(0.5, 0.14), (0.5, 0.86)], [(0.14, 0.5), (0.86, 0.5)]],
    "-": [[(0.1, 0.5), (0.9, 0.5)]],
    "×": [[(0.2, 0.2), (0.8, 0.8)], [(0.8, 0.2), (0.2, 0.8)]],
    "÷": [[(0.1, 0.5), (0.9, 0.5)], [(0.5, 0.2), (0.52, 0.23)], [(0.5, 0.78), (0.52, 0.81)]],
}


def draw_symbols(labels: Tensor, size: int, seed: int, *, thickness: float = 0.05) -> Tensor:
    """Pictures (n, size, size) of the symbols with these class numbers, uint8, ink 255 on 0.

    Every point of every stroke is shaken, then the whole symbol is turned, slanted and scaled.

    >>> draw_symbols(torch.tensor([0, 12]), 28, seed=0).shape
    torch.Size([2, 28, 28])
    """
    rng = np.random.default_rng(seed)
    pictures = torch.zeros(len(labels), size, size, dtype=torch.uint8)
    centres = (torch.arange(size) + 0.5) / size
    pixels = torch.stack(torch.meshgrid(centres, centres, indexing="xy"), dim=-1).view(-1, 2)
    for label in labels.unique().tolist():
        rows = (labels == label).nonzero().flatten()
        for chunk in rows.split(500):
            segments = torch.from_numpy(_shaken(STROKES[NAMES[label]], len(chunk), rng)).float()
            width = torch.from_numpy(rng.uniform(0.7, 1.3, len(chunk))).float() * thickness
            ink = ((width[:, None] - _distance(segments, pixels)) * size + 0.5).clamp(0, 1)
            pictures[chunk] = (255 * ink).to(torch.uint8).view(-1, size, size)
    return pictures


def _shaken(strokes: list[list[Point]], count: int, rng: np.random.Generator) -> np.ndarray:
    """Segments (count, segments, 2 ends, 2 coordinates) of shaken copies of a symbol."""
    angle, slant = rng.normal(0, 0.13, count), rng.normal(0, 0.15, count)
    scale = rng.uniform(0.72, 0.98, (count, 2))
    turn = np.stack(
        [np.stack([np.cos(angle), slant - np.sin(angle)], -1),
         np.stack([np.sin(angle), np.cos(angle)], -1)], -2
    )  # fmt: skip
    shift = rng.normal(0, 0.025, (count, 1, 2))
    parts = []
    for stroke in strokes:
        points = np.array(stroke)[None] + rng.normal(0, 0.022, (count, len(stroke), 2))
        points = (points - 0.5) * scale[:, None]
        points = np.einsum("nij,npj->npi", turn, points) + 0.5 + shift
        parts.append(np.stack([points[:, :-1], points[:, 1:]], axis=2))
    return np.concatenate(parts, axis=1)


def _distance(segments: Tensor, pixels: Tensor) -> Tensor:
    """(count, pixels) distance of each pixel from the nearest segment."""
    nearest = torch.full((len(segments), len(pixels)), torch.inf)
    for start, stop in zip(*segments.transpose(0, 1).unbind(2), strict=True):
        along = stop - start
        offset = pixels - start[:, None]
        length = (along**2).sum(-1).clamp(min=1e-9)
        place = ((offset @ along[..., None]).squeeze(-1) / length[:, None]).clamp(0, 1)
        gap = (offset - place[..., None] * along[:, None]).norm(dim=-1)
        nearest = torch.minimum(nearest, gap)
    return nearest
