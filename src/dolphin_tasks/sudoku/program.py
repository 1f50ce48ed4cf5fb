"""The programs of visual Sudoku.

`valid` folds a 4×4 board: cells to rows, rows to bands, bands to the board. Each cell is used once
and different states exclude each other, so it is exact under `damp` already, in a few thousand
combinations instead of 4¹⁶ boards.

`fill` writes digits into a board one after the other and keeps what is possible everywhere else up
to date, the way people solve a puzzle. From an empty board, with a beam, it is a solver of puzzles
that are read with doubt; from a board on which the solution's other digits stand, it is
what training maximises: the probability of reading digits that complete it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.sudoku.boards import (
    Board,
    Candidates,
    allows,
    only_solution,
    place,
    solve,
    unknown,
)

Cells = Sequence[dl.Distribution[int]]
"""One distribution over digits per cell, row by row."""

DIGITS = frozenset((1, 2, 3, 4))


def valid(cells: Cells) -> dl.Distribution[bool]:
    """Whether a 4×4 board is a valid Sudoku.

    >>> board = (1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)
    >>> valid([dl.Distribution.certain(digit) for digit in board]).row(0)
    [(True, 1.0), (False, 0.0)]
    """
    rows = [dl.apply_if(*cells[i : i + 4], _row, _all_different) for i in (0, 4, 8, 12)]
    top, bottom = (dl.apply_if(rows[i], rows[i + 1], _columns, _boxes) for i in (0, 2))
    boards = dl.apply_if(top, bottom, lambda top, bottom: True, on=(lambda top: top, _missing))
    return dl.exists(boards)


def _row(*digits: int) -> tuple[int, ...]:
    return digits


def _all_different(*digits: int) -> bool:
    return len(set(digits)) == len(digits)


def _boxes(upper: tuple[int, ...], lower: tuple[int, ...]) -> bool:
    """Whether no digit is twice in a box of two rows; the other box then follows."""
    return not {*upper[:2]} & {*lower[:2]}


def _columns(upper: tuple[int, ...], lower: tuple[int, ...]) -> tuple[frozenset[int], ...]:
    """The digits of each column of a band."""
    return tuple(frozenset(column) for column in zip(upper, lower, strict=True))


def _missing(band: tuple[frozenset[int], ...]) -> tuple[frozenset[int], ...]:
    """What the other band must have in each column."""
    return tuple(DIGITS - column for column in band)


# -- 9×9 -------------------------------------------------------------------------------------------


def fill(
    boards: dl.Distribution[Candidates],
    log_probs: Tensor,
    cells: Tensor,
    beam: int | None = None,
) -> dl.Distribution[Candidates]:
    """The boards with one more digit in each of `cells`, in this order, as the images show them.

    Args:
        boards: what is possible on the board of each row.
        log_probs: (B, 81, 9), how likely the image in each cell is each digit.
        cells: (B, n), the cells to read in each row; -1 at the end of shorter rows.
        beam: how many of the likeliest boards are kept after each cell; None: all.
    """
    algebra = boards.provenance
    for column in cells.unbind(1):
        at = column.clamp(min=0).view(-1, 1, 1).expand(-1, 1, log_probs.shape[2])
        digit = dl.Distribution.from_log_probs(
            log_probs.gather(1, at)[:, 0], range(1, log_probs.shape[2] + 1), provenance=algebra
        )
        cell = dl.Distribution.certain_rows(column.tolist(), provenance=algebra)
        there = column >= 0
        moves = dl.apply_if(boards, cell, digit, _move, allows, where=there)
        if beam is not None:  # before what follows from a move is worked out: most are dropped
            moves = dl.sample(moves, 2 * beam)
        boards = dl.filter(dl.apply(moves, _made, where=there), _possible)
        if beam is not None:
            boards = dl.sample(boards, beam)
    return boards


def _move(board: Candidates, cell: int, digit: int) -> tuple[Candidates, int, int]:
    return board, cell, digit


def _made(move: tuple[Candidates, int, int]) -> Candidates:
    """The board after a move, "" if the move contradicts the others."""
    return place(*move) or ""


def _possible(board: Candidates) -> bool:
    return board != ""


def read_puzzles(
    log_probs: Tensor, given: Tensor, beam: int = 8, widest: int = 512
) -> list[Board | None]:
    """The solution of each puzzle under its likeliest reading that has one; None: none was found.

    Certain readings come first, so that what follows from them settles the others. A reading that
    leaves a single solution is preferred to one that leaves several. Rows without a solution are
    tried again with a wider beam.

    Args:
        log_probs: (B, 81, 9), how likely the image in each cell is each digit.
        given: (B, 81), the cells that show an image.
        beam: how many boards are kept.
        widest: the widest beam that is tried.
    """
    with torch.no_grad():
        order = reading_order(log_probs, given)
        empty = dl.Distribution.certain(unknown(log_probs.shape[2]), batch=len(order))
        boards = fill(empty, log_probs.detach().double(), order, beam)
    answers = [_first(readings) for readings in boards.top(beam)]
    missing = [row for row, answer in enumerate(answers) if answer is None]
    if missing and 4 * beam <= widest:
        again = read_puzzles(log_probs[missing], given[missing], 4 * beam, widest)
        for row, answer in zip(missing, again, strict=True):
            answers[row] = answer
    return answers


def _first(readings: Sequence[tuple[Candidates, float]]) -> Board | None:
    for solver in (only_solution, solve):
        for board, prob in readings:
            if prob > 0 and (solution := solver(board)) is not None:
                return solution
    return None


def reading_order(log_probs: Tensor, given: Tensor) -> Tensor:
    """The given cells of each row, the most certain first, -1 where a row has no more: (B, n)."""
    certainty = log_probs.amax(2).masked_fill(~given, -torch.inf)
    order = certainty.argsort(1, descending=True)[:, : int(given.sum(1).max())]
    return torch.where(given.gather(1, order), order, -1)
