"""Where a patch can change what a library's code does: the names that it reads, and theirs.

The code of a library is trusted, but the names that it reads can be assigned: a function of
`statistics` depends on the methods of `fractions.Fraction`. `reach_of` follows names from a
function or a class to the code that they stand for, nearest first, and records it.
"""

from __future__ import annotations

import collections
import itertools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter, is_
from typing import Any, NamedTuple

from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.bytecode import Use, uses_of
from dolphin.symbolic.libraries import is_library_function, of_library
from dolphin.symbolic.marks import Objects

_MOST_FOLLOWED = 60  # functions and classes; those further away hardly matter, and are many
_BY_TORCH = "typing_extensions"  # whose decorators torch uses
_NOTHING = object()
_CODE = attrgetter("__code__")

Owner = types.FunctionType | type


class Reach(NamedTuple):
    """What names stand for: some of modules, all of classes; and the code of functions."""

    mark: Objects  # all of the following
    picked: tuple[tuple[Mapping[str, Any], tuple[str, ...], tuple[Any, ...]], ...]
    whole: tuple[tuple[Mapping[str, Any], tuple[Any, ...]], ...]
    functions: tuple[types.FunctionType, ...]
    codes: tuple[types.CodeType, ...]
    foreign: tuple[Any, ...]  # user code among them

    def unchanged(self) -> bool:
        for scope, names, values in self.picked:
            if not all(map(is_, map(scope.get, names), values)):
                return False
        for scope, values in self.whole:
            if len(scope) != len(values) or not all(map(is_, scope.values(), values)):
                return False
        return all(map(is_, map(_CODE, self.functions), self.codes))


_known: BoundedCache[int, tuple[Owner, Reach]] = BoundedCache(1024)
register("reach of library code", _known.__len__, _known.clear)


def reach_of(owner: Owner) -> Reach:
    """What a function or class of a library reads, as it is now.

    >>> import statistics, fractions
    >>> before = reach_of(statistics.mean)
    >>> reach_of(statistics.mean) is before
    True
    >>> fractions.Fraction.patched = 1
    >>> reach_of(statistics.mean) is before
    False
    >>> del fractions.Fraction.patched
    """
    known = _known.peek(id(owner))
    if known is not None and known[0] is owner and known[1].unchanged():
        return known[1]
    walk = _Walk()
    walk.follow(owner)
    reach = walk.reach()
    _known.replace(id(owner), (owner, reach))
    return reach


class _Walk:
    def __init__(self) -> None:
        self._picked: dict[int, tuple[Mapping[str, Any], dict[str, Any]]] = {}
        self._whole: list[tuple[Mapping[str, Any], tuple[Any, ...]]] = []
        self._functions: list[types.FunctionType] = []
        self._seen: set[int] = set()
        self._next: collections.deque[Any] = collections.deque()

    def reach(self) -> Reach:
        picked = tuple((s, tuple(names), (*names.values(),)) for s, names in self._picked.values())
        functions, whole = tuple(self._functions), tuple(self._whole)
        codes = tuple(map(_CODE, functions))
        values = [value for *_, values in (*picked, *whole) for value in values]
        mark = Objects((*values, *functions, *codes))
        return Reach(mark, picked, whole, functions, codes, tuple(filter(is_foreign, values)))

    def follow(self, first: Owner) -> None:
        self._next.append(first)
        while self._next and len(self._seen) < _MOST_FOLLOWED:
            one = self._next.popleft()
            if id(one) in self._seen:
                continue
            self._seen.add(id(one))
            if isinstance(one, type):
                self._class(one)
            else:
                self._function(one)

    def _class(self, cls: type) -> None:
        for base in filter(can_be_patched, cls.__mro__):
            names = vars(base)
            self._whole.append((names, tuple(names.values())))
            self._next += itertools.chain.from_iterable(map(_code_of, names.values()))

    def _function(self, function: types.FunctionType) -> None:
        self._functions.append(function)
        for use in uses_of(function.__code__).chains:
            self._use(use, function)
        for cell in function.__closure__ or ():
            try:
                self._next += _code_of(cell.cell_contents)
            except ValueError:  # nothing yet
                continue

    def _use(self, use: Use, function: types.FunctionType) -> None:
        if use.root == "module":
            value = self._read(sys.modules, use.name)
        elif use.root == "global":
            value = self._read(function.__globals__, use.name)
            if value is _NOTHING:
                value = self._read(function.__builtins__, use.name)
        else:
            return
        for name in use.chain:
            if not isinstance(value, types.ModuleType):
                break
            value = self._read(vars(value), name)
        self._next += _code_of(value)

    def _read(self, scope: Mapping[str, Any], name: str) -> Any:
        value = scope.get(name)
        self._picked.setdefault(id(scope), (scope, {}))[1][name] = value
        return _NOTHING if value is None else value


def _code_of(value: Any) -> Iterator[Owner]:
    """The functions and classes of libraries behind a value."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        yield from (f for f in (value.fget, value.fset) if isinstance(f, types.FunctionType))
        return
    for inner in ("__wrapped__", "_implementation"):  # of an lru_cache; of a function of numpy
        if not isinstance(value, (type, types.FunctionType, types.ModuleType)):
            value = _static_attribute(value, inner)
    if isinstance(value, types.FunctionType):
        if is_library_function(value):
            yield value
    elif isinstance(value, type):
        if of_library(value.__module__) and can_be_patched(value):
            yield value
    elif can_be_patched(type(value)) and of_library(type(value).__module__):
        yield type(value)


def _static_attribute(value: Any, name: str) -> Any:
    if type(value).__name__ in ("_lru_cache_wrapper", "_ArrayFunctionDispatcher"):
        return getattr(value, name, value)
    return value


def implementation_of(function: Any) -> Iterable[Owner]:
    """The code of a library's function that is compiled, as far as it is written in Python."""
    return tuple(_code_of(function))


def can_be_patched(cls: type) -> bool:
    """Whether attributes of a class can be assigned: it is not part of the interpreter."""
    return cls.__flags__ & (1 << 9 | 1 << 8) == 1 << 9  # on the heap, and not immutable


def is_foreign(value: Any) -> bool:
    """Whether a user put this into a library."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    if isinstance(value, types.FunctionType):
        # Methods of named tuples are made in a scope of their own.
        scope = str(value.__globals__.get("__name__"))
        return not is_library_function(value) and not scope.startswith(("namedtuple_", _BY_TORCH))
    owner = value.__module__ if isinstance(value, type) else type(value).__module__
    if not isinstance(owner, str) or owner == _BY_TORCH:
        return False
    return owner == "unittest.mock" or not of_library(owner)
