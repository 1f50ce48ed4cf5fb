"""Linear recursions as index lists: what every round of a fixpoint does to tags, written down once.

A round of `union(edges, extend(paths, edges))` over n symbols is

    T'[g] = constant[g] ⊕ T[g] ⊕ ⊕_{m in g}  T[sources[m]] ⊗ other[others[m]]

where T[g] itself takes part only if the step keeps its argument. Symbols are numbered as they
appear: after round t those there are the first `sizes[t]`, and the others have no tag yet.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device

_WASTE = 4  # how many times as many places as combinations a rectangle may have


class Limit(NamedTuple):
    """At most this many rounds, after which everything must have settled unless that is enough."""

    rounds: int
    enough: bool


@dataclass(frozen=True, eq=False)
class Recurrence:
    """One round over the symbols that there are in the end; see the module's docstring."""

    sources: np.ndarray
    others: np.ndarray
    group_of: np.ndarray
    constants: np.ndarray  # how many each symbol has
    keeps: bool
    sizes: Sequence[int]  # of the start, and after each round; the last one stays

    @property
    def n(self) -> int:
        return self.sizes[-1]

    def size(self, turn: int) -> int:
        """How many symbols there are after this many rounds."""
        return self.sizes[min(turn, len(self.sizes) - 1)]

    @functools.cached_property
    def into(self) -> Rectangle:
        """By result: where each comes from, and with what."""
        return Rectangle.of(self.group_of, self.sources, self.others, self.n)

    @functools.cached_property
    def out_of(self) -> Rectangle:
        """By source: where each leads, and with what."""
        return Rectangle.of(self.sources, self.group_of, self.others, self.n)

    def with_own(self, fixed: np.ndarray, empty: int) -> tuple[np.ndarray, np.ndarray]:
        """`into` with what else a symbol has, which comes first: a constant (`fixed`), itself.

        Constants are at places n and up, nothing at 2 n; the other factor of both is `empty`.
        """
        own = [np.where(fixed, self.n + np.arange(self.n), 2 * self.n)]
        own += [np.arange(self.n)] if self.keeps else []
        places = np.where(self.into.places == self.n, 2 * self.n, self.into.places)
        others = np.full((len(own), self.n), empty, dtype=np.int64)
        return np.concatenate([own, places]), np.concatenate([others, self.into.others])

    @property
    def regular(self) -> bool:
        """Whether rectangles waste little."""
        deepest = (np.bincount(by).max(initial=0) for by in (self.group_of, self.sources))
        return max(deepest) * self.n <= _WASTE * len(self.group_of) + 4096

    def reached_from(self, changed: np.ndarray) -> np.ndarray:
        """The results that any of these symbols takes part in."""
        marked = np.zeros(self.n + 1, dtype=bool)
        marked[self.out_of.places[:, changed]] = True
        return np.flatnonzero(marked[:-1])


class Rectangle:
    """For each of n symbols the same number of combinations: (depth, n).

    `places` are those of other symbols, n where there is no combination, `others` what they are
    combined with.
    """

    def __init__(self, places: np.ndarray, others: np.ndarray) -> None:
        self.places, self.others = places, others
        self._cut: dict[tuple[torch.device, int, int], tuple[Tensor, Tensor]] = {}

    @classmethod
    def of(cls, by: np.ndarray, places: np.ndarray, others: np.ndarray, n: int) -> Rectangle:
        counts = np.bincount(by, minlength=n)
        order = np.argsort(by, kind="stable")
        within = np.arange(len(by)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (max(1, int(counts.max(initial=0))), n)
        at, what = np.full(shape, n, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        at[within, by[order]] = places[order]
        what[within, by[order]] = others[order]
        return cls(at, what)

    @property
    def depth(self) -> int:
        return len(self.places)

    def first(self, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Places and others of the first symbols, flattened."""
        return self.part(slice(width), device)

    def part(self, where: slice, device: torch.device) -> tuple[Tensor, Tensor]:
        """Places and others of neighbouring symbols, flattened; created once per device."""
        key = device, where.start or 0, where.stop
        cached = self._cut.get(key)
        if cached is None:
            both = (array[:, where].reshape(-1) for array in (self.places, self.others))
            places, others = (to_device(array, device) for array in both)
            cached = self._cut[key] = places, others
        return cached
