"""Chance in user functions: one of several outcomes, at random.

A function may return `weighted({outcome: weight, ...})` instead of a symbol. The symbolic stage
records each such result as a `Chance`: the possible symbols, and where their weights come from,
never what the weights are. `Draws` puts the chances of all combinations of one operation side by
side, one column per combination and outcome: facts of the tag stage.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import numbers
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, SupportsFloat, TypeAlias, TypeVar

import numpy as np

from dolphin.errors import InputError, shorten
from dolphin.symbolic.tables import SymbolTable

S = TypeVar("S", bound=Hashable)

MOST_BELOW_ZERO = 1e-4  # how far below 0 rounding may carry a weight
MOST_ABOVE_ONE = 1e-3  # how far above 1 rounding may carry a sum


class Weighted(Generic[S]):
    """One of several outcomes, at random; made by `weighted`, returned by user functions."""

    __slots__ = ("outcomes", "weights")
    __hash__ = None  # type: ignore[assignment] (so that it can't be used as a symbol)

    def __init__(self, outcomes: tuple[S, ...], weights: tuple[Any, ...]) -> None:
        self.outcomes, self.weights = outcomes, weights

    def __repr__(self) -> str:
        pairs = zip(self.outcomes, self.weights, strict=True)
        shown = ", ".join(f"{shorten(o, 40)}: {shorten(w, 40)}" for o, w in pairs)
        return f"weighted({{{shown}}})"


Outcome: TypeAlias = S | Weighted[S]
"""What a user function returns: a symbol, or one of several at random."""


def weighted(outcomes: Mapping[S, SupportsFloat]) -> Weighted[S]:
    """One of these outcomes, at random: the return value of a user function that is random.

    In `apply`, `apply_if`, `map` and `fixpoint` each combination of symbols has its own choice, a
    new one in every call of the operation: result(y) = ⊕ { d1(x1) ⊗ ... ⊗ w(y) }, where w(y) is
    the weight of y in f(x1, ...). The outcomes of one choice exclude each other. A result that is
    used twice refers to the same choice, and so do the rounds of one `fixpoint`. In a `program`,
    `choose(weighted(...))` is a new choice.

    Args:
        outcomes: a weight for each outcome: a number, or an entry of a tensor (`P[i, j]`), which
            gets a gradient. At least 0, and together at most 1: the rest is "none of them".
            Without any outcome there is no result, as where a condition is false.

    Functions that only index tensors, or add, subtract and scale entries (`1 - p[i]`), run once
    per new combination: every call of the operation reads the current values of the entries.

    >>> import dolphin as dl
    >>> weather = dl.Distribution([0.3, 0.7], ["rain", "sun"])
    >>> def sensor(state):
    ...     return dl.weighted({"wet": 0.9, "dry": 0.1} if state == "rain" else {"dry": 1.0})
    >>> weather.map(sensor).row(0)
    [('wet', 0.27), ('dry', 0.73)]
    """
    if not isinstance(outcomes, Mapping):
        raise InputError(
            f"weighted: expected a dictionary {{outcome: weight, ...}}, got {shorten(outcomes)}."
        )
    weights = tuple(_weight(outcome, weight) for outcome, weight in outcomes.items())
    numbers = [weight for weight in weights if type(weight) is float]
    total = math.fsum(numbers)
    if total > 1.0 + MOST_ABOVE_ONE:
        raise InputError(
            f"weighted: the weights add up to {total:.4g}, but at most one of the outcomes "
            f"happens, so they can't exceed 1: {shorten(outcomes)}. Normalise them first."
        )
    return Weighted(tuple(outcomes), weights)


def _weight(outcome: Any, weight: Any) -> Any:
    """A weight as a number, or as the given entry of a tensor."""
    if hasattr(weight, "data_ptr"):
        if weight.dim() != 0 or not weight.is_floating_point():
            raise InputError(
                f"weighted: the weight of {shorten(outcome)} is a tensor of shape "
                f"{tuple(weight.shape)} and {weight.dtype}; give a single entry of a tensor of "
                "real numbers, e.g. P[i, j]. For numbers that differ from row to row make a "
                "Distribution of them and apply a function to both."
            )
        return weight
    if not isinstance(weight, numbers.Real):
        raise InputError(
            f"weighted: the weight of {shorten(outcome)} must be a number or an entry of a tensor, "
            f"got {type(weight).__name__} {shorten(weight, 40)}."
        )
    number = float(weight)
    if not math.isfinite(number) or not number >= -MOST_BELOW_ZERO:
        raise InputError(
            f"weighted: the weight of {shorten(outcome)} is {number:.4g}; weights are probabilities"
            ", at least 0."
        )
    return max(number, 0.0)


# -- records ---------------------------------------------------------------------------------------


class Term(NamedTuple):
    """An entry of a tensor, times a number."""

    tensor: int  # position among the operation's sources
    offset: int  # of the entry
    factor: float


class Weight(NamedTuple):
    """Where a weight comes from: constant + Σ factor · entry."""

    constant: float
    terms: tuple[Term, ...] = ()


class Chance(NamedTuple):
    """What a function returned for one combination: numbers of symbols, and their weights."""

    outcomes: tuple[int, ...]
    weights: tuple[Weight, ...]


class Watch(Protocol):
    """Observes what a user function does to tensors while it runs."""

    looked: bool
    """Whether the function did more to tensors than read entries since this was last reset."""

    def weight(self, entry: Any) -> Weight | None:
        """Where an entry of a tensor comes from, if that is known."""
        ...


@dataclass(eq=False)
class Sources:
    """The tensors that the weights of one call of an operation come from.

    First those that the function refers to, in the order in which `fingerprint` visits them, then
    loose ones, whose origin is unknown. A function that returns loose ones, or reads the numbers,
    is not remembered.
    """

    watch: Callable[[Sequence[Any]], AbstractContextManager[Watch]]
    tensors: list[Any] = field(default_factory=list)
    remembered: bool = True
    _active: Watch | None = None
    _loose: bool = False  # whether a function gave a loose one since the last note

    def anew(self) -> Sources:
        """Sources without tensors, to compute the key of the functions again."""
        return Sources(self.watch)

    def slot(self, value: Any) -> Hashable | None:
        """For `fingerprint`: a tensor counts by its place and shape, not by its numbers."""
        if not hasattr(type(value), "data_ptr"):
            return None
        for position, tensor in enumerate(self.tensors):
            if tensor is value:
                return ("tensor", position)
        self.tensors.append(value)
        return ("tensor", len(self.tensors) - 1, type(value), tuple(value.shape))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """A block in which user functions run that refer to tensors."""
        if not self.tensors:
            yield
            return
        with self.watch(self.tensors) as watch:
            self._active = watch
            try:
                yield
            finally:
                self._active = None

    def take_note(self) -> bool:
        """Whether calls since the last note may be remembered."""
        pure, self._loose = not self._loose, False
        if self._active is not None:
            pure &= not self._active.looked
            self._active.looked = False
        self.remembered &= pure
        return pure

    def written_down(self, result: Weighted[Any], table: SymbolTable) -> Chance:
        """A user function's result without its numbers."""
        weights = tuple(
            Weight(weight) if type(weight) is float else self._weight(weight)
            for weight in result.weights
        )
        return Chance(tuple(table.number(outcome) for outcome in result.outcomes), weights)

    def _weight(self, entry: Any) -> Weight:
        watch = self._active
        weight = None if watch is None else watch.weight(entry)
        if weight is not None:
            return weight
        self._loose, self.remembered = True, False
        self.tensors.append(entry)
        return Weight(0.0, (Term(len(self.tensors) - 1, 0, 1.0),))


