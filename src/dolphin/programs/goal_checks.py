"""Whether a goal keeps what it needs: tried on some symbols, once for each program.

A goal is right if wanted symbols are derived from wanted symbols only. Whether that is so can't be
read off a step, which is any Python; but a step that breaks the rule shows it at once: with symbols
that are not wanted beside those that are, it derives more that is wanted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch

from dolphin.distribution import Distribution
from dolphin.errors import DolphinError, InputError, shorten
from dolphin.execution.batching.pending import Pending
from dolphin.execution.eager import eager
from dolphin.execution.recursion.recollection import slots
from dolphin.execution.tagged import tagged_of
from dolphin.operations import filter as filter_symbols
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.identity.functions import fingerprint

S = TypeVar("S")
Step = Callable[[Distribution[Any]], Distribution[Any]]

_SYMBOLS = 4096
"""How many symbols are tried with a predicate, which may want very few of those derived."""
_SYMBOLS_WITH_KEYS = 64
"""How many are tried with keys, which can be chosen among those derived."""
_COMPARED = 16
"""How many symbols have their probabilities compared."""
_BITS = 3
"""How many bits of the numbers of keys tell wanted keys from others, one bit after the other."""

_tried: BoundedCache[Hashable, bool] = BoundedCache(1024)
register("goals", _tried.__len__, _tried.clear)


class Missed(NamedTuple):
    """A symbol that is wanted, and one that is not and from which it is derived."""

    wanted: Any
    source: Any


@eager
def check_predicate(step: Step, start: Distribution[S], wanted: Callable[[S], bool]) -> None:
    """Refuse a predicate that leaves out what the symbols that it wants are derived from."""
    _once(step, start, wanted, lambda: _missed(step, start, wanted, _SYMBOLS))


@eager
def check_keys(step: Step, start: Distribution[S], key: Callable[[S], Any]) -> None:
    """The same for keys: what has a key must be derived from what has that key.

    Whatever keys are asked for: a sample of a large base may derive none of those.
    """

    def missed() -> Missed | None:
        tried = _among(start, _spread(start.symbols, _SYMBOLS_WITH_KEYS))
        number: dict[Any, int] = {}
        for symbol in step(tried).symbols:
            number.setdefault(key(symbol), len(number))

        def with_bit(bit: int, value: int) -> Missed | None:
            return _missed(step, tried, lambda s: (number.get(key(s), 0) >> bit & 1) == value)

        bits = range(min(_BITS, len(number).bit_length()))
        tries = (with_bit(bit, value) for bit, value in itertools.product(bits, (0, 1)))
        return next((each for each in tries if each is not None), None)

    _once(step, start, key, missed)


def _once(
    step: Step, start: Distribution[Any], goal: Any, missed: Callable[[], Missed | None]
) -> None:
    """Try each program once.

    It is identified by its shared symbols, and by all that step and goal read but distributions.
    """
    slot, own = slots([]), tagged_of(start)
    functions = tuple(
        fingerprint(function, "fixpoint", slot) or getattr(function, "__code__", type(function))
        for function in (step, goal)
    )
    program = (functions, own.domain if own.shared else None)
    if _tried.get(program) is not None:
        return
    try:
        with torch.no_grad():
            miss = missed()
    except DolphinError:  # a function that fails on what is not wanted, or too many combinations
        miss = None
    if miss is not None:
        raise InputError(
            f"fixpoint: goal= leaves out what it needs: step derives {shorten(miss.wanted)} with "
            f"the help of {shorten(miss.source)}; the goal wants the first but drops the second. "
            "What a wanted symbol is derived from must be wanted, too: change the step (paths to a "
            "vertex must grow at the front), or leave goal= out and filter the result."
        )
    _tried.put(program, True)


def _missed(
    step: Step, start: Distribution[S], wanted: Callable[[S], bool], most: int | None = None
) -> Missed | None:
    """What is wanted and needs something that is not, among `most` symbols of `start`."""
    symbols = start.symbols
    most = len(symbols) if most is None else most
    kept = _spread([symbol for symbol in symbols if wanted(symbol)], most)
    left = _nearest([symbol for symbol in symbols if not wanted(symbol)], kept, most)
    if not left:
        return None
    alone = step(_among(start, kept))

    def derived(more: Sequence[S]) -> list[Any]:
        return _more(alone, step(_among(start, [*kept, *more])), wanted)

    examples = derived(left)
    while examples and len(left) > 1:  # narrow down what it needs
        halves = left[: len(left) // 2], left[len(left) // 2 :]
        left = next((half for half in halves if derived(half)), left[:1])
    if not examples:
        return None
    return Missed(next(iter(derived(left)), examples[0]), left[0])


def _among(d: Distribution[S], symbols: Sequence[S]) -> Distribution[S]:
    return filter_symbols(d, frozenset(symbols).__contains__, cache=False)


def _more(
    alone: Distribution[Any], together: Distribution[Any], wanted: Callable[[Any], bool]
) -> list[Any]:
    """The wanted symbols that are new in `together`, or that have other probabilities there."""
    before = set(alone.symbols)
    asked = [symbol for symbol in together.symbols if wanted(symbol)]
    new = [symbol for symbol in asked if symbol not in before]
    if new or not asked or isinstance(tagged_of(together), Pending):
        return new
    some = _spread(asked, _COMPARED)
    same = torch.isclose(alone.probs(some), together.probs(some), rtol=1e-4, atol=0.0).all(0)
    return [symbol for symbol, equal in zip(some, same.tolist(), strict=True) if not equal]


def _nearest(symbols: Sequence[S], others: Sequence[S], most: int) -> Sequence[S]:
    """At most this many of the symbols; those that share most items with `others` come first.

    A rule is likely to combine (1, 2) with (2, 3).
    """
    if len(symbols) <= most:
        return symbols
    items = {item for symbol in others if isinstance(symbol, tuple) for item in symbol}

    def common(symbol: S) -> int:
        return sum(item in items for item in symbol) if isinstance(symbol, tuple) else 0

    near = sorted(symbols, key=common, reverse=True)[: most // 2]
    taken = set(near)
    rest = [symbol for symbol in symbols if symbol not in taken]
    return [*near, *_spread(rest, most // 2)]


def _spread(symbols: Sequence[S], most: int) -> Sequence[S]:
    """At most this many of the symbols, from all over the list."""
    return symbols[:: -(-len(symbols) // most)] if len(symbols) > most else symbols
