"""Linear recursions as index lists: what every round of a fixpoint does to tags, written down once.

A round of `union(edges, extend(paths, edges))` over n symbols is

    T'[g] = constant[g] ⊕ T[g] ⊕ ⊕_{m in g}  T[sources[m]] ⊗ other[others[m]]

where T[g] itself takes part only if the step keeps its argument. Symbols are numbered as they
appear: after round t there are the first `sizes[t]`, and the others have no tag yet.

The symbols may fall into parts that no combination connects and that have the same combinations,
with the same others: a view of one graph for each origin, colour or digit that paths carry along.
One table of combinations serves all such *copies*.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device

_WASTE = 4  # how many times as many places as combinations a rectangle may have
_LARGE = 2048  # combinations of a copy; smaller ones cost less as parts of a whole


class Extension(NamedTuple):
    """Some symbols, and combinations that lead to them: (depth, symbols) as in a `Rectangle`."""

    symbols: np.ndarray
    places: np.ndarray
    others: np.ndarray


class Turn(NamedTuple):
    """What one round makes of the symbols that appeared in the round before."""

    back: Extension  # to symbols that were there already
    ahead: Extension  # to symbols that appear now
    reached: np.ndarray  # the symbols of both


class Limit(NamedTuple):
    """At most this many rounds; by then everything must have settled, unless `enough`."""

    rounds: int
    enough: bool


class Loop(NamedTuple):
    """All rounds of a recursion, as a plan for three operands: start, constants, other factors."""

    form: Recurrence
    limit: Limit


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

    @functools.cached_property
    def turns(self) -> Sequence[Turn]:
        """Each round, and one more, for the symbols that appeared in it alone."""
        return [self._turn(*ends) for ends in itertools.pairwise((0, *self.sizes))]

    def _turn(self, before: int, now: int) -> Turn:
        fresh = (before <= self.sources) & (self.sources < now)
        there = self.group_of < now
        back, ahead = self._extension(fresh & there), self._extension(fresh & ~there)
        return Turn(back, ahead, np.concatenate([back.symbols, ahead.symbols]))

    def _extension(self, which: np.ndarray) -> Extension:
        symbols, by = np.unique(self.group_of[which], return_inverse=True)
        sources, others = self.sources[which], self.others[which]
        into = Rectangle.of(by, sources, others, len(symbols), self.n)
        return Extension(symbols, into.places, into.others)

    @functools.cached_property
    def copies(self) -> Copies:
        """Its copies; a single one if its parts are small, or not all equal."""
        symbols = _aligned(self)
        return Copies(np.arange(self.n)[None] if symbols is None else symbols, self)

    def with_own(self, fixed: np.ndarray, empty: int) -> tuple[np.ndarray, np.ndarray]:
        """`into`, after what else a symbol takes: its constant (`fixed`), and itself if it is kept.

        Constants are at places n and up, nothing at 2 n; the other factor of both is `empty`.
        """
        own = [np.where(fixed, self.n + np.arange(self.n), 2 * self.n)]
        own += [np.arange(self.n)] if self.keeps else []
        places = np.where(self.into.places == self.n, 2 * self.n, self.into.places)
        others = np.full((len(own), self.n), empty, dtype=np.int64)
        return np.concatenate([own, places]), np.concatenate([others, self.into.others])

    @functools.cached_property
    def part_of(self) -> np.ndarray:
        """For each symbol the least one that combinations connect it with."""
        return _parts(self)

    @functools.cached_property
    def passes_once(self) -> bool:
        """Whether a path that uses a factor again has already been where that factor leads.

        That is so if, within every part, each factor leads to one symbol only.
        """
        part = self.part_of[self.sources]
        first = {}
        pairs = zip(part.tolist(), self.others.tolist(), self.group_of.tolist(), strict=True)
        return all(first.setdefault((p, other), group) == group for p, other, group in pairs)

    @functools.cached_property
    def starts_with_factors(self) -> bool:
        """Whether that also holds if the start consists of the factors, in their order."""
        start = np.minimum(self.others, self.n - 1)
        same_part = self.part_of[self.sources] == self.part_of[start]
        return bool((self.others == self.group_of)[same_part].all())

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
    def of(
        cls,
        by: np.ndarray,
        places: np.ndarray,
        others: np.ndarray,
        n: int,
        nothing: int | None = None,
    ) -> Rectangle:
        """From combinations one by one. `nothing`: the place where there is none, n by default."""
        counts = np.bincount(by, minlength=n)
        order = np.argsort(by, kind="stable")
        within = np.arange(len(by)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (max(1, int(counts.max(initial=0))), n)
        at = np.full(shape, n if nothing is None else nothing, dtype=np.int64)
        what = np.zeros(shape, dtype=np.int64)
        at[within, by[order]] = places[order]
        what[within, by[order]] = others[order]
        return cls(at, what)

    @property
    def depth(self) -> int:
        return len(self.places)

    @functools.cached_property
    def by_symbol(self) -> tuple[np.ndarray, np.ndarray]:
        """Places and others as (n, depth)."""
        return np.ascontiguousarray(self.places.T), np.ascontiguousarray(self.others.T)

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


class Ways(NamedTuple):
    """What a copy combines, ordered by where it comes from: all three as long as there are ways."""

    sources: np.ndarray
    leads: np.ndarray
    others: np.ndarray


class Copies:
    """A recursion as `count` copies of one with n symbols.

    PathFinder on 18×18 blocks follows 9 views of its graph: their factors take a ninth of the
    memory, and a forward pass 42 ms of CPU time instead of 60.

    Values are stored by *slots*, copy by copy: n for its symbols, and one that stands for nothing.
    `into` has the combinations of each copy, with places among its slots.
    """

    def __init__(self, symbols: np.ndarray, form: Recurrence) -> None:
        self.count, self.n = symbols.shape
        self.slots = self.count * (self.n + 1)
        self._symbol_of = np.pad(symbols, ((0, 0), (0, 1)), constant_values=form.n).reshape(-1)
        self._slot_of = np.empty(form.n + 1, dtype=np.int64)
        self._slot_of[self._symbol_of] = np.arange(len(self._symbol_of))
        self._form = form
        self.into = form.into if self.count == 1 else self._first(form)
        self._on: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def _first(self, form: Recurrence) -> Rectangle:
        sources, results, others = self._combinations(form)
        return Rectangle.of(results, sources, others, self.n)

    @functools.cached_property
    def out_of(self) -> Rectangle:
        """Where each slot of a copy leads, and with what."""
        if self.count == 1:
            return self._form.out_of
        sources, results, others = self._combinations(self._form)
        return Rectangle.of(sources, results, others, self.n)

    @functools.cached_property
    def ways(self) -> Ways:
        """The combinations of the first copy, by slot."""
        sources, results, others = self._combinations(self._form)
        order = np.argsort(sources, kind="stable")
        return Ways(sources[order], results[order], others[order])

    def _combinations(self, form: Recurrence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of the first copy, by slot: sources, results, others."""
        here = self._slot_of[form.sources] < self.n
        sources, results = (self._slot_of[each[here]] for each in (form.sources, form.group_of))
        return sources, results, form.others[here]

    def slots_of(self, symbols: np.ndarray) -> np.ndarray:
        """The slots of some symbols."""
        return self._slot_of[symbols]

    def symbols_at(self, slots: np.ndarray) -> np.ndarray:
        """The symbols of some slots."""
        return self._symbol_of[slots]

    def arranged(self, values: Tensor) -> Tensor:
        """Values by slot, from those of all symbols followed by that of nothing."""
        if self.count == 1:
            return values
        return values.index_select(0, self._indices(values.device)[0])

    def by_symbol(self, values: Tensor) -> Tensor:
        """Values by symbol, without that of nothing."""
        if self.count == 1:
            return values[: self.n]
        return values.index_select(0, self._indices(values.device)[1])

    def _indices(self, device: torch.device) -> tuple[Tensor, Tensor]:
        cached = self._on.get(device)
        if cached is None:
            symbols, slots = (
                to_device(self._symbol_of, device),
                to_device(self._slot_of[:-1], device),
            )
            cached = self._on[device] = symbols, slots
        return cached


