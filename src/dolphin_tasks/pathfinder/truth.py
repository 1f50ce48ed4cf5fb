"""What a perfect network would say: the facts of a grid over an image whose plan is known.

Blocks are coarser than contours. Where both contours run through one block, it belongs to the one
with the first disc; the block of a second disc on another contour is avoided. So facts can be read
off the picture, and give the right answer on any grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dolphin_tasks.pathfinder.data import PathBatch
from dolphin_tasks.pathfinder.generator import ABSENT, Design
from dolphin_tasks.pathfinder.program import Edge
from dolphin_tasks.pathfinder.render import segments

Block = tuple[int, int]


def true_ends(batch: PathBatch, side: int) -> Tensor:
    """Which blocks (B, side²) have a disc; discs outside the image don't count."""
    assert batch.discs is not None
    ends = torch.zeros(len(batch.labels), side * side, dtype=torch.bool)
    for row, discs in enumerate(batch.discs.tolist()):
        blocks = [_block(disc, batch.images.shape[2], side) for disc in discs]
        ends[row, [_number(block, side) for block in blocks if block is not None]] = True
    return ends


def true_facts(
    batch: PathBatch, design: Design, side: int, edges: Sequence[Edge]
) -> tuple[Tensor, Tensor]:
    """Which ends (B, side²) and which directed edges (B, edges) hold."""
    assert batch.contours is not None
    place = {edge: number for number, edge in enumerate(edges)}
    diagonal = (0, side + 1) in place or (side + 1, 0) in place
    ends, size = true_ends(batch, side), batch.images.shape[2]
    held = torch.zeros(len(batch.labels), len(edges), dtype=torch.bool)
    for row, joined in enumerate(batch.labels.tolist()):
        own, other = (
            _walk(contour, design, size, side, diagonal) for contour in batch.contours[row]
        )
        if joined:
            moves = _moves(own, set()) | _moves(other, set(own))
            if ends[row].sum() == 1:  # the contour leaves its block and comes back
                ends[row, next(block for block in own if not ends[row, block])] = True
        else:
            stop = set(other[-1:])
            moves = _moves(own, stop) | _moves(other, set(own) - stop)
        held[row, [place[move] for move in moves if move in place]] = True
    return ends, held


def _moves(walk: list[int], avoid: set[int]) -> set[tuple[int, int]]:
    """The steps of a walk, in both directions, that avoid some blocks."""
    steps = [step for step in itertools.pairwise(walk) if not avoid.intersection(step)]
    return {*steps, *((b, a) for a, b in steps)}


def _walk(contour: Tensor, design: Design, size: int, side: int, diagonal: bool) -> list[int]:
    """The blocks that a contour (dashes, 3) runs through, neighbours one after the other."""
    drawn = contour[contour[:, 2] != ABSENT]
    points = segments(design, drawn).flatten(0, 1)
    blocks: list[Block] = []
    for (row, column), (next_row, next_column) in zip(
        points[:-1].tolist(), points[1:].tolist(), strict=True
    ):
        parts = 8 * math.ceil(max(abs(next_row - row), abs(next_column - column), 1))
        for part in range(parts + 1):
            share = part / parts
            at = (row + share * (next_row - row), column + share * (next_column - column))
            block = _block(at, size, side)
            if block is not None:
                _visit(blocks, block, diagonal)
    return [_number(block, side) for block in blocks]


def _block(at: Sequence[float], size: int, side: int) -> Block | None:
    """The block of a point; a tip may reach a pixel over the border, further away there is none."""
    if not all(-1.5 <= x <= size + 0.5 for x in at):
        return None
    row, column = (min(max(int((x + 0.5) * side / size), 0), side - 1) for x in at)
    return row, column


def _number(block: Block, side: int) -> int:
    return block[0] * side + block[1]


def _visit(blocks: list[Block], block: Block, diagonal: bool) -> None:
    """Continue to a block, around the corner where there are no diagonal edges."""
    if blocks and blocks[-1] == block:
        return
    if blocks and not diagonal and blocks[-1][0] != block[0] and blocks[-1][1] != block[1]:
        blocks.append((blocks[-1][0], block[1]))
    blocks.append(block)
