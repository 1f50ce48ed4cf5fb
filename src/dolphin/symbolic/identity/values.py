"""Keys for values: plain ones by content, none for everything else."""

from __future__ import annotations

import abc
import array
import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import operator
import re
import sys
import threading
import types
import uuid
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dolphin.symbolic.identity.bytecode import Use
from dolphin.symbolic.identity.libraries import (
    is_dynamic,
    is_library_function,
    of_library,
    of_numpy,
    reads_settings,
    stateless,
)
from dolphin.symbolic.identity.library_state import PLAIN, Library, state_of
from dolphin.symbolic.identity.marks import Code, Same
from dolphin.symbolic.identity.purity import is_declared
from dolphin.symbolic.identity.randomness import refuse_chance
from dolphin.symbolic.identity.reach import implementation_of

_BUDGET = 2000  # how many values a key may hold before it counts as too expensive
_MOST_BYTES = 4096  # of an array that is compared by content
_SCALARS = frozenset({int, str, bool, bytes, type(None), type(Ellipsis), type(NotImplemented)})
FLAT = _SCALARS | {float}
SEQUENCES = frozenset({tuple, list, collections.deque, bytearray, set, frozenset})
MAPPINGS = frozenset(
    {dict, collections.OrderedDict, collections.Counter, types.MappingProxyType,
     collections.defaultdict}
)  # fmt: skip
# Objects that can't change and are identified by their contents.
VALUES = (
    complex, range, slice, re.Pattern, fractions.Fraction, decimal.Decimal, datetime.date,
    datetime.time, datetime.timedelta, datetime.tzinfo, uuid.UUID, np.dtype,
)  # fmt: skip
# Containers that keep their contents in another container.
_INSIDE = {
    collections.UserDict: "data",
    collections.UserList: "data",
    collections.ChainMap: "maps",
}
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
APPENDING = {
    list: frozenset({"append", "extend"}),
    set: frozenset({"add"}),
    collections.deque: frozenset({"append", "appendleft", "extend"}),
}
NOTHING = object()  # no `self`
WRAPPERS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
# Types of functions of numpy and compiled libraries.
COMPILED = ("cython_function_or_method", "_ArrayFunctionDispatcher")
_LRU = type(functools.lru_cache(lambda: None))
CONVERTERS = (str, bytes, bytearray)  # which take the name of a codec
TUPLE_FIELD = type(vars(collections.namedtuple("_Pair", "a"))["a"])


class TooMuchError(Exception):
    """The function reads more than can be compared cheaply."""


Slot = Callable[[Any], Hashable | None]
"""The key of a value that counts by its place alone, not by content; None for all others."""


