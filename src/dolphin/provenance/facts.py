"""Facts: the numbers of inputs, and which facts are the same.

A fact is one column of one row of an input. Rows never combine, so identity is always decided
within a row: whether these columns, in this row, are those of that input. Every row of an input
gets a number, its *origin*. It stays with the row through `stack`, indexing, copies and pickles, so
two distributions that were assembled in different ways know what they share.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import UnsupportedError
from dolphin.execution.indices import to_device
from dolphin.provenance.differentiation import followed, transformed, vectorized
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, prob_of_log, safe_log_of_facts
from dolphin.symbolic.bounded import registered
from dolphin.symbolic.locking import lock

Groups = tuple[tuple[int, ...], ...]
Label = Callable[[int, int], Any]
NOWHERE = -1  # the origin of a row in which facts don't take part


@registered("groups of independent facts")
@functools.lru_cache(maxsize=64)
def each_alone(columns: int) -> Groups:
    """The groups of independent facts; one object for each number of them."""
    longer = 1 << max(0, columns - 1).bit_length()  # another number in each step needs no loop
    return each_alone(longer)[:columns] if columns < longer else tuple(zip(range(columns)))


def all_alone(groups: Groups, columns: int) -> bool:
    """Whether no two of this many columns exclude each other."""
    return len(groups) == columns


class _Origins:
    """Assigns numbers that no other input of this or any other process is likely to have."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        self._next = int.from_bytes(os.urandom(8), "little") >> 2

    def for_rows_of(self, facts: Facts) -> np.ndarray:
        with lock:
            if facts._origins is not None:  # another thread was faster
                return facts._origins
            first = self._next
            self._next += facts.rows
            facts._origins = np.arange(first, first + facts.rows, dtype=np.int64)
            return facts._origins


_origins = _Origins()
if hasattr(os, "register_at_fork"):  # a worker must not reuse its parent's numbers
    os.register_at_fork(after_in_child=_origins.start_anew)


def _mode() -> tuple[bool, bool]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled()