# -- all chances of an operation -------------------------------------------------------------------


@dataclass(frozen=True)
class DrawLabels:
    """Names of draws: `slip(3, 'left') -> 4`."""

    name: str
    arguments: tuple[tuple[Any, ...], ...]  # of each combination
    outcomes: tuple[Any, ...]  # of each column
    combination: tuple[int, ...]  # of each column

    def __call__(self, column: int, row: int) -> str:
        return f"{self.call(self.combination[column])} -> {shorten(self.outcomes[column])}"

    def call(self, combination: int) -> str:
        """The call behind a combination."""
        arguments = ", ".join(shorten(argument, 40) for argument in self.arguments[combination])
        return f"{self.name}({arguments})"


class Draws:
    """The chances of some combinations: a column per combination and outcome.

    `mixed`: other combinations are not random, and need a **1** after the last column.
    """

    def __init__(
        self, chances: Sequence[Chance], labels: DrawLabels, *, mixed: bool = False
    ) -> None:
        self.labels, self.mixed = labels, mixed
        self.chances = tuple(chances)
        ends = np.cumsum([0, *(len(chance.outcomes) for chance in chances)])
        self.groups = tuple(
            tuple(range(start, end)) for start, end in itertools.pairwise(ends.tolist())
        )
        weights = [weight for chance in chances for weight in chance.weights]
        self.constants = np.array([weight.constant for weight in weights], dtype=np.float64)
        terms = [(column, *term) for column, weight in enumerate(weights) for term in weight.terms]
        self.terms = np.array(terms, dtype=np.float64).reshape(-1, 4)
        self.prepared: dict[Any, Any] = {}  # what the tag stage derives from it, once per device

    def __len__(self) -> int:
        return len(self.constants)

    @property
    def from_tensors(self) -> bool:
        """Whether some weight comes from a tensor."""
        return len(self.terms) > 0

    def of(self, combinations: Sequence[int]) -> Draws:
        """Some of the combinations."""
        own = self.labels
        chosen = [column for c in combinations for column in self.groups[c]]
        place = {c: number for number, c in enumerate(combinations)}
        labels = DrawLabels(
            own.name,
            tuple(own.arguments[c] for c in combinations),
            tuple(own.outcomes[column] for column in chosen),
            tuple(place[own.combination[column]] for column in chosen),
        )
        return Draws([self.chances[c] for c in combinations], labels)


