"""When are two user functions the same?

A function is known by its code, its defaults, what it closes over and the global names it reads,
so a lambda written inside `forward` is the same function at every step, and one that closes over
another value is another function. Plain values and containers count by content. Everything else
counts by identity, together with the attributes that the code names (`self.offset`), also in
methods and helper functions of the user's own. What can't be told cheaply is not remembered: a
cache that lies is worse than none.

What a function itself assigns to, or only appends to, is bookkeeping (a counter, a log) rather
than something that its result depends on, and is left out.
"""

from __future__ import annotations

import collections
import contextvars
import dis
import enum
import functools
import inspect
import itertools
import re
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Hashable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from dolphin.symbolic.symbols import kind

_PLAIN = frozenset({int, str, bool, bytes, type(None), complex, type(Ellipsis)})
_CONTAINERS = (tuple, list, Set, Mapping, bytearray, collections.deque, collections.UserList)
# Objects that can't change, or whose changes don't matter to a pure function.
_STATELESS = (enum.Enum, range, slice, re.Pattern, np.dtype, np.ufunc, property)
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


Slot = Callable[[Any], Hashable | None]
"""What stands for a value that counts by its place alone, not by content; None for all others."""


def fingerprint(function: Callable[..., Any], slot: Slot | None = None) -> Hashable | None:
    """A key that is equal for functions that behave alike, or None where that can't be told.

    >>> def adder(n): return lambda x: x + n
    >>> one, again, two = (fingerprint(adder(n)) for n in (1, 1, 2))
    >>> one == again, one == two
    (True, False)
    """
    if type(function) is types.FunctionType and _is_closed(function):
        return function.__code__
    try:
        return _Reader(slot).function(function)
    except _UnknownError:
        return None


def _is_closed(function: types.FunctionType) -> bool:
    """Does it depend on nothing but its arguments, as `lambda x, y: x + y` does?"""
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        return False
    return not _read(function.__code__).names and not function.__code__.co_freevars


# Code that reads these can reach state that is not visible in its names.
_DYNAMIC = frozenset(
    {"getattr", "vars", "globals", "locals", "eval", "exec", "__dict__", "__getattribute__"}
)
_APPENDING = frozenset({"append", "add", "extend", "appendleft"})


class _Read(NamedTuple):
    """What code reads: names (globals or attributes, which `co_names` doesn't tell apart; reading
    too many is safe) and names of the enclosing functions.
    """

    names: frozenset[str]
    cells: frozenset[str]


