"""A world of maps: ground that costs something to cross, drawn as tiles, and the cheapest paths.

A map has 12×12 cells. Entering a cell costs what its ground costs; moves lead to any of eight
neighbours. Paths lead from the top left to the bottom right cell.
"""

from __future__ import annotations

import numpy as np

SIDE = 12
TILE = 8
"""Pixels of a tile's side: a map is 96×96."""
KINDS = ("sand", "grass", "forest", "rock", "water")
COSTS = np.array([1.0, 1.8, 3.7, 6.4, 9.2])
"""What entering a cell of each kind costs. No network ever sees these numbers."""
SHIFTS = tuple((r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0))
_COLOURS = np.array(
    [[214, 193, 132], [126, 172, 84], [62, 110, 58], [138, 132, 128], [76, 124, 190]]
)
_VARIANTS = 6


def make_maps(count: int, rng: np.random.Generator, side: int = SIDE) -> np.ndarray:
    """Kinds of ground, (count, side, side): patches of a few cells, all kinds about as frequent."""
    coarse = rng.standard_normal((count, 5, 5))
    at = np.linspace(0, 3.999, side)
    low, part = at.astype(int), at % 1
    weights = np.zeros((side, 5))
    weights[np.arange(side), low] += 1 - part
    weights[np.arange(side), low + 1] += part
    height = np.einsum("ri,nij,cj->nrc", weights, coarse, weights)
    height += 0.55 * rng.standard_normal(height.shape)
    return np.digitize(height, np.quantile(height, [0.2, 0.4, 0.6, 0.8]))


def draw_maps(kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pictures (count, 3, 8 · side, 8 · side), uint8: tiles in several variants, light, noise."""
    count, side, _ = kinds.shape
    tiles = _tiles()[kinds, rng.integers(_VARIANTS, size=kinds.shape)]
    pictures = tiles.transpose(0, 5, 1, 3, 2, 4).reshape(count, 3, side * TILE, side * TILE)
    light = rng.uniform(0.9, 1.1, size=(count, 1, 1, 1)).astype(np.float32)
    noise = rng.standard_normal(pictures.shape, dtype=np.float32)
    return np.clip(pictures * light + 8 * noise, 0, 255).astype(np.uint8)


def _tiles() -> np.ndarray:
    """Every variant of every kind's tile, (kinds, variants, 8, 8, 3), the same ones always."""
    rng = np.random.default_rng(16)
    rows, columns = np.mgrid[:TILE, :TILE]
    tiles = np.empty((len(KINDS), _VARIANTS, TILE, TILE, 3), dtype=np.float32)
    for variant in range(_VARIANTS):
        middle = rng.uniform(2.5, 4.5, size=2)
        wave = np.sin(1.6 * rows + 0.9 * np.sin(columns + rng.uniform(0, 6)) + rng.uniform(0, 6))
        patterns = (
            rng.uniform(size=(TILE, TILE)) < 0.15,  # grains
            (columns + rng.integers(3, size=TILE)[:, None]) % 3 == 0,  # blades
            np.hypot(rows - middle[0], columns - middle[1]) < 3.1,  # a crown
            (rows + rng.choice((-1, 1)) * columns + variant) % 5 == 0,  # cracks
            wave > 0.5,  # waves
        )
        strengths = (-30, 26, -28, -42, 40)
        for kind, (pattern, strength) in enumerate(zip(patterns, strengths, strict=True)):
            tiles[kind, variant] = _COLOURS[kind] + strength * pattern[..., None]
    return tiles


def distances(costs: np.ndarray) -> np.ndarray:
    """The least cost from the top left to each cell, (n, side, side), by relaxation.

    >>> distances(np.array([[[5.0, 1, 9], [9, 1, 9], [9, 9, 2]]]))[0].tolist()
    [[0.0, 1.0, 10.0], [9.0, 1.0, 10.0], [10.0, 10.0, 3.0]]
    """
    least = np.full(costs.shape, np.inf)
    least[:, 0, 0] = 0.0
    while True:
        best = _around(least).min(0) + costs
        best[:, 0, 0] = 0.0
        better = np.minimum(least, best)
        if (better == least).all():
            return least
        least = better


def cheapest_paths(costs: np.ndarray) -> np.ndarray:
    """The cells of one cheapest path of each map, (n, side, side), booleans, both ends included."""
    least = distances(costs)
    around = _around(least)
    count, side, _ = costs.shape
    paths = np.zeros(costs.shape, dtype=bool)
    every = np.arange(count)
    row = column = np.full(count, side - 1)
    shifts = np.array(SHIFTS)
    for _ in range(side * side):
        paths[every, row, column] = True
        step = shifts[around[:, every, row, column].argmin(0)]
        home = (row == 0) & (column == 0)
        row, column = (np.where(home, 0, row + step[:, 0]), np.where(home, 0, column + step[:, 1]))
        if home.all():
            break
    return paths


def _around(values: np.ndarray) -> np.ndarray:
    """The values of the eight neighbours, (8, n, side, side), infinite beyond the edge."""
    side = values.shape[1]
    wide = np.pad(values, ((0, 0), (1, 1), (1, 1)), constant_values=np.inf)
    return np.stack([wide[:, 1 + r : 1 + r + side, 1 + c : 1 + c + side] for r, c in SHIFTS])


def is_path(cells: np.ndarray) -> bool:
    """Whether the cells of a map, booleans, join its corners.

    >>> is_path(np.eye(3, dtype=bool)), is_path(np.eye(3, dtype=bool)[::-1])
    (True, False)
    """
    return bool(
        np.isfinite(distances(np.where(cells, 1.0, np.inf)[None])[0, -1, -1]) and cells[0, 0]
    )