class Expanded(NamedTuple):
    """Combinations with each of their outcomes."""

    origin: np.ndarray  # which combination an entry is of
    results: np.ndarray  # numbers of symbols
    column: np.ndarray  # of the draws; their number where a combination is not random
    draws: Draws


def expanded(
    table: SymbolTable, name: str, results: np.ndarray, columns: Sequence[np.ndarray]
) -> Expanded | None:
    """Each combination once per outcome; None where nothing is random.

    `columns` holds the symbols of the combinations. The same combination may occur again: in
    another row it is the chance of that row.
    """
    if not len(results) or results.min() > FIRST_CHANCE:
        return None
    chosen: dict[tuple[int, ...], int] = {}  # the combinations with a chance, numbered
    chances: list[Chance] = []
    which = np.full(len(results), -1, dtype=np.int64)
    for place in np.flatnonzero(results <= FIRST_CHANCE).tolist():
        key = tuple(int(column[place]) for column in columns)
        number = chosen.setdefault(key, len(chosen))
        if number == len(chances):
            chances.append(table.chances[FIRST_CHANCE - int(results[place])])
        which[place] = number
    mixed = bool((which < 0).any())
    draws = Draws(chances, _labels(table, name, list(chosen), chances), mixed=mixed)
    sizes = np.array([*map(len, draws.groups), 1])  # the last one stands for no chance
    starts = np.cumsum(sizes) - sizes
    counts = sizes[which]
    origin = np.repeat(np.arange(len(results)), counts)
    within = np.arange(len(origin)) - np.repeat(np.cumsum(counts) - counts, counts)
    column = starts[which][origin] + within
    outcomes = np.array([n for chance in chances for n in chance.outcomes] + [0], dtype=np.int64)
    return Expanded(
        origin, np.where(column == len(draws), results[origin], outcomes[column]), column, draws
    )


FIRST_CHANCE = -3  # number of a table's first chance, the next is -4: distinct from all symbols


def chance_number(table: SymbolTable, chance: Chance) -> int:
    """A number for a chance that no symbol has."""
    table.chances.append(chance)
    table.remembered += 1
    return FIRST_CHANCE - (len(table.chances) - 1)


def _labels(
    table: SymbolTable, name: str, keys: Sequence[tuple[int, ...]], chances: Sequence[Chance]
) -> DrawLabels:
    symbols = table.symbols
    return DrawLabels(
        name.rpartition("<locals>.")[2],
        tuple(tuple(symbols[n] for n in key) for key in keys),
        tuple(symbols[n] for chance in chances for n in chance.outcomes),
        tuple(c for c, chance in enumerate(chances) for _ in chance.outcomes),
    )
