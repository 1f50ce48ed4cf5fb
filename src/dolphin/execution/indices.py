"""Index lists: which tags combine into which, as arrays that follow the device.

A `Contraction` is all that the tag stage knows of a plan, unless it is a `Convolution`, a separate
kind for sums of integers. It says, for operands with tags `t_1 .. t_K` and every group g of
combinations m,

    out[g] = ⊕_{m in g}  t_1[index_1[m]] ⊗ ... ⊗ t_K[index_K[m]]

Groups are known beforehand, so they are padded to rectangles once (`buckets`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.buckets import Bucket, BucketTensors, bucketed, to_device
from dolphin.symbolic.bounded import registered
from dolphin.symbolic.plans import AntiDiagonals, Combinations, RowAddress

T = TypeVar("T")


class Index:
    """Places of an operand's tags, -1 where there is none (the tag **0**).

    `complete`: whether no place is -1, where that is known.
    """

    def __init__(self, places: np.ndarray, complete: bool | None = None) -> None:
        self.places = places
        self.complete = bool(places.min(initial=0) >= 0) if complete is None else complete
        self._tensors: dict[torch.device, tuple[Tensor, Tensor | None]] = {}

    def __len__(self) -> int:
        return len(self.places)

    def is_identity(self, size: int) -> bool:
        return len(self.places) == size and self._in_order

    @functools.cached_property
    def _in_order(self) -> bool:
        return bool((self.places == np.arange(len(self.places))).all())

    def on(self, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """The places (0 instead of -1), and a mask of those that were -1 if there are any."""
        cached = self._tensors.get(device)
        if cached is None:
            if self.complete:
                cached = to_device(self.places, device), None
            else:
                places, missing = np.maximum(self.places, 0), self.places < 0
                cached = to_device(places, device), to_device(missing, device)
            self._tensors[device] = cached
        return cached

    def prepare(self, device: torch.device) -> None:
        """Compute everything that its use on `device` needs: a compiler can't."""
        self.on(device)
        self.is_identity(len(self))


class RowMap:
    """Which row each of some flattened tags belongs to.

    Tags that are the same in all rows have row 0 everywhere: what they combine with decides.
    """

    __slots__ = ("_numbers", "_tensors", "_within")

    def __init__(
        self, numbers: np.ndarray | None, within: tuple[RowMap, np.ndarray | None] | None = None
    ) -> None:
        self._numbers, self._within = numbers, within
        self._tensors: dict[torch.device, Tensor] = {}

    @property
    def numbers(self) -> np.ndarray:
        """The row of each tag."""
        if self._numbers is None:
            assert self._within is not None
            before, places = self._within
            numbers = np.append(before.numbers, 0)
            self._numbers, self._within = numbers if places is None else numbers[places], None
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
        return RowMap(None, (self, places))

    def followed_by_none(self) -> RowMap:
        """The same tags and one more, of no row; computed when it is read as well."""
        return RowMap(None, (self, None))

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


