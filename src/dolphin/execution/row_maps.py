"""Arrays on a device, and which row each of some flattened tags belongs to."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.symbolic.bounded import registered


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """An ordinary tensor, even if the caller is in inference mode: it will be used again."""
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):
            return to_device(array, device)
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


class RowMap:
    """Which row each of some flattened tags belongs to.

    Tags that are the same in all rows have row 0 everywhere: what they combine with decides.
    """

    __slots__ = ("_numbers", "_tensors", "_within")

    def __init__(self, numbers: np.ndarray) -> None:
        self._numbers: np.ndarray | None = numbers
        self._within: tuple[RowMap, np.ndarray] | None = None
        self._tensors: dict[torch.device, Tensor] = {}

    @property
    def numbers(self) -> np.ndarray:
        """The row of each tag."""
        if self._numbers is None:
            assert self._within is not None
            before, places = self._within
            self._numbers, self._within = np.append(before.numbers, 0)[places], None
        return self._numbers

    def __reduce__(self) -> Any:
        return RowMap, (self.numbers,)

    @staticmethod
    def of(rows: int, width: int) -> RowMap:
        """Rows of `width` tags each, one row after the other."""
        return _row_map(rows, width) if rows * width <= _SMALL else _new_row_map(rows, width)

    def taken(self, places: np.ndarray) -> RowMap:
        """The rows of the tags at these places; row 0 where there is none (-1).

        Computed when it is read: most samples are only combined with others.
        """
        taken = RowMap(places)
        taken._numbers, taken._within = None, (self, places)
        return taken

    @staticmethod
    def joined(parts: Sequence[tuple[RowMap | None, int]]) -> RowMap | None:
        """The rows of the tags of all parts, with their sizes; None if rows are not flattened."""
        if all(part is None for part, _ in parts):
            return None
        none = np.zeros(max(size for _, size in parts), dtype=np.int64)
        return RowMap(
            np.concatenate([none[:size] if part is None else part.numbers for part, size in parts])
        )

    def on(self, device: torch.device) -> Tensor:
        """The rows as a tensor, created once per device."""
        cached = self._tensors.get(device)
        if cached is None:
            cached = self._tensors[device] = to_device(self.numbers, device)
        return cached


_SMALL = 1 << 14  # tags of a row map that is kept


def _new_row_map(rows: int, width: int) -> RowMap:
    return RowMap(np.repeat(np.arange(rows), width))


_row_map = registered("rows of tags")(functools.lru_cache(maxsize=32)(_new_row_map))
