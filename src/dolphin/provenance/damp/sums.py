"""Sums of operands of the same size, in plain numbers: a tree whose levels are one convolution.

A chain of n convolutions is n operations one after the other. Without clipping their order is free,
and all pairs of a level can be convolved together. 15 digits, 64 rows, forward and backward: 60
instead of 200 dispatched operations, in about the same time on a CPU.

Numbers of a level have the shape (nodes, width, r). The two halves of the nodes are pairs. Widths
double from level to level, so that the last place of a node of any level but the first is always 0.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Convolution, IndexLists, to_device
from dolphin.provenance.differentiation import transformed
from dolphin.provenance.numerics import ZERO
from dolphin.symbolic.bounded import BoundedCache, register, registered

_FEWEST = 4  # operands; fewer are as fast one after the other
_MOST = 524_288  # products of a level at once


class Tree:
    """How the sums of `count` operands with `width` symbols each are computed."""

    def __init__(self, count: int, width: int, wanted: np.ndarray | None) -> None:
        self.count, self.width, self.wanted = count, width, wanted

    @classmethod
    def of(
        cls, operands: Sequence[Tensor], plans: Sequence[IndexLists], wanted: np.ndarray | None
    ) -> Tree | None:
        """The tree of a chain; None if sizes differ, or if it is faster step by step."""
        count, (width, rows) = len(operands), operands[0].shape
        if count < _FEWEST or any(len(each) != width for each in operands):
            return None
        if not all(isinstance(plan, Convolution) for plan in plans):
            return None
        half = width << max(0, (count - 1).bit_length() - 2)
        return cls(count, width, wanted) if 4 * half * half * rows <= _MOST else None

    def padding(self, like: Tensor) -> list[Tensor]:
        """The logarithms of an operand that is certainly 0, to make the number of them even."""
        return [_certain(self.width, like, 0.0, ZERO)] if self.count % 2 else []

    def read(self, numbers: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The sums, (n, r), or one per row, (r,), and what gradients need."""
        nodes, width, rows = self.count + self.count % 2, self.width, numbers.shape[1]
        level, levels = numbers.view(2, nodes // 2, 1, width, rows), []
        while nodes > 2:
            levels.append(level)
            nodes, width = nodes // 2, 2 * width
            if nodes % 2:
                sums = _sums_of_pairs(level, (nodes * width, rows))
                level = torch.cat((sums, _certain(width, sums, 1.0, 0.0)))
                nodes += 1
                level = level.view(2, nodes // 2, 1, width, rows)
            else:
                level = _sums_of_pairs(level, (2, nodes // 2, 1, width, rows))
        if self.wanted is None:
            sums = _sums_of_pairs(level, (2 * width, rows))
            return sums[: self.count * (self.width - 1) + 1], [*levels, level]
        # a[i]·b[wanted - i], or 0 if there is no such place; and the same with a and b exchanged
        places = _partners(width).take(self.wanted, axis=1)
        places *= rows
        places += np.arange(rows)
        both = np.stack([places + width * rows, places]).reshape(level.shape)
        others = level.take(to_device(both, level.device))
        return (level * others).sum((0, 1, 2, 3)).mul_(0.5), [*levels, others]

    def gradients(self, numbers: Tensor, kept: list[Tensor], share: Tensor) -> Tensor:
        """The gradient of all operands, (operands · width, r), from that of what was read."""
        if self.wanted is None:
            grads = share.new_zeros(2 * kept[-1].shape[3], share.shape[1])
            grads[: len(share)] = share
        else:
            grads = kept.pop() * share
        for pairs in reversed(kept):
            grads = _gradients(pairs, grads)
        return grads.view(-1, grads.shape[-1])


@registered("partners in sums")
@functools.lru_cache(maxsize=32)
def _partners(width: int) -> np.ndarray:
    """(width, sums): for each place and each sum, the place of the other summand.

    Where there is none, the last place, which is always 0.
    """
    places = np.arange(2 * width - 1) - np.arange(width)[:, None]
    places[(places < 0) | (places >= width)] = width - 1
    return places


def _certain(width: int, like: Tensor, first: float, rest: float) -> Tensor:
    """(width, r): a number for the symbol 0, another one for the rest. Never written to."""
    return _known_certain(width, like.shape[-1], first, rest, like.dtype, like.device)


@registered("certain operands of sums")
@functools.lru_cache(maxsize=32)
def _known_certain(
    width: int, rows: int, first: float, rest: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    numbers = np.full((width, rows), rest, np.float64 if dtype == torch.float64 else np.float32)
    numbers[0] = first
    return to_device(numbers, device)


def _sums_of_pairs(pairs: Tensor, shape: tuple[int, ...]) -> Tensor:
    """All products a[i]·b[j], line j moved on by j, and all lines added: (pairs, 2 · width, r)."""
    left, right = pairs.unbind()
    key = (pairs.shape, shape, pairs.dtype, pairs.device)
    kept = type(pairs) is Tensor and not transformed()
    lines, slanted = (_lines.take(key) if kept else None) or _new_lines(pairs, shape)
    torch.mul(left, right.transpose(1, 2), out=slanted)
    sums = lines.sum(0)
    if kept:
        _lines.put(key, (lines, slanted))
    return sums


# Zeros, and the places among them that products are written to, which are always the same. Whoever
# uses them takes them out, so that nobody else does at the same time.
_lines: BoundedCache[Hashable, tuple[Tensor, Tensor]] = BoundedCache(limit=16)
register("lines of sums", _lines.__len__, _lines.clear)


def _new_lines(pairs: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    count, width, rows = pairs.shape[1], *pairs.shape[3:]
    with torch.inference_mode(False):  # ordinary tensors: they will be used again
        lines = pairs.new_zeros(width, *shape)
        slant = (2 * width * rows, lines.stride(0) + rows, rows, 1)
        return lines, lines.as_strided((count, width, width, rows), slant)


def _gradients(pairs: Tensor, grads: Tensor) -> Tensor:
    """The gradient of both halves, from that of their sums: each is the other one's, shifted."""
    count, width, rows = pairs.shape[1], *pairs.shape[3:]
    strides = (2 * width * rows, rows, rows, 1)
    shifted = grads.as_strided((count, width, width, rows), strides)
    return (shifted * pairs).sum(3).flip(0)
