"""Sudoku boards in plain Python: their rules, random ones, and puzzles with one solution.

A board is a tuple of digits 1...n, row by row; in a puzzle 0 stands for a blank. *Candidates*, what
is possible on a board, are a string with one character per cell: the set of its digits, bit d - 1
for digit d. As symbols of a program strings are cheap: they know their hash.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Board = tuple[int, ...]
Candidates = str


class Rules(NamedTuple):
    """The rules of boards with sides of 4, 9, ... cells."""

    side: int
    units: tuple[tuple[int, ...], ...]
    """Cells that hold each digit once: rows, columns, boxes."""
    units_of: tuple[tuple[tuple[int, ...], ...], ...]
    """The three units of each cell."""
    peers: tuple[tuple[int, ...], ...]
    """The cells that share a unit with each cell."""


@functools.cache
def rules(side: int) -> Rules:
    """The rules of a board of side × side cells, with square boxes.

    >>> len(rules(9).units), len(rules(9).peers[0]), rules(4).peers[0]
    (27, 20, (1, 2, 3, 4, 5, 8, 12))
    """
    box = math.isqrt(side)
    if box * box != side:
        raise ValueError(f"the side of a board with square boxes is 4, 9, 16, ..., not {side}")
    cells = range(side * side)
    places = [lambda c: c // side, lambda c: c % side]
    places.append(lambda c: c // side // box * box + c % side // box)
    units = tuple(
        tuple(cell for cell in cells if place(cell) == number)
        for place in places
        for number in range(side)
    )
    units_of = tuple(tuple(unit for unit in units if cell in unit) for cell in cells)
    peers = tuple(tuple(sorted({*sum(units_of[cell], ())} - {cell})) for cell in cells)
    return Rules(side, units, units_of, peers)


def is_valid(board: Sequence[int]) -> bool:
    """Whether every row, column and box has every digit.

    >>> is_valid((1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)), is_valid((1,) * 16)
    (True, False)
    """
    known = rules(math.isqrt(len(board)))
    digits = set(range(1, known.side + 1))
    return all({board[cell] for cell in unit} == digits for unit in known.units)


# -- propagation -----------------------------------------------------------------------------------


def unknown(side: int) -> Candidates:
    """A board on which every digit is possible everywhere."""
    return chr((1 << side) - 1) * side**2


def place(candidates: Candidates, cell: int, digit: int) -> Candidates | None:
    """The candidates once `cell` holds `digit`, and what follows; None if that can't be.

    Two rules are applied until nothing changes: a digit that is certain is impossible in the cells
    that share a unit with it; a digit with one place left in a unit is there.

    >>> board = place(place(unknown(4), 0, 1), 5, 2)
    >>> digits_of(board)[:6], place(board, 4, 1)
    ((1, 0, 0, 0, 0, 2), None)
    """
    bit, before = 1 << digit - 1, ord(candidates[cell])
    if before == bit:
        return candidates
    if not before & bit:
        return None
    known = rules(math.isqrt(len(candidates)))
    masks = [ord(character) for character in candidates]
    masks[cell] = bit
    changed = [cell]
    while changed:
        if not (_exclude(masks, changed, known) and _find_only_places(masks, changed, known)):
            return None
    return "".join(map(chr, masks))


def allows(candidates: Candidates, cell: int, digit: int) -> bool:
    """Whether `cell` may hold `digit`."""
    return bool(ord(candidates[cell]) >> digit - 1 & 1)


def _exclude(masks: list[int], changed: list[int], known: Rules) -> bool:
    """Remove certain digits from their peers until there are no new ones; False: a contradiction.

    Every cell that lost a digit ends up in `changed`.
    """
    touched, todo = set(changed), [cell for cell in changed if not masks[cell] & masks[cell] - 1]
    while todo:
        cell = todo.pop()
        bit = masks[cell]
        for peer in known.peers[cell]:
            mask = masks[peer]
            if mask & bit:
                mask ^= bit
                if not mask:
                    return False
                masks[peer] = mask
                touched.add(peer)
                if not mask & mask - 1:
                    todo.append(peer)
    changed[:] = touched
    return True


def _find_only_places(masks: list[int], changed: list[int], known: Rules) -> bool:
    """Settle digits that have one place left in a unit; False: one has none.

    `changed` becomes the cells that were settled.
    """
    every = (1 << known.side) - 1
    settled = []
    for unit in {unit for cell in changed for unit in known.units_of[cell]}:
        once = more = 0
        for cell in unit:
            more |= once & masks[cell]
            once |= masks[cell]
        if once != every:
            return False
        once &= ~more
        for cell in unit:
            only = masks[cell] & once
            if only and masks[cell] != only:
                if only & only - 1:
                    return False  # two digits have no place but this one
                masks[cell] = only
                settled.append(cell)
    changed[:] = settled
    return True


def digits_of(candidates: Candidates) -> Board:
    """The digits that are certain, 0 for the others."""
    masks = map(ord, candidates)
    return tuple(0 if mask & mask - 1 else mask.bit_length() for mask in masks)


def candidates_of(puzzle: Sequence[int]) -> Candidates | None:
    """What the digits of a puzzle leave open; None if they contradict each other."""
    candidates: Candidates | None = unknown(math.isqrt(len(puzzle)))
    for cell, digit in enumerate(puzzle):
        if digit and candidates is not None:
            candidates = place(candidates, cell, digit)
    return candidates


# -- search ----------------------------------------------------------------------------------------


def solutions(candidates: Candidates | None, rng: random.Random | None = None) -> Iterator[Board]:
    """Every solution: a digit is tried in the cell with the fewest, then what follows from it.

    With `rng` digits are tried in random order.

    >>> sum(1 for _ in solutions(unknown(4)))
    288
    """
    if candidates is None:
        return
    counts = [ord(mask).bit_count() for mask in candidates]
    most = max(counts)
    if most == 1:
        yield digits_of(candidates)
        return
    cell = min(range(len(counts)), key=lambda c: counts[c] if counts[c] > 1 else most + 1)
    digits = [d for d in range(1, math.isqrt(len(counts)) + 1) if allows(candidates, cell, d)]
    if rng is not None:
        rng.shuffle(digits)
    for digit in digits:
        yield from solutions(place(candidates, cell, digit), rng)


def solve(candidates: Candidates | None) -> Board | None:
    """A solution; None if there is none."""
    return next(solutions(candidates), None)


def only_solution(candidates: Candidates | None) -> Board | None:
    """The solution of a proper puzzle; None if there is none, or more than one."""
    every = solutions(candidates)
    first = next(every, None)
    return first if next(every, None) is None else None


def random_board(side: int, rng: random.Random) -> Board:
    """A board that obeys the rules.

    >>> is_valid(random_board(9, random.Random(0)))
    True
    """
    return next(solutions(unknown(side), rng))


def random_puzzle(board: Board, givens: int, rng: random.Random) -> Board | None:
    """`board` with this many digits left, and no other solution; None if this attempt got stuck.

    >>> rng = random.Random(0)
    >>> board = random_board(9, rng)
    >>> puzzle = random_puzzle(board, 36, rng)
    >>> list(solutions(candidates_of(puzzle))) == [board]
    True
    """
    order = list(range(len(board)))
    rng.shuffle(order)
    puzzle, left = list(board), len(board)
    for cell in order:
        if left == givens:
            break
        puzzle[cell] = 0
        if _has_other(puzzle, cell, board[cell]):
            puzzle[cell] = board[cell]
        else:
            left -= 1
    return tuple(puzzle) if left == givens else None


def _has_other(puzzle: Sequence[int], cell: int, digit: int) -> bool:
    """Whether a puzzle, unique with `digit` in `cell`, has a solution with another one there."""
    known = rules(math.isqrt(len(puzzle)))
    taken = {puzzle[peer] for peer in known.peers[cell]}
    others = [d for d in range(1, known.side + 1) if d != digit and d not in taken]
    if not others:  # most of the time early on: no search
        return False
    candidates = candidates_of(puzzle)
    return candidates is not None and any(
        solve(place(candidates, cell, other)) is not None for other in others
    )


def symmetry(side: int, rng: random.Random) -> tuple[list[int], list[int]]:
    """A symmetry of Sudoku: (where each cell comes from, the new digit of each digit).

    Digits are exchanged, bands and rows within them, stacks and columns within them, and rows with
    columns: what has one solution has one afterwards.

    >>> rng = random.Random(0)
    >>> board = random_board(4, rng)
    >>> cells, digits = symmetry(4, rng)
    >>> is_valid([digits[board[cell]] for cell in cells])
    True
    """
    box = math.isqrt(side)

    def lines() -> list[int]:
        bands = rng.sample(range(box), box)
        return [band * box + line for band in bands for line in rng.sample(range(box), box)]

    rows, columns = lines(), lines()
    flipped = rng.random() < 0.5
    cells = [c * side + r if flipped else r * side + c for r in rows for c in columns]
    return cells, [0, *rng.sample(range(1, side + 1), side)]
