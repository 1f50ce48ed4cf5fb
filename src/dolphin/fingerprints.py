"""When are two user functions the same?

A function is known by its code, its defaults, what it closes over and the global names it reads,
so a lambda written inside `forward` is the same function at every step, and one that closes over
another value is another function. Plain values and containers count by content; everything else
by identity, together with the plain attributes that the code reads off it (`self.offset`).
What can't be told cheaply is not remembered: a cache that lies is worse than none.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dolphin.symbols import kind

_PLAIN = frozenset({int, str, bool, bytes, type(None), complex, type(Ellipsis)})
_CONTAINERS = frozenset({tuple, list, set, frozenset, dict})
_MOST_BYTES = 4096  # of an array that is compared by content
_BUDGET = 2000  # how many values a fingerprint may look at before it counts as too expensive


class _UnknownError(Exception):
    """The function reads something that can't be compared cheaply."""


class _Same:
    """Equal only to another reference to the very same, still living object."""

    __slots__ = ("_hash", "_strong", "_weak")

    def __init__(self, target: Any) -> None:
        self._hash = id(target)
        self._weak: weakref.ref[Any] | None = None
        self._strong = None
        try:
            self._weak = weakref.ref(target)
        except TypeError:
            self._strong = target

    def _target(self) -> Any:
        return self._strong if self._weak is None else self._weak()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Same):
            return NotImplemented
        target = self._target()
        return target is not None and target is other._target()


def fingerprint(function: Callable[..., Any]) -> Hashable | None:
    """A key that is equal for functions that behave alike, or None where that can't be told.

    >>> def adder(n): return lambda x: x + n
    >>> one, again, two = (fingerprint(adder(n)) for n in (1, 1, 2))
    >>> one == again, one == two
    (True, False)
    """
    try:
        return _Reader().function(function)
    except _UnknownError:
        return None


# Code that reads these can reach state that is not visible in its names.
_DYNAMIC = frozenset(
    {"getattr", "vars", "globals", "locals", "eval", "exec", "__dict__", "__getattribute__"}
)
_MISSING = object()


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> frozenset[str]:
    """All names that `code` or code nested in it reads, as globals or as attributes.

    `co_names` doesn't tell the two apart: reading too many is safe.
    """
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return frozenset(names)