class Facts:
    """The facts of an input distribution: the probability of each of its columns in each row.

    `groups` lists the columns that exclude each other; a group of one is an independent fact.
    Facts are distinguished by their origins, never by their numbers. `label(column, row)` names a
    fact in explanations. `normalised` says in which rows they come from a softmax: there one of
    several columns that exclude each other holds for certain, if the row has any.

    Without `log_probs`, the logarithms of `probs` are computed when they are first read: `exact`
    doesn't need them, and on a 4×4 grid they took 20 µs of each step.

    A program may refer to only a few of many facts. These are a part of the `whole`: the groups
    that were `chosen`, in ascending order.
    """

    def __init__(
        self,
        *,
        log_probs: Tensor | None = None,
        groups: Groups,
        label: Label,
        probs: Tensor | None = None,
        given: np.ndarray | None = None,
        normalised: bool | np.ndarray = False,
        sifted: bool = False,
        origins: np.ndarray | None = None,
        whole: Facts | None = None,
        chosen: np.ndarray | None = None,
        family: object = None,
    ) -> None:
        numbers = probs if log_probs is None else log_probs
        assert numbers is not None
        if transformed() and vectorized(numbers):
            raise UnsupportedError(
                "torch.func.vmap: Dolphin's operations are batched already, so a program can't be "
                "vectorized over samples once more. Give the whole batch to it, (batch, symbols): "
                "every row is a sample."
            )
        if log_probs is None and followed():  # later, the transform may be over
            log_probs = safe_log_of_facts(numbers)
        self._log_probs = log_probs
        self._mode = _mode() if log_probs is None else None  # a compiler can't read it
        self.columns, self.rows = numbers.shape
        self.dtype, self.device = numbers.dtype, numbers.device
        self.groups = groups
        self.label = label
        self._probs = probs
        self._given = given  # rows whose probabilities were given; None: all, if there are any
        self.normalised = normalised
        self.sifted = sifted  # some probabilities of 0 may be impossible: logarithms tell which
        self.fresh = origins is None  # then no other facts can have the same origins
        self._origins = origins
        self.whole = whole
        self.chosen = chosen
        self.family = family  # no two facts of one family have an origin in common

    @property
    def origins(self) -> np.ndarray:
        """Which row of which input each row is, (rows,); assigned when first needed."""
        if self._origins is None:
            self._origins = _origins.for_rows_of(self)
        return self._origins

    @property
    def log_probs(self) -> Tensor:
        """The logarithms of the probabilities, (columns, rows)."""
        if self._log_probs is None:
            assert self._probs is not None and self._mode is not None
            if self._mode == _mode():
                self._log_probs = safe_log_of_facts(self._probs)
            else:  # as if they had been computed at once: whoever reads them first doesn't decide
                gradients, inference = self._mode
                with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
                    self._log_probs = safe_log_of_facts(self._probs)
        return self._log_probs

    @property
    def numbers(self) -> Tensor:
        """The probabilities where they were given, otherwise the logarithms."""
        return self.log_probs if self._probs is None else self._probs

    @property
    def probs(self) -> Tensor:
        """The probabilities, (columns, rows)."""
        return prob_of_log(self.log_probs) if self._probs is None else self._probs

    @property
    def log_rows(self) -> bool | np.ndarray:
        """The rows that were given as logarithms, or whether all were."""
        return ~self._given if self._given is not None else self._probs is None

    def as_given(self) -> tuple[Tensor, bool | np.ndarray | Tensor]:
        """The numbers as they were given, (columns, rows), and which of them are logarithms.

        Those of all rows, of some, or (a mask of columns and rows) some of each. Next to 0 and 1 it
        makes a difference for derivatives.
        """
        if self._probs is None:
            return self.log_probs, True
        if self._given is None and not self.sifted:
            return self._probs, False
        device = self._probs.device
        rows = to_device(np.broadcast_to(self.log_rows, (self.rows,)).copy(), device)
        if not self.sifted:
            return torch.where(rows, self.log_probs, self._probs), self.log_rows
        mask = (self.log_probs.detach() <= IMPOSSIBLE) | rows
        return torch.where(mask, self.log_probs, self._probs), mask

    def at_rows(self, at: np.ndarray) -> dict[str, Any]:
        """The numbers of the facts at these rows, in this order; nothing holds at row -1."""
        return numbers_at([self], np.where(at < 0, self.rows, at))

    def split(self, sizes: Sequence[int]) -> list[Facts]:
        """New facts as several inputs of this many rows; labels must not depend on the row."""
        logs = self.log_probs.split(list(sizes), dim=1)
        probs = [None] * len(logs) if self._probs is None else self._probs.split(list(sizes), dim=1)
        return [
            Facts(
                log_probs=log.contiguous(),
                groups=self.groups,
                label=self.label,
                probs=None if prob is None else prob.contiguous(),
                normalised=self.normalised,
                sifted=self.sifted,
            )
            for log, prob in zip(logs, probs, strict=True)
        ]

    def part(self, chosen: np.ndarray) -> Facts:
        """The facts of some groups, which are in ascending order."""
        alone = all_alone(self.groups, self.columns)
        kept = [self.groups[group] for group in chosen.tolist()]
        columns = np.array([column for group in kept for column in group], dtype=np.int64)
        starts = np.cumsum([0, *map(len, kept)]).tolist()
        groups = (
            each_alone(len(kept))
            if alone
            else tuple(tuple(range(a, b)) for a, b in itertools.pairwise(starts))
        )
        places = to_device(columns, self.device)
        with torch.enable_grad():  # the search for proofs runs without, but facts need them
            logs = self.log_probs.index_select(0, places)
            probs = None if self._probs is None else self._probs.index_select(0, places)
        label = _PartLabels(self.label, columns)
        return Facts(
            log_probs=logs,
            groups=groups,
            label=label,
            probs=probs,
            given=self._given,
            normalised=self.normalised,
            sifted=self.sifted,
            origins=self.origins,
            whole=self,
            chosen=chosen,
        )

    def key(self, column: int, row: int) -> tuple[int, int]:
        """Which fact this is, among those of all inputs: its origin, and its column there."""
        if self.whole is not None and self.chosen is not None:
            kept = [c for group in self.chosen.tolist() for c in self.whole.groups[group]]
            column = kept[column]
        return int(self.origins[0 if self.rows == 1 else row]), column

    def moved(self, move: Callable[[Tensor], Tensor]) -> Facts:
        """The same facts, with other tensors: on another device, or detached."""
        if self.whole is not None and self.chosen is not None:
            return self.whole.moved(move).part(self.chosen)
        return Facts(
            log_probs=move(self.log_probs),
            groups=self.groups,
            label=self.label,
            probs=None if self._probs is None else move(self._probs),
            given=self._given,
            normalised=self.normalised,
            sifted=self.sifted,
            origins=self.origins,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "fresh": False, "_origins": self.origins, "family": None}


