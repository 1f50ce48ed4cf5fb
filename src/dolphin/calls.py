"""From the arguments of a call to symbols with tags: what functions and methods share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dolphin.arguments import Function, operands, split
from dolphin.errors import InputError, shorten
from dolphin.execution.batching import combine
from dolphin.execution.tagged import Holder, Tagged
from dolphin.execution.unions import unite
from dolphin.symbolic.tasks import Task


def applied(arguments: Sequence[Any], where: Any, cache: bool) -> Tagged:
    """`apply(d1, ..., dK, f)`."""
    given, (function,) = split("apply", arguments, 1)
    return combine(Task("apply", function, cache=cache), given, where)


def applied_if(
    arguments: Sequence[Any], on: tuple[Function, ...] | None, where: Any, cache: bool
) -> Tagged:
    """`apply_if(d1, ..., dK, f, cond)`, or with keys to join on."""
    functions = [a for a in arguments if not isinstance(a, Holder)]
    wanted = 1 if on is not None and len(functions) == 1 else 2
    given, functions = split("apply_if", arguments, wanted)
    condition = functions[1] if len(functions) == 2 else None
    if on is not None:
        if not isinstance(on, (tuple, list)) or len(on) != len(given) or not all(map(callable, on)):
            got = f"{len(on)} of them" if isinstance(on, (tuple, list)) else shorten(on)
            names = ", ".join(f"key{number}" for number in range(1, len(given) + 1))
            raise InputError(
                f"apply_if: on= takes {len(given)} key functions ({names}), one per operand, got "
                f"{got}."
            )
        if len(given) == 1:
            raise InputError(
                "apply_if: on= joins two distributions or more, got 1; use a condition."
            )
        on = tuple(on)
    return combine(Task("apply_if", functions[0], condition, on, cache), given, where)


def filtered(distribution: Any, predicate: Any, cache: bool) -> Tagged:
    """`filter(d, predicate)`."""
    given, (function,) = split("filter", (distribution, predicate), 1)
    return combine(Task("filter", _itself, function, cache=cache), given, None)


def _itself(symbol: Any) -> Any:
    return symbol


def united(distributions: Sequence[Any]) -> Tagged:
    """`union(d1, d2, ...)`."""
    if len(distributions) == 1 and not isinstance(distributions[0], Holder):
        raise InputError(
            f"union: expected distributions, got {shorten(distributions[0])}. For a list write "
            "union(*distributions)."
        )
    return unite(operands("union", distributions))
