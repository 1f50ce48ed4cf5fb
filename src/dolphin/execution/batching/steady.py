"""Functions that can be called later with the same effect as now."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable
from typing import Any

_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    bool,
    type(None),
    enum.Enum,
    range,
    type,
    types.ModuleType,
)


def steady(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The same function with the current values of what it closes over; None if they may change.

    A name of the enclosing function can be rebound before the function is called (a loop variable),
    so its value is captured. Captured values must not change either: numbers, strings, tuples,
    functions. Names of a module are compared when the function runs (`batching`).

    >>> adders = [lambda x: x + n for n in (1, 2)]
    >>> held = [steady(f) for n in (1, 2) for f in [lambda x: x + n]]
    >>> [f(0) for f in adders], [f(0) for f in held]
    ([2, 2], [1, 2])
    >>> seen = []
    >>> steady(lambda x, seen=seen: x in seen) is None
    True
    """
    if isinstance(function, types.BuiltinFunctionType):
        return function if _fixed(function.__self__) else None
    if isinstance(function, type):
        return function
    if isinstance(function, functools.partial):
        inner = steady(function.func)
        values = (*function.args, *function.keywords.values())
        if inner is None or not all(map(_fixed, values)):
            return None
        return functools.partial(inner, *function.args, **function.keywords)
    if not isinstance(function, types.FunctionType):
        return None
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(map(_fixed, defaults)):
        return None
    if not function.__closure__:
        return function
    return _with_cells(function)


def _with_cells(function: types.FunctionType) -> types.FunctionType | None:
    cells = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet: a function that calls itself
            return None
        if value is function:
            return None
        if isinstance(value, (types.FunctionType, functools.partial)):
            value = steady(value)
            if value is None:
                return None
        elif not _fixed(value):
            return None
        cells.append(types.CellType(value))
    held = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells),
    )
    held.__kwdefaults__ = function.__kwdefaults__
    held.__qualname__ = function.__qualname__
    held.__module__ = function.__module__
    return held


def _fixed(value: Any) -> bool:
    """Whether a value can't change."""
    if isinstance(value, _PLAIN):
        return True
    if type(value) in (tuple, frozenset):
        return all(map(_fixed, value))
    if isinstance(value, functools.partial):
        return steady(value) is not None
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return steady(value) is value
    return False