def _aligned(form: Recurrence) -> np.ndarray | None:
    """(copies, symbols of each), equal ones in one column; None if there is one copy only."""
    combinations = len(form.sources)
    if combinations < 2 * _LARGE:
        return None
    names, part_of = np.unique(form.part_of, return_inverse=True)
    count = len(names)
    if count < 2 or combinations < count * _LARGE or combinations % count:
        return None
    order = np.lexsort((form.others, part_of[form.sources]))
    sources, results, others = (
        each[order].reshape(count, -1) for each in (form.sources, form.group_of, form.others)
    )
    both = np.concatenate([sources, results], axis=1)
    _, first, column = np.unique(both[0], return_index=True, return_inverse=True)
    symbols = both[:, first]
    same = (others == others[0]).all() and np.array_equal(symbols[:, column], both)
    return (
        symbols if same and np.array_equal(np.sort(symbols, axis=None), np.arange(form.n)) else None
    )


def _parts(form: Recurrence) -> np.ndarray:
    """For each symbol the least one that combinations connect it with."""
    least, before = np.arange(form.n), None
    while before is None or not np.array_equal(least, before):
        before = least.copy()
        lower = np.minimum(least[form.sources], least[form.group_of])
        for ends in (form.sources, form.group_of):
            np.minimum.at(least, least[ends], lower)
        least = least[least]
    return least