class _Reader:
    """One walk over what a function refers to."""

    def __init__(self) -> None:
        self.left = _BUDGET
        self.seen: set[int] = set()
        self.package = ""

    def function(self, function: Any) -> Hashable:
        if isinstance(function, types.FunctionType):
            self.package = self.package or _package(function)
            return self._python(function)
        if isinstance(function, types.MethodType) and _is_python(function.__func__):
            self.package = self.package or _package(function.__func__)
            names = _names(function.__func__.__code__)
            return ("method", self._python(function.__func__), self.value(function.__self__, names))
        if isinstance(function, functools.partial):
            inner = self.function(function.func)
            code = getattr(function.func, "__code__", None)
            names = frozenset() if code is None else _names(code)
            parts = (function.args, tuple(sorted(function.keywords.items())))
            return ("partial", inner, self.value(parts, names))
        if isinstance(function, types.BuiltinMethodType):
            owner = function.__self__
            if owner is None or isinstance(owner, types.ModuleType):
                return _Same(function)
            return ("built-in method", function.__name__, self.value(owner, frozenset()))
        call = None if isinstance(function, type) else _call_method(type(function))
        if call is None:
            return _Same(function)
        self.package = self.package or _package(call)
        return ("callable", self._python(call), self.value(function, _names(call.__code__)))

    def _python(self, function: types.FunctionType) -> Hashable:
        if id(function) in self.seen:  # recursion: already part of this fingerprint
            return ("again", function.__qualname__)
        self.seen.add(id(function))
        code = function.__code__
        names = _names(code)
        if not _DYNAMIC.isdisjoint(names):
            raise _UnknownError
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(self.value(cell.cell_contents, names))
            except ValueError:  # a name that is not bound yet
                cells.append("empty cell")
        scope = function.__globals__
        return (
            code,
            tuple(cells),
            self.value(function.__defaults__, names),
            self.value(tuple(sorted((function.__kwdefaults__ or {}).items())), names),
            tuple((name, self.value(scope[name], names)) for name in sorted(names & scope.keys())),
        )

    def value(self, value: Any, names: frozenset[str]) -> Hashable:
        """By content where that is plain, else by identity and the attributes that are read."""
        self.left -= 1
        if self.left < 0:
            raise _UnknownError
        cls = type(value)
        if cls in _PLAIN:
            return (cls, value)
        if cls is float:
            return (cls, value if value == value else "nan", kind(value))
        if cls in _CONTAINERS:
            return self._container(value, names)
        if isinstance(value, (np.ndarray, np.generic)):
            if value.nbytes > _MOST_BYTES or value.dtype.hasobject:
                raise _UnknownError
            return (cls, value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, types.FunctionType):
            # The globals of the user's own helpers may change as well; a library's don't.
            return self._python(value) if _package(value) == self.package else _Same(value)
        if isinstance(value, (types.MethodType, types.BuiltinMethodType, functools.partial)):
            return self.function(value)
        if hasattr(value, "data_ptr"):  # a tensor: it can change in place without a trace
            raise _UnknownError
        return self._object(value, names)

    def _container(self, value: Any, names: frozenset[str]) -> Hashable:
        cls = type(value)
        if cls is dict:
            pairs = value.items()
            return (cls, *((self.value(k, names), self.value(v, names)) for k, v in pairs))
        items = (self.value(item, names) for item in value)
        return (cls, frozenset(items)) if cls in (set, frozenset) else (cls, *items)

    def _object(self, value: Any, names: frozenset[str]) -> Hashable:
        if id(value) in self.seen:
            return _Same(value)
        self.seen.add(id(value))
        cls = value if isinstance(value, type) else type(value)
        attributes = getattr(value, "__dict__", {})
        own = (cls.__module__ or "").partition(".")[0] == self.package
        network = "_parameters" in attributes
        if own:
            names = _with_methods(cls, names)
        # An object of the user's own counts with all its state; a network, which has too much of
        # it, and what belongs to a library, with the attributes that the code names.
        everything = own and not network and not isinstance(value, type)
        stores = [attributes]
        if network:
            stores += [attributes[store] for store in ("_parameters", "_buffers", "_modules")]
        read: list[Hashable] = [
            (name, self.value(store[name], names))
            for store in stores
            for name in sorted(store.keys() if everything else names & store.keys())
        ]
        if own:
            for name in sorted(names - attributes.keys()):
                read.extend(self._class_attribute(value, cls, name, names))
        return (_Same(value), tuple(read))

    def _class_attribute(
        self, value: Any, cls: type, name: str, names: frozenset[str]
    ) -> list[Hashable]:
        found = inspect.getattr_static(cls, name, _MISSING)
        if found is _MISSING:
            return []
        function = _function_of(found)
        if function is not None:
            return [(name, self.value(function, names))]
        if isinstance(found, types.MemberDescriptorType):  # a slot
            found = getattr(value, name, None)
        return [(name, self.value(found, names))]


def _with_methods(cls: type, names: frozenset[str]) -> frozenset[str]:
    """The names, and those that the methods and properties among them read in turn."""
    reached: set[str] = set()
    waiting = {*names, "__call__"}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        function = _function_of(inspect.getattr_static(cls, name, None))
        if function is not None and _package(function) == cls.__module__.partition(".")[0]:
            waiting |= _names(function.__code__) - reached
    return frozenset(reached)


def _function_of(attribute: Any) -> types.FunctionType | None:
    """The Python function behind a method or property, if there is one."""
    if isinstance(attribute, property):
        attribute = attribute.fget
    attribute = getattr(attribute, "__func__", attribute)
    return attribute if isinstance(attribute, types.FunctionType) else None


def _package(function: types.FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _call_method(cls: type) -> types.FunctionType | None:
    return _function_of(inspect.getattr_static(cls, "__call__", None))


def _is_python(function: Any) -> bool:
    return isinstance(function, types.FunctionType)
