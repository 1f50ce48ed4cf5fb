"""What a perfect network would say: the facts of a grid over an image whose plan is known.

Blocks are coarser than contours. Where both contours run through one block, it belongs to the one
with the first disc; the block of a second disc on another contour stays out of its way. So facts
can be read off the picture, and tell the right answer on any grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dolphin.tasks.pathfinder.data import PathBatch
from dolphin.tasks.pathfinder.generator import Design
from dolphin.tasks.pathfinder.program import Edge
from dolphin.tasks.pathfinder.render import ABSENT, tips

Block = tuple[int, int]


def end_blocks(discs: Tensor, size: int, side: int) -> Tensor:
    """The numbers (B, 2) of the blocks on which discs (B, 2, 2) sit."""
    block = ((discs + 0.5) * side / size).long().clamp(0, side - 1)
    return block[..., 0] * side + block[..., 1]


def true_facts(
    batch: PathBatch, design: Design, side: int, edges: Sequence[Edge]
) -> tuple[Tensor, Tensor]:
    """Which ends (B, side²) and which directed edges (B, edges) hold."""
    assert batch.discs is not None and batch.contours is not None
    place = {edge: number for number, edge in enumerate(edges)}
    diagonal = (0, side + 1) in place or (side + 1, 0) in place
    ends = torch.zeros(len(batch.labels), side * side, dtype=torch.bool)
    held = torch.zeros(len(batch.labels), len(edges), dtype=torch.bool)
    blocks = end_blocks(batch.discs, design.size, side).tolist()
    for row, (start, stop) in enumerate(blocks):
        own, other = (
            _walk(contour, design, side, diagonal) for contour in batch.contours[row].unbind(0)
        )
        if batch.labels[row]:
            moves = _moves(own, set()) | _moves(other, set(own))
        else:
            moves = _moves(own, {stop}) | _moves(other, set(own) - {stop})
        ends[row, [start, stop]] = True
        if batch.labels[row] and start == stop:  # the contour leaves the block and comes back
            ends[row, next(block for block in own if block != start)] = True
        held[row, [place[move] for move in moves if move in place]] = True
    return ends, held


def _moves(walk: list[int], avoid: set[int]) -> set[tuple[int, int]]:
    """The steps of a walk, in both directions, that keep clear of some blocks."""
    steps = [step for step in itertools.pairwise(walk) if not avoid.intersection(step)]
    return {*steps, *((b, a) for a, b in steps)}


def _walk(contour: Tensor, design: Design, side: int, diagonal: bool) -> list[int]:
    """The blocks that a contour (dashes, 3) runs through, neighbours one after the other."""
    drawn = contour[contour[:, 2] != ABSENT]
    points = torch.stack([drawn[:, :2].float(), tips(design, drawn)], dim=1).flatten(0, 1)
    blocks: list[Block] = []
    for (row, column), (next_row, next_column) in zip(
        points[:-1].tolist(), points[1:].tolist(), strict=True
    ):
        parts = 8 * math.ceil(max(abs(next_row - row), abs(next_column - column), 1))
        for part in range(parts + 1):
            share = part / parts
            at = (row + share * (next_row - row), column + share * (next_column - column))
            _visit(blocks, _block(at, design.size, side), diagonal)
    return [row * side + column for row, column in blocks]


def _block(at: tuple[float, float], size: int, side: int) -> Block:
    row, column = (min(max(int((x + 0.5) * side / size), 0), side - 1) for x in at)
    return row, column


def _visit(blocks: list[Block], block: Block, diagonal: bool) -> None:
    """Go on to a block, around the corner where there are no diagonal edges."""
    if blocks and blocks[-1] == block:
        return
    if blocks and not diagonal and blocks[-1][0] != block[0] and blocks[-1][1] != block[1]:
        blocks.append((blocks[-1][0], block[1]))
    blocks.append(block)
