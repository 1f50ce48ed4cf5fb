"""Draws the plan of a PathFinder image: two long dashed contours and many short distractors.

Contours are grown dash by dash. A pivot lies a margin past the last head; the next dash starts a
margin past the pivot, in a direction that turns little: dashes of a contour are two margins apart.
Around each dash a margin is reserved, and those of two contours don't overlap. The result is
geometry, a few hundred bytes per image; `render.py` turns it into pixels. Image `i` of a
seed is always the same, whichever process makes it and whatever other images there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dolphin_tasks.fetch import DataError

SIZES = (32, 128, 256)
DASHES = (6, 9, 14)
SUBSETS = {6: "curv_baseline", 9: "curv_contour_length_9", 14: "curv_contour_length_14"}
SMALLEST, LARGEST = 24, 1024

PAIR_TRIALS = 10_000
"""Attempts at two contours before a design is given up."""
DISTRACTOR_TRIALS = 40
"""Attempts at one distractor before it is left out."""
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
        numbers = (self.padding, self.length, margins, self.seed_distance, self.continuity)
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
    """One image. A dash is (row, column, degrees): where it starts, and where it points."""

    contours: np.ndarray  # (2, dashes, 3) int16
    distractors: np.ndarray  # (distractors, their dashes, 3) int16; those without room are ABSENT
    first: int  # the contour on whose origin the first disc sits
    label: bool  # whether the other disc sits on the end of the same contour


@dataclass(frozen=True)
class Moves:
    """Everything that a dash may do, as places relative to its pivot on a flattened board."""

    degrees: np.ndarray  # (moves,) whole degrees, of (sin, cos) in rows and columns
    starts: np.ndarray  # (moves,) where the dash starts, a margin past the pivot
    pivots: np.ndarray  # (moves,) the next pivot, a margin past the head
    needs: np.ndarray  # (pixels, moves) what must be free: the covers, padded by repeating pixels
    cover: list[np.ndarray]  # of each move: the dash dilated by the margin
    turns: np.ndarray  # (moves + 1, moves) weight of the second after the first; last row: no first


def generate(design: Design, seed: int, index: int) -> Plan:
    """Image number `index` of a seed."""
    rng = np.random.default_rng((seed, index))
    for _ in range(PAIR_TRIALS):
        margin = design.margins[rng.integers(len(design.margins))]
        board = _Board(design, margin, rng)
        pair = board.grow_pair()
        if pair is None:
            continue
        distractors = board.grow_distractors()
        first, label = rng.integers(2, size=2)
        return Plan(_pack(pair, design.dashes), distractors, int(first), bool(label))
    raise DataError(
        f"two contours of {design.dashes} dashes don't fit into {design.size}×{design.size} "
        "pixels. Ask for fewer dashes or a larger image."
    )


def _pack(contours: list[list[tuple[int, int, int]]], dashes: int) -> np.ndarray:
    return np.array(contours, dtype=np.int16).reshape(len(contours), dashes, 3)


class _Board:
    """Which pixels are taken while one image is being planned."""

    def __init__(self, design: Design, margin: int, rng: np.random.Generator) -> None:
        self.design, self.rng = design, rng
        self.border = _border(design.length, margin)
        self.width = design.size + 2 * self.border
        self.moves = _moves(design, margin)
        self.taken = _empty_board(design.size, self.border, design.padding).copy()

    def grow_pair(self) -> list[list[tuple[int, int, int]]] | None:
        """Two contours, a dash each in turn, from seeds one seed distance apart."""
        seed = self._free_place()
        if seed is None:
            return None
        angle = self.rng.random() * 2 * math.pi
        row, column = divmod(seed, self.width)
        other = move(row, column, angle, self.design.seed_distance)
        low, high = self.border, self.border + self.design.size
        if not all(low <= place < high for place in other):
            return None
        growing = [_Growth(seed), _Growth(other[0] * self.width + other[1])]
        for _ in range(self.design.dashes):
            if not all(self._extend(contour) for contour in growing):
                return None
        return [self._dashes(contour) for contour in growing]

    def grow_distractors(self) -> np.ndarray:
        """All distractors; one that finds no room is left out, as in the published images."""
        dashes = self.design.distractor_dashes
        absent = [(0, 0, ABSENT)] * dashes
        grown = [self._grow_distractor() or absent for _ in range(self.design.distractors)]
        return _pack(grown, dashes)

    def _grow_distractor(self) -> list[tuple[int, int, int]] | None:
        for _ in range(DISTRACTOR_TRIALS):
            seed = self._free_place()
            if seed is None:
                return None
            contour = _Growth(seed)
            if all(self._extend(contour) for _ in range(self.design.distractor_dashes)):
                return self._dashes(contour)
            for cover in contour.covers:
                self.taken[cover] -= 1
        return None

    def _extend(self, contour: _Growth) -> bool:
        """Add one dash to a contour, if there is room for one."""
        moves, taken = self.moves, self.taken
        before = contour.covers[-1] if contour.covers else None
        if before is not None:  # a contour may touch its own last dash
            taken[before] -= 1
        # a contour begins with a dash that starts at its seed, as if the pivot were a margin before
        pivot = contour.pivot if contour.covers else contour.pivot - moves.starts
        collisions = taken[pivot + moves.needs].max(0)
        if before is not None:
            taken[before] += 1
        sums = (moves.turns[contour.last] * (collisions == 0)).cumsum()
        if sums[-1] <= 0:
            return False
        chosen = int(sums.searchsorted(self.rng.random() * sums[-1], side="right"))
        if before is None:
            contour.pivot -= int(moves.starts[chosen])
        cover = contour.pivot + moves.cover[chosen]
        taken[cover] += 1
        contour.starts.append(contour.pivot + int(moves.starts[chosen]))
        contour.chosen.append(chosen)
        contour.last = chosen
        contour.covers.append(cover)
        contour.pivot += int(moves.pivots[chosen])
        return True

    def _free_place(self) -> int | None:
        """A free pixel, chosen uniformly."""
        free = np.flatnonzero(self.taken == 0)
        return int(free[self.rng.integers(len(free))]) if len(free) else None

    def _dashes(self, contour: _Growth) -> list[tuple[int, int, int]]:
        return [
            (
                start // self.width - self.border,
                start % self.width - self.border,
                int(self.moves.degrees[chosen]),
            )
            for start, chosen in zip(contour.starts, contour.chosen, strict=True)
        ]


class _Growth:
    """A contour that is being grown: its seed or next pivot, and what it covers so far."""

    def __init__(self, pivot: int) -> None:
        self.pivot = pivot
        self.starts: list[int] = []
        self.chosen: list[int] = []
        self.covers: list[np.ndarray] = []
        self.last = -1  # the row of `Moves.turns` for a first dash


def move(row: int, column: int, angle: float, distance: float) -> tuple[int, int]:
    """ceil(p + d·(sin a, cos a)), on whole pixels; rounding errors of a whole number don't count.

    >>> move(5, 5, 0.0, 2), move(5, 5, math.pi / 2, 2), move(5, 5, 0.5, 2)
    ((5, 7), (7, 5), (6, 7))
    """
    return (
        row + math.ceil(distance * math.sin(angle) - 1e-9),
        column + math.ceil(distance * math.cos(angle) - 1e-9),
    )


def _border(length: int, margin: int) -> int:
    """Pixels around the image that a dash could reach, and its cover."""
    return length + 5 * margin + 3


@lru_cache(maxsize=16)
def _empty_board(size: int, border: int, padding: int) -> np.ndarray:
    """A flattened board where only the surroundings of the image are taken."""
    board = np.ones((size + 2 * border,) * 2, dtype=np.int8)
    inside = slice(border + padding, border + size - padding)
    board[inside, inside] = 0
    return board.ravel()


@lru_cache(maxsize=16)
def _moves(design: Design, margin: int) -> Moves:
    """The moves of a dash: one for each pixel of the circle of candidates."""
    length, reach = design.length, design.length + margin
    width = design.size + 2 * _border(length, margin)
    circle = dict.fromkeys(
        move(0, 0, angle, reach) for angle in np.linspace(0, 2 * math.pi, 720, endpoint=False)
    )
    angles = np.array([math.atan2(row, column) for row, column in circle])
    starts, covers, pivots = [], [], []
    for head, angle in zip(circle, angles, strict=True):
        start = (
            head[0] - round(length * math.sin(angle)),
            head[1] - round(length * math.cos(angle)),
        )
        body = [
            (start[0] + row, start[1] + column)
            for row, column in dash_pixels(angle, length, design.thickness)
        ]
        starts.append(start[0] * width + start[1])
        covers.append(_dilated(body, margin, width))
        row, column = move(0, 0, angle, length + 2 * margin)
        pivots.append(row * width + column)
    most = max(map(len, covers))
    needs = [np.pad(cover, (0, most - len(cover)), mode="edge") for cover in covers]
    turn = np.abs((angles[None] - angles[:, None] + math.pi) % (2 * math.pi) - math.pi)
    smooth = np.cos(np.minimum(turn * design.continuity, math.pi / 2)) ** 2
    smooth[smooth < 1e-12] = 0
    return Moves(
        degrees=np.rint(np.degrees(angles)).astype(np.int16) % 360,
        starts=np.array(starts),
        pivots=np.array(pivots),
        needs=np.array(needs).T.copy(),
        cover=covers,
        turns=np.vstack([smooth, np.ones(len(angles))]),
    )


def dash_pixels(angle: float, length: float, thickness: float) -> list[tuple[int, int]]:
    """Pixels that a dash from the origin runs through."""
    around = math.ceil(length + thickness) + 1
    rows, columns = np.mgrid[-around : around + 1, -around : around + 1]
    along, across = along_and_across(rows, columns, angle)
    inside = (along > -0.5) & (along < length + 0.5) & (across <= max(0.5, thickness / 2))
    return list(zip(rows[inside].tolist(), columns[inside].tolist(), strict=True))


def along_and_across(
    rows: np.ndarray, columns: np.ndarray, angle: float
) -> tuple[np.ndarray, np.ndarray]:
    """How far places are from the origin along a direction, and how far off its line."""
    sin, cos = math.sin(angle), math.cos(angle)
    return rows * sin + columns * cos, np.abs(rows * cos - columns * sin)


def _dilated(body: list[tuple[int, int]], margin: int, width: int) -> np.ndarray:
    """The pixels within the margin of a dash, on a flattened board, each once."""
    disc = [
        (row, column)
        for row in range(-margin, margin + 1)
        for column in range(-margin, margin + 1)
        if row * row + column * column <= margin * margin
    ]
    return np.array(sorted({(r + a) * width + c + b for r, c in body for a, b in disc}))