class Values(abc.ABC):
    """One walk over values. `reasons` says why some have no key."""

    def __init__(self, slot: Slot | None = None) -> None:
        self._slot = slot
        self.start()

    def start(self, *, apart: bool = False) -> None:
        """Begin a walk. `apart`: equal values are told apart, as a function compares by `is`."""
        self.reasons: list[str] = []
        self.of_thread = ""  # the name of a thread-local that it reads
        self._apart = apart
        self._compares = False  # whether the function does
        self._loose: set[str] = set()  # attributes of what isn't known
        self._samplers = False  # whether there may be distributions of other libraries among it
        self._encodes = False  # whether it encodes or decodes texts by the name of a codec
        self._collects = False  # whether it makes sets
        self._hashes = False  # whether it calls `hash`
        self._defines = False  # whether it makes functions
        self._made: set[str] = set()  # names of what it calls, if it keeps the results
        self._by_address: set[str] = set()  # of classes whose objects are hashed by address
        self._shows = False  # whether it turns objects into texts
        self._shown: set[str] = set()  # of classes whose objects as texts contain their address
        self._left = _BUDGET
        self._seen: set[tuple[int, int]] = set()  # functions (with their `self`) and classes
        self._open: set[int] = set()  # containers around the present value
        self._held: dict[int, tuple[int, Any]] = {}  # containers met so far, numbered, kept alive
        self._data = 0  # plain values met so far
        self._libraries: set[Library] = set()  # whose settings and patches are part of the key

    # -- functions ---------------------------------------------------------------------------------

    @abc.abstractmethod
    def _python(self, function: types.FunctionType, bound: Any = NOTHING) -> Hashable:
        """A user function; `bound` is its first argument where that is known."""

    @abc.abstractmethod
    def _method(self, function: types.FunctionType, owner: Any, use: Use, depth: int) -> Hashable:
        """A method of an object or a class."""

    @abc.abstractmethod
    def _class(self, cls: type, use: Use) -> Hashable:
        """A class that is used as a whole."""

    @abc.abstractmethod
    def _pure_function(self, function: types.FunctionType, bound: Any) -> Hashable:
        """A function that was declared pure."""

    # -- values ------------------------------------------------------------------------------------

    def value(self, value: Any, use: Use, depth: int | None = None) -> Hashable:
        """The key of a value that is used as a whole."""
        self._spend(1)
        key = self._content(value, use, depth)
        return (self._which(value), key) if self._apart else key

    def _content(self, value: Any, use: Use, depth: int | None) -> Hashable:
        cls = type(value)
        if cls in _SCALARS:
            self._data += 1
            return (cls, value)
        if cls is float:
            self._data += 1
            # Which nan it is matters: `nan in [nan]` holds for the same one only.
            return (cls, repr(value)) if value == value else (cls, "nan", self._which(value))
        if is_declared(value):
            if isinstance(value, types.FunctionType):
                return self._pure_function(value, NOTHING)
            return Same(value)
        if cls in SEQUENCES or cls in MAPPINGS:
            return self._container(value, use)
        place = self._place(value)
        if place is not None:
            return place
        refuse_chance(value, arguments=use.arguments)
        if isinstance(value, types.FunctionType):
            return self._library(value, use) if is_library_function(value) else self._python(value)
        if isinstance(value, type):
            return self._class(value, use)
        key = self._callable(value, use)
        if key is None:
            key = self._value_object(value, use)
        return self._escapes(value, use, depth) if key is None else key

    def _place(self, value: Any) -> Hashable | None:
        """The key of a tensor of which only entries are read, which the caller ensures."""
        return None if self._slot is None else self._slot(value)

    def _callable(self, value: Any, use: Use) -> Hashable | None:
        """Callables other than plain functions."""
        cls = type(value)
        if cls is types.MethodType:
            function = value.__func__
            if isinstance(function, types.FunctionType):
                return self._method(function, value.__self__, use, len(use.chain))
            return None
        if cls is types.BuiltinFunctionType:
            return self._built_in(value, use)
        if cls is np.ufunc:
            if not of_numpy(value):  # `frompyfunc` makes them from any function
                return None
            return (Same(value), self._around("numpy"))
        if cls in WRAPPERS:
            self._encodes |= value.__name__ in ("encode", "decode")
            return Same(value)
        if cls.__module__.partition(".")[0] == "typing":
            origin = getattr(value, "__origin__", None)  # of an alias, which can be called
            return (Same(value), None if origin is None else self.value(origin, use))
        if cls is functools.partial:
            parts = (value.func, value.args, value.keywords)
            return ("partial", *(self.value(part, use) for part in parts))
        if cls in _GETTERS:
            self._encodes |= cls is operator.methodcaller
            return (cls, self.value(value.__reduce__()[1], use))
        if cls is _LRU:
            return self._behind_lru(value, use)
        if cls.__name__ in COMPILED and stateless(getattr(value, "__module__", None)):
            return None if reads_settings(value) else self._compiled(value)
        return None

    def _compiled(self, function: Any) -> Hashable:
        inside = map(self._around, implementation_of(function))
        return (Same(function), self._around(function.__module__), *inside)

    def _built_in(self, function: Any, use: Use) -> Hashable:
        owner = function.__self__
        self._encodes |= function.__name__ in ("encode", "decode")
        self._compares |= function in (operator.is_, operator.is_not)
        self._hashes |= function is hash
        self._shows |= function in (repr, ascii, format)
        if owner is not None and not isinstance(owner, (types.ModuleType, type)):
            if type(owner) in APPENDING and function.__name__ in APPENDING[type(owner)]:
                return function.__name__
            return (function.__name__, self.value(owner, use))
        if is_dynamic(function):
            return self._unknown(f"calls `{function.__name__}`, which can read anything")
        if not stateless(function.__module__):
            name = f"{function.__module__}.{function.__name__}"
            return self._unknown(f"calls `{name}`, which can read what changes")
        if reads_settings(function):
            return self._unknown(f"calls `{function.__name__}`, which reads a library's settings")
        return (Same(function), self._around(library_of(function)))

    def _library(self, function: types.FunctionType, use: Use) -> Hashable:
        """A library's function, by identity, and what it wraps."""
        module = function.__globals__.get("__name__")
        if is_dynamic(function):
            return self._unknown(f"calls `{function.__name__}`, which can read anything")
        if not stateless(module):
            name = f"{module}.{function.__name__}"
            return self._unknown(f"calls `{name}`, which can read what changes")
        if reads_settings(function):
            return self._unknown(f"calls `{function.__name__}`, which reads a library's settings")
        known = (Same(function), Code([function]), self._around(module), self._around(function))
        mark = (id(function), 0)
        if not function.__closure__ or mark in self._seen:
            return known
        self._seen.add(mark)
        return (*known, *(self.value(c.cell_contents, use) for c in function.__closure__))

    def _around(self, library: Library | None) -> Hashable:
        """The settings and patches of a library, or of a part of it, once for each."""
        library = "builtins" if library is None else library
        if isinstance(library, str):
            library = library.partition(".")[0]
        if library in self._libraries:
            return None
        self._libraries.add(library)
        state = state_of(library)
        if state is PLAIN:
            return None
        self._encodes |= state.encodes
        use = Use("global", library if isinstance(library, str) else library.__name__, ())
        return (state.key, *(self.value(each, use) for each in state.foreign))

    def _behind_lru(self, value: Any, use: Use) -> Hashable:
        """`lru_cache` keeps old results itself: its function must read nothing that changes."""
        if (id(value), 0) in self._seen:
            return "again"
        self._seen.add((id(value), 0))
        before = self._data
        key = self.value(value.__wrapped__, use)
        if self._data != before:
            return self._unknown(f"calls `{use.text()}`, behind an lru_cache, which reads data")
        return (_LRU, key)

    def _container(self, value: Any, use: Use) -> Hashable:
        cls = type(value)
        self._data += 1
        self._spend(len(value))
        if id(value) in self._open:
            return self._unknown(f"reads `{use.text()}`, which contains itself")
        self._open.add(id(value))
        # Which of several equal containers it is: a function may compare them by `is`.
        which = None if cls in (tuple, frozenset) else self._which(value)
        try:
            if cls in (set, frozenset):
                # In order of iteration, in which equal sets may differ.
                return (cls, which, tuple(self.value(item, use) for item in value))
            if cls in SEQUENCES:
                limit = value.maxlen if isinstance(value, collections.deque) else None
                return (cls, which, limit, self._items(tuple(value), use))
            made_by = (
                self.value(value.default_factory, use)
                if isinstance(value, collections.defaultdict)
                else self._around(cls)
                if cls is collections.Counter
                else None
            )
            keys, values = tuple(value.keys()), tuple(value.values())
            return (cls, which, made_by, self._items(keys, use), self._items(values, use))
        finally:
            self._open.discard(id(value))

    def _which(self, value: Any) -> int:
        """The number of an object among those that are compared by `is`."""
        return self._held.setdefault(id(value), (len(self._held), value))[0]

    def _items(self, items: tuple[Any, ...], use: Use) -> Hashable:
        """Contents in order. Plain ones, and tuples of them, without a Python loop."""
        kinds = set(map(type, items))
        if self._apart:
            return tuple(self.value(item, use) for item in items)
        if kinds <= _SCALARS:
            return (items, tuple(map(type, items)) if len(kinds) > 1 else tuple(kinds))
        if kinds <= FLAT and all(item == item for item in items):  # there is no nan
            return (tuple(map(repr, items)), tuple(map(type, items)))
        if kinds == {tuple}:
            lengths = tuple(map(len, items))
            self._spend(sum(lengths))
            return (lengths, self._items(tuple(itertools.chain.from_iterable(items)), use))
        return tuple(self.value(item, use) for item in items)

    def _value_object(self, value: Any, use: Use) -> Hashable | None:
        """Objects that are values: identified by content, however they are used."""
        cls: Any = type(value)
        if issubclass(cls, VALUES) and of_library(cls.__module__):
            self._data += 1
            zone = self.value(getattr(value, "tzinfo", None), use)
            return (cls, repr(value), zone, self._around(cls))
        if issubclass(cls, enum.Enum):
            return (Same(value), self._class(cls, use))
        if cls is np.ndarray or issubclass(cls, np.generic):
            return self._array(value, use)
        if cls is array.array:
            self._data += 1
            self._spend(len(value) // 8)
            return (cls, value.typecode, value.tobytes())
        if issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__iter__ is tuple.__iter__:
            return (self._class(cls, use), self._items(tuple(value), use))
        if dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen:  # type: ignore
            fields = [field.name for field in dataclasses.fields(value)]
            if set(fields) >= set(getattr(value, "__dict__", ())):
                contents = [self.value(getattr(value, name), use) for name in fields]
                return (self._class(cls, use), *contents)
        if cls.__module__ == "torch" and cls.__name__ in ("dtype", "device", "layout"):
            return (cls, repr(value))
        if cls is contextvars.ContextVar:
            return (Same(value), self.value(current(value), use))
        if cls in _INSIDE:
            inside = self.value(getattr(value, _INSIDE[cls]), use)
            return (cls, inside, self._around(cls))
        return None

    def _array(self, value: Any, use: Use) -> Hashable | None:
        self._data += 1
        if value.nbytes > _MOST_BYTES:
            raise TooMuchError(f"reads `{use.text()}`, an array of {value.nbytes:,} bytes")
        if value.dtype.hasobject:
            return None
        layout = (value.dtype.str, value.shape, value.strides, value.flags.num)
        return (type(value), *layout, value.tobytes(), self._around("numpy"))

    def _escapes(self, value: Any, use: Use, depth: int | None) -> Hashable:
        if isinstance(value, types.ModuleType):
            return self._unknown(f"passes on the module `{use.text(depth)}`")
        if isinstance(value, threading.local):
            return self._thread_local(use)
        how = {"cell": "closes over", "first": "reads"}.get(use.root, "reads the global")
        name = type(value).__name__
        kind = f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
        if hasattr(value, "data_ptr"):
            return self._unknown(f"{how} `{use.text(depth)}`, {kind}, whose numbers may change")
        return self._unknown(
            f"{how} `{use.text(depth)}`, {kind} that is used as a whole (passed on, called or "
            "iterated)"
        )

    def _thread_local(self, use: Use) -> Hashable:
        self.of_thread = use.text()
        return self._unknown(f"reads `{use.text()}`, which differs from thread to thread")

    # -- bookkeeping -------------------------------------------------------------------------------

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise TooMuchError(f"reads more than {_BUDGET:,} values")

    def _unknown(self, reason: str) -> Hashable:
        self.reasons.append(reason)
        return None


def current(variable: Any) -> tuple[bool, Any]:
    """Whether a context variable is set, and its current value or default."""
    is_set = variable.get(NOTHING) is not NOTHING
    try:
        return is_set, variable.get()
    except LookupError:
        return is_set, None


def library_of(function: Any) -> str:
    """The root of the module of a built-in function; those of torch don't name it."""
    if function.__module__ is not None:
        return function.__module__.partition(".")[0]
    torch = sys.modules.get("torch")
    return "torch" if getattr(torch, function.__name__, None) is function else "builtins"
