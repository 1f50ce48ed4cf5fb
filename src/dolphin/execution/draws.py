"""The facts behind chances: the weights of an operation's draws, and which draws are the same.

Every call of an operation is a new draw, with new facts. Only the rounds of a fixpoint repeat the
same draws: `Rounds` remembers them by the place in the step where they were made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, UnsupportedError
from dolphin.execution.indices import Index, to_device
from dolphin.execution.tracing import Notes
from dolphin.provenance.contract import Provenance, Tags
from dolphin.provenance.differentiation import array_of, reading_is_free
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import safe_log_of_facts
from dolphin.provenance.tensors import TensorProvenance
from dolphin.symbolic.chance import MOST_ABOVE_ONE, MOST_BELOW_ZERO, Draws


def tags_of(
    draws: Draws,
    tensors: Sequence[Tensor],
    operands: Sequence[Tags],
    provenance: Provenance,
    batch: int,
    site: Hashable,
    *,
    flat: bool,
    constant: bool,
) -> list[Tags]:
    """The operands' tags and those of the draws, all as precise as the most precise of them.

    `site` distinguishes the places in the step of a fixpoint where draws are made. `flat`: the
    operands are in per-row layout. `constant`: they depend on no input, so their precision is
    undecided.
    """
    if isinstance(provenance, Notes):
        raise UnsupportedError(
            "trace: the program has chances (dolphin.weighted), whose facts a traced program "
            "doesn't have. Pass them to it as an input, or call the program itself."
        )
    seen = _witness.get()
    if seen is not None:
        seen.append(site)
    device, dtype = _where(draws, tensors, [] if constant else operands, provenance)

    def move(numbers: Tensor) -> Tensor:
        return numbers.to(device, dtype) if numbers.is_floating_point() else numbers

    moved = [
        tags if provenance.describe(tags).dtype == dtype else provenance.moved(tags, move)
        for tags in operands
    ]
    apart = own_facts(provenance, batch)
    rows = batch if apart else 1

    def made(some: Draws) -> Tags:
        return provenance.from_facts(_facts(some, _weights(some, tensors, device, dtype), rows))

    rounds = _rounds.get()
    tags = made(draws) if rounds is None else rounds.tags(draws, site, made, provenance)
    if draws.mixed:
        tags = provenance.concat([tags, provenance.one(1, tags)])
    return [*moved, provenance.flatten(tags, batch) if flat and apart else tags]


def own_facts(provenance: Provenance, batch: int) -> bool:
    """Whether the draws of each row are separate facts.

    Numbers are the same in all rows. Facts aren't: rows can be separated, and combined again.
    """
    return batch > 1 and not isinstance(provenance, TensorProvenance)


def _where(
    draws: Draws, tensors: Sequence[Tensor], operands: Sequence[Tags], provenance: Provenance
) -> tuple[torch.device, torch.dtype]:
    """The device and the precision of the result."""
    used = [tensors[t] for t in np.unique(draws.terms[:, 1]).astype(int).tolist()]
    described = [provenance.describe(tags) for tags in operands]
    dtypes = [info.dtype for info in described] + [t.dtype for t in used]
    if not dtypes:  # undecided: the most precise, until there are inputs or the result is read
        return torch.device("cpu"), torch.float64
    widest = torch.float64 if torch.float64 in dtypes else torch.float32
    return (described[0].device if described else used[0].device), widest


def _facts(draws: Draws, weights: Tensor, rows: int) -> Facts:
    logs = safe_log_of_facts(weights)
    return Facts(
        log_probs=logs[:, None].expand(-1, rows),
        groups=draws.groups,
        label=draws.labels,
        probs=weights[:, None].expand(-1, rows),
    )


# -- weights ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entries:
    """Where weights come from, as tensors on one device."""

    sources: tuple[int, ...]  # the tensors that are used
    offsets: Tensor  # of the entries among all of theirs
    factors: Tensor | None  # None: all are 1
    columns: Tensor | None  # None: each weight is such an entry, in order


def _weights(
    draws: Draws, tensors: Sequence[Tensor], device: torch.device, dtype: torch.dtype
) -> Tensor:
    """The current weight of every column."""
    prepared = draws.prepared.get((device, dtype))
    if prepared is None:
        constants = to_device(draws.constants, device).to(dtype)
        prepared = constants, _entries(draws, tensors, device, dtype)
        draws.prepared[(device, dtype)] = prepared
    constants, entries = prepared
    if not entries.sources:
        return constants
    if device.type != "meta" and any(tensors[source].is_meta for source in entries.sources):
        raise InputError("weighted: a weight is on the meta device, which has no numbers.")
    flat = [tensors[source].reshape(-1).to(device, dtype) for source in entries.sources]
    every = flat[0] if len(flat) == 1 else torch.cat(flat)
    weights = every.index_select(0, entries.offsets)
    if entries.factors is not None:
        weights = weights * entries.factors
    if entries.columns is not None:
        weights = constants.index_add(0, entries.columns, weights)
    _check(draws, weights)
    return weights


def _entries(
    draws: Draws, tensors: Sequence[Tensor], device: torch.device, dtype: torch.dtype
) -> _Entries:
    columns, which, offsets = draws.terms[:, :3].astype(np.int64).T
    sources, place = np.unique(which, return_inverse=True)
    sizes = np.array([tensors[source].numel() for source in sources], dtype=np.int64)
    at = (np.cumsum(sizes) - sizes)[place] + offsets
    factors = draws.terms[:, 3]
    alone = np.array_equal(columns, np.arange(len(draws))) and not draws.constants.any()
    return _Entries(
        tuple(sources.tolist()),
        to_device(at, device),
        None if (factors == 1.0).all() else to_device(factors, device).to(dtype),
        None if alone else to_device(columns, device),
    )


def _check(draws: Draws, weights: Tensor) -> None:
    """Refuse invalid weights, where reading them costs no synchronisation."""
    if not reading_is_free(weights) or not len(draws):
        return
    values = array_of(weights).astype(np.float64)
    combination = np.array(draws.labels.combination)
    totals = np.bincount(combination, values, len(draws.groups))
    if values.min() >= -MOST_BELOW_ZERO and totals.max() <= 1.0 + MOST_ABOVE_ONE:
        return
    wrong = ~(values >= -MOST_BELOW_ZERO)
    if wrong.any():
        column = int(wrong.argmax())
        raise InputError(
            f"weighted: the weight of {draws.labels(column, 0)} is {values[column]:.4g}; weights "
            "are probabilities, at least 0. Apply softmax or sigmoid to the parameters first."
        )
    worst = int((~(totals <= 1.0 + MOST_ABOVE_ONE)).argmax())
    raise InputError(
        f"weighted: the weights of {draws.labels.call(worst)} add up to {totals[worst]:.4g}, but "
        "at most one of the outcomes happens, so they can't exceed 1. Normalise them first, e.g. "
        "with softmax."
    )


# -- the rounds of a fixpoint ----------------------------------------------------------------------


@dataclass
class _Site:
    """All draws of one place in the step of a fixpoint, in all rounds so far."""

    parts: list[Tags] = field(default_factory=list)
    columns: int = 0
    start: dict[tuple[Any, ...], int] = field(default_factory=dict)  # of a combination's columns


class Rounds:
    """The draws of a fixpoint: each round repeats those of the rounds before."""

    def __init__(self) -> None:
        self._sites: dict[Hashable, Any] = {}
        self._met: dict[Hashable, int] = {}

    def start_round(self) -> None:
        """Start numbering the places of draws again."""
        self._met.clear()

    def nested(self) -> Rounds:
        """The draws of a fixpoint inside the step."""
        return self._site("fixpoint", Rounds)

    def _site(self, kind: Hashable, make: Callable[[], Any]) -> Any:
        number = self._met[kind] = self._met.get(kind, 0) + 1
        if (kind, number) not in self._sites:
            self._sites[(kind, number)] = make()
        return self._sites[(kind, number)]

    def tags(
        self, draws: Draws, site: Hashable, make: Callable[[Draws], Tags], provenance: Provenance
    ) -> Tags:
        """The tags of draws; combinations of earlier rounds keep theirs."""
        earlier: _Site = self._site(site, _Site)
        arguments = draws.labels.arguments
        new = [c for c, combination in enumerate(arguments) if combination not in earlier.start]
        if new:
            some = draws.of(new)
            earlier.parts.append(make(some))
            for c, group in zip(new, some.groups, strict=True):
                earlier.start[arguments[c]] = earlier.columns + group[0]
            earlier.columns += len(some)
        places = [
            earlier.start[combination] + within
            for combination, group in zip(arguments, draws.groups, strict=True)
            for within in range(len(group))
        ]
        joined = earlier.parts[0] if len(earlier.parts) == 1 else provenance.concat(earlier.parts)
        return provenance.select(joined, Index(np.array(places, dtype=np.int64)))


_witness: ContextVar[list[Hashable] | None] = ContextVar("dolphin_drawn", default=None)


@contextlib.contextmanager
def witness() -> Iterator[list[Hashable]]:
    """A list that is not empty if something is drawn in the block."""
    outer = _witness.get()
    seen: list[Hashable] = []
    token = _witness.set(seen)
    try:
        yield seen
    finally:
        _witness.reset(token)
        if outer is not None:
            outer += seen


_rounds: ContextVar[Rounds | None] = ContextVar("dolphin_rounds", default=None)


def repeats_draws() -> bool:
    """Whether this is the step of a fixpoint, whose rounds repeat the same draws."""
    return _rounds.get() is not None


@contextlib.contextmanager
def rounds() -> Iterator[Rounds]:
    """A block for the rounds of a fixpoint."""
    outer = _rounds.get()
    own = Rounds() if outer is None else outer.nested()
    token = _rounds.set(own)
    try:
        yield own
    finally:
        _rounds.reset(token)
