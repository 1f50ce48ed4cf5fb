"""The platform world as pixel art: frames of colour numbers, 64×64, and the colours they stand for.

A clip keeps one byte per pixel and its own short list of colours, a third of the memory of RGB.
"""

from __future__ import annotations

import numpy as np

from dolphin_tasks.mugen.sprites import COLOURS, SPRITES, THEMES, number
from dolphin_tasks.mugen.world import FLOORS, FRAMES, Ladder, Platform, Story

SIZE = 64
MARGIN = 48  # of the panorama, on both sides of where Mugen goes
CLEAR = 0  # the colour number of what is not painted


def draw(story: Story) -> np.ndarray:
    """The frames (32, 64, 64) of a story, as colour numbers."""
    camera = follow(np.array(story.mugen.x))
    left, right = int(camera.min()) - MARGIN, int(camera.max()) + SIZE + MARGIN
    scenery = paint_scenery(story, left, right)
    frames = np.stack([_backdrop(int(x)) for x in camera])
    for frame, x in zip(frames, camera, strict=True):
        start = int(x) - left
        _paste(frame, scenery[:, start : start + SIZE])
    for thing in (*story.things, story.mugen):
        for at, look in enumerate(thing.looks):
            if look:
                sprite = SPRITES[look][:, :: thing.facing[at]]
                _stamp(frames[at], sprite, thing.x[at] - camera[at], thing.y[at])
    return frames


def colours(theme: int) -> np.ndarray:
    """The RGB (n, 3) uint8 that colour numbers stand for in a theme."""
    return np.array([*COLOURS.values(), *THEMES[theme]], dtype=np.uint8)


def follow(xs: np.ndarray) -> np.ndarray:
    """The left edge of the view in each frame: it follows Mugen, a little late."""
    seen = np.empty(FRAMES)
    at = xs[0]
    for frame, x in enumerate(xs):
        at += 0.35 * (x - at)
        seen[frame] = at
    return np.round(seen - SIZE / 2)


# -- scenery ---------------------------------------------------------------------------------------


def _backdrop(camera: int) -> np.ndarray:
    """Sky and two rows of hills; what is far moves slower."""
    frame = np.full((SIZE, SIZE), number("sky"), dtype=np.uint8)
    rows, columns = np.arange(SIZE)[:, None], np.arange(SIZE)
    far = 34 - 6 * np.sin((columns + camera / 4) / 11.0) - 3 * np.sin((columns + camera / 4) / 4.7)
    near = 46 - 5 * np.sin((columns + camera / 2) / 8.0 + 2.0)
    frame[rows > far] = number("far hills")
    frame[rows > near] = number("near hills")
    return frame


def paint_scenery(story: Story, left: int, right: int) -> np.ndarray:
    """Ground, platforms and ladders from x = left to x = right, clear in between."""
    picture = np.full((SIZE, right - left), CLEAR, dtype=np.uint8)
    _paint_ground(picture, left)
    for platform in story.platforms:
        _paint_platform(picture, platform, left)
    for ladder in story.ladders:
        _paint_ladder(picture, ladder, left)
    return picture


def _paint_ground(picture: np.ndarray, left: int) -> None:
    columns = np.arange(picture.shape[1]) + left
    picture[FLOORS[0] :] = number("earth")
    picture[FLOORS[0] : FLOORS[0] + 2] = number("grass")
    picture[FLOORS[0] + 2, columns % 3 == 0] = number("grass")
    picture[FLOORS[0] + 5, columns % 8 == 2] = number("stone")  # so that motion is visible
    picture[FLOORS[0] + 6, columns % 8 == 6] = number("stone")


def _paint_platform(picture: np.ndarray, platform: Platform, left: int) -> None:
    start, stop = (max(0, round(x) - left) for x in (platform.left, platform.right))
    top = FLOORS[platform.level]
    picture[top, start:stop] = number("grass")
    picture[top + 1 : top + 4, start:stop] = number("earth")
    columns = np.arange(start, min(stop, picture.shape[1]))
    picture[top + 2, columns[(columns + left) % 5 == 0]] = number("stone")


def _paint_ladder(picture: np.ndarray, ladder: Ladder, left: int) -> None:
    top, bottom = FLOORS[ladder.level + 1] - 2, FLOORS[ladder.level]
    middle = round(ladder.x) - left
    if not 4 <= middle < picture.shape[1] - 4:
        return
    picture[top:bottom, [middle - 3, middle + 3]] = number("wood")
    picture[top + 1 : bottom : 3, middle - 2 : middle + 3] = number("rung")


# -- stamps ----------------------------------------------------------------------------------------


def _paste(frame: np.ndarray, part: np.ndarray) -> None:
    np.copyto(frame, part, where=part != CLEAR)


def _stamp(frame: np.ndarray, sprite: np.ndarray, x: float, y: float) -> None:
    """Put a sprite with its feet at (x, y) into the frame, cut off where it leaves it."""
    height, width = sprite.shape
    top, left = round(y) - height, round(x) - width // 2
    up, down = max(0, top), min(SIZE, top + height)
    start, stop = max(0, left), min(SIZE, left + width)
    if up < down and start < stop:
        part = sprite[up - top : down - top, start - left : stop - left]
        _paste(frame[up:down, start:stop], part)