@dataclass(frozen=True)
class _PartLabels:
    """Names of the facts of a part."""

    label: Label
    columns: np.ndarray

    def __call__(self, column: int, row: int) -> Any:
        return self.label(int(self.columns[column]), row)


def alike(one: Facts, other: Facts) -> bool:
    """Whether columns of both mean the same, if they have the same origin."""
    if one.chosen is None or other.chosen is None:
        return one.chosen is other.chosen and one.groups == other.groups
    return one.groups == other.groups and np.array_equal(one.chosen, other.chosen)


@dataclass(frozen=True)
class View:
    """Facts as part of a batch: row i of the batch is row rows[i] of the facts, or none (-1)."""

    facts: Facts
    rows: np.ndarray

    @classmethod
    def whole(cls, facts: Facts, batch: int) -> View:
        """Facts that take part in all rows of a batch."""
        return cls(facts, np.arange(batch) if facts.rows > 1 else np.zeros(batch, dtype=np.int64))

    @property
    def origins(self) -> np.ndarray:
        return np.where(self.rows < 0, NOWHERE, self.facts.origins[self.rows])

    @property
    def constant(self) -> bool:
        """Whether all rows refer to the same facts."""
        origins = self.origins
        return bool((origins == origins[0]).all()) and origins[0] != NOWHERE

    def taken(self, rows: np.ndarray) -> View:
        """Some rows of this view, in that order; -1 for a row in which it doesn't take part."""
        return View(self.facts, np.where(rows < 0, -1, self.rows[rows]))


def numbers_at(parts: Sequence[Facts], at: np.ndarray) -> dict[str, Any]:
    """Numbers of facts at some rows of all parts side by side; the row after the last has none."""
    logs = _rows_of([facts.log_probs for facts in parts], at, ZERO)
    flags = np.concatenate([np.broadcast_to(facts.normalised, facts.rows) for facts in parts])
    flags_at = np.append(flags, flags[0])[at]  # where there is none, both mean the same
    normalised = bool(flags_at[0]) if (flags_at == flags_at[0]).all() else flags_at
    if all(facts._probs is None for facts in parts):
        return {"log_probs": logs, "normalised": normalised}
    probs = _rows_of([facts.probs for facts in parts], at, 0.0)
    logs_at = [np.broadcast_to(facts.log_rows, facts.rows) for facts in parts]
    given_at = ~np.concatenate([*logs_at, [False]])[at]
    given = None if given_at.all() else given_at
    made = {"log_probs": logs, "probs": probs, "given": given, "normalised": normalised}
    return {**made, "sifted": any(facts.sifted for facts in parts)}


def _rows_of(parts: Sequence[Tensor], at: np.ndarray, fill: float) -> Tensor:
    """Rows of all parts side by side, and one more with nothing but `fill`, at these places."""
    with torch.enable_grad():  # the search for proofs runs without, but facts need them
        every = torch.cat([*parts, parts[0].new_full((len(parts[0]), 1), fill)], dim=1)
        return every.index_select(1, to_device(at, every.device))


@dataclass(frozen=True)
class RowLabels:
    """Names of facts that were assembled row by row."""

    labels: tuple[Label, ...]
    whose: np.ndarray
    rows: np.ndarray

    def __call__(self, column: int, row: int) -> Any:
        row = 0 if len(self.rows) == 1 else row
        return self.labels[self.whose[row]](column, int(self.rows[row]))


def row_labels(label: Label, rows: np.ndarray) -> Label:
    """Names of facts of which some rows were taken, in this order."""
    return RowLabels((label,), np.zeros_like(rows), rows)


def all_apart(facts: Sequence[Facts]) -> bool:
    """Whether no two of these, unless they are one object, can have a fact in common."""
    if False not in [each.fresh for each in facts]:
        return True
    if facts[0].family is not None and all(each.family is facts[0].family for each in facts):
        return True
    origins = [np.unique(each.origins) for each in {id(each): each for each in facts}.values()]
    every = np.concatenate(origins)
    every = every[every != NOWHERE]
    return len(np.unique(every)) == len(every)
