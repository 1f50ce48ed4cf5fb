"""Questions answered in plain Python, world by world."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import oracles


def answers_of(symbols: Sequence[Any]) -> dict[str, Any]:
    """What each question says of a set of symbols that hold, in their order."""
    return {
        "exists": bool(symbols),
        "forall": all(map(even, symbols)),
        "count": len(symbols),
        "total": sum(map(weight, symbols)),
        "maximum": max(symbols, key=weight, default=None),
        "minimum": min(symbols, key=weight, default=None),
    }


def weight(symbol: Any) -> int:
    return symbol % 3


def even(symbol: Any) -> bool:
    return symbol % 2 == 0


def ask(ops: Any, name: str, d: Any, **options: Any) -> Any:
    """The same question, put to Dolphin."""
    argument = {"forall": even, "total": weight, "maximum": weight, "minimum": weight}
    given = [argument[name]] if name in argument else []
    return getattr(ops, name)(d, *given, **options)


def by_worlds(program: Callable, inputs: Sequence[oracles.Input], answer: Callable) -> dict:
    """P(answer) over all possible worlds; `answer` is given the symbols that hold in one."""
    worlds = oracles.Worlds(inputs)
    table = oracles.run(program, worlds)
    found: dict[Hashable, int] = {}
    for world in range(len(worlds.worlds)):
        held = [symbol for symbol, tag in table.items() if tag >> world & 1]
        key = answer(held)
        found[key] = found.get(key, 0) | (1 << world)
    return {key: worlds.probability(tag) for key, tag in found.items()}


def independent(
    symbols: Sequence[Any], probs: Sequence[Fraction], answer: Callable[[Sequence[Any]], Hashable]
) -> dict[Hashable, Fraction]:
    """P(answer) where symbols hold independently of each other."""
    found: dict[Hashable, Fraction] = {}
    for holds in itertools.product((False, True), repeat=len(symbols)):
        chance = math.prod(
            (p if h else 1 - p for p, h in zip(probs, holds, strict=True)), start=Fraction(1)
        )
        key = answer(list(itertools.compress(symbols, holds)))
        found[key] = found.get(key, Fraction(0)) + chance
    return found


def exclusive(
    symbols: Sequence[Any], probs: Sequence[Fraction], answer: Callable[[Sequence[Any]], Hashable]
) -> dict[Hashable, Fraction]:
    """P(answer) where at most one symbol holds."""
    found: dict[Hashable, Fraction] = {answer([]): 1 - sum(probs, Fraction(0))}
    for symbol, p in zip(symbols, probs, strict=True):
        key = answer([symbol])
        found[key] = found.get(key, Fraction(0)) + p
    return found


def grouped(symbols: Iterable[Any], key: Callable, wanted: Hashable) -> list[Any]:
    return [symbol for symbol in symbols if key(symbol) == wanted]
