"""Draws the plan of a PathFinder image: two long dashed contours and many short distractors.

The rules are those of the public generator. Contours are grown dash by dash. A pivot lies a margin
past the last head; the next dash starts a margin past the pivot, in a direction that turns little:
dashes of a contour are two margins apart. Around each dash a margin is reserved, and dashes keep
out of what is reserved; the latest dash of each contour is not reserved yet, so that contours may
meet. The result is geometry, a few hundred bytes per image; `render.py` turns it into pixels. Image
`i` of a seed is always the same, whichever process makes it and whatever other images there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dolphin_tasks.fetch import DataError
from dolphin_tasks.pathfinder import stamps
from dolphin_tasks.pathfinder.stamps import FULL

SIZES = (32, 128, 256)
DASHES = (6, 9, 14)
SUBSETS = {6: "curv_baseline", 9: "curv_contour_length_9", 14: "curv_contour_length_14"}
SMALLEST, LARGEST = 24, 1024

PAIR_TRIALS = 10_000
"""Attempts at two contours before a design is given up."""
DISTRACTOR_TRIALS = 5
"""Attempts at one distractor before it is left out."""
DASH_TRIALS = 3
"""Attempts at one dash before its contour is given up, with the other one of a pair."""
COLLISION = 1.8
"""Two dashes collide where they reserve this much together: soft borders may overlap."""
MOSTLY_FREE, LEAST_FREE = 0.3, 0.01
"""A pixel is free for a seed with no more reserved; no seeds once fewer pixels are free."""
GUESSES, GUESSED, SMALL_BOARD = 4, 64, 48
"""Random places that are tried on large boards before all are looked at."""
ABSENT = 360
"""The direction of a dash that is not drawn."""


@dataclass(frozen=True)
class Design:
    """What the images of a set look like; lengths in pixels, coordinates (row, column)."""

    size: int
    dashes: int
    padding: int
    length: int
    thickness: float
    margins: tuple[int, ...]
    seed_distance: int
    radius: float
    continuity: float
    scale: int
    distractors: int

    @property
    def distractor_dashes(self) -> int:
        """Dashes of a distractor."""
        return max(1, self.dashes // 3)

    @property
    def key(self) -> str:
        """A name for caches: everything that changes the plans, in a few characters."""
        margins = "-".join(map(str, self.margins))
        dash = (self.length, self.thickness, margins, self.scale)
        numbers = (self.padding, *dash, self.seed_distance, self.continuity)
        return f"{self.size}-{self.dashes}d-{self.distractors}x-" + "_".join(map(str, numbers))


_BY_SIZE = {
    "padding": (1, 1, 22),
    "length": (2, 5, 5),
    "thickness": (0.5, 1.5, 2.0),
    "seed_distance": (7, 20, 27),
    "radius": (1.5, 3.0, 5.0),
    "continuity": (1.0, 1.8, 1.8),
    "dashes_around": (20, 35, 30),
}
_MARGINS = {32: (1,), 128: (2, 3), 256: (3,)}


def design(size: int = 32, dashes: int = 6, distractors: int | None = None) -> Design:
    """The published design of sizes 32, 128 and 256, and something in between for others.

    >>> design(32, 6).distractors, design(128, 9).distractors, design(256, 14).length
    (10, 11, 5)
    """
    if not SMALLEST <= size <= LARGEST:
        raise DataError(f"images are {SMALLEST} to {LARGEST} pixels wide, not {size}.")
    if dashes < 1:
        raise DataError(f"a contour has at least one dash, not {dashes}.")
    if distractors is not None and distractors < 0:
        raise DataError(f"the number of distractors can't be negative, got {distractors}.")
    at = {name: float(np.interp(size, SIZES, values)) for name, values in _BY_SIZE.items()}
    around = round(at["dashes_around"]) // max(1, dashes // 3)
    nearest = min(SIZES, key=lambda known: abs(known - size))
    return Design(
        size=size,
        dashes=dashes,
        padding=round(at["padding"]),
        length=round(at["length"]),
        thickness=at["thickness"],
        margins=_MARGINS[nearest],
        seed_distance=round(at["seed_distance"]),
        radius=at["radius"],
        continuity=at["continuity"],
        scale=2,
        distractors=around if distractors is None else distractors,
    )


@dataclass(frozen=True)
class Plan:
    """One image. A dash is (row, column, degrees): where it is drawn from, and in which direction.

    The first dash of a contour is drawn from its origin, the others from their heads backwards.
    """

    contours: np.ndarray  # (2, dashes, 3) int16
    distractors: np.ndarray  # (distractors, their dashes, 3) int16; those without room are ABSENT
    first: int  # the contour on whose origin the first disc sits
    label: bool  # whether the other disc sits on the end of the same contour


def generate(design: Design, seed: int, index: int) -> Plan:
    """Image number `index` of a seed."""
    rng = np.random.default_rng((seed, index))
    margin = design.margins[rng.integers(len(design.margins))]
    for _ in range(PAIR_TRIALS):
        board = _Board(design, margin, rng)
        pair = board.grow_pair()
        if pair is not None:
            distractors = board.grow_distractors()
            first, label = rng.integers(2, size=2)
            return Plan(_pack(pair, design.dashes), distractors, int(first), bool(label))
    raise DataError(
        f"two contours of {design.dashes} dashes don't fit into {design.size}×{design.size} "
        "pixels. Ask for fewer dashes or a larger image."
    )


Dash = tuple[int, int, int]


def _pack(contours: list[list[Dash]], dashes: int) -> np.ndarray:
    return np.array(contours, dtype=np.int16).reshape(len(contours), dashes, 3)


class _Growth:
    """A contour that is being grown: its latest pivot, direction, and what its last dash covers."""

    def __init__(self, pivot: int, direction: int, at: int, dash: Dash) -> None:
        self.pivot, self.direction, self.at, self.dashes = pivot, direction, at, [dash]


class _Board:
    """What is reserved while one image is being planned, 0 ... 255; everything around it is."""

    def __init__(self, design: Design, margin: int, rng: np.random.Generator) -> None:
        self.design, self.margin, self.rng = design, margin, rng
        self.moves = _moves(design, margin)
        self.width, self.border = self.moves.width, self.moves.border
        self.taken = _empty_board(design.size, self.border, design.padding).copy()
        self.square = self.taken.reshape(self.width, self.width)

    def grow_pair(self) -> list[list[Dash]] | None:
        """Two contours, a dash each in turn, from seeds one seed distance apart.

        A dash is reserved when its contour has found the next one. So the latest dashes of both
        are free, and contours may meet. The last dash of the first one is never reserved.
        """
        pair = self._seed_pair()
        if pair is None:
            return None
        for _ in range(self.design.dashes - 1):
            if not all(self._extend(contour) for contour in pair):
                return None
        self._reserve(pair[1])
        return [contour.dashes for contour in pair]

    def grow_distractors(self) -> np.ndarray:
        """All distractors; one that finds no room is left out."""
        dashes = self.design.distractor_dashes
        absent = [(0, 0, ABSENT)] * dashes
        grown = [self._grow_distractor() or absent for _ in range(self.design.distractors)]
        return _pack(grown, dashes)

    def _grow_distractor(self) -> list[Dash] | None:
        before = self.taken.copy()
        for _ in range(DISTRACTOR_TRIALS):
            contour = self._seed_distractor()
            if contour is not None:
                dashes = self.design.distractor_dashes - 1
                if all(self._extend(contour) for _ in range(dashes)):
                    self._reserve(contour)
                    return contour.dashes
                self.taken[:] = before
        return None

    # -- the first dash of a contour ---------------------------------------------------------------

    def _seed_pair(self) -> list[_Growth] | None:
        """The first one lies two seed distances from the border, the second anywhere around it."""
        size, distance = self.design.size, self.design.seed_distance
        strip = min(2 * distance, size // 2 - 2)
        direction = int(self.rng.integers(360))
        low, high = self.moves.span[direction]
        free = size - 2 * strip - (high - low)
        if (free <= 0).any():
            return None
        place = strip - low + self.rng.integers(free)
        for _ in range(DASH_TRIALS):
            other, around = int(self.rng.integers(360)), math.radians(self.rng.integers(360))
            shift = distance * np.array([math.sin(around), math.cos(around)])
            second = place + np.rint(shift).astype(int)
            reached = second + self.moves.first[other]
            if (reached >= 0).all() and (reached < size).all():
                return [self._seed(self._index(place), direction),
                        self._seed(self._index(second), other)]  # fmt: skip
        return None

    def _seed_distractor(self) -> _Growth | None:
        """A dash anywhere where it is free; none once hardly anything is."""
        nearly_free = MOSTLY_FREE * FULL
        inside = self.square[self.border : -self.border, self.border : -self.border]
        if np.count_nonzero(inside <= nearly_free) < LEAST_FREE * inside.size:
            return None
        for _ in range(DASH_TRIALS):
            direction = int(self.rng.integers(360))
            place = self._free_place(self.moves.kernels[direction], nearly_free)
            if place is None:
                return None
            row, column = divmod(place, self.width)
            reached = np.array([row, column]) - self.border + self.moves.first[direction]
            if (reached >= 0).all() and (reached < self.design.size).all():
                return self._seed(place, direction)
        return None

    def _free_place(self, kernel: np.ndarray, most: float) -> int | None:
        """A place whose surroundings are free, chosen uniformly among all of these."""
        size = self.design.size
        for _ in range(GUESSES if size > SMALL_BOARD else 0):  # much cheaper than looking at all
            rows, columns = self.rng.integers(size, size=(2, GUESSED)) + self.border
            places = rows * self.width + columns
            free = (self.taken[places + kernel[:, None]] <= most).all(0)
            if free.any():
                return int(places[free.argmax()])
        places = _everywhere(size, self.border)
        for shift in kernel.tolist():
            places = places[self.taken[places + shift] <= most]
        return int(places[self.rng.integers(len(places))]) if len(places) else None

    def _seed(self, place: int, direction: int) -> _Growth:
        row, column = divmod(place, self.width)
        dash = (row - self.border, column - self.border, direction)
        return _Growth(place + int(self.moves.back[direction]), direction, place, dash)

    def _index(self, place: np.ndarray) -> int:
        row, column = (place + self.border).tolist()
        return row * self.width + column

    # -- the next ones -----------------------------------------------------------------------------

    def _extend(self, contour: _Growth) -> bool:
        """Add one dash to a contour, if one of three finds room; and reserve the last one."""
        moves, before = self.moves, contour.direction
        pivot = contour.pivot + int(moves.steps[before])
        likely, weights, around = moves.likely(before)
        sums = (weights * (FULL - self.taken[pivot + around].max(0))).cumsum()
        if sums[-1] < 1e-4 * FULL:
            return False
        for _ in range(DASH_TRIALS):
            chosen = int(likely[sums.searchsorted(self.rng.random() * sums[-1], side="right")])
            at = pivot + int(moves.heads[chosen - 360])
            if (self._window(at) + moves.cover(chosen)).max() < COLLISION * FULL:
                self._reserve(contour)
                row, column = divmod(at, self.width)
                degrees = int(moves.degrees[chosen - 360])
                contour.dashes.append((row - self.border, column - self.border, degrees))
                contour.pivot, contour.direction, contour.at = pivot, chosen, at
                return True
        return False

    def _reserve(self, contour: _Growth) -> None:
        window = self._window(contour.at)
        np.maximum(window, self.moves.cover(contour.direction), out=window)

    def _window(self, at: int) -> np.ndarray:
        row, column = divmod(at, self.width)
        reach = self.moves.reach
        return self.square[row - reach : row + reach + 1, column - reach : column + reach + 1]


class _Moves:
    """Everything that a dash may do, as places on a flattened board.

    Directions 0 ... 359 are those of first dashes, in degrees; the others, from 360 on, lead to one
    of the pixels of the circle of heads around a pivot.
    """

    def __init__(self, design: Design, margin: int) -> None:
        length = design.length
        self.shape = (length, design.thickness, margin, design.scale)
        self.reach = stamps.reach(length, design.thickness, margin)
        self.border = self.reach + length + 4 * margin + 4
        self.width = design.size + 2 * self.border
        circle = _circle(length + margin)
        turned = np.arctan2(circle[:, 0], circle[:, 1])
        self.angles = np.concatenate([np.radians(np.arange(360)), turned])
        self.heads = self._flat(circle)
        self.degrees = np.rint(np.degrees(turned) + 180).astype(int) % 360
        self.steps = self._flat(self._moved(length + 2 * margin))
        self._first_dashes(length, margin)
        turn = np.abs((turned - self.angles[:, None] + math.pi) % (2 * math.pi) - math.pi)
        self.weights = np.cos(np.minimum(turn * design.continuity, math.pi / 2)) ** 2
        self.disc = self._flat(stamps.disc_places(margin))
        self._likely: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def _first_dashes(self, length: int, margin: int) -> None:
        """Where heads and pivots of first dashes lie, and what must be free for them."""
        heads = self._moved(length)[:360]
        back = heads + self._moved(length + margin, math.pi)[:360]
        self.back = self._flat(back)
        self.first = np.stack([heads, back], axis=1)  # (360, 2, 2)
        self.kernels, spans = [], []
        for direction in range(360):
            whole = np.argwhere(self.cover(direction) == FULL) - self.reach + 1
            whole = whole[(np.abs(whole) <= length + margin).all(1)]
            self.kernels.append(self._flat(whole))
            spans.append((whole.min(0), whole.max(0)))
        self.span = np.array(spans)  # (360, 2, 2): the first and the last row and column

    def likely(self, before: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions after another one, their weights, and the surroundings (n, heads) of heads."""
        choices = self._likely.get(before)
        if choices is None:
            weights = self.weights[before]
            able = np.flatnonzero(weights > 1e-12)
            choices = (able + 360, weights[able], self.disc[:, None] + self.heads[able])
            self._likely[before] = choices
        return choices

    def cover(self, direction: int) -> np.ndarray:
        """What a dash reserves around the point that it is drawn from."""
        turned = math.pi if direction >= 360 else 0.0  # drawn from its head backwards
        return stamps.dash(*self.shape, float(self.angles[direction]) + turned)[1]

    def _moved(self, distance: float, turned: float = 0.0) -> np.ndarray:
        return np.array([stamps.move(0, 0, angle + turned, distance) for angle in self.angles])

    def _flat(self, places: np.ndarray) -> np.ndarray:
        return places[..., 0] * self.width + places[..., 1]


@lru_cache(maxsize=16)
def _moves(design: Design, margin: int) -> _Moves:
    return _Moves(design, margin)


def _circle(radius: int) -> np.ndarray:
    """Pixels (n, 2) of a circle, one per pixel of its length, truncated, each once."""
    angles = np.arange(0, 360, 360 / (2 * radius * math.pi)) * math.pi / 180
    places = radius * np.stack([np.sin(angles), np.cos(angles)], axis=1)
    return np.unique(np.floor(places + 1e-9).astype(int), axis=0)


@lru_cache(maxsize=16)
def _empty_board(size: int, border: int, padding: int) -> np.ndarray:
    """A flattened board where only the surroundings of the image are taken."""
    board = np.full((size + 2 * border,) * 2, FULL, dtype=np.int16)
    inside = slice(border + padding, border + size - padding)
    board[inside, inside] = 0
    return board.ravel()


@lru_cache(maxsize=16)
def _everywhere(size: int, border: int) -> np.ndarray:
    """All places of an image on a flattened board."""
    inside = np.arange(border, border + size)
    return (inside[:, None] * (size + 2 * border) + inside).ravel()