@functools.lru_cache(maxsize=4096)
def _read(code: types.CodeType) -> _Read:
    names: set[str] = set(code.co_names)
    cells: set[str] = set(code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _read(constant)
            names |= inner.names
            cells -= {name for name in constant.co_freevars if name not in inner.cells}
    instructions = list(dis.get_instructions(code))
    appended: dict[str, bool] = {}
    for instruction, following in itertools.pairwise(instructions):
        name = instruction.argval
        if instruction.opname in ("STORE_ATTR", "STORE_GLOBAL"):
            names.discard(name)
        elif instruction.opname == "STORE_DEREF":
            cells.discard(name)
        elif instruction.opname in ("LOAD_DEREF", "LOAD_CLOSURE"):
            only = following.opname.startswith("LOAD_") and following.argval in _APPENDING
            appended[name] = appended.get(name, True) and only
    return _Read(frozenset(names), frozenset(c for c in cells if not appended.get(c, False)))


class _Reader:
    """One walk over what a function refers to."""

    def __init__(self, slot: Slot | None = None) -> None:
        self.left = _BUDGET
        self.seen: set[int] = set()
        self.slot = slot

    def function(self, function: Any) -> Hashable:
        if isinstance(function, types.FunctionType):
            return self._python(function)
        if isinstance(function, types.MethodType) and _is_python(function.__func__):
            names = _read(function.__func__.__code__).names
            return ("method", self._python(function.__func__), self.value(function.__self__, names))
        if isinstance(function, functools.partial):
            inner = self.function(function.func)
            code = getattr(function.func, "__code__", None)
            names = frozenset() if code is None else _read(code).names
            parts = (function.args, tuple(sorted(function.keywords.items())))
            return ("partial", inner, self.value(parts, names))
        if isinstance(function, types.BuiltinMethodType):
            owner = function.__self__
            if owner is None or isinstance(owner, types.ModuleType):
                return _Same(function)
            return ("built-in method", function.__name__, self.value(owner, frozenset()))
        call = None if isinstance(function, type) else _call_method(type(function))
        if call is None or _of_library(type(function).__module__):
            return _Same(function)
        return ("callable", self._python(call), self.value(function, _read(call.__code__).names))

    def _python(self, function: types.FunctionType) -> Hashable:
        if id(function) in self.seen:  # recursion: already part of this fingerprint
            return ("again", function.__qualname__)
        self.seen.add(id(function))
        code = function.__code__
        names, read_cells = _read(code)
        if not _DYNAMIC.isdisjoint(code.co_names):
            raise _UnknownError
        cells = []
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in read_cells:
                continue
            try:
                cells.append((name, self.value(cell.cell_contents, names)))
            except ValueError:  # a name that is not bound yet
                cells.append((name, "empty cell"))
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
        if isinstance(value, _CONTAINERS):
            return (self._contents(value, names), self._state(value, names))
        if isinstance(value, (np.ndarray, np.generic)):
            if value.nbytes > _MOST_BYTES or value.dtype.hasobject:
                raise _UnknownError
            return (cls, value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, types.FunctionType):
            # The globals of the user's own helpers may change as well; a library's don't.
            return _Same(value) if _of_library(value.__module__) else self._python(value)
        if isinstance(value, (types.MethodType, types.BuiltinMethodType, functools.partial)):
            return self.function(value)
        return self._thing(value, names)

    def _thing(self, value: Any, names: frozenset[str]) -> Hashable:
        """A module, a class or any other object."""
        if self.slot is not None:
            known = self.slot(value)
            if known is not None:
                return known
        if isinstance(value, _STATELESS) or id(value) in self.seen:
            return _Same(value)
        if isinstance(value, contextvars.ContextVar):
            return (_Same(value), self.value(value.get(None), names))
        self.seen.add(id(value))
        if isinstance(value, types.ModuleType):
            scope = vars(value)
            read = ((name, self.value(scope[name], names)) for name in sorted(names & scope.keys()))
            return (_Same(value), *read)
        if isinstance(value, type):
            return (_Same(value), *self._of_class(value, names))
        return (_Same(value), self._state(value, names))

    def _contents(self, value: Any, names: frozenset[str]) -> Hashable:
        cls = type(value)
        if isinstance(value, Mapping):
            pairs = value.items()
            return (cls, *((self.value(k, names), self.value(v, names)) for k, v in pairs))
        items = (self.value(item, names) for item in value)
        return (cls, frozenset(items)) if isinstance(value, Set) else (cls, *items)

    def _state(self, value: Any, names: frozenset[str]) -> Hashable:
        """The attributes of an object that the code reads, directly or in its methods."""
        if hasattr(value, "data_ptr"):  # a tensor: it can change in place without a trace
            raise _UnknownError
        cls = type(value)
        attributes = getattr(value, "__dict__", {})
        stores = [attributes]
        if "_parameters" in attributes:  # a network
            stores += [attributes[store] for store in ("_parameters", "_buffers", "_modules")]
        names = _with_methods(cls, names)
        slots = {name for base in cls.__mro__ for name in _slots(base)} & names
        read: list[Hashable] = [
            (name, self.value(store[name], names))
            for store in stores
            for name in sorted(names & store.keys())
        ]
        read += [(name, self.value(getattr(value, name, None), names)) for name in sorted(slots)]
        read += self._of_class(cls, names - attributes.keys() - slots)
        return tuple(read)

    def _of_class(self, cls: type, names: frozenset[str]) -> list[Hashable]:
        """What the code reads off the class: methods, properties, class attributes."""
        if _of_library(cls.__module__):
            return []
        return [
            (name, self.value(_function_of(attribute) or attribute, names))
            for name in sorted(names)
            for attribute in _inherited(cls, name)
            if not isinstance(attribute, types.MemberDescriptorType)
        ]


def _with_methods(cls: type, names: frozenset[str]) -> frozenset[str]:
    """The names, and those that the methods and properties among them read in turn."""
    if _of_library(cls.__module__):
        return names
    operators = (n for base in cls.__mro__ for n in vars(base) if _is_operator(base, n))
    reached: set[str] = set()
    waiting = {*names, *operators}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for attribute in _inherited(cls, name):
            function = _function_of(attribute)
            if function is not None and not _of_library(function.__module__):
                waiting |= _read(function.__code__).names - reached
    return frozenset(reached)


def _inherited(cls: type, name: str) -> list[Any]:
    """What a class and its parents have under a name: `super()` may reach any of them."""
    return [vars(base)[name] for base in cls.__mro__ if name in vars(base)]


def _function_of(attribute: Any) -> types.FunctionType | None:
    """The Python function behind a method or property, if there is one."""
    if isinstance(attribute, property):
        attribute = attribute.fget
    attribute = getattr(attribute, "__func__", attribute)
    return attribute if isinstance(attribute, types.FunctionType) else None


def _is_operator(cls: type, name: str) -> bool:
    """A special method by which code can use an object without naming it: x[...], x(...), in."""
    special = name.startswith("__") and name not in ("__init__", "__new__", "__repr__", "__hash__")
    return special and isinstance(vars(cls)[name], types.FunctionType)


def _slots(cls: type) -> list[str]:
    slots = cls.__dict__.get("__slots__", ())
    slots = [slots] if isinstance(slots, str) else slots
    return [name for name in slots if name not in ("__dict__", "__weakref__")]


@functools.lru_cache(maxsize=1024)
def _of_library(module: str | None) -> bool:
    """Does a module belong to Python or to an installed package, rather than to the user?"""
    root = (module or "").partition(".")[0]
    if root == "dolphin" or (root in sys.stdlib_module_names and root != "__main__"):
        return True
    found = getattr(sys.modules.get(root), "__file__", None)
    paths = (sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    return found is not None and any(found.startswith(path) for path in paths)


def _call_method(cls: type) -> types.FunctionType | None:
    return _function_of(inspect.getattr_static(cls, "__call__", None))


def _is_python(function: Any) -> bool:
    return isinstance(function, types.FunctionType)
