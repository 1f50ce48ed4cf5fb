"""A world of scenes: things of a shape, a colour and a size, drawn in a picture of 4×4 cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "shape": ("cube", "ball", "cone"),
    "colour": ("red", "green", "blue", "grey"),
    "size": ("small", "large"),
}
SIDE = 4
CELL = 16
"""Pixels of a cell's side: a picture is 64×64."""
MOST = 6
"""Things in a scene, at most."""

_COLOURS = np.array([[0.85, 0.2, 0.2], [0.2, 0.75, 0.25], [0.25, 0.35, 0.9], [0.55, 0.55, 0.55]])
_RADII = {"small": 3.2, "large": 6.0}


class Thing(NamedTuple):
    """What a thing is, and its cell."""

    shape: str
    colour: str
    size: str
    row: int
    column: int


Scene = tuple[Thing, ...]
"""Things from left to right, and from top to bottom within a column."""


def make_scene(rng: np.random.Generator) -> Scene:
    """One to six things in different cells."""
    cells = rng.choice(SIDE * SIDE, size=rng.integers(1, MOST + 1), replace=False)
    things = []
    for column, row in sorted(divmod(int(cell), SIDE) for cell in cells):
        shape, colour, size = (values[rng.integers(len(values))] for values in ATTRIBUTES.values())
        things.append(Thing(shape, colour, size, row, column))
    return tuple(things)


def draw_scene(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """(3, 64, 64) bytes: shaded things of varying place, size and light, and noise."""
    picture = np.full((3, SIDE * CELL, SIDE * CELL), 0.85) * rng.uniform(0.9, 1.05)
    for thing in scene:
        top, left = thing.row * CELL, thing.column * CELL
        colour = _COLOURS[ATTRIBUTES["colour"].index(thing.colour)] * rng.uniform(0.75, 1.2)
        covered, shade = _outline(thing, rng)
        cell = picture[:, top : top + CELL, left : left + CELL]
        cell[:] = np.where(covered, colour[:, None, None] * shade, cell)
    picture += rng.normal(0, 0.06, picture.shape)
    return (255 * picture.clip(0, 1)).astype(np.uint8)


def _outline(thing: Thing, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which pixels of a cell a thing covers, and how bright they are."""
    radius = _RADII[thing.size] * rng.uniform(0.88, 1.12)
    free = CELL / 2 - radius
    down, right = rng.uniform(-free, free, 2).clip(-2, 2)
    y, x = np.mgrid[:CELL, :CELL] + 0.5 - CELL / 2
    y, x = (y - down) / radius, (x - right) / radius
    if thing.shape == "ball":
        covered = x**2 + y**2 <= 1
        shade = 0.7 + 0.5 * np.sqrt((1 - x**2 - y**2).clip(0))
    elif thing.shape == "cube":
        covered = np.maximum(abs(x), abs(y)) <= 0.87
        shade = np.where(y < -0.4, 1.15, 0.9)
    else:
        covered = (abs(x) <= (y + 1) / 2) & (abs(y) <= 1)
        shade = 1.0 - 0.25 * x
    return covered, shade
