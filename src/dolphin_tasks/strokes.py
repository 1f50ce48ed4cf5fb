"""Digits and operators drawn with random strokes: a substitute where there is no real data."""

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
    return [(x + rx * math.cos(2 * math.pi * t), y + ry * math.sin(2 * math.pi * t)) for t in turns]


STROKES: dict[str, list[list[Point]]] = {
    "0": [_arc(0.5, 0.5, 0.3, 0.42, 0, 1)],
    "1": [[(0.3, 0.28), (0.52, 0.08), (0.52, 0.92)]],
    "2": [[*_arc(0.5, 0.3, 0.26, 0.22, 0.5, 1.08), (0.24, 0.92), (0.8, 0.92)]],
    "3": [_arc(0.47, 0.29, 0.26, 0.21, 0.6, 1.25) + _arc(0.47, 0.71, 0.3, 0.21, 0.75, 1.4)],
    "4": [[(0.6, 0.08), (0.2, 0.62), (0.84, 0.62)], [(0.62, 0.4), (0.62, 0.94)]],
    "5": [[(0.76, 0.08), (0.32, 0.08), (0.28, 0.45), *_arc(0.48, 0.66, 0.28, 0.26, 0.64, 1.4)]],
    "6": [[(0.66, 0.08), (0.36, 0.4), *_arc(0.5, 0.68, 0.25, 0.24, 0.55, 1.55)]],
    "7": [[(0.2, 0.1), (0.78, 0.1), (0.42, 0.94)]],
    "8": [_arc(0.5, 0.29, 0.21, 0.2, 0.25, 1.25) + _arc(0.5, 0.71, 0.26, 0.22, 0.75, 1.75)],
    "9": [[*_arc(0.48, 0.32, 0.23, 0.22, 0, 1), (0.7, 0.4), (0.58, 0.94)]],
    "+": [[(0.5, 0.14), (0.5, 0.86)], [(0.14, 0.5), (0.86, 0.5)]],
    "-": [[(0.1, 0.5), (0.9, 0.5)]],
    "×": [[(0.2, 0.2), (0.8, 0.8)], [(0.8, 0.2), (0.2, 0.8)]],
    "÷": [[(0.1, 0.5), (0.9, 0.5)], [(0.5, 0.2), (0.52, 0.23)], [(0.5, 0.78), (0.52, 0.81)]],
}


def draw_symbols(labels: Tensor, size: int, seed: int, *, thickness: float = 0.09) -> Tensor:
    """Pictures (n, size, size) of the symbols with these class numbers, uint8, ink 255 on 0.

    Every point of every stroke is shaken, then the whole symbol is turned, slanted and scaled.
    Needs pillow, which comes with the extra `train`.

    >>> draw_symbols(torch.tensor([0, 12]), 28, seed=0).shape
    torch.Size([2, 28, 28])
    """
    from PIL import Image, ImageDraw

    rng = np.random.default_rng(seed)
    fine = 4 * size  # drawn large and scaled down: smooth edges
    pictures = np.zeros((len(labels), size, size), dtype=np.uint8)
    for place, label in enumerate(labels.tolist()):
        picture = Image.new("L", (fine, fine))
        pen = ImageDraw.Draw(picture)
        width = max(1, round(fine * thickness * rng.uniform(0.7, 1.3)))
        for points in _shaken(STROKES[NAMES[label]], rng):
            pen.line([(fine * x, fine * y) for x, y in points], 255, width, joint="curve")
        pictures[place] = np.array(picture.resize((size, size), Image.Resampling.BOX))
    return torch.from_numpy(pictures)


def _shaken(strokes: list[list[Point]], rng: np.random.Generator) -> list[list[Point]]:
    """One shaken copy of a symbol."""
    angle, slant = rng.normal(0, 0.13), rng.normal(0, 0.15)
    turn = np.array(
        [[math.cos(angle), slant - math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    )
    scale, shift = rng.uniform(0.72, 0.98, 2), 0.5 + rng.normal(0, 0.025, 2)
    shaken = []
    for stroke in strokes:
        points = np.array(stroke) + rng.normal(0, 0.022, (len(stroke), 2))
        shaken.append([(x, y) for x, y in ((points - 0.5) * scale) @ turn.T + shift])
    return shaken
