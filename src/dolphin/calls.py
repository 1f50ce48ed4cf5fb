"""From the arguments of a call, checked, to symbols with tags: for functions and methods."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from dolphin.errors import InputError, shorten
from dolphin.execution.run import combine, unite
from dolphin.execution.tagged import Holder, Tagged, tagged_of
from dolphin.symbolic.tasks import Task

Function = Callable[..., Any]
Mask = Tensor | np.ndarray | Sequence[bool]
"""One boolean per row."""

_USAGE = {
    "apply": "apply(d1, ..., dK, f)",
    "apply_if": "apply_if(d1, ..., dK, f, cond), or apply_if(d1, d2, f, on=(key1, key2))",
    "filter": "filter(d, predicate)",
    "union": "union(d1, d2, ...)",
    "stack": "Distribution.stack([d1, d2, ...])",
    "reduce": "reduce(f, [d1, d2, ...])",
    "fixpoint": "fixpoint(step, start)",
}
_WITH_FUNCTIONS = ("apply", "apply_if", "filter")


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


def operand(operation: str, distribution: Any) -> Tagged:
    """The one distribution that an operation takes."""
    return operands(operation, (distribution,))[0]


def operands(operation: str, arguments: Sequence[Any]) -> list[Tagged]:
    """All arguments of an operation that takes distributions only."""
    return split(operation, arguments, 0)[0]


def split(
    operation: str, arguments: Sequence[Any], functions: int
) -> tuple[list[Tagged], Sequence[Function]]:
    """Leading distributions, then exactly this many functions."""
    count = len(arguments) - functions
    given, rest = arguments[:count], arguments[count:]
    if count < 1:
        raise InputError(f"{operation}: got no distribution. Write {usage(operation)}.")
    for place, value in enumerate(given):
        if not isinstance(value, Holder):
            hint = f"Write {usage(operation)}."
            if isinstance(value, (list, tuple)) and any(isinstance(d, Holder) for d in value):
                hint += " Unpack a list of distributions with *."
            raise InputError(
                f"{operation}: argument {place + 1} must be a Distribution, got "
                f"{type(value).__name__} {shorten(value, 40)}. {hint}"
            )
    for place, function in enumerate(rest):
        if isinstance(function, Holder) or not callable(function):
            raise InputError(
                f"{operation}: expected a function after {count} distribution"
                f"{'s' * (count != 1)}, got {type(function).__name__} {shorten(function, 40)}. "
                f"Write {usage(operation)}."
            )
        if operation in _WITH_FUNCTIONS:
            check_arity(operation, ("function", "condition")[place], function, count)
    return [tagged_of(value) for value in given], rest


def usage(operation: str) -> str:
    """How an operation is called."""
    return _USAGE.get(operation, f"{operation}(d, ...)")


def _takes(function: Function, count: int) -> bool:
    """Whether plain positional parameters fit: the usual case, without building a signature."""
    code = function.__code__
    bound = isinstance(function, types.MethodType)
    most = code.co_argcount - bound
    fewest = most - len(function.__defaults__ or ())
    fits = count <= most or bool(code.co_flags & inspect.CO_VARARGS)
    return fewest <= count and fits and code.co_kwonlyargcount == 0


def check_arity(operation: str, role: str, function: Function, count: int, given: str = "") -> None:
    """Refuse a function that can't take `count` arguments before any symbol is touched."""
    if getattr(function, "__code__", None) is None:
        return  # built-in functions and classes often have no signature: the call will tell
    if _takes(function, count):
        return
    try:
        inspect.signature(function).bind(*([None] * count))
    except TypeError as error:
        name = getattr(function, "__qualname__", "the function")
        given = given or f"one symbol from each of {count} distribution{'s' * (count != 1)}"
        raise InputError(
            f"{operation}: the {role} {name}{inspect.signature(function)} does not take {count} "
            f"argument{'s' * (count != 1)} ({error}). {operation} calls it with {given}."
        ) from None
    except ValueError:
        return