class Contraction:
    """The index lists of one operation; see the module's docstring."""

    def __init__(
        self,
        indices: Sequence[np.ndarray],
        group_of: np.ndarray,
        groups: int,
        sizes: tuple[int, ...] | None = None,
        address: RowAddress | None = None,
    ) -> None:
        self.indices = tuple(indices)
        self.group_of = group_of
        self.groups = groups
        self.sizes = sizes  # of the operands, if every combination of theirs is in a group
        self._address = address  # of the groups, where rows are flattened
        self.multiplies: bool | None = None  # integers, once `regrouping` has checked that
        self._two_by_two: tuple[int, list[list[Contraction]]] | None = None
        self._devices: dict[torch.device, tuple[BucketTensors, ...]] = {}
        self._groups_on: dict[torch.device, Tensor] = {}
        self._derived: dict[Callable[[Contraction], Any], Any] = {}
        self._flat_on: dict[torch.device, tuple[list[Tensor], Tensor, Tensor | None]] = {}

    @property
    def combinations(self) -> int:
        return len(self.group_of)

    def spelled_out(self) -> Contraction:
        """Itself: every algebra supports it."""
        return self

    @functools.cached_property
    def selection(self) -> Index | None:
        """For one operand whose tags are only reordered, dropped or padded: the places."""
        if len(self.indices) != 1 or np.bincount(self.group_of).max(initial=0) > 1:
            return None
        places = np.full(self.groups, -1, dtype=np.int64)
        places[self.group_of] = self.indices[0]
        return Index(places)

    def rows_of_groups(self, operands: Sequence[RowMap | None]) -> RowMap | None:
        """Which row each group belongs to; None if no operand has flattened rows."""
        if operands.count(None) == len(operands):
            return None
        if self._rows is not None:
            return self._rows
        rows = np.zeros(self.groups, dtype=np.int64)
        for operand, index in zip(operands, self.indices, strict=True):
            if operand is not None:
                np.maximum.at(rows, self.group_of, operand.numbers[index])
        return RowMap(rows)

    @functools.cached_property
    def _rows(self) -> RowMap | None:
        if self._address is None:
            return None
        width = max(1, self._address.width)
        return RowMap.of(self.groups // width, width)

    @functools.cached_property
    def _layout(self) -> tuple[tuple[Bucket, ...], Index | None]:
        buckets, position = bucketed(self.indices, *self._sorted)
        return buckets, None if position is None else Index(position)

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of combinations of each group, where they start in `order`, and the order."""
        counts = np.bincount(self.group_of, minlength=self.groups)
        order = np.argsort(self.group_of, kind="stable")
        return counts, np.cumsum(counts) - counts, order

    @functools.cached_property
    def narrowed(self) -> tuple[tuple[Index | None, ...] | None, Contraction]:
        """Which places of each operand take part (None for all), and the remaining contraction.

        Where few tags of many take part, as in a join with a knowledge base, these are selected
        first, so that the rest doesn't depend on the size of the operand.
        """
        parts = [_used(index) for index in self.indices]
        if all(used is None for used, _ in parts):
            return None, self
        rest = Contraction([index for _, index in parts], self.group_of, self.groups)
        return tuple(used for used, _ in parts), rest

    @functools.cached_property
    def distinct(self) -> bool:
        """Whether no combination of two operands occurs twice."""
        left, right = self.indices
        pairs = (left << 32) | right
        return bool((np.diff(pairs) > 0).all()) or len(np.unique(pairs)) == len(pairs)

    @functools.cached_property
    def places(self) -> list[Index]:
        """The place of every combination in each operand."""
        return [Index(index) for index in self.indices]

    def derived(self, make: Callable[[Contraction], T]) -> T:
        """What an algebra makes of these lists, once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return self._derived[make]

    def counts(self, wanted: np.ndarray) -> np.ndarray:
        """The number of combinations of some groups; 0 where there is no group (-1)."""
        return np.where(wanted >= 0, self._sorted[0][wanted], 0)

    def members(self, wanted: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """The combinations of some groups (-1: none): which group's, and where in each operand."""
        _, starts, order = self._sorted
        number = self.counts(wanted)
        whose = np.repeat(np.arange(len(wanted)), number)
        within = np.arange(len(whose)) - np.repeat(np.cumsum(number) - number, number)
        chosen = order[starts[wanted][whose] + within]
        return whose, tuple(index[chosen] for index in self.indices)

    def two_by_two(self, most: int) -> list[list[Contraction]]:
        """The same as contractions of two operands each: (((t_1 ⊗ t_2) ⊗ t_3) ...), then ⊕.

        A list of steps for some groups at a time, so that between two steps there are at most
        `most` combinations (more if a single group has more).
        """
        most = min(most, max(1, self.combinations))
        if self._two_by_two is None or self._two_by_two[0] != most:
            counts, _, order = self._sorted
            ends = np.cumsum(counts)
            pieces, start = [], 0
            while start < self.groups:
                before = ends[start - 1] if start else 0
                stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
                pieces.append(self._steps(order[before : ends[stop - 1]], start, stop))
                start = stop
            self._two_by_two = (most, pieces or [self._steps(order[:0], 0, 0)])
        return self._two_by_two[1]

    def prepare(self, device: torch.device) -> None:
        """Create every tensor on `device` that running this as a whole needs."""
        self.on(device)
        if self.position is not None:
            self.position.prepare(device)
        if len(self.indices) > 2:
            for steps in self.two_by_two(self.combinations):
                for step in steps:
                    step.prepare(device)

    def _steps(self, chosen: np.ndarray, start: int, stop: int) -> list[Contraction]:
        """Steps for the combinations of groups start .. stop."""
        first, *others = (index[chosen] for index in self.indices)
        steps = []
        for index in others[:-1]:
            pairs, first_of = np.unique((first << 32) | index, return_inverse=True)
            places = np.arange(len(pairs))
            steps.append(Contraction([pairs >> 32, pairs & 0xFFFFFFFF], places, len(pairs)))
            first = first_of.reshape(-1)
        last = Contraction([first, others[-1]], self.group_of[chosen] - start, stop - start)
        return [*steps, last]

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return self._layout[0]

    @property
    def position(self) -> Index | None:
        """The place of each group's result among the buckets' results, unless they are in order."""
        return self._layout[1]

    def flat_on(self, device: torch.device) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """Places in each operand, the groups, and the groups without a combination if any."""
        cached = self._flat_on.get(device)
        if cached is None:
            empty = np.ones(self.groups, dtype=bool)
            empty[self.group_of] = False
            cached = self._flat_on[device] = (
                [to_device(index, device) for index in self.indices],
                self.groups_on(device),
                to_device(np.flatnonzero(empty), device) if empty.any() else None,
            )
        return cached

    @functools.cached_property
    def order(self) -> np.ndarray:
        """The groups in the order in which the buckets have them."""
        if self.position is None:
            return np.arange(self.groups)
        places = self.position.places
        return np.argsort(places)[np.count_nonzero(places < 0) :]

    def groups_on(self, device: torch.device) -> Tensor:
        """The group of every combination, created once per device."""
        cached = self._groups_on.get(device)
        if cached is None:
            cached = self._groups_on[device] = to_device(self.group_of, device)
        return cached

    def on(self, device: torch.device) -> tuple[BucketTensors, ...]:
        """The buckets on `device`, created once."""
        cached = self._devices.get(device)
        if cached is None:
            cached = self._devices[device] = tuple(bucket.on(device) for bucket in self.buckets)
        return cached


_MANY = 1024  # places of an operand above which it pays to select the few that are used


def _used(index: np.ndarray) -> tuple[Index | None, np.ndarray]:
    """The places that an index refers to if they are few, and the index among those."""
    if int(index.max(initial=0)) < max(_MANY, 4 * len(index)):
        return None, index
    used, among = np.unique(index, return_inverse=True)
    return Index(used), np.asarray(among).reshape(-1)


class Convolution:
    """The index lists of a sum of integers: combination (i, j) belongs to group i + j.

    An algebra that can convolve needs no lists; they are spelled out for one that can't.
    """

    selection = None

    def __init__(self, sizes: tuple[int, int]) -> None:
        self.sizes = sizes
        self.groups = sum(sizes) - 1

    @property
    def combinations(self) -> int:
        return self.sizes[0] * self.sizes[1]

    def spelled_out(self) -> Contraction:
        return self._lists

    @functools.cached_property
    def _lists(self) -> Contraction:
        indices = [index.reshape(-1) for index in np.indices(self.sizes)]
        group_of = np.add.outer(*map(np.arange, self.sizes)).reshape(-1)
        return Contraction(indices, group_of, self.groups, self.sizes)

    def counts(self, wanted: np.ndarray) -> np.ndarray:
        last = np.minimum(wanted, self.sizes[0] - 1)
        return np.maximum(0, last - self._first(wanted) + 1)

    def _first(self, wanted: np.ndarray) -> np.ndarray:
        return np.maximum(0, wanted - self.sizes[1] + 1)

    def members(self, wanted: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        first, number = self._first(wanted), self.counts(wanted)
        whose = np.repeat(np.arange(len(wanted)), number)
        left = np.arange(len(whose)) - np.repeat(np.cumsum(number) - number - first, number)
        return whose, (left, wanted[whose] - left)


IndexLists = Contraction | Convolution


def lists_of(which: Combinations | AntiDiagonals) -> IndexLists:
    """The index lists of a plan, created once."""
    if which.lists is None:
        if isinstance(which, AntiDiagonals):
            which.lists = Convolution(which.sizes)
        else:
            sizes, address = which.sizes, which.address
            which.lists = Contraction(which.indices, which.group_of, which.groups, sizes, address)
    return which.lists
